"""bm25s with its numba backend."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path

import bm25s
import numpy as np
import Stemmer

from peers.serve import Engine, Hits, serve

QUIET = {"show_progress": False}


class Bm25s(Engine):
    """Scores are computed when the index is built, in the parameters given here; ``search`` takes no others.

    ``method="lucene"`` is BM25 as Lucene and telerank have it, with float32 scores and exact lengths; empty
    documents count in its number of documents and average length, as they do not in theirs.
    """

    version = bm25s.__version__

    def __init__(self, *, batch: bool, text: bool, k1: float = 0.9, b: float = 0.4) -> None:
        self.batch, self.text, self.model = batch, text, f"bm25(k1={k1}, b={b})"
        self.settings = {"k1": k1, "b": b, "method": "lucene", "backend": "numba"}
        self.index: bm25s.BM25 = None

    def build(self, documents: Path, folder: Path) -> None:
        index = bm25s.BM25(**self.settings)
        with documents.open(encoding="utf-8") as lines:
            analysed = self._english(list(lines)) if self.text else _split(lines)
        index.index(analysed, **QUIET)
        index.save(str(folder), **QUIET)

    def _english(self, texts: list[str]) -> bm25s.tokenization.Tokenized:
        return bm25s.tokenize(texts, stopwords="en", stemmer=Stemmer.Stemmer("english"), **QUIET)

    def open(self, folder: Path) -> None:
        self.index = bm25s.BM25.load(str(folder), load_corpus=False, **QUIET)
        self.index.backend = "numba"

    def search(self, queries: list[str], k: int, model: str) -> tuple[list[int], list[Hits]]:
        if model != self.model:
            raise ValueError(f"this index is {self.model}, not {model}")
        if self.batch:
            start = time.perf_counter_ns()
            found = self._retrieve(queries, k)
            each = (time.perf_counter_ns() - start) // max(1, len(queries))
            return [each] * len(queries), [_hits(*pair) for pair in zip(*found, strict=True)]
        times, hits = [], []
        for query in queries:
            start = time.perf_counter_ns()
            rows, scores = self._retrieve([query], k)
            times.append(time.perf_counter_ns() - start)
            hits.append(_hits(rows[0], scores[0]))
        return times, hits

    def _retrieve(self, queries: list[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        terms = [query.split() or [""] for query in queries]  # it refuses a query of no terms
        found = self.index.retrieve(terms, k=k, sorted=True, n_threads=1, **QUIET)
        return found.documents, found.scores


def _split(lines: Iterable[str]) -> bm25s.tokenization.Tokenized:
    vocabulary: dict[str, int] = {}
    ids = [[vocabulary.setdefault(term, len(vocabulary)) for term in line.split()] for line in lines]
    return bm25s.tokenization.Tokenized(ids, vocabulary)


def _hits(rows: np.ndarray, scores: np.ndarray) -> Hits:
    """Without the documents of score 0 that fill the list up to k."""
    held = scores > 0
    return rows[held], scores[held]


if __name__ == "__main__":
    serve(Bm25s(batch="--batch" in sys.argv, text="--text" in sys.argv))
