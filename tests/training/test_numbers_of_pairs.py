"""Trainings on a number of pairs, and on pairs that have labels of their own."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest
import torch

from car_set import car_set
from small_ranking import QUERIES, ranking_settings
from telerank.corpus.formats import open_collection
from telerank.errors import CollectionError, FormatError
from telerank.training.bi_encoder.config import BiEncoderTraining
from telerank.training.examples.reading import Reading, read_groups
from telerank.training.reranker.config import RerankerLoss, RerankerTraining
from telerank.training.reranker.plan import Study, TrainingPlan
from telerank.training.reranker.task import ranking_loss
from telerank.training.reranker.train import train_reranker
from telerank.training.settings import read_settings


@pytest.fixture
def read(ranked, tmp_path):
    def read(**changes):
        config = ranked(**changes)
        reading = Reading(config.data, config.data_seed, open_collection(config.data.collection))
        return read_groups(reading, tmp_path / "texts"), reading.counts

    return read


def pairs_of(groups, count):
    return Counter(pair for number in range(count) for pair in groups[number].pairs)


def test_a_number_of_pairs_is_learned_from_in_whole_groups_and_less_is_a_part_of_more(read):
    (few, counts), (more, _) = (read(data={"pairs": pairs}) for pairs in (14, 30))
    assert (len(few), len(more), counts["pairs learned from"]) == (4, 10, 12)  # groups of three pairs
    assert pairs_of(few, 4) <= pairs_of(more, 10)
    epochs = [[few[number] for number in range(first, first + 4)] for first in (0, 4, 8)]
    assert set(epochs[0]) == set(epochs[1]) == set(epochs[2])
    assert len({tuple(epoch) for epoch in epochs}) > 1  # in another order
    assert (few.window, few.repeats_from) == (4, 4)


@pytest.mark.parametrize("pairs", [2, 3 * QUERIES + 1])
def test_pairs_that_are_not_there_are_refused(read, pairs):
    says = f"expected data.pairs from 3, .* to {3 * QUERIES}, got {pairs}"
    with pytest.raises(CollectionError, match=says):
        read(data={"pairs": pairs})


def triples(ranking_set, tmp_path, count, **more):
    path = tmp_path / f"{count}.tsv"
    path.write_text("".join(f"1{i % QUERIES}\td{i % 40}\td{(i + 1) % 40}\n" for i in range(count)))
    collection = str(ranking_set / "collection")
    return {"collection": collection, "negatives": None, "triples": {"file": str(path), "window": 10}, **more}


def test_the_first_triples_of_a_file_are_learned_from_window_by_window(read, ranking_set, tmp_path):
    groups, _ = read(data=triples(ranking_set, tmp_path, 100, pairs=50))
    whole, _ = read(data=triples(ranking_set, tmp_path, 100))
    assert (len(groups), groups.window) == (25, 10)
    assert pairs_of(groups, 25) == pairs_of(whole, 25)
    assert pairs_of(groups, 50) == pairs_of(whole, 25) + pairs_of(whole, 25)
    short, _ = read(data=triples(ranking_set, tmp_path, 30, pairs=80))
    with pytest.raises(CollectionError, match="there are only 30 groups, not 40"):
        pairs_of(short, 40)


def test_the_size_curve_counts_pairs_on_a_logarithmic_axis(ranking_set):
    test = {"split": "dev", "run": str(ranking_set / "dev.run")}
    plan = TrainingPlan.model_validate(ranking_settings(ranking_set, test=test, sizes=(100, 400)))
    assert [variant.apply(plan).data.pairs for variant in plan.variants] == [100, 400]
    outcome = {"queries": 9, "candidates": 50, "without": 0, "measures": {"AP": 0.5}, "before": {"AP": 0.4}}
    from telerank.training.reranker.plan import RerankerOutcome

    study = Study({variant: RerankerOutcome(**outcome) for variant in plan.variants})
    assert [row[0].text for row in study.table().rows] == ["first stage", "100 pairs", "400 pairs"]
    (panel,) = study.plot().axes
    assert (panel.get_xscale(), panel.get_xlabel()) == ("log", "training pairs")


@pytest.fixture(scope="module")
def car(tmp_path_factory):
    return car_set(tmp_path_factory.mktemp("car") / "trec-car")


def listed(ranking_set, car, run, **changes):
    data = {"collection": str(car), "split": "train.fold0+train.fold1", "negatives": None}
    return {
        "data": data | {"listed": {"run": str(run), "depth": 3}},
        "model": {"kind": "monobert"},
        **changes,
    }


@pytest.fixture(scope="module")
def run(car, tmp_path_factory):
    """For each query of two folds a relevant paragraph, one of another section, and one that is not read."""
    collection = open_collection(car)
    judged = collection.judged("train.fold0+train.fold1")
    relevant = {qid: list(grades) for qid, grades in judged.items()}
    others = [docno for docnos in relevant.values() for docno in docnos]
    lines = []
    for row, (qid, docnos) in enumerate(relevant.items()):
        wrong = [docno for docno in others if docno not in docnos]
        best = [docnos[0], wrong[row], wrong[row + 1], docnos[1]] if row % 2 else wrong[:4]
        lines += [f"{qid} Q0 {docno} 0 {9 - rank} x\n" for rank, docno in enumerate(best)]
    path = tmp_path_factory.mktemp("runs") / "train.run"
    path.write_text("".join(lines))
    return path


def test_documents_of_lists_have_labels_of_their_own(ranked, ranking_set, car, run):
    config = ranked(**listed(ranking_set, car, run))
    collection = open_collection(car)
    reading = Reading(config.data, 0, collection)
    groups = read_groups(reading, ranking_set / "car-texts")
    queries = 2 * 6 * 2  # folds, pages, sections
    expected = {"queries": queries, "pairs": 3 * queries, "relevant pairs": queries // 2}
    assert reading.counts == {**expected, "queries without a list, left out": 0}
    judged, labels = collection.judged("train.fold0+train.fold1"), Counter()
    for number in range(len(groups)):
        group = groups[number]
        (docno,) = group.docnos
        assert group.relevant == (docno in judged[group.qid])
        labels[group.qid] += group.relevant
    assert sorted(labels.values()) == [0] * (queries // 2) + [1] * (queries // 2)
    assert {groups[number] for number in range(len(groups), 2 * len(groups))} == {
        groups[number] for number in range(len(groups))
    }


def test_the_loss_of_a_pair_is_the_cross_entropy_of_its_label():
    logits, first = torch.tensor([[0.3], [-1.2]]), torch.tensor([1.0, 0.0])
    expected = (math.log1p(math.exp(-0.3)) + math.log1p(math.exp(-1.2))) / 2
    assert float(ranking_loss(RerankerLoss(), logits, None, first)) == pytest.approx(expected)


def test_a_re_ranker_learns_from_labelled_pairs(ranked, ranking_set, car, run, tmp_path):
    changes = listed(ranking_set, car, run, optimisation={"steps": 4, "batch": 8})
    config = ranked(**changes)
    train_reranker(config, tmp_path / "out")
    assert (tmp_path / "out/model/reranker.json").exists()
    assert json.loads((tmp_path / "out/data.json").read_text())["relevant pairs"] == 12


@pytest.mark.parametrize("loss", [{"objective": "margin"}, {"class_weights": True}])
def test_labelled_pairs_have_the_pointwise_loss_alone(ranking_set, car, run, loss):
    with pytest.raises(FormatError, match="labels of their own: objective pointwise, no class_weights"):
        read_settings(
            ranking_settings(ranking_set, **listed(ranking_set, car, run, loss=loss)), RerankerTraining
        )
    data = {"collection": str(car), "listed": {"run": str(run)}}
    with pytest.raises(FormatError, match="listed documents are for re-rankers"):
        read_settings({"data": data}, BiEncoderTraining)
