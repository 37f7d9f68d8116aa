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
    """The answers to a question."""

    index: ServedIndex
    stage: ReadAnswers
    answers: Answers
    timings: tuple[StageTiming, ...]


async def search_page(
    served: Served, index: ServedIndex, stage: Stage, query: str, *, k: int = 10, page: int = 1
) -> SearchResult:
    """Page ``page`` (from 1) of the ranking of a query, ``k`` documents a page.

    Raises
    ------
    Unprocessable
        If there are too many documents before the page's end, or the pipeline cannot rank the query.
    Overloaded
        If too many requests wait.
    Unready
        If it was not done in time.
    """
    most, last = served.settings.limits.documents, k * page
    if last > most:
        raise Unprocessable(f"page {page} of {k} documents ends at {last:,}; at most {most:,} are ranked")
    cut = stage % (last + 1)
    ranking, timings = await served.run_stage(cut, run_search, cut, query)
    shown = slice(last - k, last)
    _observe(served, index, stage.text, query, timings)
    return SearchResult(
        index,
        stage,
        Ranking.presorted(ranking.query, ranking.docnos[shown], ranking.scores[shown]),
        timings,
        skipped=last - k,
        more=len(ranking) > last,
    )


async def answer_question(
    served: Served, index: ServedIndex, stage: ReadAnswers, query: str, *, k: int = 3
) -> AnswerResult:
    """The ``k`` best answers to a question; raises as :func:`search_page`."""
    answers, timings = await served.compute(run_answers, stage % k, query)
    _observe(served, index, stage.text, query, timings)
    return AnswerResult(index, stage, answers, timings)


def _observe(
    served: Served, index: ServedIndex, pipeline: str, query: str, timings: tuple[StageTiming, ...]
) -> None:
    """Log and count what was run."""
    note(index=index.name, generation=index.generation, pipeline=pipeline, query=query)
    for timing in timings:
        name = timing.stage.partition("(")[0]
        seconds = timing.milliseconds / 1000
        served.metrics.stage_seconds.labels(name if name.isidentifier() else "other").observe(seconds)


def run_search(stage: Stage, query: str) -> tuple[Ranking, tuple[StageTiming, ...]]:
    """The ranking of a query, stage by stage; raises Unprocessable if the pipeline cannot rank it."""
    watch = Stopwatch()
    return refuse_values(lambda: _run_parts(stage, Query(QID, query), watch)), tuple(watch.timings)


def run_answers(stage: ReadAnswers, query: str) -> tuple[Answers, tuple[StageTiming, ...]]:
    """The answers to a question, stage by stage; raises as :func:`run_search`."""
    watch = Stopwatch()
    if stage.first is None:
        raise Unprocessable(f"{stage.text}: expected a first stage before it")
    first, last = stage.first, type(stage)(stage.model, stage.docs, stage.mu, stage.k, stage.name)
    ranking = refuse_values(lambda: _run_parts(first, Query(QID, query), watch))
    with watch.time(last.text):
        [answers] = refuse_values(lambda: list(last([ranking])))
    last.reader.counts.cut.clear()  # has the texts of questions
    return answers, tuple(watch.timings)


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
