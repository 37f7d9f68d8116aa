"""Rankings that are computed while they are read or written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from telerank.stored import versions
from telerank.trec import write_json_lines, write_run
from telerank.types import Ranking


@dataclass(eq=False)
class LazyRun:
    """The rankings of queries, computed each time they are read; ``settings`` say how, for the record.

    ``queries`` counts the queries of the last reading, ``unanswered`` has those without a document;
    ``describe`` gives lines about it.
    """

    compute: Callable[[], Iterator[Ranking]]
    settings: Callable[[], Mapping[str, Any]]
    describe: Callable[[], Sequence[str]] = tuple
    queries: int = field(default=0, init=False)
    unanswered: list[str] = field(default_factory=list, init=False)

    def __iter__(self) -> Iterator[Ranking]:
        self.queries, self.unanswered = 0, []
        for ranking in self.compute():
            self.queries += 1
            if not len(ranking):
                self.unanswered.append(ranking.query.qid)
            yield ranking

    @property
    def remarks(self) -> list[str]:
        """Notes on the last reading, such as queries without a document."""
        remarks = [*self.describe()]
        if empty := self.unanswered:
            more = " …" if len(empty) > 5 else ""
            names = ", ".join(empty[:5])
            remarks.append(f"{len(empty)} of {self.queries} queries found nothing: {names}{more}")
        return remarks

    def save(self, path: str | Path, *, as_json: bool = False) -> None:
        """Write the rankings as a run file (``.gz`` packs it; ``-`` is standard output) or as JSON lines.

        The record is written beside the file, as ``PATH.json``, unless it is no regular file.
        """
        write = write_json_lines if as_json else write_run
        write(path, self, record=self.record)

    def record(self) -> dict[str, Any]:
        """The settings, and the versions that computed the rankings."""
        return {**self.settings(), "versions": versions()}
