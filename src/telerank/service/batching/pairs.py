"""Pairs of texts in batches: the logits of a re-ranker, the same as those of its scorer."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from telerank.errors import ModelError
from telerank.models.pairs.pair import Passage
from telerank.models.rerankers.reranker import Reranker
from telerank.reranking.scorer import Scorer
from telerank.reranking.texts import TokenizedPairs, tokenize_for
from telerank.service.batching.work import PairsToScore, Results, TokenizedWork


@dataclass(frozen=True, eq=False)
class BatchedReranker:
    """The logits of a scorer's model, (n,) float64.

    In float32 a logit in one batch and the same pair's in another differ by rounding alone.
    """

    scorer: Scorer

    @property
    def budget(self) -> int:
        return self.scorer.budget

    def tokenize(self, request: PairsToScore) -> TokenizedWork[TokenizedPairs]:
        pairs = tokenize_for(self._reranker, request.pairs)
        cut = pairs.find_cut()
        if request.max_tokens is not None or request.left:
            pairs, passages = _cut_passages(pairs, request.max_tokens, left=request.left)
            cut[:, 1] = passages
        return TokenizedWork(pairs, pairs.lengths, np.asarray(cut.any(1)))

    def compute(self, parts: Sequence[tuple[TokenizedPairs, Sequence[int]]]) -> Results:
        scores = self.scorer.score_batch(parts)
        if not np.isfinite(scores).all():
            raise ModelError(f"{self.scorer.name}: a score is no finite number")
        return scores

    @cached_property
    def _reranker(self) -> Reranker:
        """The model with a tokenizer of its own, which no other thread uses."""
        reranker = self.scorer.reranker
        return replace(reranker, texts=deepcopy(reranker.texts))


def _cut_passages(
    pairs: TokenizedPairs, most: int | None, *, left: bool
) -> tuple[TokenizedPairs, npt.NDArray[np.bool_]]:
    """The pairs with shorter passages, and whether the passage of each is cut, by this or by the model."""
    texts, whole = pairs.texts, np.array([len(passage.ids) for passage in pairs.passages], np.int64)
    room = np.full(len(pairs.passages), whole.max(initial=0) if most is None else most)
    if left:
        queries = np.array([len(query) for query in pairs.queries], np.int64)[pairs.pairs[:, 0]]
        free = texts.max_length - texts.frame.size - np.minimum(queries, texts.longest_query)
        np.minimum.at(room, pairs.pairs[:, 1], free)
    cut = [
        _cut_passage(passage, int(size), left=left)
        for passage, size in zip(pairs.passages, room, strict=True)
    ]
    shorter = replace(pairs, passages=cut)
    return shorter, (whole > room)[pairs.pairs[:, 1]] | shorter.find_cut()[:, 1]


def _cut_passage(passage: Passage, size: int, *, left: bool) -> Passage:
    if len(passage.ids) <= size:
        return passage
    kept: Any = slice(len(passage.ids) - size, None) if left else slice(size)
    sentences = passage.sentences[kept]
    return Passage(passage.ids[kept], sentences - sentences[:1])
