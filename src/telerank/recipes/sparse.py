"""The sparse models with and without preprocessing, at their defaults and tuned (the Piaf report, section 3).

A question counts where it is judged. What is tuned on some questions is measured on others: either one part
of them chooses and another measures (:class:`Parts`), or each part is held out once and the others choose
for it (:class:`~telerank.evaluate.tune.Folds`), so that every question measures.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from telerank.corpus.collection import Collection, Docs
from telerank.errors import CollectionError, MeasureError
from telerank.evaluate.compare import Comparison, compare_evaluations
from telerank.evaluate.measures import Evaluation, measure, parse_measures
from telerank.evaluate.tune import Folds, Objective, TuneResult, tune
from telerank.sparse.index import SparseIndex
from telerank.sparse.retriever import SparseRetriever
from telerank.sparse.similarities import (
    BM25,
    DFI,
    DFR,
    LMDirichlet,
    LMJelinekMercer,
    Similarity,
    grid,
)
from telerank.sparse.writer import build_index
from telerank.types import Progress, Qrels, Query, Ranking, silent

FAMILIES: Mapping[str, Similarity] = {
    "bm25": BM25(),
    "lm_dirichlet": LMDirichlet(),
    "lm_jelinek_mercer": LMJelinekMercer(),
    "dfr": DFR(),
    "dfi": DFI(),
}
DEFAULT, TUNED, GIVEN = "default", "tuned", "given"
_BATCH = 256  # queries answered at a time
_CUTOFF = re.compile(r"@(\d+)$")


@dataclass(frozen=True)
class Parts:
    """``dev`` questions choose, and ``test`` others (None: all others) measure; drawn by ``seed``.

    Raises
    ------
    ValueError
        where a part would be empty, or there are too few questions.
    """

    dev: int
    test: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.dev < 2 or (self.test is not None and self.test < 1):
            raise ValueError(
                f"two questions at least choose, and one measures: dev {self.dev}, test {self.test}"
            )

    def deal(self, qids: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
        """The two parts; the order of ``qids`` does not count."""
        deck = sorted(qids)
        test = len(deck) - self.dev if self.test is None else self.test
        if test < 1 or self.dev + test > len(deck):
            asked = f"{self.dev} and {'the rest' if self.test is None else test}"
            raise ValueError(f"{len(deck)} judged questions are too few for parts of {asked}")
        random.Random(self.seed).shuffle(deck)
        return frozenset(deck[: self.dev]), frozenset(deck[self.dev : self.dev + test])


@dataclass(frozen=True, eq=False)
class Task:
    """Questions asked of documents; ``qrels`` judges each of them and no other.

    ``unjudged`` counts the questions that were left out because nothing is known of their answers.
    """

    docs: Docs
    queries: tuple[Query, ...]
    qrels: Qrels
    unjudged: int = 0

    @classmethod
    def of(cls, collection: Collection, split: str | None = None) -> Task:
        """The judged queries of a collection's split.

        Raises
        ------
        CollectionError
            where there is no such split, it has no queries or no qrels, or they do not belong together.
        """
        asked = tuple(collection.split_queries(split))
        qrels = collection.judged(split)
        strange = qrels.keys() - {query.qid for query in asked}
        if strange or not qrels:
            what = f"judge query {min(strange)!r}, which is not there" if strange else "judge nothing"
            raise CollectionError(f"{collection.name}: the qrels {what}")
        queries = tuple(query for query in asked if query.qid in qrels)
        return cls(collection.docs, queries, qrels, len(asked) - len(queries))

    def part(self, qids: frozenset[str]) -> Task:
        queries = tuple(query for query in self.queries if query.qid in qids)
        return Task(self.docs, queries, {query.qid: self.qrels[query.qid] for query in queries})


@dataclass(frozen=True)
class Plan:
    """What is run.

    ``analyzers`` have a short name each; the first is that of the baseline, BM25 at its defaults.
    ``objective`` is what settings are chosen by. ``depth`` is retrieved for measures without a cutoff,
    and no more than the deepest cutoff where all have one. ``given`` are settings measured besides, as
    they stand. ``settings`` gives the grid of a family.

    Raises
    ------
    MeasureError
        where a name is not a measure's, or the objective is more than one.
    """

    analyzers: Mapping[str, str]
    measures: Sequence[str] | str
    objective: str
    held_out: Parts | Folds
    depth: int = 1000
    given: tuple[Similarity, ...] = ()
    settings: Callable[[Similarity], Sequence[Similarity]] = grid

    def __post_init__(self) -> None:
        objectives = parse_measures(self.objective)
        if len(objectives) > 1:
            raise MeasureError(f"settings are chosen by one measure, got {self.objective}")
        object.__setattr__(self, "objective", objectives[0])  # as ir_measures writes it
        object.__setattr__(self, "measures", parse_measures(self.measures))


@dataclass(frozen=True)
class System:
    """``model`` is the name of a family or, where ``how`` is ``given``, a setting's text form."""

    model: str
    how: str
    analyzer: str

    def __str__(self) -> str:
        how = "" if self.how == GIVEN else f" {self.how}"
        return f"{self.model}{how}, {self.analyzer}"


@dataclass(frozen=True)
class Tuning:
    """How a family was tuned under an analyzer.

    ``best`` is the setting that is best on all questions that choose, ``dev`` the objective's mean there,
    which flatters it. ``choices`` answered the questions held out, one for each fold; ``held_out`` is
    the mean there, and ``default`` that of the family's defaults on the same questions.
    """

    model: str
    analyzer: str
    tried: int
    best: Similarity
    choices: tuple[Similarity, ...]
    dev: float
    held_out: float
    default: float


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a plan: each system's values on the questions that measure.

    ``dev`` and ``test`` count the questions; with folds they are the same ones.
    """

    plan: Plan
    evaluations: Mapping[System, Evaluation]
    tunings: tuple[Tuning, ...]
    dev: int
    test: int

    @property
    def baseline(self) -> System:
        return System("bm25", DEFAULT, next(iter(self.plan.analyzers)))

    def compared(self, systems: Iterable[System], measures: Sequence[str]) -> Comparison:
        """The baseline and these systems, named as text; the tests are one family."""
        wanted = dict.fromkeys((self.baseline, *systems))
        named = {str(system): self.evaluations[system] for system in wanted}
        return compare_evaluations(named, [str(self.baseline)], measures=measures)


def run_plan(
    task: Task, plan: Plan, *, folder: str | Path | None = None, progress: Progress = silent
) -> Outcome:
    """Index once for each analyzer, tune, and measure each system once.

    The indexes stay in ``folder``, under the analyzers' names; without one they are temporary.

    Raises
    ------
    ValueError
        where there are too few questions for the parts or folds.
    TelerankError
        as indexing, analysing and measuring do.
    """
    choosing, measuring = _dealt(task, plan.held_out)
    bench = _Bench(plan, choosing, measuring, progress)
    evaluations: dict[System, Evaluation] = {}
    tunings: list[Tuning] = []
    with _place(folder) as place:
        for name, analyzer in plan.analyzers.items():
            index = build_index(
                task.docs(), place / name, analyzer=analyzer, overwrite=True, progress=progress
            )
            for family, default in FAMILIES.items():
                at_default, result = bench.measured(index, default), bench.tuned(index, default)
                at_choices = bench.answered_by_choices(index, result)
                evaluations[System(family, DEFAULT, name)] = at_default
                evaluations[System(family, TUNED, name)] = at_choices
                tunings.append(bench.tuning(System(family, TUNED, name), result, at_choices, at_default))
            for setting in plan.given:
                evaluations[System(repr(setting), GIVEN, name)] = bench.measured(index, setting)
    return Outcome(plan, evaluations, tuple(tunings), len(choosing.queries), len(measuring.queries))


class _Bench:
    """Runs settings on the questions of a plan, and tells how far it is."""

    def __init__(self, plan: Plan, choosing: Task, measuring: Task, progress: Progress) -> None:
        self._plan, self._choosing, self._measuring, self._progress = plan, choosing, measuring, progress
        self._measures = tuple(dict.fromkeys((*plan.measures, plan.objective)))
        self._tried = 0
        self._to_try = len(plan.analyzers) * sum(len(plan.settings(one)) for one in FAMILIES.values())

    def measured(self, index: SparseIndex, setting: Similarity) -> Evaluation:
        return self._measure(self._run(index, setting, self._measuring.queries))

    def answered_by_choices(self, index: SparseIndex, result: TuneResult[Similarity]) -> Evaluation:
        """Each question answered by the setting that was chosen without it."""
        if isinstance(self._plan.held_out, Parts):
            return self.measured(index, result.best)
        by_qid = {query.qid: query for query in self._measuring.queries}
        answered = (
            ranking
            for fold, choice in zip(result.folds, result.choices, strict=True)
            for ranking in self._run(index, choice, [by_qid[qid] for qid in fold])
        )
        return self._measure(answered)

    def tuned(self, index: SparseIndex, default: Similarity) -> TuneResult[Similarity]:
        depth = _depth([self._plan.objective], self._plan.depth)

        def run(setting: Similarity, queries: Sequence[Query]) -> Iterator[Ranking]:
            self._progress("tuning", self._tried, self._to_try)
            self._tried += 1
            return replace(SparseRetriever(index, setting), depth=depth, batch=_BATCH).run(queries)

        held_out = self._plan.held_out
        folds = held_out if isinstance(held_out, Folds) else Folds(2)  # of the dev part, and not looked at
        objective = Objective(self._choosing.queries, self._choosing.qrels, self._plan.objective)
        result = tune(self._plan.settings(default), run, objective, held_out=folds)
        self._progress("tuning", self._tried, self._to_try)
        return result

    def tuning(
        self, system: System, result: TuneResult[Similarity], held_out: Evaluation, default: Evaluation
    ) -> Tuning:
        name = self._plan.objective
        return Tuning(
            system.model,
            system.analyzer,
            tried=len(result.settings),
            best=result.best,
            choices=result.choices if isinstance(self._plan.held_out, Folds) else (result.best,),
            dev=result.best_dev,
            held_out=held_out.mean[name],
            default=default.mean[name],
        )

    def _run(self, index: SparseIndex, setting: Similarity, queries: Sequence[Query]) -> Iterator[Ranking]:
        depth = _depth(self._measures, self._plan.depth)
        return replace(SparseRetriever(index, setting), depth=depth, batch=_BATCH).run(queries)

    def _measure(self, rankings: Iterable[Ranking]) -> Evaluation:
        return measure(rankings, self._measuring.qrels, self._measures)


def _dealt(task: Task, held_out: Parts | Folds) -> tuple[Task, Task]:
    if isinstance(held_out, Folds):
        return task, task
    dev, test = held_out.deal(query.qid for query in task.queries)
    return task.part(dev), task.part(test)


def _depth(measures: Sequence[str], otherwise: int) -> int:
    """As deep as the deepest cutoff; ``otherwise`` where a measure looks at all that is retrieved."""
    cutoffs = [_CUTOFF.search(name) for name in measures]
    return max(int(one[1]) if one else otherwise for one in cutoffs)


@contextmanager
def _place(folder: str | Path | None) -> Iterator[Path]:
    if folder is not None:
        yield Path(folder)
        return
    with tempfile.TemporaryDirectory(prefix="telerank-") as temporary:
        yield Path(temporary)
