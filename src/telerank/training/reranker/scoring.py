"""Score pairs of a query and a document, of dev or a test: each process of a training a share of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from telerank.reranking.texts import TextPair
from telerank.training.parallel import ALONE, Processes, share_by_length
from telerank.training.reranker.pair_logits import EndToEnd
from telerank.training.reranker.stored_logits import FromStore, Stored
from telerank.training.segments.table import DocumentScores
from telerank.types import Doc, Progress, silent

PairScorer: TypeAlias = EndToEnd | FromStore
SharedPair: TypeAlias = tuple[TextPair, Doc | None]
"""A pair, and the document that its text stands for if documents are scored by their segments."""


def score_documents(
    scorer: PairScorer | Stored,
    by_segments: DocumentScores | None,
    pairs: Sequence[TextPair],
    processes: Processes = ALONE,
    progress: Progress = silent,
) -> list[float]:
    """The score of each pair of the first process, as one passage or by its segments; others get no scores.

    The first process alone scores segments by the features of a frozen encoder: which pairs to encode is
    known only when their documents are cut.
    """
    if processes.size == 1:
        return _score(scorer, by_segments, pairs, progress)
    if by_segments is not None and not isinstance(scorer, EndToEnd):
        return processes.alone(lambda: _score(scorer, by_segments, pairs, progress), [])
    if not isinstance(scorer, EndToEnd):
        scorer.fill(pairs, progress)

    def score(own: Sequence[SharedPair]) -> list[float]:
        docs = {pair[1]: doc for pair, doc in own if doc is not None}
        documents = None if by_segments is None else replace(by_segments, docs=docs)
        return _score(scorer, documents, [pair for pair, _ in own], progress)

    different = list(dict.fromkeys(pairs))  # equal pairs have equal scores
    docs = {} if by_segments is None else by_segments.docs
    items = [(pair, docs.get(pair[1])) for pair in different]
    scores = share_by_length(processes, score, items, lambda item: len(item[0][0]) + len(item[0][1]))
    known = dict(zip(different, scores, strict=True))
    return [known[pair] for pair in pairs]


def _score(
    scorer: PairScorer | Stored,
    by_segments: DocumentScores | None,
    pairs: Sequence[TextPair],
    progress: Progress,
) -> list[float]:
    if by_segments is None:
        return scorer.score(pairs, progress)
    return by_segments.score(pairs, scorer.score, progress)
