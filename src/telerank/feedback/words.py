"""The stage that searches again with the terms of a query and of the documents that it found first."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import ClassVar, Self
from weakref import WeakKeyDictionary

from telerank.errors import CollectionError
from telerank.feedback.methods import FedBack, Frequencies, Rocchio, TermWeights
from telerank.feedback.stage import Feedback
from telerank.sparse.index import IndexDocs, SparseIndex
from telerank.sparse.retriever import Given, SparseRetriever
from telerank.sparse.similarities.base import (
    AbsenceSimilarity,
    Count,
    Floats,
    Reads,
    Similarity,
    Statistics,
    VectorSimilarity,
)
from telerank.sparse.similarities.families import BM25
from telerank.stage import Stage, walk_stages
from telerank.types import Docs, Explanation, Phrase, Ranking

# A weight is rounded to a whole number of these parts of 1; a contribution is divided by as many before it is
# rounded to a step, so to 1/256: sums stay exact, and small enough for pruning.
PARTS = 1 << 12
_COUNTED = 1 << 18  # terms of documents whose counts are kept, for each index: some 30 MB


@dataclass(frozen=True, repr=False)
class InParts(Similarity):
    """Another similarity, divided by :data:`PARTS`, for weights that are whole numbers of parts."""

    name: ClassVar = "in_parts"
    whole: Similarity

    @property
    def reads(self) -> Reads:
        return self.whole.reads

    def bound_to(self, fields: Sequence[str]) -> InParts:
        return in_parts(self.whole.bound_to(fields))

    def formula(self, tf: Floats, length: Floats, df: Count, cf: Count, collection: Statistics) -> Floats:
        return self.whole.formula(tf, length, df, cf, collection) / PARTS

    def __repr__(self) -> str:
        return repr(self.whole)


class AbsentInParts(InParts, AbsenceSimilarity):
    """The same of one under which a term that a document lacks counts, too."""

    whole: AbsenceSimilarity

    def absence(self, length: Floats, df: Count, cf: Count, collection: Statistics) -> Floats:
        return self.whole.absence(length, df, cf, collection) / PARTS


class VectorInParts(InParts, VectorSimilarity):
    """The same of one of vectors, whose lengths stay as they are."""

    whole: VectorSimilarity

    @property
    def is_cosine(self) -> bool:
        return self.whole.is_cosine

    def weight(self, tf: Floats, df: Count, cf: Count, collection: Statistics) -> Floats:
        return self.whole.weight(tf, df, cf, collection)


def in_parts(whole: Similarity) -> InParts:
    """A similarity divided by :data:`PARTS`, of its kind."""
    if isinstance(whole, AbsenceSimilarity):
        return AbsentInParts(whole)
    return VectorInParts(whole) if isinstance(whole, VectorSimilarity) else InParts(whole)


@dataclass(frozen=True, repr=False)
class WordFeedback(Feedback):
    """Ranks by the terms of the query and of the documents that are fed back, under a similarity.

    ``model`` is the similarity; None: that of the last search of words before it, or else BM25. ``index`` is
    that of the stages before it, too, if none is given.

    Weights are rounded to 1/4096, and what a term adds for a weight of 1 to 1/256, so that a score of some 10
    differs by less than 0.02 from that of unrounded weights, mostly by less than 0.003.
    """

    model: Similarity | None = None
    index: SparseIndex | None = None
    inherited: Similarity | None = field(default=None, compare=False)
    role = "words"

    def rank_again(self, rankings: list[Ranking]) -> list[Ranking]:
        weights = [self.weigh(ranking) for ranking in rankings]
        return self._retriever(weights).rank_batch([ranking.query for ranking in rankings])

    def weigh(self, ranking: Ranking) -> TermWeights:
        """The weight of each term for a query, from the query and the first documents of its ranking."""
        index = self._index
        counted = _counts.setdefault(index, _Counts())
        fed = [
            FedBack(docno, score, counts)
            for docno, score in ranking.cut(self.method.fb_docs)
            if (counts := counted.find(index, docno))
        ]
        query = Counter(index.analyzer.query(ranking.query.text))
        return self.method.weigh(query, fed, self._find, index.statistics.documents)

    def explain_again(self, ranking: Ranking, docno: str) -> Explanation:
        """Each term with its weight, where that comes from, and what it adds; the sum is the score."""
        weights, fed = self.weigh(ranking), min(self.method.fb_docs, len(ranking))
        whole = self._retriever([weights]).explanation(ranking.query, docno)
        parts = tuple(_explain_term(part, weights, fed) for part in whole.parts)
        what = "{model}, by {method} of {n} documents"
        phrase = Phrase(what, model=repr(self.similarity), method=self.method.name, n=fed)
        return Explanation(whole.value, phrase, parts)

    def following(self, first: Stage) -> Feedback:
        roles = {part.role for part in walk_stages(first)}
        if isinstance(self.method, Rocchio) and "dense" in roles and "words" not in roles:
            from telerank.feedback.vectors import VectorFeedback

            return VectorFeedback(self.method, self.depth, self.first).following(first)
        searches = [part for part in walk_stages(first) if isinstance(part, SparseRetriever | WordFeedback)]
        if not searches:
            return self
        return replace(self, inherited=searches[-1].similarity, index=self.index or searches[-1].index)

    def with_docs(self, docs: Docs) -> Self:
        return replace(self, index=docs.index) if self.index is None and isinstance(docs, IndexDocs) else self

    @property
    def similarity(self) -> Similarity:
        return self.model or self.inherited or BM25()

    @property
    def docs(self) -> IndexDocs | None:
        """The documents that it finds."""
        return None if self.index is None else self.index.docs

    @property
    def sources(self) -> Mapping[str, object]:
        return {} if self.index is None else {"index": self.index.identity}

    @property
    def call(self) -> str:
        return super().call if self.model is None else f"{super().call[:-1]}, model={self.model!r})"

    @property
    def _index(self) -> SparseIndex:
        if self.index is None:
            name = self.method.name
            raise CollectionError(
                f"{name} has no index: no stage before it searches one; write tr.{name}(index=index)"
            )
        return self.index

    def _find(self, term: str) -> Frequencies:
        _, df, cf = self._index.term(term)
        return Frequencies(df, cf)

    def _retriever(self, weights: Sequence[TermWeights]) -> SparseRetriever:
        rounded = tuple(
            {term: parts for term, weight in each.items() if (parts := round(weight.value * PARTS))}
            for each in weights
        )
        return SparseRetriever(self._index, in_parts(self.similarity), self.depth, weigh=Given(rounded))


def _explain_term(part: Explanation, weights: TermWeights, fed: int) -> Explanation:
    """The part of a term with its weight; what float32 rounds away as it is."""
    facts = getattr(part.what, "facts", {})
    if "term" not in facts:
        return part
    weight = weights[facts["term"]]
    what = (
        "{term!r}, weight {weight:.4f}: {query:.4f} from the query, {feedback:.4f} from {n} of {of} documents"
    )
    what += "; tf {tf}, df {df}, cf {cf}" if "tf" in facts else "; not in the document (df {df})"
    origin = {"query": weight.query, "feedback": weight.feedback, "n": weight.documents, "of": fed}
    return Explanation(part.value, Phrase(what, **facts, weight=weight.value, **origin))


class _Counts:
    """How often documents hold each of their terms, of those that were needed last."""

    def __init__(self) -> None:
        self.lock, self.kept, self.size = Lock(), OrderedDict[str, Counter[str]](), 0

    def find(self, index: SparseIndex, docno: str) -> Counter[str]:
        """Raises UnknownDocument if there is no such document."""
        with self.lock:
            if docno in self.kept:
                self.kept.move_to_end(docno)
                return self.kept[docno]
        doc = index.docs[docno]
        counts = Counter(index.analyzer(index.analyzer.mark(doc)))
        with self.lock:
            if docno not in self.kept:
                self.kept[docno] = counts
                self.size += len(counts)
            while self.size > _COUNTED:
                self.size -= len(self.kept.popitem(last=False)[1])
        return counts


_counts: WeakKeyDictionary[SparseIndex, _Counts] = WeakKeyDictionary()
