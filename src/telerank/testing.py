"""The laws that every stage obeys, as checks for tests of your own stages.

::

    from telerank.testing import check_stage

    def test_my_stage_obeys_the_laws():
        check_stage(MyStage(depth=100), [Query("1", "black bear"), Query("2", "attacks")])

To check a re-ranker, pass rankings that hold documents instead of queries.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from telerank.stage import Stage
from telerank.types import Explanation, Query, Ranking

_LOOK_AHEAD = 10_000  # rankings that a stage may read before its first answer: a batch, not the stream
_EXPLAINED = 5  # documents explained for each query


Law: TypeAlias = "Callable[[Trial], None]"


@dataclass(frozen=True)
class Trial:
    """A stage and the rankings to try it on.

    Equal scores may differ by ``tolerance``, absolutely and relatively: models whose arithmetic depends on
    the shape of a batch need it above 0.
    """

    stage: Stage
    inputs: tuple[Ranking, ...]
    tolerance: float = 0.0

    def outputs(self) -> list[Ranking]:
        return list(self.stage(self.inputs))

    def compare(self, answers: list[Ranking], expected: list[Ranking], detail: str = "") -> None:
        """Raise AssertionError if answers differ from the expected ones."""
        _hold(len(answers) == len(expected), detail or f"{len(answers)} rankings, not {len(expected)}")
        for actual, other in zip(answers, expected, strict=True):
            difference = f"{detail + ': ' if detail else ''}{actual!r}, not {other!r}"
            _hold(_alike(actual, other, self.tolerance), difference)

    def check(self, law: Law) -> None:
        """Raise AssertionError, which names the law, if the stage breaks it."""
        try:
            law(self)
        except AssertionError as broken:
            detail = f" ({broken})" if str(broken) else ""
            raise AssertionError(
                f"{self.stage!r} breaks the law {law.__name__}: {law.__doc__}{detail}"
            ) from broken


def check_stage(stage: Stage, inputs: Sequence[Query | Ranking], *, tolerance: float = 0.0) -> None:
    """Check every law of :data:`LAWS` on a stage.

    Raises
    ------
    AssertionError
        If the stage breaks a law; the message says which.
    ValueError
        If there are fewer than two inputs.
    """
    if len(inputs) < 2:
        raise ValueError(f"the laws need at least two queries, got {len(inputs)}")
    rankings = tuple(Ranking(one) if isinstance(one, Query) else one for one in inputs)
    for law in LAWS:
        Trial(stage, rankings, tolerance).check(law)


def keeps_the_queries(trial: Trial) -> None:
    """There is one output ranking for each input ranking, with the same query, in the same order."""
    _hold([ranking.query for ranking in trial.outputs()] == [ranking.query for ranking in trial.inputs])


def answers_nothing_with_nothing(trial: Trial) -> None:
    """An empty stream gives an empty stream."""
    _hold(list(trial.stage(())) == [])


def answers_an_empty_query(trial: Trial) -> None:
    """A query without text is answered like any other, perhaps with no documents."""
    empty = Ranking(Query("empty", ""))
    _hold([ranking.query for ranking in trial.stage((empty,))] == [empty.query])


def is_lazy(trial: Trial) -> None:
    """Nothing is read before the first answer is requested, and an endless stream is answered."""
    pulled = 0

    def endless() -> Iterator[Ranking]:
        nonlocal pulled
        for ranking in itertools.cycle(trial.inputs):
            pulled += 1
            _hold(pulled <= _LOOK_AHEAD, f"{pulled} rankings read before the first answer")
            query = dataclasses.replace(ranking.query, qid=f"{ranking.query.qid}-{pulled}")
            yield dataclasses.replace(ranking, query=query)

    answers = trial.stage(endless())
    _hold(pulled == 0, f"{pulled} rankings read before an answer was requested")
    _hold(next(answers).query.qid == f"{trial.inputs[0].query.qid}-1")


def reads_its_input_once(trial: Trial) -> None:
    """An iterator, which can be read only once, is answered like a list."""
    trial.compare(list(trial.stage(iter(trial.inputs))), trial.outputs())


def leaves_its_input_alone(trial: Trial) -> None:
    """The input rankings are not changed."""
    before = copy.deepcopy(trial.inputs)
    stream = list(trial.inputs)
    list(trial.stage(stream))
    _hold(tuple(stream) == before)


def answers_in_order(trial: Trial) -> None:
    """Every ranking is sorted by float64 score, then docno, both descending, without repeated docnos."""
    for ranking in trial.outputs():
        try:
            Ranking(ranking.query, ranking.docnos, ranking.scores)
        except ValueError as error:
            _hold(False, str(error))


def is_deterministic(trial: Trial) -> None:
    """The same stream has the same answers twice."""
    trial.compare(trial.outputs(), trial.outputs())


def cuts_to_its_beginning(trial: Trial) -> None:
    """``s % k`` answers the first ``k`` of what ``s`` answers."""
    whole = trial.outputs()
    for k in (1, 2, max(map(len, whole)) + 1):
        cut = (trial.stage % k)(trial.inputs)
        trial.compare([*cut], [ranking.cut(k) for ranking in whole], f"k = {k}")


def cuts_once(trial: Trial) -> None:
    """``s % a % b`` answers what ``s % min(a, b)`` answers."""
    for a, b in ((1, 3), (3, 1), (2, 2)):
        twice, once = trial.stage % a % b, trial.stage % min(a, b)
        trial.compare([*twice(trial.inputs)], [*once(trial.inputs)], f"a = {a}, b = {b}")


def chains_in_any_grouping(trial: Trial) -> None:
    """``a >> (b >> c)`` is ``(a >> b) >> c``, and answers what ``c`` answers to ``b`` to ``a``."""
    stage, passing = trial.stage, _Passing()
    right, left = passing >> (stage >> stage), (passing >> stage) >> stage
    _hold(left == right)
    trial.compare(list(left(trial.inputs)), list(stage(trial.outputs())))


def takes_an_earlier_stage(trial: Trial) -> None:
    """``s.after(first)`` answers what ``first >> s`` answers."""
    first = _Passing() % 2
    trial.compare([*trial.stage.after(first)(trial.inputs)], [*(first >> trial.stage)(trial.inputs)])


def pickles(trial: Trial) -> None:
    """A pickled copy of a stage equals it and gives the same answers."""
    copied = _pickle(trial.stage)
    _hold(copied == trial.stage)
    trial.compare(list(copied(trial.inputs)), trial.outputs())


def is_a_value(trial: Trial) -> None:
    """A stage is a frozen dataclass: equal and hashed by its fields, and its repr shows them."""
    stage, copied = trial.stage, _pickle(trial.stage)
    _hold(dataclasses.is_dataclass(stage), "it is not a dataclass")
    for name in [one.name for one in dataclasses.fields(stage)][:1]:  # type: ignore[arg-type]
        with suppress(dataclasses.FrozenInstanceError):
            setattr(stage, name, getattr(stage, name))
            _hold(False, f"its field {name} can be set")
    try:
        _hold(hash(stage) == hash(copied), "a copy has another hash")
    except TypeError as error:
        _hold(False, str(error))
    _hold(repr(stage) == repr(copied), f"a copy's repr is {copied!r}")


def ignores_the_neighbours(trial: Trial) -> None:
    """The answer to a query does not depend on the queries before and after it."""
    among = trial.outputs()
    trial.compare([next(trial.stage((ranking,))) for ranking in trial.inputs], among)
    trial.compare(list(trial.stage(trial.inputs[::-1]))[::-1], among)


def explains_its_scores(trial: Trial) -> None:
    """The value of ``explain`` is the document's score."""
    for ranking in trial.outputs():
        for docno, score in itertools.islice(ranking, _EXPLAINED):
            why = trial.stage.explain(ranking.query, docno)
            _hold(isinstance(why, Explanation), f"it returns {why!r}")
            detail = f"query {ranking.query.qid}, document {docno}: explains {why.value!r}, scores {score!r}"
            _hold(_close(why.value, score, trial.tolerance), detail)


def refuses_to_explain_unknown_documents(trial: Trial) -> None:
    """``explain`` raises KeyError for a document that does not exist."""
    try:
        why = trial.stage.explain(trial.inputs[0].query, "no such document \0")
    except KeyError:
        return
    _hold(False, f"it returns {why!r}")


# All laws; each raises AssertionError if a stage breaks it.
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
    takes_an_earlier_stage,
    pickles,
    is_a_value,
    ignores_the_neighbours,
    explains_its_scores,
    refuses_to_explain_unknown_documents,
)


@dataclass(frozen=True)
class _Passing(Stage):
    """A stage that passes its input on."""

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return iter(stream)

    def explanation(self, query: Query, docno: str) -> Explanation:
        raise KeyError(query, docno)


def _hold(holds: bool, detail: str = "") -> None:
    if not holds:
        raise AssertionError(detail)


def _alike(actual: Ranking, expected: Ranking, tolerance: float) -> bool:
    if not tolerance:
        return actual == expected
    if actual.query != expected.query or len(actual) != len(expected):
        return False
    scores = dict(expected)  # near-ties may swap ranks; the last documents may be others
    return bool(np.allclose(actual.scores, expected.scores, rtol=tolerance, atol=tolerance)) and all(
        _close(score, scores[docno], tolerance) for docno, score in actual if docno in scores
    )


def _close(actual: float, expected: float, tolerance: float) -> bool:
    return abs(actual - expected) <= tolerance * max(1.0, abs(expected))


def _pickle(stage: Stage) -> Stage:
    try:
        copied: Stage = pickle.loads(pickle.dumps(stage))  # noqa: S301 — our own bytes
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise AssertionError(str(error)) from error
    return copied
