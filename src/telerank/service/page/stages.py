"""What the page lets the indexes and models compute: rankings by stages, answers, passages, explanations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

from telerank.sparse.query_words import count_matches
from telerank.sparse.retriever import SparseRetriever
from telerank.stage import Chain, Cut, Stage, walk_stages
from telerank.types import Answers, Explanation, Query, Ranking

if TYPE_CHECKING:
    from telerank.answers.stage import ReadAnswers
    from telerank.segments.stage import SegmentMatch

KINDS: Mapping[str, str] = {
    "SparseRetriever": "words",
    "DenseRetriever": "dense",
    "ApproximateRetriever": "dense",
    "CrossReranker": "rerank",
    "SegmentReranker": "segments",
    "SegmentSum": "segments",
    "ReciprocalRank": "fused",
    "Interleave": "fused",
    "Sum": "fused",
    "MinMax": "fused",
    "Probability": "fused",
    "Weighted": "fused",
    "Within": "fused",
}
"""The key of a stage's name on the page by the name of its class, which is not imported for that."""


@dataclass(frozen=True)
class StageRun:
    """A stage that has run: its text, its kind, how long it took (seconds) and the documents that it kept."""

    text: str
    kind: str
    seconds: float
    kept: int


@dataclass(frozen=True)
class StagedRanking:
    """The ranking of a query, and the stages that made it."""

    pipeline: str
    ranking: Ranking
    steps: tuple[StageRun, ...]


@dataclass(frozen=True)
class StagedAnswers:
    """The answers to a question, how many documents were read, and the stages of that.

    ``cut`` is how many tokens of the question were not read.
    """

    answers: Answers
    documents: int
    steps: tuple[StageRun, ...]
    cut: int = 0


@dataclass(frozen=True)
class StageShare:
    """What a stage of a pipeline made of a document: its rank (None: absent) and why."""

    step: StageRun
    rank: int | None
    explanation: Explanation | None


def split_stages(stage: Stage) -> tuple[Stage, ...]:
    """The stages that follow one another, of which the last decides; a single one otherwise."""
    if isinstance(stage, Cut) and isinstance(stage.stage, Chain):
        *first, last = stage.stage.stages
        return (*first, last % stage.k)
    return stage.stages if isinstance(stage, Chain) else (stage,)


def find(stage: Stage, query: Query, k: int) -> StagedRanking:
    """Rank the first ``k`` documents for a query, stage by stage."""
    ranking, steps = Ranking(query), []
    for part, cut in zip(split_stages(stage), split_stages(stage % k), strict=True):
        begun = perf_counter()
        (ranking,) = cut([ranking])
        steps.append(StageRun(part.text, kind_of(part), perf_counter() - begun, len(ranking)))
    return StagedRanking(stage.text, ranking, tuple(steps))


def count_results(stage: Stage, query: Query) -> int | None:
    """How many documents a stage ranks for a query, if they can be counted without ranking them."""
    if not isinstance(stage, SparseRetriever):
        return None
    count = count_matches(stage.index, query.text)
    return count if count is None or stage.depth is None else min(count, stage.depth)


def read(reader: ReadAnswers, ranking: Ranking, most: int) -> StagedAnswers:
    """The answers to the query of a ranking, from its documents or ``most`` of the reader's own stages."""
    steps: list[StageRun] = []
    if reader.first is not None:
        ranked = find(reader.first, ranking.query, most)
        ranking, steps = ranked.ranking, [*ranked.steps]
    begun = perf_counter()
    (answers,) = replace(reader, first=None)([ranking])
    cut = reader.reader.counts.cut.get(ranking.query.text, 0)
    reader.reader.counts.cut.clear()  # has the texts of questions
    steps.append(
        StageRun(f"read({reader.name or reader.reader.name})", "read", perf_counter() - begun, len(answers))
    )
    return StagedAnswers(answers, len(ranking), tuple(steps), cut)


def find_passages(
    stage: Stage, query: Query, docnos: Sequence[str]
) -> tuple[dict[str, SegmentMatch], StageRun | None]:
    """The segment of each document that counts most, if a stage scores segments."""
    parts = [part for part in walk_stages(stage) if type(part).__name__ == "SegmentReranker"]
    if not parts:
        return {}, None
    begun = perf_counter()
    passages = {docno: parts[0].match(query, docno)[0] for docno in docnos}  # type: ignore[attr-defined]
    return passages, StageRun("", "passages", perf_counter() - begun, len(passages))


def explain_stages(stage: Stage, query: Query, docno: str, most: int) -> list[StageShare]:
    """What each stage of a pipeline made of a document, in their order, in rankings of ``most`` documents."""
    shares = []
    ranking = Ranking(query)
    parts = split_stages(stage)
    for number, (part, cut) in enumerate(zip(parts, split_stages(stage % most), strict=True), 1):
        begun = perf_counter()
        (ranking,) = cut([ranking])
        step = StageRun(part.text, kind_of(part), perf_counter() - begun, len(ranking))
        rank = ranking.docnos.index(docno) + 1 if docno in ranking.docnos else None
        whole = parts[0] if number == 1 else Chain(parts[:number])
        shares.append(StageShare(step, rank, _explanation(whole, query, docno)))
    return shares


def kind_of(stage: Stage) -> str:
    """The key of a stage's name on the page."""
    if isinstance(stage, Cut):
        return kind_of(stage.stage)
    return KINDS.get(type(stage).__name__, "other")


def _explanation(stage: Stage, query: Query, docno: str) -> Explanation | None:
    try:
        return stage.explain(query, docno)
    except KeyError:
        return None
