"""Comparison: what is said of differences, and what of none."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from telerank.evaluation.compare import compare_evaluations
from telerank.evaluation.measures import Evaluation
from telerank.evaluation.statistics import bootstrap_intervals, effect_size, holm, paired_t


def evaluation(**values: list[float]) -> Evaluation:
    count = len(next(iter(values.values())))
    qids = tuple(f"q{i}" for i in range(count))
    return Evaluation(qids, {name: np.array(one, dtype=np.float64) for name, one in values.items()})


RANDOM = np.random.default_rng(7)
BASE = RANDOM.random(50)
SYSTEMS = {
    "base": evaluation(AP=BASE.tolist(), RR=BASE.tolist()),
    "better": evaluation(AP=(BASE + 0.1 + 0.05 * RANDOM.standard_normal(50)).tolist(), RR=BASE.tolist()),
    "other": evaluation(
        AP=(0.5 * RANDOM.random(50)).tolist(), RR=(BASE + 0.02 * RANDOM.standard_normal(50)).tolist()
    ),
}


def test_a_difference_has_the_t_test_and_the_effect_size_of_its_pairs():
    one = compare_evaluations(SYSTEMS, ["base"]).difference("other", "base", "AP")
    new, old = SYSTEMS["other"].values["AP"], SYSTEMS["base"].values["AP"]
    assert one.p == pytest.approx(stats.ttest_rel(new, old).pvalue, rel=1e-9)
    assert one.effect == pytest.approx((new - old).mean() / (new - old).std(ddof=1))
    assert one.delta == pytest.approx(new.mean() - old.mean())
    assert one.percent == pytest.approx(100 * one.delta / old.mean())
    assert (one.mean, one.baseline_mean) == (new.mean(), old.mean())
    assert one.wins + one.ties + one.losses == 50
    assert one.wins == int((new > old).sum())


def test_the_family_is_all_systems_and_measures_of_one_baseline():
    found = compare_evaluations(SYSTEMS, ["base", "other"])
    pairs = [(one.system, one.baseline, one.measure) for one in found.differences]
    assert pairs == [
        (system, baseline, name)
        for baseline in ("base", "other")
        for system in SYSTEMS
        if system != baseline
        for name in ("AP", "RR")
    ]
    for baseline in ("base", "other"):
        family = [one for one in found.differences if one.baseline == baseline]
        order = sorted(family, key=lambda one: one.p)
        corrected, floor = [], 0.0
        for i, one in enumerate(order):  # Holm (1979), by hand
            floor = max(floor, min(1.0, one.p * (len(order) - i)))
            corrected.append(floor)
        assert [one.p_holm for one in order] == pytest.approx(corrected)
    assert holm([0.01, 0.04, 0.8, 0.03, 0.6]) == pytest.approx([0.05, 0.12, 1.0, 0.12, 1.0])


def test_marks_stand_for_baselines_that_a_system_differs_from():
    found = compare_evaluations(SYSTEMS, ["base", "other"])
    assert found.marks("better", "AP") == "†‡"
    assert found.marks("better", "RR") == ""
    assert (found.mark("base"), found.mark("other")) == ("†", "‡")
    six = {f"s{i}": evaluation(AP=[0.5, 0.5]) for i in range(6)}
    many = compare_evaluations(six, list(six))
    assert [many.mark(f"s{i}") for i in range(6)] == ["†", "‡", "§", "¶", "[5]", "[6]"]


def test_the_interval_holds_the_difference_and_is_the_same_each_time():
    one = compare_evaluations(SYSTEMS, ["base"], seed=3).difference("better", "base", "AP")
    again = compare_evaluations(SYSTEMS, ["base"], seed=3).difference("better", "base", "AP")
    other = compare_evaluations(SYSTEMS, ["base"], seed=4).difference("better", "base", "AP")
    assert one.low < one.delta < one.high
    assert (one.low, one.high) == (again.low, again.high)
    assert (one.low, one.high) != (other.low, other.high)


def test_the_bootstrap_agrees_with_scipys():
    row = RANDOM.standard_normal(200)
    ((low, high),) = bootstrap_intervals([row], seed=0)
    theirs = stats.bootstrap(
        (row,), np.mean, method="percentile", n_resamples=9999, rng=0
    ).confidence_interval
    width = theirs.high - theirs.low
    assert low == pytest.approx(theirs.low, abs=0.05 * width)
    assert high == pytest.approx(theirs.high, abs=0.05 * width)


def test_the_interval_of_seven_thousand_queries_is_that_of_the_normal_law():
    row = np.random.default_rng(1).standard_normal(7000)
    ((low, high),) = bootstrap_intervals([row], confidence=0.9)
    half = 1.645 * row.std() / math.sqrt(7000)
    assert (low, high) == pytest.approx((row.mean() - half, row.mean() + half), abs=0.05 * half)


def test_the_queries_that_changed_most_come_first():
    difference = between([0.0] * 15, [0.0, 0.5, -0.5, 1.0, *([0.1] * 11)])
    assert difference.changed[:4] == (("q3", 1.0), ("q1", 0.5), ("q2", -0.5), ("q4", 0.1))
    assert len(difference.changed) == 10


def between(first: list[float], second: list[float]):
    """The difference of the second system from the first."""
    systems = {"a": evaluation(AP=first), "b": evaluation(AP=second)}
    (difference,) = compare_evaluations(systems, ["a"]).differences
    return difference


def test_differences_that_are_none_constant_or_of_one_query_have_their_p_and_effect():
    same = between(BASE.tolist(), BASE.tolist())
    assert (same.p, same.p_holm, same.effect, same.delta, same.percent) == (1.0, 1.0, 0.0, 0.0, 0.0)
    assert (same.low, same.high, same.wins, same.ties, same.losses) == (0.0, 0.0, 0, 50, 0)
    assert same.changed == ()
    rounded = between([0.3, 0.1 + 0.2], [0.1 + 0.2, 0.3])
    assert (rounded.p, rounded.ties, rounded.effect) == (1.0, 2, 0.0)
    constant = between([0.1, 0.2, 0.3], [0.2, 0.3, 0.4])
    assert (constant.p, constant.effect, constant.wins) == (0.0, math.inf, 3)
    assert (constant.low, constant.high) == pytest.approx((0.1, 0.1))
    assert between([0.2, 0.3, 0.4], [0.1, 0.2, 0.3]).effect == -math.inf
    single = between([0.1], [0.9])
    assert single.p == 1.0
    assert math.isnan(single.effect)
    assert (single.low, single.high) == pytest.approx((0.8, 0.8))
    assert math.isnan(between([0.0, 0.0], [0.5, 0.0]).percent)
    assert holm([]) == bootstrap_intervals([]) == []
    assert compare_evaluations(SYSTEMS, []).differences == ()


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 1e-300, 0.5, 1.0]), min_size=1, max_size=8))
def test_no_values_whatever_make_a_warning_or_a_p_that_is_none(values):
    row = np.array(values)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p, d = paired_t(row), effect_size(row)
        ((low, high),) = bootstrap_intervals([row])
    assert 0.0 <= p <= 1.0
    assert math.isnan(d) == (len(row) < 2 and abs(row[0]) > 1e-12)
    assert low <= high


SHORT = {**SYSTEMS, "short": evaluation(AP=[1.0])}


@pytest.mark.parametrize(
    ("systems", "baselines", "measures", "said"),
    [
        ({}, [], None, "no system"),
        (SYSTEMS, ["none"], None, "there is no system 'none'; known: base, better, other"),
        (SYSTEMS, ["base", "base"], None, "a baseline is given twice"),
        (SYSTEMS, ["base"], ["P@1"], "'base' was not measured by P@1"),
        (SHORT, ["base"], None, "'short' and 'base' were measured on different"),
    ],
)
def test_what_cannot_be_compared_is_an_error(systems, baselines, measures, said):
    with pytest.raises(ValueError, match=said):
        compare_evaluations(systems, baselines, measures=measures)
