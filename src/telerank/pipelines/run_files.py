"""Runs: rankings that are computed while they are read or written, known ones, and run files as stages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from telerank.errors import ArgumentTypeError, count_noun
from telerank.expressions import call_text, quote
from telerank.parameters import check_methods
from telerank.show.report import make_frame
from telerank.stage import Stage
from telerank.stored import file_checksum, versions
from telerank.trec import check_exists, read_run, write_json_lines, write_run
from telerank.types import Explanation, Phrase, Query, Ranking

if TYPE_CHECKING:
    import pandas as pd


@check_methods("run")
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

    def __getitem__(self, item: object) -> NoReturn:
        raise ArgumentTypeError(
            f"a run is computed as it is read, and has no [{item!r:.40}]: write list(run), or run.to_pandas()"
        )

    def to_pandas(self) -> pd.DataFrame:
        """A row for each query and document, with its rank, from 1, and its score; needs pandas."""
        rows = (
            (ranking.query.qid, docno, rank, score)
            for ranking in self
            for rank, (docno, score) in enumerate(ranking, 1)
        )
        return make_frame(("qid", "docno", "rank", "score"), rows)

    @property
    def remarks(self) -> list[str]:
        """Notes on the last reading, such as queries without a document."""
        remarks = [*self.describe()]
        if empty := self.unanswered:
            names = ", ".join(empty[:5]) + (" …" if len(empty) > 5 else "")
            remarks.append(f"{len(empty)} of {count_noun(self.queries, 'query')} found nothing: {names}")
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


@dataclass(frozen=True, eq=False)
class ListedRankings(Stage):
    """Rankings that are known, by qid; a query without one has no documents."""

    name: str
    rankings: Mapping[str, Ranking]

    @classmethod
    def of(cls, name: str, rankings: Iterable[Ranking]) -> ListedRankings:
        """Keep the rankings in memory."""
        return cls(name, {ranking.query.qid: ranking for ranking in rankings})

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return (self._find(bare.query) for bare in stream)

    def explanation(self, query: Query, docno: str) -> Explanation:
        return Explanation(dict(self._find(query))[docno], Phrase("the score in {file}", file=self.name))

    def _find(self, query: Query) -> Ranking:
        ranking = self.rankings.get(query.qid)
        return Ranking(query) if ranking is None else Ranking.presorted(query, ranking.docnos, ranking.scores)


@dataclass(frozen=True, repr=False)
class RunFile(Stage):
    """The rankings of a run file, by qid; a query that the file lacks has no documents.

    The file is read into memory when the first query comes.

    Raises
    ------
    CollectionError
        If there is no such file.
    """

    file: str

    def __post_init__(self) -> None:
        check_exists(self.file)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        for bare in stream:
            yield from self._listed([bare])

    def explanation(self, query: Query, docno: str) -> Explanation:
        return self._listed.explanation(query, docno)

    @property
    def sources(self) -> Mapping[str, object]:
        return {self.text: {"sha256": file_checksum(Path(self.file))}}

    @property
    def text(self) -> str:
        return call_text("run", quote(self.file))

    @property
    def _listed(self) -> ListedRankings:
        path = Path(self.file)
        state = path.stat()
        # times alone repeat if a clock is set back, and within its ticks
        return _read_run(path.absolute(), (state.st_ino, state.st_mtime_ns, state.st_ctime_ns, state.st_size))


@lru_cache(maxsize=8)
def _read_run(path: Path, _: tuple[int, ...]) -> ListedRankings:
    """The file is read again if it has changed."""
    return ListedRankings.of(path.name, read_run(path))
