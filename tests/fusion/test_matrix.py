"""All ordered pairs of runs."""

from __future__ import annotations

import numpy as np
import pytest

from telerank.evaluation.measures import measure
from telerank.evaluation.statistics import holm, paired_t
from telerank.fusion import interleave_rankings, join_runs, sum_reciprocal_ranks
from telerank.fusion.lists import Fusion
from telerank.fusion.matrix import combine_runs
from telerank.types import Query, Ranking

QIDS = [f"q{i:03}" for i in range(300)]  # more than are held at once
QRELS = {qid: {"right": 1, "good": 1} for qid in QIDS}


def run(seed: int, chance: float, qids=QIDS) -> list[Ranking]:
    random = np.random.default_rng(seed)
    lists = []
    for qid in qids:
        docs = [f"wrong{seed}{i}" for i in range(6)]
        for right in ("right", "good"):
            if random.random() < chance:
                docs.insert(int(random.integers(6)), right)
        lists.append(Ranking(Query(qid, ""), tuple(docs), np.arange(len(docs), 0, -1)))
    return lists


RUNS = {"a": run(1, 0.3), "b": run(2, 0.6, QIDS[::-1]), "c": run(3, 0.9, [*QIDS[5:], "unjudged"])}


def test_each_cell_is_its_pair_measured():
    matrix = combine_runs(RUNS, QRELS, "RR@10 R@8")
    assert (matrix.runs, matrix.measures, matrix.queries) == (("a", "b", "c"), ("RR@10", "R@8"), 300)
    assert len(matrix.cells) == 6 * 2
    for one in matrix.cells:
        lists = join_runs([RUNS[one.first], RUNS[one.second]])
        fused = measure(map(interleave_rankings, lists), QRELS, one.measure)
        before = measure(RUNS[one.first], QRELS, one.measure)
        assert one.mean == pytest.approx(fused.mean[one.measure])
        assert matrix.alone[one.first][one.measure] == pytest.approx(before.mean[one.measure])
        assert one.percent == pytest.approx(100 * (one.mean / before.mean[one.measure] - 1))
        assert one.p == pytest.approx(paired_t(fused.values[one.measure] - before.values[one.measure]))
    assert [one.p_holm for one in matrix.cells] == pytest.approx(holm([one.p for one in matrix.cells]))
    with pytest.raises(KeyError):
        matrix.cell("a", "a", "RR@10")
    other = combine_runs(RUNS, QRELS, "RR", fusion=Fusion("rrf")).cell("a", "c", "RR")
    fused = measure(map(sum_reciprocal_ranks, join_runs([RUNS["a"], RUNS["c"]])), QRELS, "RR")
    assert other.mean == pytest.approx(fused.mean["RR"])


def test_a_run_that_finds_nothing_has_no_percentage():
    matrix = combine_runs({"nothing": [], "a": RUNS["a"]}, QRELS, "RR")
    assert np.isnan(matrix.cell("nothing", "a", "RR").percent)
    assert matrix.cell("a", "nothing", "RR").percent == 0


def test_one_run_is_not_combined():
    with pytest.raises(ValueError, match="a combination needs two runs or more, got 1"):
        combine_runs({"a": RUNS["a"]}, QRELS, "RR")
    with pytest.raises(ValueError, match="the qrels are empty"):
        combine_runs(RUNS, {}, "RR")
