"""The laws of telerank.testing, over every stage that exists, and the laws themselves over stages that break them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from letters import ByLength, Letters
from telerank import testing
from telerank.stage import Stage
from telerank.testing import LAWS, Trial, check_stage
from telerank.types import Explanation, Query, Ranking

QUERIES = [
    Query("1", "bear attacks"),
    Query("2", ""),
    Query("3", "a bad cab"),
    Query("4", "zzz"),
    Query("5", "bear attacks"),
]
CANDIDATES = [Ranking.ranked(query, ("bee", "cab", "dab", "ace"), [1.0, 2.0, 2.0, -3.0]) for query in QUERIES]

letters = Letters()
RETRIEVERS: dict[str, Stage] = {
    "retriever": letters,
    "retriever with a limit": letters % 3,
    "cut": letters * 1.0 % 2,
    "weighted": 0.4 * letters,
    "turned over": -1 * letters,
    "weighted with nothing": 0 * letters,
    "sum": 0.3 * letters + 0.7 * letters % 2 + letters % 1,
    "chain": letters % 4 >> ByLength(),
    "long chain": letters % 4 >> ByLength() % 3 >> 2 * ByLength() % 2,
    "sum of chains": (letters >> ByLength()) + 0.1 * letters % 2,
    "chain into a sum": letters % 4 >> ByLength() + 0.5 * ByLength(),
}
RERANKERS: dict[str, Stage] = {
    "re-ranker": ByLength(),
    "re-ranker in batches": ByLength(batch=3),
    "chain of re-rankers": ByLength() % 3 >> 0.5 * ByLength(),
    "sum of re-rankers": ByLength() + 0.5 * ByLength(),
}


@pytest.mark.parametrize("name", RETRIEVERS)
def test_retrievers_obey_every_law(name):
    check_stage(RETRIEVERS[name], QUERIES)


@pytest.mark.parametrize("name", RERANKERS)
def test_rerankers_obey_every_law(name):
    check_stage(RERANKERS[name], CANDIDATES)


def test_check_stage_asks_for_neighbours():
    with pytest.raises(ValueError, match="at least two queries, got 1"):
        check_stage(letters, QUERIES[:1])


def test_the_list_of_laws_is_complete():
    public = {
        name for name, one in vars(testing).items() if callable(one) and one.__module__ == testing.__name__
    }
    helpers = {"Trial", "check_stage"}
    assert {law.__name__ for law in LAWS} == {name for name in public if name[0] != "_"} - helpers


def test_a_tolerance_forgives_small_differences():
    noisy = Broken("noisy")
    with pytest.raises(AssertionError, match="is_deterministic"):
        testing.is_deterministic(Trial(noisy, tuple(map(Ranking, QUERIES))))
    check_stage(noisy, QUERIES, tolerance=1e-3)


@dataclass(frozen=True)
class Broken(Stage):
    """Letters, but for one fault."""

    fault: str
    calls: list[int] = field(default_factory=list, compare=False, repr=False)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        self.calls.append(1)
        fault = FAULTS[self.fault]
        return fault(self, stream)

    def limit(self, k: int) -> Stage:
        if self.fault == "limit cuts twice as deep":
            return Letters(depth=2 * k)
        if self.fault == "limit replaces the limit":
            return Replacing(k)
        return super().limit(k)

    def after(self, first: Stage) -> Stage:
        return Letters(depth=1) if self.fault == "forgets what feeds it" else super().after(first)

    def explanation(self, query: Query, docno: str) -> Explanation:
        if self.fault == "explains anything":
            return Explanation(0.0, "whatever")
        said = letters.explain(query, docno)
        return replace(said, value=said.value + 1.0) if self.fault == "explains another score" else said


@dataclass(frozen=True)
class Replacing(Stage):
    """A retriever whose limit forgets the limit before."""

    depth: int

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return Letters(depth=self.depth)(stream)

    def limit(self, k: int) -> Stage:
        return Replacing(k)

    def explanation(self, query: Query, docno: str) -> Explanation:
        return letters.explain(query, docno)


def _right(self: Broken, stream: Iterable[Ranking]) -> Iterator[Ranking]:
    return letters(stream)


def _noisy(self: Broken, stream: Iterable[Ranking]) -> Iterator[Ranking]:
    noise = np.float32(1e-5 * len(self.calls))
    return (Ranking(r.query, r.docnos, r.scores * (1 + noise)) for r in letters(stream))


def _drops(self: Broken, stream: Iterable[Ranking]) -> Iterator[Ranking]:
    return (ranking for ranking in letters(stream) if ranking.docnos)


def _swaps(self: Broken, stream: Iterable[Ranking]) -> Iterator[Ranking]:
    return iter(list(letters(stream))[::-1])


def _eager(self: Broken, stream: Iterable[Ranking]) -> Iterator[Ranking]:
    first = next(iter(stream), None)
    rest = letters(stream)
    return rest if first is None or isinstance(stream, tuple | list) else letters([first, *stream])


def _reads_all(self: Broken, stream: Iterable[Ranking]) -> Iterator[Ranking]:
    yield from letters(list(stream))


def _reads_twice(self: Broken, stream: Iterable[Ranking]) -> Iterator[Ranking]:
    for _ in stream:
        break
    yield from letters(stream)


def _empties(self: Broken, stream: Iterable[Ranking]) -> Iterator[Ranking]:
    for ranking in letters(stream):
        if isinstance(stream, list) and stream:
            stream.pop()
        yield ranking


def _upside_down(self: Broken, stream: Iterable[Ranking]) -> Iterator[Ranking]:
    return (Ranking.presorted(r.query, r.docnos[::-1], r.scores[::-1]) for r in letters(stream))


def _answers_none(self: Broken, stream: Iterable[Ranking]) -> Iterator[Ranking]:
    rankings = list(letters(stream))
    return iter(rankings or [Ranking(Query("nobody", "asked"))])


def _fails_on_empty(self: Broken, stream: Iterable[Ranking]) -> Iterator[Ranking]:
    return (ranking for ranking in letters(stream) if ranking.query.qid != "empty")


def _sees_the_neighbours(self: Broken, stream: Iterable[Ranking]) -> Iterator[Ranking]:
    for place, ranking in enumerate(letters(stream)):
        yield Ranking(ranking.query, ranking.docnos, ranking.scores + np.float32(place))


FAULTS = {
    "none": _right,
    "noisy": _noisy,
    "drops queries": _drops,
    "swaps queries": _swaps,
    "eager": _eager,
    "reads all": _reads_all,
    "reads twice": _reads_twice,
    "empties its input": _empties,
    "upside down": _upside_down,
    "answers nobody": _answers_none,
    "no answer to an empty query": _fails_on_empty,
    "sees the neighbours": _sees_the_neighbours,
    "limit cuts twice as deep": _right,
    "limit replaces the limit": _right,
    "forgets what feeds it": _right,
    "explains another score": _right,
    "explains anything": _right,
}

BREACHES = {
    "noisy": "is_deterministic",
    "drops queries": "keeps_the_queries",
    "swaps queries": "keeps_the_queries",
    "eager": "is_lazy",
    "reads all": "is_lazy",
    "reads twice": "reads_its_input_once",
    "empties its input": "leaves_its_input_alone",
    "upside down": "answers_in_order",
    "answers nobody": "answers_nothing_with_nothing",
    "no answer to an empty query": "answers_an_empty_query",
    "sees the neighbours": "ignores_the_neighbours",
    "limit cuts twice as deep": "cuts_to_its_beginning",
    "limit replaces the limit": "cuts_once",
    "forgets what feeds it": "takes_an_earlier_stage",
    "explains another score": "explains_its_scores",
    "explains anything": "refuses_to_explain_unknown_documents",
}


def test_a_stage_without_a_fault_passes():
    check_stage(Broken("none"), QUERIES)


@pytest.mark.parametrize("fault", BREACHES)
def test_a_fault_is_named_by_its_law(fault):
    law = next(law for law in LAWS if law.__name__ == BREACHES[fault])
    said = re.escape(f"breaks the law {law.__name__}: {law.__doc__}")
    with pytest.raises(AssertionError, match=said):
        law(Trial(Broken(fault), tuple(map(Ranking, QUERIES))))
    with pytest.raises(AssertionError, match="breaks the law"):
        check_stage(Broken(fault), QUERIES)


@dataclass
class Thawed(Stage):
    calls: int = 0

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return letters(stream)

    def explanation(self, query: Query, docno: str) -> Explanation:
        return letters.explain(query, docno)


@dataclass(frozen=True)
class Holding(Stage):
    thing: object

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return letters(stream)

    def explanation(self, query: Query, docno: str) -> Explanation:
        return letters.explain(query, docno)


class Nameless:
    """Equal to others of its kind, but its repr is its address."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Nameless)

    def __hash__(self) -> int:
        return 1


@dataclass(frozen=True)
class Regrouping(Holding):
    """A stage that is not joined like others."""

    def __rshift__(self, other: Stage) -> Stage:
        return other


class Plain(Stage):
    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return letters(stream)

    def explanation(self, query: Query, docno: str) -> Explanation:
        return letters.explain(query, docno)


@pytest.mark.parametrize(
    ("stage", "law", "detail"),
    [
        (Thawed(), testing.is_a_value, "its field calls can be set"),
        (Plain(), testing.is_a_value, "it is not a dataclass"),
        (Plain(), testing.pickles, "A pickled copy of a stage equals it"),
        (Holding([1]), testing.is_a_value, "unhashable"),
        (Holding(lambda: 1), testing.pickles, "lambda"),
        (Holding(Nameless()), testing.is_a_value, "a copy's repr is"),
        (Regrouping(1), testing.chains_in_any_grouping, "passing|c. answers|breaks"),
    ],
)
def test_stages_that_are_no_values_are_named(stage, law, detail):
    with pytest.raises(AssertionError, match=f"(?s)breaks the law {law.__name__}.*{detail}"):
        law(Trial(stage, tuple(map(Ranking, QUERIES))))
