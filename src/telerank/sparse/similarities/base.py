"""The interface of a ranking model: what one query term adds to the scores of the documents that hold it.

Notation of all models, with Lucene's name for each statistic (of the whole index, every field being one):

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
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.errors import ModelError

Floats: TypeAlias = npt.NDArray[np.float64]
Count: TypeAlias = int | npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of the whole index; Lucene's ``docCount`` and ``sumTotalTermFreq``.

    Documents without a single term are not counted.
    """

    documents: int
    tokens: int

    @property
    def average_length(self) -> float:
        """Tokens per document; 0 where there is none."""
        return self.tokens / self.documents if self.documents else 0.0


class Similarity(ABC):
    """A ranking model with its parameters: a frozen dataclass whose ``repr`` is its text form."""

    @abstractmethod
    def contributions(
        self, tf: npt.ArrayLike, length: npt.ArrayLike, df: Count, cf: Count, collection: Statistics
    ) -> Floats:
        """What one term adds to the score of each document that holds it, in float64.

        ``tf`` and ``length`` have one shape, and so has the result; ``df`` and ``cf`` are numbers of
        the one term, or arrays of that shape where postings of several terms are scored at once. An
        element's value does not depend on the elements beside it. A query's score is the sum over
        its terms, a repeated term counting as often as it stands there.

        Where 1 ≤ tf ≤ length, 1 ≤ df ≤ N and df ≤ cf ≤ T, each contribution is finite, at least 0
        and below 2^41: formulas that can turn negative stop at 0, as Lucene's do.
        """


def in_range(value: float, low: float, high: float, *, of: str) -> None:
    """Hold a parameter, both ends included; ``of`` names model and parameter.

    Raises
    ------
    ModelError
        naming parameter, range and value.
    """
    if not low <= value <= high:
        raise ModelError(f"{of} must be from {low:g} to {high:g}, got {value:g}")


def one_of(word: str, known: Iterable[str], *, of: str) -> None:
    """Hold a parameter that is a word.

    Raises
    ------
    ModelError
        listing what is known.
    """
    if word not in known:
        raise ModelError(f"{of} must be one of {', '.join(known)}, got {word!r}")


def floats(values: npt.ArrayLike) -> Floats:
    """Contiguous, since numpy takes other code paths, off by a last bit, through strided arrays."""
    return np.asarray(values, dtype=np.float64, order="C")
