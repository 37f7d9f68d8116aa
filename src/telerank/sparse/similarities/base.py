"""The interface of a similarity: what a query term adds to the scores of the documents that hold it.

Notation of all similarities, with Lucene's names of the statistics, which are those of the whole index:

==========  =====================================================================
``tf``      occurrences of the term in the document (``freq``), at least 1
``length``  tokens of the document (``fieldLength``), at least ``tf``
``df``      documents that hold the term (``docFreq``)
``cf``      occurrences of the term in the collection (``totalTermFreq``)
N, T, avg   documents, tokens, and T / N: :class:`Statistics`
==========  =====================================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.errors import ModelError
from telerank.expressions import call_text

Floats: TypeAlias = npt.NDArray[np.float64]
Count: TypeAlias = int | npt.NDArray[np.int64]


class Beside(Enum):
    """What an index may have beside the terms of texts: weights of terms from a model or a file.

    ``COUNTS`` are the same weights, whole numbers, read as how often a document holds a term.
    """

    WEIGHTS = "weights"
    COUNTS = "weights as counts"


# What a model reads: title and text run together (None), a field, fields together (none named: all), weights.
Reads: TypeAlias = str | tuple[str, ...] | Beside | None


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of the whole index: Lucene's ``docCount`` and ``sumTotalTermFreq``.

    Documents without terms are not counted. Of several fields together ``fields`` has the statistics of each.
    """

    documents: int
    tokens: int
    fields: tuple[Statistics, ...] = ()

    @property
    def average_length(self) -> float:
        """Tokens per document; 0 if there is none."""
        return self.tokens / self.documents if self.documents else 0.0

    def probability(self, cf: Count) -> float | Floats:
        """Of a term, Lucene's ``DefaultCollectionModel``: never 0, never above 1."""
        return (cf + 1) / (self.tokens + 1)


class Parameters:
    """The parameters of a model: a frozen dataclass whose ``repr`` is its text form.

    ``ranges``, which include their ends, and ``words`` limit them; other values raise ModelError.
    """

    name: ClassVar[str]
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {}
    words: ClassVar[Mapping[str, Collection[str]]] = {}

    def __post_init__(self) -> None:
        for key, (low, high) in self.ranges.items():
            if not low <= (value := getattr(self, key)) <= high:
                raise ModelError(
                    f"{self.name}: {key.rstrip('_')} must be from {low:g} to {high:g}, got {value:g}"
                )
        for key, known in self.words.items():
            if (word := getattr(self, key)) not in known:
                raise ModelError(f"{self.name}: {key} must be one of {', '.join(known)}, got {word!r}")

    def __repr__(self) -> str:
        return call_text(self.name, **vars(self)) if vars(self) else self.name


class Similarity(Parameters, ABC):
    """A ranking model."""

    @property
    def reads(self) -> Reads:
        """What it reads of documents: their whole texts, one of their fields, or several together."""
        return None

    def bound_to(self, fields: Sequence[str]) -> Similarity:  # noqa: ARG002 — of those that read fields
        """What computes contributions in an index with these fields.

        Raises
        ------
        ModelError
            If it reads a field that is not there.
        """
        return self

    def contributions(
        self, tf: npt.ArrayLike, length: npt.ArrayLike, df: Count, cf: Count, collection: Statistics
    ) -> Floats:
        """What a term adds to the score of each document that holds it, in float64.

        ``tf``, ``length`` and the result have one shape; of a model that reads several fields the first two
        have a row for each. ``df`` and ``cf`` are numbers, or arrays of the shape of the result if the
        postings belong to several terms. Each element depends on its own arguments alone. A
        query's score is the sum over its terms; a repeated term counts once for each occurrence.

        If 1 ≤ tf ≤ length, 1 ≤ df ≤ N and df ≤ cf ≤ T, each contribution is finite, at least 0
        and below 2^41: formulas that can become negative are cut at 0, as in Lucene.
        """
        # contiguous: for strided arrays numpy's results may differ in the last bit
        tf, length = (np.asarray(values, dtype=np.float64, order="C") for values in (tf, length))
        return np.asarray(self.formula(tf, length, df, cf, collection))

    @abstractmethod
    def formula(self, tf: Floats, length: Floats, df: Count, cf: Count, collection: Statistics) -> Floats:
        """:meth:`contributions` of contiguous float64."""


class AbsenceSimilarity(Similarity, ABC):
    """One under which a query term that a document lacks counts, too."""

    @abstractmethod
    def absence(self, length: Floats, df: Count, cf: Count, collection: Statistics) -> Floats:
        """What each query term that the collection holds adds to every document, whether it is there or not.

        At most 0 and above -2^41. The contributions of documents that hold the term come on top.
        """


class VectorSimilarity(Similarity, ABC):
    """One of vectors, whose components are the weights of terms."""

    @property
    @abstractmethod
    def is_cosine(self) -> bool:
        """Whether contributions have yet to be divided by the length of the document's vector.

        That is the root of the sum of the squares of the :meth:`weight` of all its terms.
        """

    @abstractmethod
    def weight(self, tf: Floats, df: Count, cf: Count, collection: Statistics) -> Floats:
        """The component of a document's vector that belongs to a term."""
