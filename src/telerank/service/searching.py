"""One search, one question: what a request asks for, run on one snapshot, with the time of each stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from telerank.service.errors import Unprocessable
from telerank.service.indexes import ServedIndex
from telerank.service.logs import note
from telerank.service.settings import ServiceSettings
from telerank.service.state import Served
from telerank.stage import Chain, Stage
from telerank.types import Answers, Query, Ranking

if TYPE_CHECKING:
    from telerank.answers.stage import ReadAnswers

QID = "query"
Result = TypeVar("Result")


@dataclass(frozen=True)
class StageTiming:
    """The text of a stage, and how many milliseconds it took."""

    stage: str
    milliseconds: float


@dataclass
class Stopwatch:
    """The times of the stages that were run, in their order."""

    timings: list[StageTiming] = field(default_factory=list)

    @contextmanager
    def time(self, stage: str) -> Iterator[None]:
        """Time a stage."""
        begin = time.perf_counter()
        yield
        self.timings.append(StageTiming(stage, 1000 * (time.perf_counter() - begin)))


@dataclass(frozen=True)
class SearchResult:
    """A page of a ranking: ``skipped`` documents are before it; ``more``: some are behind it."""

    index: ServedIndex
    stage: Stage
    ranking: Ranking
    timings: tuple[StageTiming, ...]
    skipped: int = 0
    more: bool = False


@dataclass(frozen=True)
class AnswerResult:
    """The answers to a question; ``warnings`` say how much of it was not read."""

    index: ServedIndex
    stage: ReadAnswers
    answers: Answers
    timings: tuple[StageTiming, ...]
    warnings: tuple[str, ...] = ()


def check_page(settings: ServiceSettings, k: int, page: int) -> None:
    """Check how many documents are ranked for page ``page`` of ``k`` documents; raises Unprocessable."""
    most, last = settings.limits.documents, k * page
    if last > most:
        raise Unprocessable(f"page {page} of {k} documents ends at {last:,}; at most {most:,} are ranked")


def rank_page(index: ServedIndex, stage: Stage, query: str, k: int, page: int) -> SearchResult:
    """Page ``page`` (from 1) of the ranking of a query, ``k`` documents a page, computed in this thread.

    Raises
    ------
    Unprocessable
        If the pipeline cannot rank the query.
    """
    last = k * page
    ranking, timings = run_search(stage % (last + 1), query)
    shown = slice(last - k, last)
    part = Ranking.presorted(ranking.query, ranking.docnos[shown], ranking.scores[shown])
    return SearchResult(index, stage, part, timings, skipped=last - k, more=len(ranking) > last)


async def answer_question(
    served: Served, index: ServedIndex, stage: ReadAnswers, query: str, *, k: int = 3
) -> AnswerResult:
    """The ``k`` best answers to a question.

    Raises
    ------
    Unprocessable
        If the pipeline cannot rank the query.
    Overloaded
        If too many requests wait.
    Unready
        If it was not done in time.
    """
    answers, timings, warnings = await served.compute(run_answers, stage % k, query)
    result = AnswerResult(index, stage, answers, timings, warnings)
    observe(served, result, query)
    return result


def observe(served: Served, result: SearchResult | AnswerResult, query: str) -> None:
    """Log and count what was run for a query."""
    index = result.index
    note(index=index.name, generation=index.generation, pipeline=result.stage.text, query=query)
    for timing in result.timings:
        name = timing.stage.partition("(")[0]
        seconds = timing.milliseconds / 1000
        served.metrics.stage_seconds.labels(name if name.isidentifier() else "other").observe(seconds)


def run_search(stage: Stage, query: str) -> tuple[Ranking, tuple[StageTiming, ...]]:
    """The ranking of a query, stage by stage; raises Unprocessable if the pipeline cannot rank it."""
    watch = Stopwatch()
    return refuse_values(lambda: _run_parts(stage, Query(QID, query), watch)), tuple(watch.timings)


def run_answers(stage: ReadAnswers, query: str) -> tuple[Answers, tuple[StageTiming, ...], tuple[str, ...]]:
    """The answers to a question, stage by stage, and how it was cut; raises as :func:`run_search`."""
    watch = Stopwatch()
    if stage.first is None:
        raise Unprocessable(f"{stage.text}: expected a first stage before it")
    first, last = stage.first, type(stage)(stage.model, stage.docs, stage.mu, stage.k, stage.name)
    ranking = refuse_values(lambda: _run_parts(first, Query(QID, query), watch))
    counts = last.reader.counts
    counts.cut.clear()  # of explanations, and of warming
    with watch.time(last.text):
        [answers] = refuse_values(lambda: list(last([ranking])))
    cut = last.reader.describe_cut()
    counts.cut.clear()  # has the texts of questions
    return answers, tuple(watch.timings), (f"read({last.name or last.reader.name}): {cut}",) if cut else ()


def refuse_values(run: Callable[[], Result]) -> Result:
    """What a function returns; its ValueError is about the request: such as a score that is not finite."""
    try:
        return run()
    except ValueError as error:
        raise Unprocessable(str(error)) from error


def _run_parts(stage: Stage, query: Query, watch: Stopwatch) -> Ranking:
    ranking = Ranking(query)
    for part in stage.stages if isinstance(stage, Chain) else (stage,):
        with watch.time(part.text):
            [ranking] = part([ranking])
    return ranking
