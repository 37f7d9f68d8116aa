"""Rankings compared before any time is believed.

The reference is exhaustive: every document that holds a term of the query, scored in float64 by the formula,
from counts taken from the analysed text itself. Against it an engine's list must have

- as its i-th score the i-th best score, within what its arithmetic loses: ties may then fall either way;
- as the score of each of its documents that document's own.

Lucene and tantivy keep lengths in one byte (exact up to 40 tokens); scored with lengths rounded as they do,
they too must agree within float32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from peers.engine import Found
from telerank.sparse.similarities.base import Similarity, Statistics


def exact(lengths: np.ndarray) -> np.ndarray:
    return lengths


def one_byte(lengths: np.ndarray) -> np.ndarray:
    """Lucene's ``SmallFloat.byte4ToInt(intToByte4(length))``, and tantivy's table alike."""
    above = np.maximum(lengths - 24, 0)
    shift = np.maximum(np.frexp(above.astype(np.float64))[1] - 4, 0)
    return np.where(lengths < 24, lengths, 24 + ((above >> shift) << shift))


@dataclass(frozen=True)
class Reference:
    """Of each query, every matching row and its exact score."""

    rows: tuple[np.ndarray, ...]
    scores: tuple[np.ndarray, ...]


def reference(
    documents: Iterable[str],
    queries: Sequence[Sequence[str]],
    model: Similarity,
    rounded: Callable[[np.ndarray], np.ndarray] = exact,
    *,
    count_empty: bool = False,
) -> Reference:
    """One pass over the analysed documents, terms with blanks between.

    bm25s and tantivy count empty documents in the collection's number of documents, Lucene does not.
    """
    postings: dict[str, list[tuple[int, int]]] = {term: [] for query in queries for term in query}
    lengths = []
    for row, line in enumerate(documents):
        terms = line.split()
        lengths.append(len(terms))
        for term, tf in Counter(term for term in terms if term in postings).items():
            postings[term].append((row, tf))
    length = np.array(lengths, np.int64)
    collection = Statistics(len(length) if count_empty else int(np.count_nonzero(length)), int(length.sum()))
    contributions = {
        term: _contributions(np.array(pairs, np.int64).reshape(-1, 2), rounded(length), model, collection)
        for term, pairs in postings.items()
    }
    found = [_summed([contributions[term] for term in query]) for query in queries]
    return Reference(tuple(rows for rows, _ in found), tuple(scores for _, scores in found))


def _contributions(
    pairs: np.ndarray, lengths: np.ndarray, model: Similarity, collection: Statistics
) -> tuple[np.ndarray, np.ndarray]:
    rows, tf = pairs[:, 0], pairs[:, 1]
    if not len(rows):
        return rows, np.empty(0)
    return rows, model.contributions(tf, lengths[rows], len(rows), int(tf.sum()), collection)


def _summed(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    if not parts:
        return np.empty(0, np.int64), np.empty(0)
    rows, where = np.unique(np.concatenate([rows for rows, _ in parts]), return_inverse=True)
    return rows, np.bincount(where, np.concatenate([scores for _, scores in parts]), len(rows))


@dataclass(frozen=True)
class Agreement:
    """Largest relative error of an i-th score, and of a document's score; mean overlap with the first k."""

    by_rank: float
    by_document: float
    overlap: float

    def __str__(self) -> str:
        by = f"by rank {self.by_rank:.0e}, by document {self.by_document:.0e}"
        return f"score errors {by}; overlap {self.overlap:.4f}"


def agreement(found: Found, truth: Reference, k: int, factor: float = 1.0) -> Agreement:
    """Of an engine's lists, whose scores are ``factor`` times the formula's, and the reference's first k."""
    errors = [
        _errors(rows, scores.astype(np.float64) / factor, all_rows, all_scores, k)
        for rows, scores, all_rows, all_scores in zip(
            found.rows, found.scores, truth.rows, truth.scores, strict=True
        )
    ]
    by_rank, by_document, overlap = np.array(errors).T
    return Agreement(float(by_rank.max()), float(by_document.max()), float(overlap.mean()))


def _errors(
    rows: np.ndarray, scores: np.ndarray, all_rows: np.ndarray, all_scores: np.ndarray, k: int
) -> tuple[float, float, float]:
    """Documents of score 0 are no hits: some engines list them, some do not."""
    rows, scores = rows[scores > 0], scores[scores > 0]
    held = all_scores > 0
    all_rows, all_scores = all_rows[held], all_scores[held]
    best = np.argsort(-all_scores, kind="stable")[:k]
    if len(best) != len(rows):
        return 1.0, 1.0, 0.0
    if not len(rows):
        return 0.0, 0.0, 1.0
    own = all_scores[np.minimum(np.searchsorted(all_rows, rows), len(all_rows) - 1)]
    shared = np.intersect1d(rows, all_rows[best]).size / len(best)
    by_rank = np.abs(scores / all_scores[best] - 1).max()
    return float(by_rank), float(np.abs(scores / own - 1).max()), shared
