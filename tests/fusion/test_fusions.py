"""Fusions of rankings and of stages."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax as scipy_softmax

from letters import ByLength, Letters
from telerank.fusion import (
    Interleave,
    ReciprocalRank,
    interleave,
    interleave_rankings,
    linear,
    minmax,
    prob,
    rrf,
    scale_scores,
    softmax,
    sum_rankings,
    sum_reciprocal_ranks,
    within,
)
from telerank.stage import Sum
from telerank.testing import check_stage
from telerank.types import Query, Ranking

QUERY = Query("q", "bear attacks")
WIDEST = float(np.finfo(np.float64).max)
letters = Letters()
STAGES = {
    "interleave": interleave(letters, letters % 2, -1 * letters),
    "interleave uncut": interleave(letters % 3, -1 * letters, depth=None),
    "interleave of one": interleave(letters),
    "minmax": minmax(letters),
    "minmax of few": minmax(letters % 3),
    "linear": 0.4 * minmax(letters % 3) + 0.6 * minmax(-1 * letters),
    "rrf": rrf(letters, letters % 2, -1 * letters),
    "rrf with k 0": rrf(letters, -1 * letters, k=0),
    "minmax of a pipeline": minmax(letters % 4 >> ByLength()),
    "probabilities": prob(letters % 3),
    "shares": softmax(letters % 3),
    "a sum of shares": 0.5 * minmax(letters % 4) + 0.5 * softmax(letters % 4 >> ByLength()) % 2,
    "complementary": 0.6 * minmax(letters % 4) + 0.3 * prob(letters % 4 >> ByLength()),
    "within": within(letters, -1 * letters % 2),
    "fusions of fusions": interleave(minmax(letters), rrf(letters, letters % 1)) % 4 >> ByLength(),
}
QUERIES = [Query("1", "bear attacks"), Query("2", ""), Query("3", "a bad cab"), Query("4", "zzz")]
OF_RERANKERS = {
    "minmax of a re-ranker": letters % 4 >> minmax(ByLength()),
    "rrf of re-rankers": letters % 4 >> rrf(ByLength(), -1 * ByLength()),
    "interleave of re-rankers": letters % 4 >> interleave(ByLength(batch=3), -1 * ByLength()),
    "linear of a re-ranker": letters % 4 >> 0.4 * minmax(ByLength()) + 0.6 * minmax(letters),
    "prob": letters % 4 >> prob(ByLength()),
    "softmax": letters % 4 >> softmax(ByLength()),
    "within": letters % 4 >> within(ByLength(), letters),
    "cut": letters % 4 >> minmax(ByLength()) % 2,
    "deep": letters >> (letters % 4 >> rrf(minmax(ByLength()), letters % 2)) % 3,
}

docnos = st.lists(st.sampled_from("abcdefghijkl"), unique=True, max_size=8)
numbers = st.floats(-1e6, 1e6, width=32)


def listed(*names: str) -> Ranking:
    """The documents in this order."""
    return Ranking(QUERY, names, np.arange(len(names), 0, -1))


@st.composite
def rankings(draw):
    names = draw(docnos)
    return Ranking.ranked(QUERY, names, draw(st.lists(numbers, min_size=len(names), max_size=len(names))))


some = st.lists(rankings(), min_size=1, max_size=4)


@pytest.mark.parametrize("stage", [*STAGES.values(), *OF_RERANKERS.values()], ids=[*STAGES, *OF_RERANKERS])
def test_fusions_obey_the_laws_of_stages(stage):
    check_stage(stage, QUERIES)


def test_a_fusion_in_a_pipeline_is_explained_as_the_fusion_of_pipelines():
    said = (letters % 4 >> minmax(ByLength())).explain(QUERY, "bear attacks")
    assert said == minmax(letters % 4 >> ByLength()).explain(QUERY, "bear attacks")
    assert said.what == "between the least (3) and the greatest (12) of 4 scores"


def test_a_fusion_of_rerankers_alone_lists_nothing_that_it_could_explain():
    for stage in (minmax(ByLength()), rrf(ByLength()), interleave(ByLength(), ByLength())):
        with pytest.raises(KeyError, match="ace"):
            stage.explain(QUERY, "ace")


@pytest.mark.parametrize(
    ("lists", "depth", "expected"),
    [
        (("acd", "bac"), 1000, "abcd"),  # the example of the paper
        (("acd", "bac"), 3, "abc"),
        (("bd", "ac"), 1000, "badc"),
        (("a", "", "bcd"), 1000, "abcd"),
    ],
)
def test_lists_are_interleaved_from_the_first_on(lists, depth, expected):
    assert interleave_rankings([listed(*names) for names in lists], depth).docnos == tuple(expected)


def equation_6(lists: list[Ranking], depth: int) -> list[str]:
    """As the paper writes it: alternate, filter what came before, truncate."""
    merged = [
        one.docnos[place] for place in range(depth) for one in lists if place < min(depth, len(one.docnos))
    ]
    filtered = [docno for place, docno in enumerate(merged) if docno not in merged[:place]]
    return filtered[:depth]


@given(some, st.integers(1, 12))
def test_interleaving_is_equation_6(lists, depth):
    fused = interleave_rankings(lists, depth)
    assert list(fused.docnos) == equation_6(lists, depth)
    assert Ranking(fused.query, fused.docnos, fused.scores) == fused  # in order, each once
    assert interleave_rankings(lists, None).cut(depth) == fused


@given(rankings())
def test_scaled_scores_are_equation_20_and_keep_the_order_of_scores(ranking):
    new, old = dict(scale_scores(ranking)), dict(ranking)
    least, most = min(old.values(), default=0), max(old.values(), default=0)
    for docno, score in old.items():
        assert new[docno] == pytest.approx((score - least) / (most - least) if most > least else 1.0)
    assert all(new[a] >= new[b] for a in old for b in old if old[a] > old[b])
    assert not old or max(new.values()) == 1


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([30.0, 15.0, 10.0], [1.0, 0.25, 0.0]),  # equation 20 by hand
        ([-3.0, -3.0], [1.0, 1.0]),
        ([0.0], [1.0]),
        ([], []),
        ([WIDEST, 0.0, -WIDEST], [1.0, 0.5, 0.0]),
    ],
)
def test_scores_are_scaled_by_the_least_and_the_greatest(scores, expected):
    assert scale_scores(Ranking(QUERY, tuple("cba")[: len(scores)], scores)).scores.tolist() == expected


def test_equations_19_and_20_by_hand_scale_the_sparse_score_alone():
    query = Query("1", "bear attacks")
    sparse, logits = letters % 4, letters % 4 >> ByLength()
    fused = next(iter((0.7 * minmax(sparse) + 0.4 * prob(logits)).run([query])))
    scores, outputs = dict(sparse.search(query)), dict(logits.search(query))
    least, most = min(scores.values()), max(scores.values())
    for docno, score in fused:
        scaled = (scores[docno] - least) / (most - least)
        assert score == pytest.approx(0.7 * scaled + 0.4 / (1 + math.exp(-outputs[docno])))
    said = prob(logits).explain(query, fused.docnos[0])
    assert (said.what, said.parts[0].value) == ("sigmoid of", outputs[fused.docnos[0]])
    assert said.value == pytest.approx(1 / (1 + math.exp(-outputs[fused.docnos[0]])))


@given(rankings(), st.floats(-1e6, 1e6, width=32))
def test_shares_are_the_softmax_whatever_is_added_to_all_scores(ranking, constant):
    found = softmax(Fixed(ranking)).search(QUERY)
    expected = scipy_softmax(ranking.scores) if len(ranking) else ()
    assert dict(found) == pytest.approx(dict(zip(ranking.docnos, expected, strict=True)))
    small = Ranking.ranked(QUERY, ranking.docnos, ranking.scores / 1e5)
    moved = Ranking.ranked(QUERY, small.docnos, small.scores + constant)
    assert dict(softmax(Fixed(moved)).search(QUERY)) == pytest.approx(
        dict(softmax(Fixed(small)).search(QUERY)), abs=1e-6
    )
    assert not len(found) or sum(found.scores) == pytest.approx(1)
    assert softmax(Fixed(Ranking(QUERY, ("b", "a"), [WIDEST, -WIDEST]))).search(QUERY).scores.tolist() == [
        1,
        0,
    ]


def test_a_share_is_explained_by_the_score_in_its_list():
    found = (letters % 4).search(QUERY)
    said = softmax(letters % 4).explain(QUERY, found.docnos[1])
    assert (said.what, said.parts[0].value) == ("share of 4 scores, by softmax", found.scores[1])
    assert said.value == pytest.approx(math.exp(found.scores[1]) / np.exp(found.scores).sum())


def test_a_document_that_a_list_lacks_counts_0_there():
    a, b = Ranking(QUERY, ("x", "y"), [5, 1]), Ranking(QUERY, ("z", "x"), [8, 2])
    assert dict(sum_rankings([a, b], [0.4, 0.6])) == pytest.approx({"z": 0.6, "x": 0.4, "y": 0.0})


@given(some, st.lists(st.sampled_from([-1.0, 0.0, 0.1, 0.3, 0.7, 1.0, 3.0]), min_size=4, max_size=4))
def test_weighted_lists_are_the_algebra_of_stages_to_the_bit(lists, weights):
    weights = weights[: len(lists)]
    found = linear(*map(Fixed, lists), weights=weights).search(QUERY)
    assert sum_rankings(lists, weights) == found
    assert Ranking(found.query, found.docnos, found.scores) == found


@given(some, st.sampled_from([0, 1, 60, 1000.5]))
def test_reciprocal_rank_fusion_is_its_formula(lists, k):
    fused = dict(sum_reciprocal_ranks(lists, k))
    assert set(fused) == {docno for one in lists for docno in one.docnos}
    for docno, score in fused.items():
        exact = math.fsum(1 / (k + one.docnos.index(docno) + 1) for one in lists if docno in one.docnos)
        assert score == exact


def test_stages_are_values_that_read_back():
    assert rrf(letters, letters) == ReciprocalRank((letters, letters), 60.0)
    assert repr(interleave(letters)) == f"interleave(<{letters!r}>, depth=1000)"
    assert interleave(letters, letters % 20) % 5 == Interleave((letters % 5, letters % 5), 5)
    written = 0.4 * minmax(letters % 5) + 0.6 * minmax(letters)
    assert linear(letters % 5, letters, weights=(0.4, 0.6)) == written
    assert isinstance(linear(letters, weights=[1]), Sum)


@pytest.mark.parametrize(
    "fuse", [interleave_rankings, sum_reciprocal_ranks, lambda lists: sum_rankings(lists, [1.0] * len(lists))]
)
def test_lists_of_different_queries_are_refused(fuse):
    other = Ranking(Query("other", ""))
    with pytest.raises(ValueError, match="different queries: 'other' and 'q'"):
        fuse([listed("a"), other])
    with pytest.raises(ValueError, match="there is no list to fuse"):
        fuse([])


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="2 weights for 1 lists"):
        sum_rankings([listed("a")], [1, 2])
    with pytest.raises(ValueError, match="1 weight for 2 lists"):
        linear(letters, letters, weights=[1])
    with pytest.raises(ValueError, match="k must be a number of at least 0, got -1"):
        rrf(letters, k=-1)
    with pytest.raises(ValueError, match="a cut must be"):
        interleave(letters, depth=0)
    with pytest.raises(ValueError, match="there is no stage"):
        interleave()
    with pytest.raises(ValueError, match="make scores too large"):
        sum_rankings([listed("a", "b"), listed("a", "b")], [1e308, 1e308])
    with pytest.raises(ValueError, match="make scores too large"):
        sum_rankings([listed("a", "b")], [float("inf")])


class Fixed(Letters):
    """Answers every query with one list."""

    def __init__(self, ranking: Ranking) -> None:
        object.__setattr__(self, "ranking", ranking)

    def __call__(self, stream):
        return (Ranking(one.query, self.ranking.docnos, self.ranking.scores) for one in stream)
