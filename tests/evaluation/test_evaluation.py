"""Evaluation: which queries count, and how measures are named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telerank.errors import MeasureError
from telerank.evaluation.measures import aggregate_name, expand_measures, measure, parse_measures
from telerank.evaluation.own_measures import OwnMeasure, register
from telerank.types import Query, Ranking

QRELS = {"1": {"a": 1, "b": 0}, "2": {"a": 2, "c": 1}, "3": {"a": 0}, "4": {"z": 1}}
RUN = [
    Ranking(Query("9", "not judged"), ("a",), [1.0]),
    Ranking(Query("1", ""), ("b", "a"), [2.0, 1.0]),
    Ranking(Query("3", ""), ("a",), [1.0]),
    Ranking(Query("2", ""), ("c", "x", "a"), [3.0, 2.0, 1.0]),
    Ranking(Query("4", "found nothing")),
]


def test_the_mean_is_over_all_queries_of_the_qrels_and_what_does_not_count_is_told():
    told = []
    found = measure(RUN, QRELS, "RR P@1", progress=lambda *news: told.append(news))
    assert found.qids == ("1", "2", "3", "4")
    assert found.of("RR") == {"1": 0.5, "2": 1.0, "3": 0.0, "4": 0.0}
    assert found.mean == {"RR": 0.375, "P@1": 0.25}
    assert found.measures == ("RR", "P@1")
    assert (found.missing, found.unanswerable, found.unjudged) == (("4",), ("3",), ("9",))
    assert told == [("measuring", 3, 4)]
    with pytest.raises(ValueError, match="read-only"):
        found.values["RR"][0] = 1.0
    part = found.select(["4", "2"])
    assert part.of("RR") == {"4": 0.0, "2": 1.0}
    assert (part.missing, part.unanswerable, part.unjudged) == (("4",), (), ("9",))


def test_without_rankings_nothing_counts_and_without_qrels_nothing_is_measured():
    evaluation = measure([], QRELS, "RR nDCG@10")
    assert evaluation.mean == {"RR": 0.0, "nDCG@10": 0.0}
    assert evaluation.missing == tuple(QRELS)
    with pytest.raises(ValueError, match="the qrels are empty"):
        measure(RUN, {}, "RR")


def test_a_query_that_comes_twice_is_an_error():
    with pytest.raises(ValueError, match="query 1 occurs twice in the run"):
        measure([RUN[1], RUN[1]], QRELS, "RR")
    # measured in parts: also in another one
    others = [Ranking(Query(f"x{i}", ""), ("a",), [1.0]) for i in range(600)]
    with pytest.raises(ValueError, match="query 1 occurs twice in the run"):
        measure([RUN[1], *others, RUN[1]], QRELS, "RR")


def test_names_are_read_as_ir_measures_writes_them():
    assert parse_measures("RR@10 R@1000, AP  nDCG@10\nP@1") == ("RR@10", "R@1000", "AP", "nDCG@10", "P@1")
    assert parse_measures(["MRR@10", "RR@10", "MAP"]) == ("RR@10", "AP")
    assert parse_measures("AP(rel = 3), nDCG(gains={0: 0, 1: 3})@5") == ("AP(rel=3)", "nDCG(gains={1:3})@5")
    assert parse_measures("Success@5 IPrec@0.1 Judged@10") == ("Success@5", "IPrec@0.1", "Judged@10")


@given(
    st.lists(
        st.sampled_from(["RR@10", "AP(rel=2)", "nDCG(gains={1:3})@5", "R@7", "P(rel=2)@3", "SetF(beta=2.0)"])
    )
)
def test_names_read_back(names):
    if names:
        assert parse_measures(parse_measures(names)) == tuple(dict.fromkeys(names))


LONG_NAMES = ("a" * 500_000, "P.1" + ",1" * 250_000, "(" * 500_000)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no measure is given"),
        ("nDGC@10", "there is no measure 'nDGC'; did you mean 'nDCG'?"),
        ("nDCG(dcg=1)@5", "nDCG does not take dcg=1"),
        ("P()", "'P()': P needs a cutoff, as in P@10"),
        ("P@0", "'P@0': a cutoff is a whole number from 1 to 2,147,483,647, got 0"),
        ("AP(rel=0)", "the level of relevance is a whole number from 1 to 32,767, got 0"),
        (
            "R@99999999999999999999999",
            "a cutoff is a whole number from 1 to 2,147,483,647, got 99999999999999999999999",
        ),
        ("R@" + "9" * 5000, "is not a measure: a name has at most 1,000 characters"),
        ("AP(rel=" + "-" * 900 + "1)", "is not a measure: expected a name such as nDCG@10"),
        ("AP(rel=32768)", "the level of relevance is a whole number from 1 to 32,767, got 32768"),
        # refused in no more than linear time
        *((text, "a name has at most 1,000 characters") for text in LONG_NAMES),
        (
            "RBP(rel=1)@5",
            "computes this measure; cwl_eval does, as RBP with rel: pip install ir-measures[cwl_eval]",
        ),
        ("AP(level=2)", "AP does not take level=2; it takes: cutoff, rel, judged_only"),
        ("AP@1.5", "a cutoff is a whole number from 1 to 2,147,483,647, got 1.5"),
        ("nDCG@x", "'nDCG@x' is not a measure: expected a name such as nDCG@10"),
        ("AP(", "'AP(' is not a measure"),
        ("AP(2)", "'AP(2)' is not a measure"),
        ("AP(rel=open('x'))", "is not a measure"),
        ("10", "'10' is not a measure"),
        ("alpha_nDCG@10", "'alpha_nDCG@10': no installed program computes this measure"),
    ],
)
def test_a_name_that_is_no_measures_is_refused(text, said):
    with pytest.raises(MeasureError) as caught:
        parse_measures(text)
    assert said in str(caught.value)
    assert text not in LONG_NAMES or len(str(caught.value)) < 200


def test_measures_by_depth_are_those_of_the_cut_run():
    names = expand_measures("R AP(rel=2) Success", [1, 2, 3])
    means = measure(RUN, QRELS, [name for cut in names.values() for name in cut]).mean
    found = {family: tuple(means[name] for name in cut) for family, cut in names.items()}
    assert found["R"] == (0.125, 0.375, 0.5)
    assert found["AP(rel=2)"] == (0.0, 0.0, pytest.approx(1 / 12))
    for i, depth in enumerate([1, 2, 3]):
        cut = measure([ranking.cut(depth) for ranking in RUN], QRELS, "R@1000 AP(rel=2) Success@1000").mean
        assert [found[name][i] for name in found] == pytest.approx(list(cut.values()))
    assert expand_measures("MRR P(rel=1)", [1, 5]) == {"RR": ("RR@1", "RR@5"), "P": ("P@1", "P@5")}
    with pytest.raises(ValueError, match="no depth"):
        expand_measures("R", [])
    for text in ("", "R@5", "foo", "Rprec", "Bpref"):
        with pytest.raises(MeasureError):
            expand_measures(text, [1])


@pytest.mark.parametrize(
    ("grades", "measures", "named"),
    [({"a": 1}, "P@1 Accuracy", "P@1, Accuracy"), ({"a": 32767, "b": 0}, "ERR@5", "ERR@5")],
)
def test_a_measure_without_a_value_on_these_qrels_is_refused_in_one_line(grades, measures, named):
    with pytest.raises(MeasureError, match=rf"one of {named} has no value on these qrels"):
        measure([Ranking(Query("1", ""), ("a",), [1.0])], {"1": grades}, measures)


def test_a_registered_measure_stands_beside_the_others():
    def hits(docnos, grades):
        return sum(grades.get(docno, 0) > 0 for docno in docnos)

    register(OwnMeasure("hits", hits, aggregate="sum"))
    evaluation = measure(RUN, QRELS, "P@1 hits hits@1")
    assert evaluation.measures == ("P@1", "hits", "hits@1")
    assert evaluation.of("hits") == {"1": 1, "2": 2, "3": 0, "4": 0}
    assert evaluation.mean == {"P@1": 0.25, "hits": 3, "hits@1": 1}
    assert (aggregate_name("hits@5"), parse_measures("hits@2")) == ("sum", ("hits@2",))
    with pytest.raises(MeasureError, match="not a name of a measure"):
        register(OwnMeasure("a b", hits))
