"""Pipelines of requests: what they may cost, and running them with the time of each stage."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import Field

from telerank.errors import ArgumentError, TelerankError
from telerank.feedback.stage import Feedback
from telerank.retrieval.group import FileGroups, Grouping
from telerank.service.errors import Unprocessable
from telerank.service.settings import Limits
from telerank.sparse.query_words import count_matches
from telerank.sparse.retriever import SparseRetriever, count_terms
from telerank.stage import (
    Chain,
    Cut,
    Retriever,
    Stage,
    Where,
    change_stages,
    inner_stages,
    walk_stages,
)
from telerank.syntax.listing import Listing
from telerank.types import Answers, Explanation, Query, Ranking

if TYPE_CHECKING:
    from telerank.answers.stage import ReadAnswers
    from telerank.segments.stage import SegmentMatch

QID = "query"
Result = TypeVar("Result")
_LIGHT = {"words", "fused", "groups"}
"""Roles of stages that compute without a model."""
_RETRIEVERS = 16
_FED_BACK = {"fb_docs": 100, "fb_terms": 1000}


def check_cost(stage: Stage, limits: Limits) -> None:
    """Check that a pipeline retrieves and scores no more than the limits say.

    Raises
    ------
    Unprocessable
        If it might; the message says how to cut it.
    """
    _Cost(limits).documents(stage, 0)


def check_read(first: Stage, limits: Limits) -> None:
    """Check the same of a pipeline whose documents a reader reads; raises as :func:`check_cost`."""
    cost = _Cost(limits)
    cost.score("read", cost.documents(first, 0))


def uses_models(stage: Stage) -> bool:
    """Whether a stage, or one that it is made of, computes with a model."""
    return any(part.role not in _LIGHT for part in walk_stages(stage))


@dataclass
class _Cost:
    """Counts what the stages of a pipeline do at most."""

    limits: Limits
    scored: float = field(default=0, init=False)
    retrievers: int = field(default=0, init=False)

    def documents(self, stage: Stage, given: float) -> float:
        """The most documents in a ranking of the stage, if it is given rankings of ``given``."""
        within = stage.stage if isinstance(stage, Where) else stage
        if isinstance(within, Retriever | Feedback):
            return self._retrieved(within, is_filtered=within is not stage)
        if isinstance(stage, Chain | FileGroups):
            for part in stage.stages if isinstance(stage, Chain) else stage.split()[:-1]:
                given = self.documents(part, given)
            return given if isinstance(stage, Chain) else min(given, stage.k or given)
        if isinstance(stage, Cut):
            return min(stage.k, self.documents(stage.stage, given))
        if stage.role not in _LIGHT:
            return self._scored(stage, given)
        inner = [value if isinstance(value, tuple) else (value,) for value in inner_stages(stage).values()]
        return sum(self.documents(part, given) for parts in inner for part in parts) or given

    def _scored(self, stage: Stage, given: float) -> float:
        """The same of a stage that scores the texts of its documents with a model."""
        from telerank.late_interaction.stage import MaxSim
        from telerank.reranking.stage import CrossReranker
        from telerank.segments.stage import SegmentReranker, SegmentSum

        if isinstance(stage, SegmentSum):
            return self._scored(stage.segments, self.documents(stage.first, given))
        if isinstance(stage, CrossReranker | MaxSim):
            self.score(stage.text.partition("(")[0], given)
            return min(given, stage.k or given)
        if not isinstance(stage, SegmentReranker):
            raise Unprocessable(f"{stage.text} has no bound that a request must have")
        self.score(stage.text.partition("(")[0], given * (stage.settings.first or math.inf))
        return given

    def score(self, name: str, texts: float) -> None:
        """Count the texts that a model scores."""
        self.scored += texts
        most = self.limits.reranked
        if self.scored > most:
            count = "all" if math.isinf(texts) else f"{texts:,.0f}"
            cut = f"cut the stage before it, such as bm25 % {min(most, 100)}"
            if name not in ("rerank", "read"):
                cut += ", and name the most segments of a document (first=…)"
            raise Unprocessable(f"{name} would score {count} texts; a request has at most {most:,}: {cut}")

    def _retrieved(self, stage: Retriever | Feedback, *, is_filtered: bool) -> float:
        """The same of a first stage; one within a filter is cut behind it."""
        if isinstance(stage, Feedback):
            if stage.first is not None:
                self.documents(stage.first, 0)
            for name, most in _FED_BACK.items():
                if (number := getattr(stage.method, name)) > most:
                    raise Unprocessable(f"{stage.text}: {name} is {number:,}; a request has at most {most:,}")
        self.retrievers += 1
        if self.retrievers > _RETRIEVERS:
            raise Unprocessable(f"a pipeline of a request has at most {_RETRIEVERS} first stages")
        depth: float = getattr(stage, "candidates", stage.depth or math.inf)  # of an approximate search
        if depth > self.limits.depth and not is_filtered:
            count = "all documents" if math.isinf(depth) else f"{depth:,} documents"
            raise Unprocessable(
                f"{stage.text} retrieves {count}; a request has at most {self.limits.depth:,}: "
                f"cut it, such as {stage.text.partition(' %')[0]} % 100"
            )
        return depth


@dataclass(frozen=True)
class StageRun:
    """A stage that has run, and how long it took."""

    stage: str
    milliseconds: float
    role: Annotated[str, Field(exclude=True)]
    kept: Annotated[int, Field(exclude=True)]
    """Documents or answers that are left."""


@dataclass(frozen=True)
class StagedRanking:
    """The stages that ranked documents for a query, and the ranking of each."""

    rankings: list[Ranking]
    stages: list[StageRun]

    @property
    def ranking(self) -> Ranking:
        """The ranking of the last stage."""
        return self.rankings[-1]


@dataclass(frozen=True)
class StagedAnswers:
    """The answers to a question, how many documents were read, and the stages of that.

    ``cut`` is how many tokens of the question were not read, ``warning`` says so; 0 and empty if none.
    """

    answers: Answers
    documents: int
    stages: list[StageRun]
    cut: int
    warning: str


@dataclass(frozen=True)
class StageShare:
    """What a stage of a pipeline made of a document: its rank (None: absent) and why."""

    run: StageRun
    rank: int | None
    explanation: Explanation | None


def refuse_values(run: Callable[[], Result]) -> Result:
    """What a function returns; its ValueError is about the request: such as a score that is not finite."""
    try:
        return run()
    except ValueError as error:
        if isinstance(error, TelerankError) and not isinstance(error, ArgumentError):
            raise
        raise Unprocessable(str(error)) from error


def split_stages(stage: Stage) -> tuple[Stage, ...]:
    """The stages that follow one another, of which the last decides; a single one otherwise."""
    if isinstance(stage, Chain):
        return tuple(part for each in stage.stages for part in split_stages(each))
    if isinstance(stage, FileGroups) and stage.first is not None:
        return tuple(part for each in stage.split() for part in split_stages(each))
    return (stage,)


def bound_groups(stage: Stage, limits: Limits) -> Stage:
    """The pipeline, whose groups are those of as many documents as a first stage may retrieve.

    So every page of a ranking groups the same documents, and further passages are counted among them.
    """

    def bound(part: Stage) -> Stage:
        return part.within(limits.depth) if isinstance(part, FileGroups) else part

    return change_stages(stage, bound)


def find_groups(stage: Stage, ranked: StagedRanking) -> Grouping | None:
    """The groups of a ranking; None if the last stage does not group."""
    *_, first, last = (None, *split_stages(stage))
    if not isinstance(last, FileGroups) or len(ranked.rankings) < 2:
        return None
    return last.grouping(ranked.rankings[-2], first)


def run_stages(stage: Stage, query: Query, k: int | None = None) -> StagedRanking:
    """Rank documents for a query, stage by stage: the first ``k`` (None: those that the text says).

    Raises
    ------
    Unprocessable
        If the pipeline cannot rank the query.
    """
    rankings, runs = [Ranking(query)], []
    parts = split_stages(stage if k is None else stage % k)
    for part, shown in zip(parts, split_stages(stage), strict=True):
        begun = perf_counter()
        rankings += refuse_values(partial(list, part(rankings[-1:])))
        runs.append(_end_run(shown.text, begun, part.role, len(rankings[-1])))
    return StagedRanking(rankings[1:], runs)


def run_reader(reader: ReadAnswers, ranking: Ranking, most: int | None = None) -> StagedAnswers:
    """The answers to the query of a ranking, from its documents or ``most`` of the reader's own stages.

    Raises
    ------
    Unprocessable
        If the pipeline cannot rank the query.
    """
    staged = StagedRanking([ranking], [])
    if reader.first is not None:
        staged = run_stages(reader.first, ranking.query, most)
    last, scorer = replace(reader, first=None), reader.reader
    scorer.counts.cut.clear()  # of explanations, and of warming
    begun = perf_counter()
    [answers] = refuse_values(lambda: list(last([staged.ranking])))
    run = _end_run(last.text, begun, "read", len(answers))
    cut, warning = scorer.counts.cut.get(ranking.query.text, 0), scorer.describe_cut()
    scorer.counts.cut.clear()  # has the texts of questions
    warning = f"read({reader.name or scorer.name}): {warning}" if warning else ""
    return StagedAnswers(answers, len(staged.ranking), [*staged.stages, run], cut, warning)


def count_results(stage: Stage, query: Query) -> int | None:
    """How many documents a stage ranks for a query, if they can be counted without ranking them."""
    if isinstance(stage, Listing):
        return stage.count()
    if not isinstance(stage, SparseRetriever) or stage.weigh is not count_terms:
        return None
    count = count_matches(stage.index, query.text, stage.chosen, stage.similarity)
    return count if count is None or stage.depth is None else min(count, stage.depth)


def find_passages(
    stage: Stage, query: Query, docnos: Sequence[str]
) -> tuple[dict[str, SegmentMatch], list[StageRun]]:
    """The segment of each document that counts most, if a stage scores segments; and the time of that.

    Segments of other fields than the text are of no use beside it.
    """
    parts: list[Any] = [part for part in walk_stages(stage) if getattr(part, "matches_texts", False)]
    if not parts:
        return {}, []
    begun = perf_counter()
    passages = {docno: parts[0].match(query, docno)[0] for docno in docnos}
    return passages, [_end_run("", begun, "passages", len(passages))]


def explain_stages(stage: Stage, query: Query, docno: str, most: int) -> list[StageShare]:
    """What each stage of a pipeline made of a document, in their order, in rankings of ``most`` documents."""
    ranked, parts, shares = run_stages(stage, query, most), split_stages(stage), []
    for number, (run, ranking) in enumerate(zip(ranked.stages, ranked.rankings, strict=True), 1):
        rank, explanation = ranking.docnos.index(docno) + 1 if docno in ranking.docnos else None, None
        with suppress(KeyError):
            explanation = (Chain(parts[:number]) if number > 1 else parts[0]).explain(query, docno)
        shares.append(StageShare(run, rank, explanation))
    return shares


def _end_run(text: str, begun: float, role: str, kept: int) -> StageRun:
    return StageRun(text, round(1000 * (perf_counter() - begun), 3), role, kept)
