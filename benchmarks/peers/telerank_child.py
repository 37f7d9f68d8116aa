"""telerank itself, as the peers are: but from texts, so that analysis is in its times."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import telerank
from peers.serve import Engine, Hits, serve
from telerank import Doc, Query
from telerank.sparse.index import SparseIndex
from telerank.sparse.writer import build_index


class Telerank(Engine):
    version = telerank.__version__

    def __init__(self, *, threads: int, rows: bool) -> None:
        self.threads, self.rows = threads, rows
        self.index: SparseIndex | None = None

    def build(self, documents: Path, folder: Path) -> None:
        with documents.open(encoding="utf-8", newline="\n") as lines:
            docs = (Doc(str(row), line.removesuffix("\n")) for row, line in enumerate(lines))
            build_index(docs, folder, analyzer="english", workers=self.threads)

    def open(self, folder: Path) -> None:
        self.index = telerank.open(folder)

    def search(self, queries: list[str], k: int, model: str) -> tuple[list[int], list[Hits]]:
        """From a query's text to its docnos, or to rows as the peers; with threads, its time is the mean."""
        stage = self.index.retriever(model) % k
        asked = [Query(str(number), text) for number, text in enumerate(queries)]
        if self.threads > 1:
            return self._threaded(stage, asked)
        times, hits = [], []
        for query in asked:
            start = time.perf_counter_ns()
            ranking = stage.rank_rows([query]) if self.rows else stage.search(query)
            times.append(time.perf_counter_ns() - start)
            hits.append(ranking[0][0] if self.rows else (np.array(ranking.docnos, np.int64), ranking.scores))
        return times, hits

    def _threaded(self, stage, asked: list[Query]) -> tuple[list[int], list[Hits]]:
        from dataclasses import replace

        start = time.perf_counter_ns()
        rankings = list(replace(stage, threads=self.threads).run(asked))
        each = (time.perf_counter_ns() - start) // len(asked)
        return [each] * len(asked), [(np.array(r.docnos, np.int64), r.scores) for r in rankings]


if __name__ == "__main__":
    serve(Telerank(threads=int(sys.argv[1]), rows="--rows" in sys.argv))
