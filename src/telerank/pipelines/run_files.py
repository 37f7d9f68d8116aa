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
from telerank.types import Explanation, Query, Ranking


@dataclass(frozen=True, repr=False)
class RunFile(Stage):
    """The rankings of a run file, by qid; a query that the file lacks has no documents.

    The file is read into memory when the first query comes.
    """

    file: str

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        for bare in stream:
            ranking = self._rankings.get(bare.query.qid)
            yield (
                Ranking(bare.query)
                if ranking is None
                else Ranking.presorted(bare.query, ranking.docnos, ranking.scores)
            )

    @property
    def sources(self) -> Mapping[str, object]:
        return {self.text: {"sha256": file_checksum(Path(self.file))}}

    def explanation(self, query: Query, docno: str) -> Explanation:
        ranking = self._rankings.get(query.qid, Ranking(query))
        return Explanation(dict(ranking)[docno], f"the score in {Path(self.file).name}")

    @property
    def text(self) -> str:
        return call_text("run", quote(self.file))

    @property
    def _rankings(self) -> Mapping[str, Ranking]:
        path = Path(self.file)
        return _read_run(path.resolve(), path.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _read_run(path: Path, _: int) -> Mapping[str, Ranking]:
    """The file is read again if it has changed."""
    return {ranking.query.qid: ranking for ranking in read_run(path)}
