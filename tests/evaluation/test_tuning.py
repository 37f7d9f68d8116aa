"""Tuning: the best setting, and the honest value of choosing it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telerank.errors import MeasureError
from telerank.evaluation.tune import Folds, Objective, tune
from telerank.types import Query, Ranking

QUERIES = [Query(str(i), "") for i in range(10)]
QRELS = {str(i): {"right": 1} for i in range(20)}


def answers(hits: dict[str, set[int]], calls: list | None = None):
    """Runs of settings that find the right document first for their queries, and second for others."""

    def run(setting, queries):
        if calls is not None:
            calls.append((setting, [query.qid for query in queries]))
        for query in queries:
            first = int(query.qid) in hits[setting]
            yield Ranking(query, ("right", "wrong") if first else ("wrong", "right"), [2.0, 1.0])

    return run


HITS = {"a": {0, 1, 2}, "b": {0, 1, 2, 3, 4, 5}, "c": {5, 6, 7}}


def test_a_test_part_has_no_part_in_the_choice():
    test = [Query(str(i), "") for i in range(10, 14)]
    hits = {**HITS, "c": {5, 6, 7, 10, 11, 12, 13}}
    found = tune(["a", "b", "c"], answers(hits), Objective(QUERIES, QRELS, "RR"), held_out=test)
    assert found.dev == pytest.approx((0.65, 0.8, 0.65))
    assert (found.best, found.best_dev) == ("b", pytest.approx(0.8))
    assert (found.held_out, found.choices) == (0.5, ("b",))
    assert found.folds == (("10", "11", "12", "13"),)
    assert found.evaluation.of("RR") == dict.fromkeys(("10", "11", "12", "13"), 0.5)
    assert [found.table[qid][2] for qid in found.evaluation.qids] == [1.0] * 4


def test_every_setting_runs_once_over_all_judged_queries():
    calls, told = [], []
    queries = [*QUERIES, Query("99", "not judged")]
    test = [Query("10", "")]
    found = tune(
        ["a", "b"],
        answers(HITS, calls),
        Objective(queries, QRELS, "RR"),
        held_out=test,
        progress=lambda *news: told.append(news),
    )
    assert told == [("tuning", 0, 2), ("tuning", 1, 2), ("tuning", 2, 2)]
    assert calls == [(setting, [*(query.qid for query in QUERIES), "10"]) for setting in ("a", "b")]
    assert found.unjudged == ("99",)


def test_each_fold_is_answered_by_what_the_others_chose():
    found = tune(["a", "b", "c"], answers(HITS), Objective(QUERIES, QRELS, "P@1"), held_out=Folds(5, seed=1))
    assert sorted(qid for fold in found.folds for qid in fold) == [str(i) for i in range(10)]
    assert [len(fold) for fold in found.folds] == [2] * 5
    expected = {}
    for fold, choice in zip(found.folds, found.choices, strict=True):
        others = [i for i in range(10) if str(i) not in fold]
        values = {setting: sum(i in HITS[setting] for i in others) for setting in "abc"}
        assert values[choice] == max(values.values())
        expected |= {qid: float(int(qid) in HITS[choice]) for qid in fold}
    assert found.evaluation.of("P@1") == {str(i): expected[str(i)] for i in range(10)}
    assert found.held_out == pytest.approx(sum(expected.values()) / 10)


def test_of_equally_good_settings_the_first_is_chosen():
    objective = Objective(QUERIES, QRELS, "P@1")
    for settings in (["a", "c"], ["c", "a"]):
        assert tune(settings, answers(HITS), objective, held_out=Folds(2)).best == settings[0]


@given(st.permutations([str(i) for i in range(12)]), st.integers(2, 12), st.integers(0, 5))
def test_folds_do_not_depend_on_the_order_of_the_queries(qids, k, seed):
    folds = Folds(k, seed).deal(qids)
    assert folds == Folds(k, seed).deal(sorted(qids))
    assert sorted(qid for fold in folds for qid in fold) == sorted(qids)
    assert max(map(len, folds)) - min(map(len, folds)) <= 1
    numbers = list(map(str, range(12)))
    assert Folds(3, 0).deal(numbers) != Folds(3, 1).deal(numbers)


@pytest.mark.parametrize(
    ("settings", "queries", "held_out", "said"),
    [
        ([], QUERIES, Folds(), "no setting to choose from"),
        (["a"], [Query("99", "")], Folds(), "none of the queries to tune on is judged"),
        (["a"], QUERIES, [], "none of the queries of the test part is judged"),
        (["a"], QUERIES, QUERIES[:1], "query 0 is both to tune on and in the test part"),
        (["a"], QUERIES[:3], Folds(5), "5 folds of 3 judged queries: too few"),
    ],
)
def test_what_cannot_be_tuned_is_an_error(settings, queries, held_out, said):
    with pytest.raises(ValueError, match=said):
        tune(settings, answers(HITS), Objective(queries, QRELS, "RR"), held_out=held_out)
    with pytest.raises(MeasureError):
        tune(["a"], answers(HITS), Objective(QUERIES, QRELS, "foo"))
    with pytest.raises(MeasureError, match="tuning takes one measure, got 'RR P@1'"):
        tune(["a"], answers(HITS), Objective(QUERIES, QRELS, "RR P@1"))
    with pytest.raises(ValueError, match="folds must be 2 or more, got 1"):
        Folds(1)
