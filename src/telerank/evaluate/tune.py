"""The best of several settings, and how good it is on queries that did not choose it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from telerank.errors import MeasureError
from telerank.evaluate.measures import Evaluation, Values, measure, parse_measures
from telerank.types import Progress, Qrels, Query, Ranking, silent

S = TypeVar("S")


@dataclass(frozen=True, eq=False)
class Objective:
    """What a setting is to be good at: the mean of ``measure`` over the judged ones of ``queries``.

    ``qrels`` may judge other queries, too, such as those of a test part.
    """

    queries: Sequence[Query]
    qrels: Qrels
    measure: str


@dataclass(frozen=True)
class Folds:
    """Cross-validation: each part of the queries is held out once, and the others choose for it."""

    k: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.k < 2:
            raise ValueError(f"folds must be 2 or more, got {self.k}")

    def deal(self, qids: Iterable[str]) -> tuple[tuple[str, ...], ...]:
        """The parts: sizes differ by one at most, and the order of ``qids`` does not count.

        Raises
        ------
        ValueError
            where there are fewer queries than folds.
        """
        deck = sorted(qids)
        if len(deck) < self.k:
            raise ValueError(f"{self.k} folds of {len(deck)} judged queries: too few queries")
        random.Random(self.seed).shuffle(deck)
        return tuple(tuple(sorted(deck[i :: self.k])) for i in range(self.k))


@dataclass(frozen=True, eq=False)
class TuneResult(Generic[S]):
    """Which setting was chosen, how good it looked, and how good it is.

    ``dev`` has each setting's mean over the queries that choose. ``evaluation`` has the values of the
    queries held out: with folds, of all queries, each answered by the setting that the other folds
    chose; with a test part, of that part, answered by ``best``. ``table`` has each judged query's
    value under each setting. ``unjudged`` are queries left out because the qrels lack them.
    """

    settings: tuple[S, ...]
    dev: tuple[float, ...]
    places: tuple[int, ...]
    folds: tuple[tuple[str, ...], ...]
    evaluation: Evaluation
    table: Mapping[str, Values]
    unjudged: tuple[str, ...]

    @property
    def best(self) -> S:
        """The tuned setting: the first of those that are best on all queries that choose."""
        return self.settings[_best(np.array(self.dev))]

    @property
    def best_dev(self) -> float:
        """The mean of ``best`` over the queries that chose it, which flatters it."""
        return self.dev[_best(np.array(self.dev))]

    @property
    def held_out(self) -> float:
        """The honest figure: the mean over queries that had no part in the choice."""
        (value,) = self.evaluation.mean.values()
        return value

    @property
    def choices(self) -> tuple[S, ...]:
        """The setting that answered each of ``folds``."""
        return tuple(self.settings[place] for place in self.places)

    def evaluation_of(self, setting: S) -> Evaluation:
        """What one setting scores on the queries of ``evaluation``, to compare it with the tuned one."""
        (name,) = self.evaluation.measures
        place = self.settings.index(setting)
        values = np.array([self.table[qid][place] for qid in self.evaluation.qids])
        return Evaluation(self.evaluation.qids, {name: values})


def tune(
    settings: Sequence[S],
    run: Callable[[S, Sequence[Query]], Iterable[Ranking]],
    objective: Objective,
    *,
    held_out: Folds | Sequence[Query] = Folds(),
    progress: Progress = silent,
) -> TuneResult[S]:
    """Choose among settings, and measure the choice on queries held out from it.

    ``run`` answers queries under a setting; it is called once for each, with all judged queries.
    ``held_out`` is a test part, or says how to cross-validate. Of equally good settings the first
    counts.

    Raises
    ------
    MeasureError
        where the measure's name is none, or there are several.
    ValueError
        where there is no setting, no judged query, a query in both parts, or too few for the folds.
    """
    if not settings:
        raise ValueError("there is no setting to choose from")
    if len(parse_measures(objective.measure)) > 1:
        raise MeasureError(f"one measure decides which setting is best, got {objective.measure!r}")
    test = () if isinstance(held_out, Folds) else tuple(held_out)
    dev = _judged(objective.queries, objective.qrels, "to tune on")
    folds = held_out.deal(dev) if isinstance(held_out, Folds) else (_test_part(test, dev, objective.qrels),)
    queries = (*objective.queries, *test)
    table = _table(settings, run, Objective(queries, objective.qrels, objective.measure), progress)
    choosing = [[qid for qid in dev if qid not in set(fold)] for fold in folds]
    places = tuple(_best(_means(table, qids)) for qids in choosing)
    return TuneResult(
        settings=tuple(settings),
        dev=tuple(_means(table, dev).tolist()),
        places=places,
        folds=folds,
        evaluation=_held_out(objective.measure, table, folds, places),
        table=table,
        unjudged=tuple(query.qid for query in queries if query.qid not in table),
    )


def _judged(queries: Sequence[Query], qrels: Qrels, what: str) -> tuple[str, ...]:
    qids = tuple(query.qid for query in queries if query.qid in qrels)
    if not qids:
        raise ValueError(f"none of the {len(queries)} queries {what} is judged")
    return qids


def _test_part(test: Sequence[Query], dev: Sequence[str], qrels: Qrels) -> tuple[str, ...]:
    qids = _judged(test, qrels, "of the test part")
    shared = sorted(set(dev) & set(qids))
    if shared:
        raise ValueError(f"query {shared[0]} is both to tune on and in the test part")
    return qids


def _table(
    settings: Sequence[S],
    run: Callable[[S, Sequence[Query]], Iterable[Ranking]],
    objective: Objective,
    progress: Progress,
) -> dict[str, Values]:
    """Each judged query's value under each setting."""
    queries = [query for query in objective.queries if query.qid in objective.qrels]
    qrels = {query.qid: objective.qrels[query.qid] for query in queries}
    columns = []
    for done, setting in enumerate(settings):
        progress("tuning", done, len(settings))
        (values,) = measure(run(setting, queries), qrels, objective.measure).values.values()
        columns.append(values)
    progress("tuning", len(settings), len(settings))
    return dict(zip(qrels, np.stack(columns, axis=1), strict=True))


def _means(table: Mapping[str, Values], qids: Sequence[str]) -> Values:
    rows: Values = np.stack([table[qid] for qid in qids])
    means: Values = rows.mean(axis=0)
    return means


def _best(means: Values) -> int:
    """The first of the highest, where what rounding alone tells apart is equal."""
    return int(np.argmax(means >= means.max() - 1e-12))


def _held_out(
    name: str, table: Mapping[str, Values], folds: tuple[tuple[str, ...], ...], places: tuple[int, ...]
) -> Evaluation:
    values = {qid: table[qid][place] for fold, place in zip(folds, places, strict=True) for qid in fold}
    qids = tuple(qid for qid in table if qid in values)
    return Evaluation(qids, {parse_measures(name)[0]: np.array([values[qid] for qid in qids])})
