"""The grid of weights, and what tuning on it says."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telerank.errors import MeasureError
from telerank.evaluation.measures import measure
from telerank.evaluation.tune import Folds
from telerank.fusion import sum_rankings
from telerank.fusion.tuning import WeightGrid, simplex, square, tune_weights
from telerank.types import Query, Ranking


@pytest.mark.parametrize("runs", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("step", ["0.1", "0.05", 0.1, 0.2, "1/3", "1/7", Fraction(1, 9), 1])
def test_every_point_of_the_simplex_is_visited_exactly_once(runs, step):
    n = round(1 / Fraction(str(step)))
    points = simplex(runs, step)
    in_steps = {tuple(round(weight * n) for weight in point) for point in points}
    assert len(points) == len(in_steps) == math.comb(n + runs - 1, runs - 1)
    assert all(sum(point) == n for point in in_steps)


@given(st.integers(1, 4), st.integers(1, 30))
def test_weights_are_what_one_would_write(runs, n):
    for point in simplex(runs, Fraction(1, n)):
        assert all(weight == round(weight * n) / n for weight in point)
        assert sum(point) == pytest.approx(1)


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("0.3", "1 must be a multiple of the step, got 0.3; use 1/4"),
        ("2", "got 2; use 1/1"),
        ("-0.1", "got -0.1; use 1/10"),
        ("0", "expected a step such as 0.1 or 1/3, got '0'"),
        ("tenth", "expected a step"),
    ],
)
def test_a_step_that_does_not_divide_1_is_refused(step, told):
    with pytest.raises(ValueError, match=told):
        simplex(2, step)


@given(st.integers(1, 3), st.integers(1, 12))
def test_every_point_of_the_square_is_visited_once_without_the_origin(runs, n):
    points = square(runs, Fraction(1, n))
    in_steps = {tuple(round(weight * n) for weight in point) for point in points}
    assert len(points) == len(in_steps) == (n + 1) ** runs - 1
    assert all(weight == round(weight * n) / n and 0 <= weight <= 1 for point in points for weight in point)
    assert (0.0,) * runs not in points


def test_grids_of_two_runs():
    assert simplex(2) == tuple((i / 10, (10 - i) / 10) for i in range(11))
    halves = (0.0, 0.5, 1.0)
    assert square(2, 0.5) == tuple((a, b) for a in halves for b in halves if a or b)
    assert WeightGrid("square", 0.5).points(2) == square(2, 0.5)


def test_an_unknown_grid_and_one_for_days_are_refused():
    with pytest.raises(ValueError, match="there is no grid 'cube'; known: simplex, square"):
        WeightGrid("cube")
    for grid, step, said in (
        (simplex, "0.01", r"4,598,126 weights of 5 runs by steps of 0\.01: take a larger step"),
        (square, "0.1", r"161,050 weights of 5 runs by steps of 0\.1: take a larger step"),
    ):
        with pytest.raises(ValueError, match=said):
            grid(5, step)
        with pytest.raises(ValueError, match="one run or more, got 0"):
            grid(0)


QIDS = [f"q{i:02}" for i in range(20)]
QRELS = {qid: {"right": 1} for qid in QIDS}


def run(seed: int, qids=QIDS) -> list[Ranking]:
    random = np.random.default_rng(seed)
    docs = ["right", *(f"wrong{i}" for i in range(12))]
    lists = []
    for qid in qids:
        some = random.permutation(docs)[:10]
        lists.append(Ranking.ranked(Query(qid, ""), some.tolist(), random.normal(size=10)))
    return lists


def named(*runs: list[Ranking]) -> dict[str, list[Ranking]]:
    return {f"run {i}": run for i, run in enumerate(runs, 1)}


def test_in_sample_held_out_and_oracle_are_what_their_words_say():
    runs = [run(1), run(2), run(3)]
    tuning = tune_weights(named(*runs), QRELS, "RR", grid=WeightGrid(step="0.25"), folds=Folds(4))
    by_weights = {}
    for weights in simplex(3, "0.25"):
        fused = [sum_rankings(lists, weights) for lists in zip(*runs, strict=True)]
        by_weights[weights] = measure(fused, QRELS, "RR").of("RR")
    means = {weights: np.mean(list(values.values())) for weights, values in by_weights.items()}
    assert tuning.result.best_dev == pytest.approx(max(means.values()))
    assert means[tuning.result.best] == pytest.approx(max(means.values()))
    assert tuning.oracle == pytest.approx(
        np.mean([max(values[qid] for values in by_weights.values()) for qid in QIDS])
    )
    held_out = []
    for fold, choice in zip(tuning.result.folds, tuning.result.choices, strict=True):
        others = [qid for qid in QIDS if qid not in fold]
        chosen = {w: np.mean([values[qid] for qid in others]) for w, values in by_weights.items()}
        assert chosen[choice] == pytest.approx(max(chosen.values()))
        held_out += [by_weights[choice][qid] for qid in fold]
    assert tuning.result.held_out == pytest.approx(np.mean(held_out))
    assert tuning.result.held_out <= tuning.result.best_dev <= tuning.oracle
    assert [one.mean["RR"] for one in tuning.alone.values()] == [
        measure(one, QRELS, "RR").mean["RR"] for one in runs
    ]


@pytest.mark.parametrize(("grid", "measured"), [(WeightGrid(), "RR@3"), (WeightGrid("square", "0.5"), "RR")])
def test_the_weights_of_a_grid_are_tuned_for_a_measure_with_a_cutoff_or_without(grid, measured):
    runs = [run(1), run(2)]
    tuning = tune_weights(named(*runs), QRELS, measured, grid=grid, folds=Folds(2))
    assert tuning.result.settings == grid.points(2)
    fused = [sum_rankings(lists, tuning.result.best) for lists in zip(*runs, strict=True)]
    assert tuning.result.best_dev == pytest.approx(measure(fused, QRELS, measured).mean[measured])
    with pytest.raises(MeasureError, match="tuning takes one measure"):
        tune_weights(named(*runs), QRELS, f"{measured} AP")


def test_queries_that_a_run_lacks_are_counted_and_count():
    tuning = tune_weights(named(run(1, QIDS[:-2]), run(2, QIDS[1:-1]), run(2, ["x", *QIDS[:1]])), QRELS, "RR")
    assert list(tuning.lacking.values()) == [2, 2, 18]  # the last query is in no run, and one is not judged
    assert len(tuning.result.evaluation.qids) == len(QIDS)
    assert tuning.result.table[QIDS[-1]].max() == 0
