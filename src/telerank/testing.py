"""The laws that every stage obeys, for the tests of stages made elsewhere.

::

    from telerank.testing import check_stage

    def test_my_stage_obeys_the_laws():
        check_stage(MyStage(depth=100), [Query("1", "black bear"), Query("2", "attacks")])

A re-ranker is tried on rankings that hold documents, instead of bare queries.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from telerank.stage import Stage
from telerank.types import Explanation, Query, Ranking

_LOOK_AHEAD = 10_000  # rankings that a stage may read before it answers the first: a batch, not the stream
_EXPLAINED = 5  # documents of each query whose explanation is asked for


@dataclass(frozen=True)
class Trial:
    """A stage and what it is tried on.

    Scores that should be the same may differ by ``tolerance``, absolutely and relatively: models whose
    arithmetic depends on the shape of a batch need it above 0.
    """

    stage: Stage
    inputs: tuple[Ranking, ...]
    tolerance: float = 0.0

    def outputs(self) -> list[Ranking]:
        return list(self.stage(self.inputs))


Law: TypeAlias = Callable[[Trial], None]


def check_stage(stage: Stage, inputs: Sequence[Query | Ranking], *, tolerance: float = 0.0) -> None:
    """Try every law of :data:`LAWS` on a stage.

    Raises
    ------
    AssertionError
        If the stage breaks one, with a sentence that says which.
    ValueError
        If there are fewer than two inputs, too few to tell neighbours apart.
    """
    if len(inputs) < 2:
        raise ValueError(f"the laws are tried on two queries or more, got {len(inputs)}")
    rankings = tuple(Ranking(one) if isinstance(one, Query) else one for one in inputs)
    trial = Trial(stage, rankings, tolerance)
    for law in LAWS:
        law(trial)


def keeps_the_queries(trial: Trial) -> None:
    """One ranking comes out for each that goes in, with the same query, in the same order."""
    asked = [ranking.query for ranking in trial.inputs]
    _hold([ranking.query for ranking in trial.outputs()] == asked, trial, keeps_the_queries)


def answers_nothing_with_nothing(trial: Trial) -> None:
    """An empty stream gives an empty stream."""
    _hold(list(trial.stage(())) == [], trial, answers_nothing_with_nothing)


def answers_an_empty_query(trial: Trial) -> None:
    """A query without text is answered like any other, be it with no documents."""
    empty = Ranking(Query("empty", ""))
    found = list(trial.stage((empty,)))
    _hold([ranking.query for ranking in found] == [empty.query], trial, answers_an_empty_query)


def is_lazy(trial: Trial) -> None:
    """Nothing is read before the first answer is asked for, and an endless stream is answered."""
    pulled = 0

    def endless() -> Iterator[Ranking]:
        nonlocal pulled
        for ranking in itertools.cycle(trial.inputs):
            pulled += 1
            _hold(pulled <= _LOOK_AHEAD, trial, is_lazy, f"{pulled} rankings read before the first answer")
            query = dataclasses.replace(ranking.query, qid=f"{ranking.query.qid}-{pulled}")
            yield dataclasses.replace(ranking, query=query)

    answers = trial.stage(endless())
    _hold(pulled == 0, trial, is_lazy, f"{pulled} rankings read before an answer was asked for")
    _hold(next(answers).query.qid == f"{trial.inputs[0].query.qid}-1", trial, is_lazy)


def reads_its_input_once(trial: Trial) -> None:
    """An iterator, which can be read but once, is answered as a list is."""
    found = list(trial.stage(iter(trial.inputs)))
    _same(found, trial.outputs(), trial, reads_its_input_once)


def leaves_its_input_alone(trial: Trial) -> None:
    """What went in is afterwards what it was before."""
    before = copy.deepcopy(trial.inputs)
    stream = list(trial.inputs)
    list(trial.stage(stream))
    _hold(tuple(stream) == before, trial, leaves_its_input_alone)


def answers_in_order(trial: Trial) -> None:
    """Every ranking is in Ranking's order: float32 score, then docno, both descending; no docno twice."""
    for found in trial.outputs():
        _hold(found.scores.dtype == np.float32, trial, answers_in_order, f"scores of {found.scores.dtype}")
        try:
            Ranking(found.query, found.docnos, found.scores)
        except ValueError as error:
            _hold(False, trial, answers_in_order, str(error))


def is_deterministic(trial: Trial) -> None:
    """The same stream gets the same answers."""
    _same(trial.outputs(), trial.outputs(), trial, is_deterministic)


def cuts_to_its_beginning(trial: Trial) -> None:
    """``s % k`` answers the first ``k`` of what ``s`` answers."""
    whole = trial.outputs()
    for k in (1, 2, max(map(len, whole)) + 1):
        cut = list((trial.stage % k)(trial.inputs))
        _same(cut, [ranking.cut(k) for ranking in whole], trial, cuts_to_its_beginning, f"k = {k}")


def cuts_once(trial: Trial) -> None:
    """``s % a % b`` answers what ``s % min(a, b)`` answers."""
    for a, b in ((1, 3), (3, 1), (2, 2)):
        twice = list((trial.stage % a % b)(trial.inputs))
        once = list((trial.stage % min(a, b))(trial.inputs))
        _same(twice, once, trial, cuts_once, f"a = {a}, b = {b}")


def chains_in_any_grouping(trial: Trial) -> None:
    """``a >> (b >> c)`` is ``(a >> b) >> c``, and answers what ``c`` answers to ``b`` to ``a``."""
    stage, passing = trial.stage, _Passing()
    right, left = passing >> (stage >> stage), (passing >> stage) >> stage
    _hold(left == right, trial, chains_in_any_grouping)
    _same(list(left(trial.inputs)), list(stage(trial.outputs())), trial, chains_in_any_grouping)


def is_fed_by_what_stands_before(trial: Trial) -> None:
    """``s.after(first)`` answers what ``first >> s`` answers."""
    first = _Passing() % 2
    fed = list(trial.stage.after(first)(trial.inputs))
    _same(fed, list((first >> trial.stage)(trial.inputs)), trial, is_fed_by_what_stands_before)


def pickles(trial: Trial) -> None:
    """A stage that was pickled is equal to itself and answers alike."""
    again = _copied(trial, pickles)
    _hold(again == trial.stage, trial, pickles)
    _same(list(again(trial.inputs)), trial.outputs(), trial, pickles)


def is_a_value(trial: Trial) -> None:
    """A stage is a frozen dataclass: equal and hashed by its fields, and its repr shows them."""
    stage, again = trial.stage, _copied(trial, is_a_value)
    _hold(dataclasses.is_dataclass(stage), trial, is_a_value, "it is no dataclass")
    for name in [one.name for one in dataclasses.fields(stage)][:1]:  # type: ignore[arg-type]
        try:
            setattr(stage, name, getattr(stage, name))
        except dataclasses.FrozenInstanceError:
            continue
        _hold(False, trial, is_a_value, f"its field {name} can be set")
    try:
        _hold(hash(stage) == hash(again), trial, is_a_value, "a copy hashes otherwise")
    except TypeError as error:
        _hold(False, trial, is_a_value, str(error))
    _hold(repr(stage) == repr(again), trial, is_a_value, f"a copy's repr is {again!r}")


def ignores_the_neighbours(trial: Trial) -> None:
    """A query alone is answered as among others, wherever it stands."""
    among = trial.outputs()
    alone = [next(trial.stage((ranking,))) for ranking in trial.inputs]
    _same(alone, among, trial, ignores_the_neighbours)
    turned = list(trial.stage(trial.inputs[::-1]))[::-1]
    _same(turned, among, trial, ignores_the_neighbours)


def explains_its_scores(trial: Trial) -> None:
    """``explain`` comes to the score that the document was given."""
    for found in trial.outputs():
        for docno, score in itertools.islice(found, _EXPLAINED):
            said = trial.stage.explain(found.query, docno)
            _hold(isinstance(said, Explanation), trial, explains_its_scores, f"it gives {said!r}")
            what = f"query {found.query.qid}, document {docno}: {said.value!r} explained, {score!r} given"
            _hold(_close(said.value, score, trial.tolerance), trial, explains_its_scores, what)


def knows_what_it_cannot_explain(trial: Trial) -> None:
    """``explain`` raises KeyError for a document that does not exist."""
    try:
        said = trial.stage.explain(trial.inputs[0].query, "no such document \0")
    except KeyError:
        return
    _hold(False, trial, knows_what_it_cannot_explain, f"it gives {said!r}")


LAWS: tuple[Law, ...] = (
    keeps_the_queries,
    answers_nothing_with_nothing,
    answers_an_empty_query,
    is_lazy,
    reads_its_input_once,
    leaves_its_input_alone,
    answers_in_order,
    is_deterministic,
    cuts_to_its_beginning,
    cuts_once,
    chains_in_any_grouping,
    is_fed_by_what_stands_before,
    pickles,
    is_a_value,
    ignores_the_neighbours,
    explains_its_scores,
    knows_what_it_cannot_explain,
)
"""Every law, as a function that raises AssertionError."""


@dataclass(frozen=True)
class _Passing(Stage):
    """Hands on what it is given."""

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return iter(stream)

    def explanation(self, query: Query, docno: str) -> Explanation:
        raise KeyError(query, docno)


def _hold(holds: bool, trial: Trial, law: Law, detail: str = "") -> None:
    if not holds:
        tail = f" ({detail})" if detail else ""
        raise AssertionError(f"{trial.stage!r} breaks the law {law.__name__}: {law.__doc__}{tail}")


def _same(found: list[Ranking], expected: list[Ranking], trial: Trial, law: Law, detail: str = "") -> None:
    _hold(len(found) == len(expected), trial, law, detail or f"{len(found)} rankings, not {len(expected)}")
    for one, other in zip(found, expected, strict=True):
        what = f"{detail + ': ' if detail else ''}{one!r}, not {other!r}"
        _hold(_alike(one, other, trial.tolerance), trial, law, what)


def _alike(one: Ranking, other: Ranking, tolerance: float) -> bool:
    if not tolerance:
        return one == other
    if one.query != other.query or len(one) != len(other):
        return False
    scores = dict(other)  # near-ties may change places; the last places may change hands
    by_place = bool(np.allclose(one.scores, other.scores, rtol=tolerance, atol=tolerance))
    return by_place and all(
        _close(score, scores[docno], tolerance) for docno, score in one if docno in scores
    )


def _close(one: float, other: float, tolerance: float) -> bool:
    if not tolerance:
        return bool(np.float32(one) == np.float32(other))
    return abs(one - other) <= tolerance * max(1.0, abs(other))


def _copied(trial: Trial, law: Law) -> Stage:
    try:
        stage: Stage = pickle.loads(pickle.dumps(trial.stage))  # noqa: S301 — our own bytes
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise AssertionError(
            f"{trial.stage!r} breaks the law {law.__name__}: {law.__doc__} ({error})"
        ) from error
    return stage
