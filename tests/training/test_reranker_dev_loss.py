"""The dev loss of a re-ranker is that of groups made as those of the training; what is cut is counted."""

from __future__ import annotations

import json

import pytest
import torch
from small_training import ON_CPU, dev_losses
from toy_trainings import counting_scored

from small_ranking import QUERIES
from telerank.corpus.formats import open_collection
from telerank.training.examples.reading import Reading
from telerank.training.reranker.job import RerankerJob
from telerank.training.reranker.plan import TrainingPlan
from telerank.training.reranker.scoring import EndToEnd
from telerank.training.reranker.task import assign_queries, ranking_loss, read_dev_set
from telerank.training.reranker.train import train_reranker, train_rerankers
from telerank.training.trained import read_counts
from telerank.types import silent

FROZEN = {"kind": "bert", "frozen": True, "head": {"hidden": [8], "dropout": 0.5}}
MONOBERT = {"kind": "monobert", "dropout": 0.5}


@pytest.fixture(scope="module")
def negatives(ranking_set):
    return lambda **more: {"negatives": {"run": str(ranking_set / "train.run"), **more}}


@pytest.fixture
def dev_set(ranked):
    """Reads the dev set of a training, with changes, and what is counted."""

    def read(dev, **changes):
        config = ranked(dev=dev, **changes)
        collection = open_collection(config.data.collection)
        parts = assign_queries(collection, config)
        reading = Reading(config.data, config.data_seed, collection, parts.kept_back)
        return read_dev_set(reading, config.dev, parts.dev), reading.counts

    return read


LEFT_OUT = "dev queries without a relevant or without another document, left out of the dev loss"


@pytest.mark.parametrize(("per_positive", "per_group"), [(2, None), (4, 1)])
def test_dev_groups_are_made_as_those_of_the_training(negatives, on_dev, dev_set, per_positive, per_group):
    data = negatives(per_positive=per_positive, per_group=per_group)
    dev, counts = dev_set(on_dev(depth=6), data=data)
    sizes = [1 + per_positive] if per_group is None else [1 + per_group] * (per_positive // per_group)
    groups = {}
    for group in dev.groups:
        groups.setdefault(group.query, []).append(group)
    assert len(groups) == QUERIES
    assert counts[LEFT_OUT] == 0
    for query, own in groups.items():
        number = int(query[1:])
        assert [len(group.documents) for group in own] == sizes
        others = [text.split()[0] for group in own for text in group.documents[1:]]
        assert {group.documents[0].split()[0] for group in own} == {f"d{number}"}
        assert len(set(others)) == per_positive
        assert set(others) <= {f"d{(7 * number + j) % 40}" for j in range(1, 6)} - {f"d{number}"}
    again, _ = dev_set(on_dev(depth=6), data=data, seed=5)
    assert list(again.groups) == list(dev.groups)


def test_dev_queries_that_have_no_group_are_left_out_and_counted(negatives, dev_set, tmp_path):
    """Query 20 has its relevant document alone, query 21 no candidate; 22 lacks its relevant one in the list."""
    run = tmp_path / "thin.run"
    run.write_text("20 Q0 d0 1 2 t\n22 Q0 d8 1 2 t\n23 Q0 d3 1 2 t\n23 Q0 d9 1 1 t\n")
    dev, counts = dev_set({"split": "dev", "run": str(run)}, data=negatives(per_positive=2))
    names = [[group.query, *(text.split()[0] for text in group.documents)] for group in dev.groups]
    assert sorted(names) == [["q2", "d2", "d8", "d8"], ["q3", "d3", "d9", "d9"]]
    assert counts[LEFT_OUT] == QUERIES - 2
    assert {pair[0] for pair in dev.pairs} == {"q0", "q2", "q3"}  # the measure needs q0, too
    by_loss, _ = dev_set({"split": "dev", "run": str(run), "measures": "loss"})
    assert {pair[0] for pair in by_loss.pairs} == {"q2", "q3"}


@pytest.fixture
def task_of(ranked, on_dev, tmp_path):
    """Makes the task of a training, with changes."""

    def make(model, **changes):
        job = RerankerJob.open(ranked(model=model, dev=on_dev(), **changes), tmp_path, tmp_path)
        task = job.make_task(None, ON_CPU, silent)
        task.reranker.model.train()
        return task

    return make


@pytest.mark.parametrize(
    "loss",
    [
        {"objective": "pointwise", "class_weights": True},
        {"objective": "margin", "margin": 0.0},
        {"objective": "softmax"},
    ],
    ids=lambda loss: loss["objective"],
)
@pytest.mark.parametrize("model", [FROZEN, MONOBERT], ids=["frozen", "monobert"])
def test_the_dev_loss_is_that_of_the_training_without_dropout(task_of, model, loss):
    task = task_of(model, loss=loss)
    value = task.dev_loss(silent)
    assert task.reranker.model.training
    end_to_end = EndToEnd(task.reranker, 512, torch.no_grad)
    logits = torch.tensor([end_to_end.score(group.pairs) for group in task.dev_set.groups])
    assert value == pytest.approx(float(ranking_loss(task.config.loss, logits)), abs=2e-3)
    assert task.dev_loss(silent) == value
    task.prepare(0, silent)
    task.backward(task.read(0))
    assert task.dev_loss(silent) == pytest.approx(value, rel=1e-6)  # no update yet


def test_the_measure_and_the_loss_score_each_pair_once(task_of):
    task = task_of(MONOBERT)
    with counting_scored() as scored:
        task.dev(silent)
        pairs = sum(scored)
        task.dev_loss(silent)
        assert sum(scored) == pairs
        task.backward(task.read(0))
        task.dev(silent)
        assert sum(scored) == 2 * pairs
    grouped = (pair for group in task.dev_set.groups for pair in group.pairs)
    assert pairs == len({*task.dev_set.pairs, *grouped})


def test_a_frozen_encoder_reads_the_dev_groups_from_the_store(task_of):
    with counting_scored() as scored:
        task = task_of(FROZEN)
        task.dev_loss(silent)
        assert scored
        task.prepare(0, silent)
        encoded = sum(scored)
        task.backward(task.read(0))
        task.dev_loss(silent)
        again = task_of(FROZEN, seed=3)
        again.dev_loss(silent)
        assert sum(scored) == encoded


def test_a_grid_may_choose_by_the_dev_loss(ranked, on_dev, tmp_path):
    config = ranked(model=FROZEN, dev=on_dev(measures="loss", every=4), test=on_dev(queries=8))
    grid = {"optimisation.learning_rate": [1e-6, 0.02]}
    plan = TrainingPlan.model_validate({**config.model_dump(mode="json"), "grid": grid})
    compared = train_rerankers(plan, tmp_path)
    lowest = {variant: min(dev_losses(tmp_path / variant.folder).values()) for variant in plan.combinations}
    combinations = compared.record()["combinations"]
    assert [row["dev"] for row in combinations] == [pytest.approx([n]) for n in sorted(lowest.values())]
    assert list(compared.models) == [str(min(lowest, key=lambda variant: lowest[variant]).folder)]
    assert "dev loss" in (tmp_path / "grid.md").read_text()


@pytest.mark.parametrize("model", [FROZEN, MONOBERT], ids=["frozen", "monobert"])
def test_what_is_cut_is_counted_for_queries_and_documents(ranked, negatives, on_dev, tmp_path, model):
    """A query has one token, a document five and a full stop, with three special ones: ten."""
    config = ranked(
        model={**model, "max_length": 9, "max_query": None},
        data=negatives(per_positive=2, per_group=1),
        optimisation={"steps": None, "epochs": 2.0, "warm_up": 0, "batch": 5},
        dev=on_dev(depth=4, queries=10, every=100),
        test=on_dev(depth=3, queries=8),
    )
    train_reranker(config, tmp_path)
    counts = json.loads((tmp_path / "data.json").read_text())
    pairs = 3 * QUERIES  # of an epoch, each relevant pair once
    assert counts["pairs learned from"] == counts["pairs learned from whose document was cut"] == pairs
    assert counts["pairs learned from whose query was cut"] == 0
    assert counts["dev pairs"] == counts["dev pairs whose document was cut"] > 30
    assert counts["dev pairs whose query was cut"] == 0
    tested = json.loads((tmp_path / "test.json").read_text())
    assert (tested["cut_queries"], tested["cut_documents"]) == (0, tested["candidates"])


def test_nothing_is_cut_without_being_counted(ranked, on_dev, tmp_path):
    def compare(folder, **lengths):
        config = ranked(model={**FROZEN, **lengths}, test=on_dev(queries=8))
        plan = TrainingPlan.model_validate(config.model_dump(mode="json"))
        compared = train_rerankers(plan, tmp_path / folder)
        return compared, [note for note in compared.tables()[0].notes if "cut" in note]

    compared, notes = compare("long", max_length=32)
    assert notes == []
    (model,) = compared.models.values()
    counts = read_counts(model.parent)
    assert (counts["pairs learned from"], counts["pairs learned from whose document was cut"]) == (72, 0)
    compared, notes = compare("short", max_length=9, max_query=2)
    (outcome,) = compared.record()["trainings"]
    cut = f"the query of 0 pairs and the document of {outcome['candidates']}"
    assert notes == [f"Longer than the models read, and cut: {cut}."]


def test_the_reports_classifier_is_trained_as_printed(ranked, negatives, on_dev, tmp_path):
    """Section 6.3: three layers, weighted cross-entropy of ten negatives and a relevant one, Adam, dev loss."""
    adam = {"optimiser": "adam", "weight_decay": 0.0, "learning_rate": 0.0005, "schedule": "constant"}
    config = ranked(
        model={**FROZEN, "head": {"hidden": [16, 16, 16], "dropout": 0.3}},
        data=negatives(per_positive=10),
        loss={"objective": "pointwise", "class_weights": True},
        optimisation={**adam, "warm_up": 0, "steps": None, "epochs": 3.0, "batch": 6},
        dev=on_dev(measures="loss", every="1 epochs", patience="3 epochs"),
    )
    assert config.optimisation.max_gradient_norm is None
    train_reranker(config, tmp_path)
    assert list(dev_losses(tmp_path)) == [4, 8, 12]
    logits = torch.tensor([[2.0] + [-1.0] * 10])
    # equation 17: 11 samples, two classes, 1 and 10 of each
    weights = torch.tensor([11 / 2] + [11 / 20] * 10)
    labels = torch.tensor([[1.0] + [0.0] * 10])
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels, weights.unsqueeze(0))
    torch.testing.assert_close(ranking_loss(config.loss, logits), expected)
