"""The candidates of a run file with the texts of their queries, as a re-ranker reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from telerank.errors import CollectionError
from telerank.trec import read_run
from telerank.types import Query, Ranking


@dataclass(frozen=True)
class RunCandidates:
    """The first ``depth`` documents of each query of a run file, which is read again by each iteration.

    ``texts`` are the texts of the queries of ``source`` by qid. Queries of ``excluded`` are refused: those
    that calibrate int8.

    Raises
    ------
    CollectionError
        If a query has no text, or is excluded.
    """

    run: str
    texts: Mapping[str, str]
    source: str
    depth: int | None
    excluded: frozenset[str] = frozenset()

    def __iter__(self) -> Iterator[Ranking]:
        for ranking in read_run(self.run):
            qid = ranking.query.qid
            if qid not in self.texts:
                known = f"{len(self.texts):,} queries of {self.source}"
                raise CollectionError(f"{self.run}: query {qid} is none of the {known}")
            if qid in self.excluded:
                message = f"query {qid} is in --dev, too: int8 needs other queries there"
                raise CollectionError(f"{self.run}: {message}")
            candidates = replace(ranking, query=Query(qid, self.texts[qid]))
            yield candidates if self.depth is None else candidates.cut(self.depth)

    def check(self, docnos: set[str] | None) -> tuple[Iterable[Ranking], int | None]:
        """The candidates, read once to find errors before anything is scored, and their number.

        Their docnos are added to ``docnos``; if that is None, a piped run is not read ahead or counted.
        """
        candidates: Iterable[Ranking] = self
        if self.run == "-" or (Path(self.run).exists() and not Path(self.run).is_file()):  # piped: read once
            if docnos is None:
                return self, None
            candidates = list(self)
        total = 0
        for ranking in candidates:
            total += len(ranking)
            if docnos is not None:
                docnos.update(ranking.docnos)
        return candidates, total
