"""The algebra of stages: structure, laws on random lists, explanations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from letters import DOCS, ByLength, Letters
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


@given(stages())
def test_every_pipeline_obeys_the_laws_of_stages(stage):
    check_stage(stage, [QUERY, Query("2", "")])


@given(stages(), stages(), stages(), st.integers(-3, 3))
def test_sums_and_weights_are_those_of_numbers_in_any_order(a, b, c, weight):
    assert (a + b) + c == a + (b + c)
    assert ((a + b) + c).search(QUERY) == (a + (b + c)).search(QUERY)
    assert (a + b).search(QUERY) == (b + a).search(QUERY)
    assert (weight * (a + b)).search(QUERY) == (weight * a + weight * b).search(QUERY)
    assert (a + a).search(QUERY) == (2 * a).search(QUERY)


def test_an_operator_binds_as_it_reads():
    stage = 0.4 * letters % 2 + letters % 3 >> by_length % 1
    first = Sum((Cut(Weighted(letters, 0.4), 2), Letters(depth=3)))
    assert stage == Chain((first, Cut(by_length, 1)))


def test_a_cut_is_handed_to_the_retriever():
    assert letters % 7 == Letters(depth=7)
    assert letters % 7 % 9 == Letters(depth=7)
    assert (by_length >> letters) % 7 == Chain((by_length, Letters(depth=7)))
    assert (letters + letters) % 2 == Cut(Sum((letters, letters)), 2)


def test_stages_are_values():
    assert {letters >> by_length % 2, letters >> by_length % 2} == {Chain((letters, Cut(by_length, 2)))}
    assert repr(by_length % 2) == "<ByLength(batch=1)> % 2"


@pytest.mark.parametrize("k", [0, -1, 1.5, "3", True, None])
def test_a_cut_that_is_no_number_of_documents_is_refused(k):
    with pytest.raises(ValueError, match="whole number of at least 1, got"):
        letters % k
    with pytest.raises(ValueError, match="whole number of at least 1, got"):
        Cut(by_length, k)


def test_numpys_numbers_are_cuts_and_weights():
    assert letters % np.int64(3) == letters % 3
    assert np.float32(0.5) * letters == 0.5 * letters
    assert letters * np.float64(0.5) == 0.5 * letters


@pytest.mark.parametrize("weight", [float("nan"), float("inf")])
def test_a_weight_that_is_not_finite_or_makes_scores_too_large_is_refused(weight):
    with pytest.raises(ValueError, match="weight must be a finite number"):
        weight * letters
    with pytest.raises(ValueError, match="not a finite number"):
        (1e307 * Fixed((("a", 100.0),))).search(QUERY)


@pytest.mark.parametrize("other", [1, "letters", None, lambda stream: stream])
def test_only_stages_are_joined(other):
    with pytest.raises(TypeError, match="unsupported operand"):
        letters >> other
    with pytest.raises(TypeError, match="unsupported operand"):
        letters + other


def test_what_a_list_lacks_counts_nothing_there_and_a_negative_weight_turns_it_over():
    assert (-1 * Fixed((("a", 1.0), ("b", 2.0)))).search("x").docnos == ("a", "b")
    found = (Fixed((("a", 3.0), ("b", 2.0))) + Fixed((("b", 2.0), ("c", -1.0)))).search("x")
    assert list(found) == [("b", 4.0), ("a", 3.0), ("c", -1.0)]


def test_stages_of_a_sum_that_disagree_about_the_query_are_an_error():
    @dataclass(frozen=True)
    class Renaming(Stage):
        def __call__(self, stream):
            return (Ranking(Query("other", "")) for _ in stream)

        def explanation(self, query, docno):  # noqa: ARG002
            raise KeyError(docno)

    with pytest.raises(ValueError, match="query 'other' beside '1'"):
        (letters + Renaming()).search(QUERY)


def test_search_takes_a_text():
    assert letters.search("bee").query == Query("query", "bee")
    assert letters.search("bee").docnos[0] == "zebra"


def test_an_unknown_document_is_named():
    with pytest.raises(KeyError, match="no document 'nowhere': the stage has no score for it"):
        (2 * Letters()).explain("a", "nowhere")


def test_a_weighted_stage_explains_the_factor():
    said = (0.5 * letters).explain(QUERY, "bear attacks")
    assert (said.value, said.what, said.parts[0].value) == (4.0, "0.5 times", 8.0)


def test_a_document_outside_a_list_is_explained_as_nothing_there():
    stage = letters % 1 + 0.5 * letters
    said = stage.explain(QUERY, "ace")
    assert [(part.value, part.what) for part in said.parts] == [
        (0.0, "not among the 1 retrieved there"),
        (1.5, "0.5 times"),
    ]
    assert said.value == dict(stage.search(QUERY))["ace"]


def test_a_document_that_one_part_does_not_know_is_explained_by_the_other():
    stage = Fixed((("elsewhere", 2.0),)) + letters
    said = stage.explain(QUERY, "elsewhere")
    assert [(part.value, part.what) for part in said.parts] == [
        (2.0, "as said for 1"),
        (0.0, "an unknown document there"),
    ]
    with pytest.raises(KeyError, match="nowhere"):
        stage.explain(QUERY, "nowhere")
