"""The first stage over weights of terms: the sum of the query's weight times the document's.

A document's weight is a whole number of steps of the index, a query's one of steps of its own, both powers of
two: their products and sums are exact, and the kernel adds them as any other contributions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, log2
from typing import ClassVar, Protocol

import numpy as np

from telerank.columns.filters import Filter
from telerank.errors import CollectionError, FormatError, IndexFault, shorten
from telerank.expressions import call_text, quote
from telerank.sparse.index import IndexDocs, SparseIndex
from telerank.sparse.kernel import STEP
from telerank.sparse.retriever import SparseRetriever, count_terms
from telerank.sparse.similarities.base import Beside, Count, Floats, Reads, Similarity, Statistics
from telerank.sparse.weights.encoder import TermEncoder
from telerank.sparse.weights.entry import WeightsEntry
from telerank.sparse.weights.vectors import read_table, read_vectors
from telerank.stage import Retriever, batch_queries, check_depth, rank_in_threads
from telerank.types import Explanation, Phrase, Query, Ranking

_QUERY_BITS = 19  # of the sum of a query's weights in steps
_MOST_QUERY_BITS = 60


@dataclass(frozen=True, repr=False)
class StoredWeights(Similarity):
    """What a posting has in whole steps, as so many steps of the kernel."""

    name: ClassVar = "impact"

    @property
    def reads(self) -> Reads:
        return Beside.WEIGHTS

    def formula(self, tf: Floats, length: Floats, df: Count, cf: Count, collection: Statistics) -> Floats:  # noqa: ARG002
        return tf * STEP


class QueryWeights(Protocol):
    """Gives the weights of the terms of queries; a value, whose ``text`` is what stands in ``impact(…)``."""

    @property
    def text(self) -> str: ...

    def weigh(self, index: SparseIndex, queries: Sequence[Query]) -> Sequence[Mapping[str, float]]:
        """The weight of each term of each query, above 0."""


@dataclass(frozen=True)
class CountedTerms:
    """How often the query holds each of its terms, by the index's analyzer."""

    text: ClassVar = "impact"

    def weigh(self, index: SparseIndex, queries: Sequence[Query]) -> Sequence[Mapping[str, float]]:
        return count_terms(index, [query.text for query in queries])


@dataclass(frozen=True)
class WeightTable:
    """A weight for each term from a file, for those that the query holds, by the index's analyzer."""

    path: str

    @cached_property
    def weights(self) -> Mapping[str, float]:
        return read_table(self.path)

    @property
    def text(self) -> str:
        return call_text("impact", table=quote(self.path))

    def weigh(self, index: SparseIndex, queries: Sequence[Query]) -> Sequence[Mapping[str, float]]:
        held = [dict.fromkeys(index.analyzer.query(query.text)) for query in queries]
        return [{term: self.weights[term] for term in terms if term in self.weights} for terms in held]


@dataclass(frozen=True)
class QueryVectors:
    """The vectors of a file, by the ids of the queries."""

    path: str

    @cached_property
    def vectors(self) -> Mapping[str, Mapping[str, float]]:
        vectors: dict[str, Mapping[str, float]] = {}
        for vector in read_vectors(self.path):
            if vector.docno in vectors:
                raise FormatError(vector.path, vector.line, "one vector a query", vector.docno)
            vectors[vector.docno] = vector.weights
        return vectors

    @property
    def text(self) -> str:
        return call_text("impact", queries=quote(self.path))

    def weigh(self, index: SparseIndex, queries: Sequence[Query]) -> Sequence[Mapping[str, float]]:  # noqa: ARG002
        for query in queries:
            if query.qid not in self.vectors:
                raise CollectionError(f"{self.path}: has no vector of the query {shorten(query.qid)}")
        return [self.vectors[query.qid] for query in queries]


@dataclass(frozen=True)
class ModelWeights:
    """The vectors that a model makes of queries; ``name`` is that in the text of the stage, or "".

    Without a name it is the model of the index's weights, which then has to be the one that made them.
    """

    encoder: TermEncoder
    name: str = ""

    @property
    def text(self) -> str:
        return call_text("impact", quote(self.name)) if self.name else "impact"

    def weigh(self, index: SparseIndex, queries: Sequence[Query]) -> Sequence[Mapping[str, float]]:
        entry = require_weights(index)
        if not self.name or self.encoder.model == entry.model:
            entry.check(self.encoder.entry, index.folder)
        return self.encoder.weigh_queries([query.text for query in queries], index.analyzer)


@dataclass(frozen=True)
class QuerySteps:
    """The weights of a query as whole numbers of ``step``, a power of two; their sum has up to 19 bits."""

    steps: Mapping[str, int]
    step: float

    @classmethod
    def of(cls, weights: Mapping[str, float]) -> QuerySteps:
        total = sum(weights.values())
        bits = min(_QUERY_BITS - ceil(log2(total)), _MOST_QUERY_BITS) if total else 0
        rounded = {term: round(weight * 2.0**bits) for term, weight in weights.items()}
        return cls({term: steps for term, steps in rounded.items() if steps}, 2.0**-bits)


@dataclass(frozen=True, repr=False)
class ImpactRetriever(Retriever):
    """Ranks documents by the sum of query weight times stored weight over the terms that both hold.

    ``depth`` None keeps all documents that hold a term of the query. Documents that do not pass the filter
    ``chosen`` are not there. With several ``threads``, each searches for a batch of queries; one weighs them.
    Raises IndexFault if the index has no weights.
    """

    index: SparseIndex
    queries: QueryWeights
    depth: int | None = None
    threads: int = field(default=1, compare=False)
    batch: int = field(default=16, compare=False)
    chosen: Filter | None = None
    searches_within = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_depth(self.threads)
        require_weights(self.index)
        if self.chosen is not None:
            self.chosen.bind(self.index.columns)

    @property
    def role(self) -> str:
        return "impact" if isinstance(self.queries, ModelWeights) else "words"

    @property
    def docs(self) -> IndexDocs:
        """The documents of the index."""
        return self.index.docs

    @property
    def call(self) -> str:
        return self.queries.text

    @property
    def sources(self) -> Mapping[str, object]:
        return {"index": self.index.identity}

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        batches = batch_queries(stream, self.batch)
        weighed = ((queries, self._weigh(queries)) for queries in batches)
        return rank_in_threads(weighed, lambda batch: self._rank_weighed(*batch), self.threads)

    def search(self, query: Query | str, *wrong: object, **named: object) -> Ranking:
        if type(query) is not Query or wrong or named:
            return super().search(query, *wrong, **named)  # which checks its arguments
        [ranking] = self.rank_batch([query])
        return ranking

    def rank_batch(self, queries: list[Query]) -> list[Ranking]:
        return self._rank_weighed(queries, self._weigh(queries))

    def _rank_weighed(self, queries: list[Query], weighed: Sequence[QuerySteps]) -> list[Ranking]:
        rankings = self._sums.rank_weighed(queries, [each.steps for each in weighed])
        units = [self._unit(each) for each in weighed]
        return [
            Ranking.presorted(ranking.query, ranking.docnos, ranking.scores * unit)
            for ranking, unit in zip(rankings, units, strict=True)
        ]

    def explanation(self, query: Query, docno: str) -> Explanation:
        """Each term's weights and their product, then what float32 rounds away; they sum to the score."""
        segment, row = self.index.docs.locate(docno)
        if self.chosen and self.index.selections(self.chosen)[segment].hidden[row]:
            raise KeyError(docno)
        [weighed] = self._weigh([query])
        unit = self._unit(weighed)
        total, parts = 0, []
        for term, times in weighed.steps.items():
            steps, df = self._find(term, segment, row)
            total += steps * times
            facts = {"term": term, "weight": steps * self._entry.step, "times": times * weighed.step}
            what = Phrase("{term!r}: weight {weight:g}, times {times:g} of the query", **facts)
            if not steps:
                what = Phrase("{term!r}: not in the document (df {df})", term=term, df=df)
            parts.append(Explanation(steps * times * unit * STEP, what))
        exact = total * unit * STEP
        score = float(np.float32(exact))
        if score != exact:
            parts.append(Explanation(score - exact, "rounding to float32"))
        whole = Phrase("{model}: the sum of weights of terms times those of the query", model=self.call)
        return Explanation(score, whole, tuple(parts))

    def _find(self, text: str, segment: int, row: int) -> tuple[int, int]:
        """The steps of a term in a document, 0 if it lacks it, and the documents that have it."""
        lists = self.index.lists(StoredWeights())
        term = lists.term(text)
        number = term.numbers[segment]
        held = lists.files[segment].find_posting(number, row) if number >= 0 else None
        return 0 if held is None else int(held[1]), term.df

    @property
    def _entry(self) -> WeightsEntry:
        return require_weights(self.index)

    def _weigh(self, queries: Sequence[Query]) -> list[QuerySteps]:
        return [QuerySteps.of(weights) for weights in self.queries.weigh(self.index, queries)]

    def _unit(self, weighed: QuerySteps) -> float:
        """What the kernel's scores are multiplied by, a power of two."""
        return self._entry.step * weighed.step / STEP

    @cached_property
    def _sums(self) -> SparseRetriever:
        """What adds the contributions, in whole steps."""
        return SparseRetriever(self.index, StoredWeights(), self.depth, chosen=self.chosen)


def require_weights(index: SparseIndex) -> WeightsEntry:
    """The weights of an index; raises IndexFault if it has none."""
    entry = index.manifest.term_weights
    if entry is None:
        how = "index it again with --weights FILE or --weights-model MODEL"
        raise IndexFault(f"{index.folder}: has no weights of terms: {how}")
    return entry
