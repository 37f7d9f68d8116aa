"""What models read of an index: the whole texts of documents, one field of them, or several together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from telerank.errors import ModelError
from telerank.sparse.impacts import Impacts
from telerank.sparse.inverted.combined import CombinedFile
from telerank.sparse.inverted.lists import Counts, InvertedFile, TermFile
from telerank.sparse.inverted.postings import Numbers
from telerank.sparse.kernel import STEP
from telerank.sparse.segment import Segment
from telerank.sparse.similarities.base import Beside, Reads, Similarity, Statistics
from telerank.sparse.similarities.fields import BM25F
from telerank.types import Explanation, Phrase

_TERMS_KEPT = 1 << 17


class Term(NamedTuple):
    """A term's number in each segment (-1: absent), and its frequencies in all of them together."""

    numbers: tuple[int, ...]
    df: int
    cf: int


class TermLists:
    """A file of each segment, with the statistics of the whole index; ``term`` finds a :class:`Term`."""

    def __init__(
        self, segments: Sequence[Segment], files: Sequence[TermFile], statistics: Statistics
    ) -> None:
        self.segments, self.files, self.statistics = tuple(segments), tuple(files), statistics
        self.term = lru_cache(_TERMS_KEPT)(partial(_find_term, self.files))

    def open_impacts(self, similarity: Similarity) -> tuple[Impacts, ...]:
        """The contributions of each segment's postings."""
        return tuple(
            Impacts(segment, file, similarity, self.statistics, partial(_count_everywhere, self.files, file))
            for segment, file in zip(self.segments, self.files, strict=True)
        )


def open_lists(segments: Sequence[Segment], fields: Sequence[str], reads: Reads) -> TermLists:
    """What is read: whole texts (None), a field, fields together, of which there are ``fields``, or weights.

    A deleted document counts in statistics until segments are merged.
    """
    if reads is None:
        return TermLists(segments, segments, _count_tokens(segments))
    if isinstance(reads, Beside):
        weights = [segment.weights for segment in segments if segment.weights is not None]
        return TermLists(segments, weights, _count_tokens(weights))
    names = [reads] if isinstance(reads, str) else list(reads)
    files = [[segment.fields[fields.index(name)] for name in names] for segment in segments]
    own = tuple(_count_tokens([each[number] for each in files]) for number in range(len(names)))
    if isinstance(reads, str):
        return TermLists(segments, [file for [file] in files], own[0])
    present = (np.any([file.lengths for file in each], axis=0) for each in files)
    documents = sum(int(np.count_nonzero(rows)) for rows in present)
    statistics = Statistics(documents, sum(each.tokens for each in own), own)
    return TermLists(segments, [CombinedFile(each) for each in files], statistics)


def bind_similarity(similarity: Similarity, fields: Sequence[str], index: object) -> tuple[Similarity, Reads]:
    """What computes the contributions of a similarity, and what it reads.

    Raises
    ------
    ModelError
        If it reads a field that the index has not.
    """
    try:
        bound = similarity.bound_to(fields)
    except ModelError as error:
        raise ModelError(f"{index}: {error}") from error
    return bound, similarity.reads if similarity.reads != () else bound.reads


def explain_fields(
    model: BM25F, value: float, tfs: Numbers, lengths: npt.NDArray[Any], collection: Statistics
) -> tuple[Explanation, ...]:
    """What a term adds by field: of its value, the share of what its occurrences there count.

    ``tfs`` and ``lengths`` (F,) are those of each field. Shares are whole steps: they sum to the value.
    """
    tf, length = (each[:, None].astype(np.float64) for each in (tfs, lengths))
    counted = model.weigh(tf, length, collection)[:, 0]
    ends = np.rint(np.cumsum(counted) / counted.sum() * round(value / STEP)).astype(np.int64)
    parts = []
    for number, ((field, weight), share) in enumerate(
        zip(model.weights, np.diff(ends, prepend=0).tolist(), strict=True)
    ):
        if tfs[number]:
            what = "{field}: tf {tf} of {terms} terms, weight {weight:g}; counts {counted:.4f}"
            facts = {"tf": int(tfs[number]), "terms": int(lengths[number]), "counted": float(counted[number])}
            parts.append(Explanation(share * STEP, Phrase(what, field=field, weight=weight, **facts)))
    return tuple(parts)


def _count_tokens(files: Sequence[InvertedFile]) -> Statistics:
    documents = sum(int(np.count_nonzero(file.lengths)) for file in files)
    return Statistics(documents, sum(int(file.lengths.sum(dtype=np.int64)) for file in files))


def _find_term(files: tuple[TermFile, ...], term: str) -> Term:
    """The numbers and frequencies of a term, which no document needs to hold."""
    numbers = tuple(file.find(term) for file in files)
    holding = [(file, number) for file, number in zip(files, numbers, strict=True) if number >= 0]
    return Term(numbers, sum(file.df(n) for file, n in holding), sum(file.cf(n) for file, n in holding))


def _count_everywhere(files: tuple[TermFile, ...], own: TermFile) -> Counts:
    """Df and cf in all files of the terms of one of them."""
    df, cf = own.counts()
    for other in files:
        if other is own:
            continue
        numbers = np.array([other.find(own.term(number)) for number in range(len(df))], np.int64)
        here = np.flatnonzero(numbers >= 0)
        other_df, other_cf = other.counts()
        df[here] += other_df[numbers[here]]
        cf[here] += other_cf[numbers[here]]
    return df, cf
