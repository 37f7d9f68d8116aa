"""A run file as a stage: it answers each query with the ranking that the file has for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from telerank.expressions import call_text, quote
from telerank.stage import Stage
from telerank.stored import file_checksum
from telerank.trec import read_run
from telerank.types import Explanation, Phrase, Query, Ranking


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
    """

    file: str

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
