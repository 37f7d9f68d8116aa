"""Stages that fuse the lists of stages, and stages that scale scores so that they can be added."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain, tee
from typing import ClassVar

import numpy as np

from telerank.errors import ArgumentError
from telerank.expressions import call_text
from telerank.fusion.lists import (
    DEPTH,
    K,
    check_k,
    check_weights,
    interleave_rankings,
    scale_scores,
    shares,
    sigmoid,
    sum_reciprocal_ranks,
)
from telerank.stage import Stage, Sum, Weighted, check_depth, inner_stages, map_inner
from telerank.types import Explanation, Phrase, Query, Ranking


@dataclass(frozen=True, repr=False)
class _OfStages(Stage):
    """A stage made of stages: what it is behind another, and its text, a call of ``function``."""

    role = "fused"
    function: ClassVar[str]

    def after(self, first: Stage) -> Stage:
        changed: Stage = map_inner(self, lambda part: part.after(first))  # type: ignore[arg-type, return-value]
        return changed

    @property
    def text(self) -> str:
        inner = inner_stages(self)
        parts = chain.from_iterable([part] if isinstance(part, Stage) else part for part in inner.values())
        others = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in inner}
        return call_text(
            self.function,
            *(stage.text for stage in parts),
            **{name: "none" if value is None else value for name, value in others.items()},
        )


@dataclass(frozen=True, repr=False)
class _Fused(_OfStages):
    """The lists of several stages, fused into one by their ranks."""

    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        if not self.stages:
            raise ArgumentError("there is no stage to fuse")

    @abstractmethod
    def _fuse(self, rankings: Sequence[Ranking]) -> Ranking: ...

    @abstractmethod
    def _contribution(self, rank: int) -> float:
        """What a document gets for its rank in one of the lists, as explanations have it."""

    @abstractmethod
    def _formula(self, rank: int) -> Phrase:
        """The score of the document at this rank of the fused list."""

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return map(self._fuse, run_stages(self.stages, stream))

    def explanation(self, query: Query, docno: str) -> Explanation:
        lists = [stage.search(query) for stage in self.stages]
        fused = self._fuse(lists)
        value = dict(fused)[docno]
        parts = [Explanation(0.0, "not in this list")] * len(lists)
        for i, (stage, ranking) in enumerate(zip(self.stages, lists, strict=True)):
            if docno in ranking.docnos:
                rank = ranking.docnos.index(docno) + 1
                part = stage.explain(query, docno)
                parts[i] = Explanation(self._contribution(rank), Phrase("rank {n}", n=rank), (part,))
        return Explanation(value, self._formula(fused.docnos.index(docno) + 1), tuple(parts))


@dataclass(frozen=True, repr=False)
class Interleave(_Fused):
    """The lists of the stages in turns, cut to ``depth`` (None: uncut)."""

    depth: int | None = DEPTH
    function = "interleave"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.depth is not None:
            check_depth(self.depth)

    def _fuse(self, rankings: Sequence[Ranking]) -> Ranking:
        return interleave_rankings(rankings, self.depth)

    def _contribution(self, rank: int) -> float:
        return float(rank)

    def _formula(self, rank: int) -> Phrase:
        return Phrase("1 / rank {n} of the lists in turns", n=rank)

    def limit(self, k: int) -> Stage:
        # the first k documents are among the first k of each list
        depth = k if self.depth is None else min(k, self.depth)
        return Interleave(tuple(stage.limit(depth) for stage in self.stages), depth)


@dataclass(frozen=True, repr=False)
class ReciprocalRank(_Fused):
    """The documents of the stages, ordered by the sum of 1 / (k + rank)."""

    k: float = K
    function = "rrf"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_k(self.k)

    def _fuse(self, rankings: Sequence[Ranking]) -> Ranking:
        return sum_reciprocal_ranks(rankings, self.k)

    def _contribution(self, rank: int) -> float:
        return 1.0 / (self.k + rank)

    def _formula(self, rank: int) -> Phrase:  # noqa: ARG002
        return Phrase("sum of 1 / ({k} + rank)", k=f"{self.k:g}")


@dataclass(frozen=True, repr=False)
class MinMax(_OfStages):
    """The lists of the stage, their scores scaled to [0, 1] (:func:`scale_scores`)."""

    stage: Stage
    function = "minmax"

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return map(scale_scores, self.stage(stream))

    def explanation(self, query: Query, docno: str) -> Explanation:
        part = self.stage.explain(query, docno)
        ranking = self.stage.search(query)
        value, least, greatest = dict(scale_scores(ranking))[docno], ranking.scores[-1], ranking.scores[0]
        what = "between the least ({least:.6g}) and the greatest ({most:.6g}) of {n} scores"
        return Explanation(value, Phrase(what, least=least, most=greatest, n=len(ranking)), (part,))


@dataclass(frozen=True, repr=False)
class Probability(_OfStages):
    """The rankings of the stage with 1 / (1 + exp(-score)) as scores (Piaf report, equation 15).

    Equation 19 adds them, unscaled, to the scaled scores of a sparse model.
    """

    stage: Stage
    function = "prob"

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        for ranking in self.stage(stream):
            yield Ranking.ranked(ranking.query, ranking.docnos, sigmoid(ranking.scores))

    def explanation(self, query: Query, docno: str) -> Explanation:
        part = self.stage.explanation(query, docno)
        return Explanation(float(sigmoid(np.array(part.value))), "sigmoid of", (part,))


@dataclass(frozen=True, repr=False)
class Softmax(_OfStages):
    """The lists of the stage with the softmax of their scores: exp(score) divided by the sum over the list.

    For a model that was trained by a softmax over groups, as ListNet (Cao et al., 2007): its scores have a
    meaning up to a constant for each query. Where it tells nothing apart all have the same share, and in a
    sum the other scores decide; :class:`MinMax` gives the best of every list 1.
    """

    stage: Stage
    function = "softmax"

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        for ranking in self.stage(stream):
            yield Ranking.ranked(ranking.query, ranking.docnos, shares(ranking.scores))

    def explanation(self, query: Query, docno: str) -> Explanation:
        part = self.stage.explain(query, docno)
        ranking = self.stage.search(query)
        value = dict(zip(ranking.docnos, shares(ranking.scores), strict=True))[docno]
        return Explanation(float(value), Phrase("share of {n} scores, by softmax", n=len(ranking)), (part,))


@dataclass(frozen=True, repr=False)
class Within(_OfStages):
    """The documents of the candidates with the scores of the stage; one that the stage lacks has 0."""

    candidates: Stage
    stage: Stage
    function = "within"

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        for listed, ranking in run_stages((self.candidates, self.stage), stream):
            scores = dict(ranking)
            yield Ranking.ranked(
                listed.query, listed.docnos, [scores.get(docno, 0.0) for docno in listed.docnos]
            )

    def explanation(self, query: Query, docno: str) -> Explanation:
        if docno not in self.candidates.search(query).docnos:
            raise KeyError(docno)
        if docno not in self.stage.search(query).docnos:
            return Explanation(0.0, Phrase("a candidate that {stage} lacks", stage=self.stage.text))
        return self.stage.explain(query, docno)


def interleave(*stages: Stage, depth: int | None = DEPTH) -> Interleave:
    """Interleave the lists of the stages: ``interleave(a, b)`` begins with ``a``."""
    return Interleave(stages, depth)


def rrf(*stages: Stage, k: float = K) -> ReciprocalRank:
    """Fuse the lists of the stages by rank: ``rrf(bm25 % 1000, dense % 1000)``."""
    return ReciprocalRank(stages, k)


def minmax(stage: Stage) -> MinMax:
    """Scale the scores of a stage: ``0.4 * minmax(bm25 % 1000) + 0.6 * minmax(dense % 1000)``."""
    return MinMax(stage)


def within(candidates: Stage, stage: Stage) -> Within:
    """Rank the documents of one stage by the scores of another: ``within(pool(candidates), bm25)``."""
    return Within(candidates, stage)


def prob(stage: Stage) -> Probability:
    """The probabilities of a re-ranker's logits: ``minmax(bm25) + prob(bm25 >> rerank(monobert))``."""
    return Probability(stage)


def softmax(stage: Stage) -> Softmax:
    """The shares of a list's scores: ``0.5 * minmax(h) + 0.5 * softmax(h >> rerank(my_reranker))``."""
    return Softmax(stage)


def linear(*stages: Stage, weights: Sequence[float]) -> Sum:
    """``linear(a, b, weights=(0.4, 0.6))`` is ``0.4 * minmax(a) + 0.6 * minmax(b)``."""
    check_weights(weights, len(stages))
    return Sum(tuple(Weighted(minmax(stage), float(w)) for stage, w in zip(stages, weights, strict=True)))


def run_stages(stages: Sequence[Stage], stream: Iterable[Ranking]) -> Iterator[tuple[Ranking, ...]]:
    """Run each stage on the same stream: the rankings of all stages, query by query."""
    copies = tee(stream, len(stages))
    return zip(*(stage(copy) for stage, copy in zip(stages, copies, strict=True)), strict=True)
