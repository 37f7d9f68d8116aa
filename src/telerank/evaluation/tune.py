"""Choose the best of several settings, and measure it on queries held out from the choice."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from telerank.errors import ArgumentError, MeasureError, count_noun
from telerank.evaluation.measures import Evaluation, Values, aggregate, measure, parse_measures
from telerank.show.report import Report
from telerank.show.tables import Table
from telerank.types import Progress, Qrels, Query, Ranking, silent

S = TypeVar("S")

_SHOWN = 10  # settings in the table of a result


@dataclass(frozen=True, eq=False)
class Objective:
    """What is maximised: the mean of ``measure`` over those of ``queries`` that are judged.

    ``qrels`` may judge other queries too, such as those of a test part.
    """

    queries: Sequence[Query]
    qrels: Qrels
    measure: str


@dataclass(frozen=True)
class Folds:
    """Cross-validation: each fold of the queries is held out once; the other folds choose its setting."""

    k: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.k < 2:
            raise ArgumentError(f"folds must be 2 or more, got {self.k}")

    def deal(self, qids: Iterable[str]) -> tuple[tuple[str, ...], ...]:
        """Split the queries into folds whose sizes differ by at most one; the order of ``qids`` is ignored.

        Raises ValueError if there are fewer queries than folds.
        """
        deck = sorted(qids)
        if len(deck) < self.k:
            raise ArgumentError(
                f"{count_noun(self.k, 'fold')} of {count_noun(len(deck), 'judged query')}: too few queries"
            )
        random.Random(self.seed).shuffle(deck)
        return tuple(tuple(sorted(deck[i :: self.k])) for i in range(self.k))


@dataclass(frozen=True, eq=False)
class TuneResult(Report, Generic[S]):
    """The chosen setting, its mean on the queries that chose it, and its mean on queries held out.

    ``dev`` holds each setting's mean over the queries that choose. ``evaluation`` holds the values of
    the held-out queries: with folds, of all queries, each under the setting that the other folds chose;
    with a test part, of that part under ``best``. ``chosen`` is the index of the setting of each fold.
    ``table[qid]`` holds the query's value under each setting, shape (settings,). ``unjudged`` are
    queries that are not in the qrels and were left out; ``notes`` are about the judgments.
    """

    title: ClassVar[str] = "Tuning"
    settings: tuple[S, ...]
    dev: tuple[float, ...]
    chosen: tuple[int, ...]
    folds: tuple[tuple[str, ...], ...]
    evaluation: Evaluation
    table: Mapping[str, Values]
    unjudged: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> S:
        """The setting with the highest mean over all queries that choose; the first of several."""
        return self.settings[_best(self.dev)]

    @property
    def best_dev(self) -> float:
        """The mean of ``best`` over the queries that chose it: too optimistic."""
        return self.dev[_best(self.dev)]

    @property
    def held_out(self) -> float:
        """The mean over the held-out queries: the unbiased value."""
        (value,) = self.evaluation.mean.values()
        return value

    @property
    def choices(self) -> tuple[S, ...]:
        """The setting of each fold."""
        return tuple(self.settings[i] for i in self.chosen)

    @property
    def measure(self) -> str:
        """The name of the measure."""
        return self.evaluation.measures[0]

    @property
    def remarks(self) -> list[str]:
        unjudged = len(self.unjudged)
        return [
            *[f"{count_noun(unjudged, 'query')} without judgment left out"] * bool(unjudged),
            *self.notes,
        ]

    def tables(self) -> list[Table]:
        """The best settings, and those that a fold chose."""
        order = sorted(range(len(self.settings)), key=lambda i: -self.dev[i])
        shown = [i for rank, i in enumerate(order) if rank < _SHOWN or i in self.chosen]
        several = len(self.folds) > 1
        rows = [
            {
                "setting": str(self.settings[i]),
                f"{self.measure} in dev": f"{self.dev[i]:.4f}",
                **({"folds": str(self.chosen.count(i))} if several else {}),
            }
            for i in shown
        ]
        held_out = f"{count_noun(len(self.folds), 'fold')}" if several else "test split"
        notes = (
            f"tuned: {self.best}",
            f"{self.measure} on the queries that chose it: {self.best_dev:.4f}",
            f"{self.measure} on held-out queries ({held_out}): {self.held_out:.4f}",
        )
        caption = f"{len(shown)} of {count_noun(len(self.settings), 'setting')}, the best first"
        return [Table.of_rows(rows, caption=caption, notes=notes)]

    def record(self) -> dict[str, Any]:
        settings = [
            {**_setting_record(setting), "dev": value}
            for setting, value in zip(self.settings, self.dev, strict=True)
        ]
        return {
            "measure": self.measure,
            "tuned": settings[self.settings.index(self.best)],
            "held_out": self.held_out,
            "choices": [
                {"queries": len(fold), **_setting_record(setting)}
                for fold, setting in zip(self.folds, self.choices, strict=True)
            ],
            "settings": settings,
            "unjudged": list(self.unjudged),
        }


def tune(
    settings: Sequence[S],
    run: Callable[[S, Sequence[Query]], Iterable[Ranking]],
    objective: Objective,
    *,
    held_out: Folds | Sequence[Query] = Folds(),
    progress: Progress = silent,
) -> TuneResult[S]:
    """Choose among settings, and measure the choice on held-out queries.

    ``run`` retrieves queries under a setting; it is called once for each setting, with all judged queries.
    ``held_out`` is a test part, or the folds of a cross-validation. Of equally good settings the first
    is chosen.

    Raises MeasureError if there are several measures or the name is invalid, ValueError if there is no
    setting or no judged query, a query is in both parts, or there are fewer queries than folds.
    """
    if not settings:
        raise ArgumentError("there is no setting to choose from")
    if len(parse_measures(objective.measure)) > 1:
        raise MeasureError(f"tuning takes one measure, got {objective.measure!r}")
    dev = _judged_qids(objective.queries, objective.qrels, "to tune on")
    if isinstance(held_out, Folds):
        queries, folds = tuple(objective.queries), held_out.deal(dev)
    else:
        queries = (*objective.queries, *held_out)
        folds = (_judged_qids(held_out, objective.qrels, "of the test part"),)
        if shared := sorted(set(dev).intersection(*folds)):
            raise ArgumentError(f"query {shared[0]} is both to tune on and in the test part")
    table = _measure_settings(settings, run, replace(objective, queries=queries), progress)
    choosing = [[qid for qid in dev if qid not in set(fold)] for fold in folds]
    (name,) = parse_measures(objective.measure)
    chosen = tuple(_best(_aggregates(name, table, qids)) for qids in choosing)
    values = {qid: table[qid][i] for fold, i in zip(folds, chosen, strict=True) for qid in fold}
    qids = tuple(qid for qid in table if qid in values)
    return TuneResult(
        settings=tuple(settings),
        dev=tuple(_aggregates(name, table, dev).tolist()),
        chosen=chosen,
        folds=folds,
        evaluation=Evaluation(qids, {name: np.array([values[qid] for qid in qids])}),
        table=table,
        unjudged=tuple(query.qid for query in queries if query.qid not in table),
    )


def _setting_record(setting: object) -> dict[str, Any]:
    if is_dataclass(setting) and not isinstance(setting, type):
        return asdict(setting)
    return {"setting": str(setting)}


def _judged_qids(queries: Sequence[Query], qrels: Qrels, what: str) -> tuple[str, ...]:
    qids = tuple(query.qid for query in queries if query.qid in qrels)
    if not qids:
        raise ArgumentError(f"none of the queries {what} is judged")
    return qids


def _measure_settings(
    settings: Sequence[S],
    run: Callable[[S, Sequence[Query]], Iterable[Ranking]],
    objective: Objective,
    progress: Progress,
) -> dict[str, Values]:
    """``table[qid]``: the values of each judged query under each setting."""
    queries = [query for query in objective.queries if query.qid in objective.qrels]
    qrels = {query.qid: objective.qrels[query.qid] for query in queries}
    columns = []
    for done, setting in enumerate(settings):
        progress("tuning", done, len(settings))
        (values,) = measure(run(setting, queries), qrels, objective.measure).values.values()
        columns.append(values)
    progress("tuning", len(settings), len(settings))
    return dict(zip(qrels, np.stack(columns, axis=1), strict=True))


def _aggregates(measure_name: str, table: Mapping[str, Values], qids: Sequence[str]) -> Values:
    """The mean, or another aggregate, of each setting over some of the queries: (settings,)."""
    return aggregate(measure_name, np.array([table[qid] for qid in qids]))


def _best(means: Sequence[float] | Values) -> int:
    """The first index of the highest mean; means that differ by rounding alone are equal."""
    return int(np.argmax(np.asarray(means) >= max(means) - 1e-12))
