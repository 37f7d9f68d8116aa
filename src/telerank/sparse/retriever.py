"""The sparse first stage: an index searched under one model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np

from telerank.columns.filters import Filter
from telerank.sparse.fields import explain_fields
from telerank.sparse.impacts import RowScores
from telerank.sparse.index import IndexDocs, SparseIndex
from telerank.sparse.kernel import STEP
from telerank.sparse.similarities.base import Similarity
from telerank.sparse.similarities.fields import BM25F
from telerank.stage import Retriever, batch_queries, check_depth, rank_in_threads
from telerank.types import Explanation, Phrase, Query, Ranking

# The terms of each query, and the whole numbers that their contributions are multiplied by.
QueryTerms: TypeAlias = Callable[[SparseIndex, Sequence[str]], Sequence[Mapping[str, int]]]

_BATCH = 16  # queries given to a thread at a time


def count_terms(index: SparseIndex, queries: Sequence[str]) -> list[Mapping[str, int]]:
    """How often each query holds each of its terms."""
    return [Counter(index.analyzer.query(query)) for query in queries]


@dataclass(frozen=True)
class Given:
    """The terms and weights of queries that are known, in their order."""

    weights: tuple[Mapping[str, int], ...]

    def __call__(self, index: SparseIndex, queries: Sequence[str]) -> Sequence[Mapping[str, int]]:  # noqa: ARG002
        return self.weights


@dataclass(frozen=True, repr=False)
class SparseRetriever(Retriever):
    """Ranks the documents that hold at least one term of the query; ``depth`` None keeps all of them.

    ``weigh`` gives the terms of queries and their weights; by default a repeated term counts once for each
    occurrence. Weights of a model are rounded to whole steps, so that sums are exact. ``origin`` says where
    terms are from that a query has not itself. ``batch`` queries are
    read and answered at a time; a larger batch pays off when many similarities are tried, because
    contributions of many terms are then computed together. With several ``threads``, each answers a batch of
    at least 16 queries. Rankings are the same. Documents that do not pass the filter ``chosen`` are not
    there.
    """

    index: SparseIndex
    similarity: Similarity
    depth: int | None = None
    threads: int = field(default=1, compare=False)
    batch: int = field(default=1, compare=False)
    weigh: QueryTerms = count_terms
    chosen: Filter | None = None
    origin: Phrase | str = field(default="", compare=False)
    searches_within = True
    role = "words"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_depth(self.threads)
        self.index.lists(self.similarity)  # which raises if the index lacks a field
        if self.chosen is not None:
            self.chosen.bind(self.index.columns)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        size = self.batch if self.threads == 1 else max(self.batch, _BATCH)
        return rank_in_threads(batch_queries(stream, size), self.rank_batch, self.threads)

    def search(self, query: Query | str, *wrong: object, **named: object) -> Ranking:
        if type(query) is not Query or wrong or named:
            return super().search(query, *wrong, **named)  # which checks its arguments
        [ranking] = self.rank_batch([query])  # without what checks and batches streams: a fifth of the time
        return ranking

    @property
    def docs(self) -> IndexDocs:
        """The documents of the index."""
        return self.index.docs

    @property
    def call(self) -> str:
        text = repr(self.similarity)
        return text if self.weigh is count_terms else f"<{text} of {self.weigh!r}>"

    @property
    def sources(self) -> Mapping[str, object]:
        return {"index": self.index.identity}

    def explanation(self, query: Query, docno: str) -> Explanation:
        """Each term's contribution, then what float32 rounds away; they sum to the score exactly."""
        segment_number, row = self.index.docs.locate(docno)
        if self.chosen and self.index.selections(self.chosen)[segment_number].hidden[row]:
            raise KeyError(docno)
        [weights] = self.weigh(self.index, [query.text])
        explain = partial(self._explain_term, segment=segment_number, row=row)
        terms = {term: explain(term, weight) for term, weight in weights.items()}
        parts = self._explain_origin(query, terms)
        total = sum(part.value for part in parts)
        score = float(np.float32(total))
        if score != total:
            parts.append(Explanation(score - total, "rounding to float32"))
        lengths = self.index.impacts(self.similarity)[segment_number].file.lengths_of(np.array([row]))
        length = sum(lengths.ravel().tolist())
        whole = Phrase("{model} of a document of {terms} terms", model=repr(self.similarity), terms=length)
        return Explanation(score, whole, tuple(parts))

    def _explain_origin(self, query: Query, terms: Mapping[str, Explanation]) -> list[Explanation]:
        """The parts of terms; those that the query has not itself together, if ``origin`` is known."""
        own = self.index.analyzer.query(query.text) if self.origin else terms.keys()
        parts = [part for term, part in terms.items() if term in own]
        if added := tuple(part for term, part in terms.items() if term not in own):
            parts.append(Explanation(sum(part.value for part in added), self.origin, added))
        return parts

    def _explain_term(self, text: str, weight: int, segment: int, row: int) -> Explanation:
        """What a term adds to the score of a document."""
        impacts = self.index.impacts(self.similarity)[segment]
        term = self.index.lists(self.similarity).term(text)
        number, file = term.numbers[segment], impacts.file
        held = file.find_posting(number, row) if number >= 0 else None
        value, facts = 0.0, {"term": text, "df": term.df, "cf": term.cf, "times": weight}
        if impacts.counts_absent and term.cf:
            [steps] = impacts.absences([(term.df, term.cf, weight)], np.array([row]))
            value = float(steps) * STEP
        if held is None:
            return Explanation(value, Phrase("{term!r}: not in the document (df {df})", **facts))
        posting, tfs = held
        impacts.prepare([(number, term.df, term.cf)])
        value += impacts.contribution(number, posting) * weight
        what = "{term!r}: tf {tf}, df {df}, cf {cf}" + (", {times} times in the query" if weight > 1 else "")
        phrase = Phrase(what, tf=int(tfs.sum()), **facts)
        if not isinstance(impacts.similarity, BM25F):
            return Explanation(value, phrase)
        lengths = file.lengths_of(np.array([row]))[:, 0]
        fields = explain_fields(impacts.similarity, value, tfs, lengths, impacts.collection)
        return Explanation(value, phrase, fields)

    def rank_rows(self, queries: Sequence[Query]) -> list[list[RowScores]]:
        """For each segment and query, rows and scores of the best documents."""
        return self._rank_terms(self.weigh(self.index, [query.text for query in queries]))

    def _rank_terms(self, queries: Sequence[Mapping[str, int]]) -> list[list[RowScores]]:
        term = self.index.lists(self.similarity).term
        terms = [[(term(text), weight) for text, weight in weights.items()] for weights in queries]
        answers = []
        selections = None if self.chosen is None else self.index.selections(self.chosen)
        for number, impacts in enumerate(self.index.impacts(self.similarity)):
            known = [[pair for pair in query if pair[0].numbers[number] >= 0] for query in terms]
            impacts.prepare((t.numbers[number], t.df, t.cf) for query in known for t, _ in query)
            weights = [{t.numbers[number]: weight for t, weight in query} for query in known]
            depth = min(self.depth or len(impacts.segment), len(impacts.segment))
            absent = None
            if impacts.counts_absent:
                absent = [[(t.df, t.cf, weight) for t, weight in query if t.cf] for query in terms]
            selection = selections[number] if selections else None
            answers.append(impacts.rank(weights, depth, absent, selection))
        return answers

    def rank_batch(self, queries: list[Query]) -> list[Ranking]:
        return self.rank_weighed(queries, self.weigh(self.index, [query.text for query in queries]))

    def rank_weighed(self, queries: list[Query], weights: Sequence[Mapping[str, int]]) -> list[Ranking]:
        """The rankings of queries whose terms and their weights are known."""
        lists = [
            [
                Ranking.presorted(query, tuple(segment.docnos.take(rows)), scores)
                for query, (rows, scores) in zip(queries, answers, strict=True)
            ]
            for segment, answers in zip(self.index.segments, self._rank_terms(weights), strict=True)
        ]
        if len(lists) == 1:
            return lists[0]
        merged = []
        for query, *parts in zip(queries, *lists, strict=True):
            docnos = [docno for ranking in parts for docno in ranking.docnos]
            scores = np.concatenate([np.empty(0), *(ranking.scores for ranking in parts)])
            ranking = Ranking.ranked(query, docnos, scores)
            merged.append(ranking if self.depth is None else ranking.cut(self.depth))
        return merged
