"""A repeated cross-validation: each repetition has folds and a seed of its own; values per fold and pooled."""

from __future__ import annotations

import json

import pytest

from small_ranking import QUERIES, ranking_settings
from telerank.corpus.formats import open_collection
from telerank.training.reranker.plan import TrainingPlan
from telerank.training.reranker.task import assign_queries
from telerank.training.reranker.train import train_rerankers
from telerank.training.settings import read_settings


def settings(ranking_set, **changes):
    test = {"split": "train", "run": str(ranking_set / "train.run"), "measures": ["RR"]}
    return ranking_settings(ranking_set, folds=2, test=test, **changes)


def test_each_repetition_has_folds_and_a_seed_of_its_own(ranking_set):
    plan = read_settings(settings(ranking_set, repetitions=3, seed=4), TrainingPlan)
    configs = [variant.apply(plan) for variant in plan.variants]
    collection = open_collection(configs[0].data.collection)
    tests = [assign_queries(collection, config).test for config in configs]
    assert [(config.repetition, config.held_out, config.seed) for config in configs] == [
        *((0, 0, 4), (0, 1, 4), (1, 0, 5), (1, 1, 5), (2, 0, 6), (2, 1, 6))
    ]
    for first, second in zip(tests[::2], tests[1::2], strict=True):
        assert not first & second
        assert len(first | second) == QUERIES
    assert len(set(tests)) == 6
    plain = assign_queries(collection, read_settings(settings(ranking_set, held_out=0), TrainingPlan))
    assert plain.test == tests[0]  # the folds without repetitions are those of the first
    assert [str(variant.folder) for variant in plan.variants][:2] == [
        *("repetition-0/fold-0", "repetition-0/fold-1")
    ]


def test_the_table_has_each_fold_the_pooled_queries_and_the_mean(ranking_set, tmp_path):
    plan = read_settings(
        settings(ranking_set, repetitions=2, optimisation={"steps": 3, "warm_up": 1}), TrainingPlan
    )
    trained = train_rerankers(plan, tmp_path / "out")
    (table,) = trained.tables()
    labels = [row[0].text for row in table.rows]
    assert labels == [
        "first stage",
        *(f"repetition {n}, fold {fold}" for n in (0, 1) for fold in (0, 1)),
        *("repetition 0", "repetition 1", "mean over repetitions"),
    ]
    assert "Means over 2 repetitions ± their standard deviation." in table.notes
    record = json.loads((tmp_path / "out" / "table.json").read_text())
    for number in (0, 1):
        folds = [own for own in record["folds"] if own["repetition"] == number]
        (whole,) = (own for own in record["trainings"] if own["repetition"] == number)
        pooled = sum(own["measures"]["RR"] * own["queries"] for own in folds) / QUERIES
        assert whole["measures"]["RR"] == pytest.approx(pooled)
        assert whole["queries"] == QUERIES
        assert (tmp_path / "out" / f"repetition-{number}" / "test.run.gz").exists()
