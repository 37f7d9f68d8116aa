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
    "weighted with nothing": 0 * letters,
    "sum": 0.3 * letters + 0.7 * letters % 2 + letters % 1,
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


@pytest.mark.parametrize("name", [*RETRIEVERS, *RERANKERS])
def test_stages_obey_every_law(name):
    check_stage({**RETRIEVERS, **RERANKERS}[name], CANDIDATES if name in RERANKERS else QUERIES)


def test_the_list_of_laws_is_complete_and_they_need_neighbours():
    with pytest.raises(ValueError, match="at least two queries, got 1"):
        check_stage(letters, QUERIES[:1])
    public = {
        name for name, one in vars(testing).items() if callable(one) and one.__module__ == testing.__name__
    }
    helpers = {"Trial", "check_stage"}
    assert {law.__name__ for law in LAWS} == {name for name in public if name[0] != "_"} - helpers


def test_a_tolerance_forgives_small_differences():
    noisy = Broken("noisy")
    with pytest.raises(AssertionError, match="is_deterministic"):
        Trial(noisy, tuple(map(Ranking, QUERIES))).check(testing.is_deterministic)
    check_stage(noisy, QUERIES, tolerance=1e-3)


@dataclass(frozen=True)
class Broken(Stage):
    """Letters, but for one fault."""

    fault: str
    calls: list[int] = field(default_factory=list, compare=False, repr=False)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        self.calls.append(1)
        return STREAMS.get(self.fault, _right)(self, stream)

    def limit(self, k: int) -> Stage:
        if self.fault == "limit cuts twice as deep":
            return Letters(depth=2 * k)
        return Replacing(depth=k) if self.fault == "limit replaces the limit" else super().limit(k)

    def after(self, first: Stage) -> Stage:
        return Letters(depth=1) if self.fault == "forgets what feeds it" else super().after(first)

    def explanation(self, query: Query, docno: str) -> Explanation:
        if self.fault == "explains anything":
            return Explanation(0.0, "whatever")
        said = letters.explain(query, docno)
        return replace(said, value=said.value + 1.0) if self.fault == "explains another score" else said


@dataclass(frozen=True)
class Replacing(Letters):
    """A retriever whose limit forgets the limit before."""

    def limit(self, k: int) -> Stage:
        return Replacing(depth=k)


def _right(_stage: Broken, stream: Iterable[Ranking]) -> Iterator[Ranking]:
    return letters(stream)


def _noisy(stage: Broken, stream: Iterable[Ranking]) -> Iterator[Ranking]:
    noise = np.float32(1e-5 * len(stage.calls))
    return (Ranking(r.query, r.docnos, r.scores * (1 + noise)) for r in letters(stream))


def _eager(_stage: Broken, stream: Iterable[Ranking]) -> Iterator[Ranking]:
    first = next(iter(stream), None)
    rest = letters(stream)
    return rest if first is None or isinstance(stream, tuple | list) else letters([first, *stream])


def _reads_all(_stage: Broken, stream: Iterable[Ranking]) -> Iterator[Ranking]:
    yield from letters(list(stream))


def _reads_twice(_stage: Broken, stream: Iterable[Ranking]) -> Iterator[Ranking]:
    for _ in stream:
        break
    yield from letters(stream)


def _empties(_stage: Broken, stream: Iterable[Ranking]) -> Iterator[Ranking]:
    for ranking in letters(stream):
        if isinstance(stream, list) and stream:
            stream.pop()
        yield ranking


def _upside_down(_stage: Broken, stream: Iterable[Ranking]) -> Iterator[Ranking]:
    return (Ranking.presorted(r.query, r.docnos[::-1], r.scores[::-1]) for r in letters(stream))


def _sees_the_neighbours(_stage: Broken, stream: Iterable[Ranking]) -> Iterator[Ranking]:
    for number, ranking in enumerate(letters(stream)):
        yield Ranking(ranking.query, ranking.docnos, ranking.scores + np.float32(number))


STREAMS = {
    "noisy": _noisy,
    "drops queries": lambda _, stream: (ranking for ranking in letters(stream) if ranking.docnos),
    "swaps queries": lambda _, stream: iter(list(letters(stream))[::-1]),
    "eager": _eager,
    "reads all": _reads_all,
    "reads twice": _reads_twice,
    "empties its input": _empties,
    "upside down": _upside_down,
    "answers nobody": lambda _, stream: iter([*letters(stream)] or [Ranking(Query("nobody", "asked"))]),
    "no answer to an empty query": lambda _, stream: (r for r in letters(stream) if r.query.qid != "empty"),
    "sees the neighbours": _sees_the_neighbours,
}
BREACHES = {
    "noisy": testing.is_deterministic,
    "drops queries": testing.keeps_the_queries,
    "swaps queries": testing.keeps_the_queries,
    "eager": testing.is_lazy,
    "reads all": testing.is_lazy,
    "reads twice": testing.reads_its_input_once,
    "empties its input": testing.leaves_its_input_alone,
    "upside down": testing.answers_in_order,
    "answers nobody": testing.answers_nothing_with_nothing,
    "no answer to an empty query": testing.answers_an_empty_query,
    "sees the neighbours": testing.ignores_the_neighbours,
    "limit cuts twice as deep": testing.cuts_to_its_beginning,
    "limit replaces the limit": testing.cuts_once,
    "forgets what feeds it": testing.takes_an_earlier_stage,
    "explains another score": testing.explains_its_scores,
    "explains anything": testing.refuses_to_explain_unknown_documents,
}


@pytest.mark.parametrize("fault", BREACHES)
def test_a_fault_is_named_by_its_law(fault):
    law = BREACHES[fault]
    said = re.escape(f"breaks the law {law.__name__}: {law.__doc__}")
    with pytest.raises(AssertionError, match=said):
        Trial(Broken(fault), tuple(map(Ranking, QUERIES))).check(law)
    with pytest.raises(AssertionError, match="breaks the law"):
        check_stage(Broken(fault), QUERIES)


class Plain(Stage):
    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return letters(stream)

    def explanation(self, query: Query, docno: str) -> Explanation:
        return letters.explain(query, docno)


@dataclass
class Thawed(Plain):
    calls: int = 0


@dataclass(frozen=True)
class Holding(Plain):
    thing: object


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
        Trial(stage, tuple(map(Ranking, QUERIES))).check(law)
