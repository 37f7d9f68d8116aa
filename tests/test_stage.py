from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from letters import DOCS, ByLength, Letters
from telerank.errors import ArgumentTypeError
from telerank.stage import Chain, Cut, Stage, Sum, Weighted
from telerank.testing import check_stage
from telerank.types import Explanation, Query, Ranking

QUERY = Query("1", "bear attacks")
letters, by_length = Letters(), ByLength()


@dataclass(frozen=True)
class Fixed(Stage):
    """Answers every query with one list."""

    scores: tuple[tuple[str, float], ...]

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        docnos, scores = [pair[0] for pair in self.scores], [pair[1] for pair in self.scores]
        return (Ranking.ranked(ranking.query, docnos, scores) for ranking in stream)

    def explanation(self, query: Query, docno: str) -> Explanation:
        return Explanation(dict(self.scores)[docno], f"as said for {query.qid}")


# whole numbers, so that sums are the same in any order
FIXED = st.dictionaries(st.sampled_from(DOCS), st.integers(-9, 9), max_size=8).map(
    lambda scores: Fixed(tuple(scores.items()))
)
CUTS = st.integers(1, 10)


@st.composite
def stages(draw: st.DrawFn) -> Stage:
    stage: Stage = draw(FIXED)
    for _ in range(draw(st.integers(0, 3))):
        match draw(st.sampled_from(["%", "*", "+", ">>"])):
            case "%":
                stage = stage % draw(CUTS)
            case "*":
                stage = draw(st.integers(-3, 3)) * stage
            case "+":
                stage = stage + draw(FIXED)
            case _:
                stage = stage >> by_length
    return stage


@given(stages(), stages(), stages(), st.integers(-3, 3))
def test_sums_and_weights_are_those_of_numbers_in_any_order_and_every_pipeline_obeys_the_laws(
    a, b, c, weight
):
    check_stage(a, [QUERY, Query("2", "")])
    assert (a + b) + c == a + (b + c)
    assert ((a + b) + c).search(QUERY) == (a + (b + c)).search(QUERY)
    assert (a + b).search(QUERY) == (b + a).search(QUERY)
    assert (weight * (a + b)).search(QUERY) == (weight * a + weight * b).search(QUERY)
    assert (a + a).search(QUERY) == (2 * a).search(QUERY)


def test_an_operator_binds_as_it_reads_and_a_cut_is_handed_to_the_retriever():
    stage = 0.4 * letters % 2 + letters % 3 >> by_length % 1
    first = Sum((Cut(Weighted(letters, 0.4), 2), Letters(depth=3)))
    assert stage == Chain((first, Cut(by_length, 1)))
    assert letters % 7 == letters % 7 % 9 == Letters(depth=7)
    assert (by_length >> letters) % 7 == Chain((by_length, Letters(depth=7)))
    assert (letters + letters) % 2 == Cut(Sum((letters, letters)), 2)
    assert {letters >> by_length % 2, letters >> by_length % 2} == {Chain((letters, Cut(by_length, 2)))}
    assert repr(by_length % 2) == "<ByLength(batch=1)> % 2"
    assert letters % np.int64(3) == letters % 3
    assert np.float32(0.5) * letters == letters * np.float64(0.5) == 0.5 * letters


def test_what_is_no_cut_no_weight_and_no_stage_is_refused():
    for k in (0, -1, 1.5, "3", True, None):
        for cut in (lambda k=k: letters % k, lambda k=k: Cut(by_length, k)):
            with pytest.raises(ValueError, match="whole number of at least 1, got"):
                cut()
    for weight in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="weight must be a finite number"):
            weight * letters
    with pytest.raises(ValueError, match="not a finite number"):
        (1e307 * Fixed((("a", 100.0),))).search(QUERY)
    for other in (1, "letters", None, lambda stream: stream):
        for join in (operator.rshift, operator.add):
            with pytest.raises(ArgumentTypeError, match=r"^stage (>>|\+) .*: (expected|a text|a function)"):
                join(letters, other)
    for weight in ("0.5", True, None, letters):
        with pytest.raises(ArgumentTypeError, match="a stage is multiplied by a number, got"):
            weight * letters


def test_what_a_list_lacks_counts_nothing_there_and_a_negative_weight_turns_it_over():
    assert (-1 * Fixed((("a", 1.0), ("b", 2.0)))).search("x").docnos == ("a", "b")
    found = (Fixed((("a", 3.0), ("b", 2.0))) + Fixed((("b", 2.0), ("c", -1.0)))).search("x")
    assert list(found) == [("b", 4.0), ("a", 3.0), ("c", -1.0)]


def test_stages_of_a_sum_that_disagree_about_the_query_are_an_error():
    class Renaming(Fixed):
        def __call__(self, stream):
            return (Ranking(Query("other", "")) for _ in stream)

    with pytest.raises(ValueError, match="query 'other' beside '1'"):
        (letters + Renaming(())).search(QUERY)


def test_an_explanation_has_that_of_each_part():
    assert letters.search("bee").query == Query("query", "bee")
    said = (0.5 * letters).explain(QUERY, "bear attacks")
    assert (said.value, said.what, said.parts[0].value) == (4.0, "0.5 times", 8.0)
    stage = letters % 1 + 0.5 * letters
    said = stage.explain(QUERY, "ace")
    assert [(part.value, part.what) for part in said.parts] == [
        (0.0, "not among the 1 retrieved there"),
        (1.5, "0.5 times"),
    ]
    assert said.value == dict(stage.search(QUERY))["ace"]
    stage = Fixed((("elsewhere", 2.0),)) + letters
    said = stage.explain(QUERY, "elsewhere")
    assert [(part.value, part.what) for part in said.parts] == [
        (2.0, "as said for 1"),
        (0.0, "an unknown document there"),
    ]
    with pytest.raises(KeyError, match="no document 'nowhere': the stage has no score for it"):
        stage.explain(QUERY, "nowhere")
