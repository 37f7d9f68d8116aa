"""Trainings of term weights: closed formulas of targets and losses, dev, resuming, wrong settings."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_term_weights import PAIRS, counts_of, weights_place, weights_training
from small_training import dev_losses, losses

import telerank as tr
from small_models import small_tokenizer
from telerank.errors import CollectionError, FormatError, ModelError
from telerank.models.encoders.bi_encoder import Side, SideTokenizer
from telerank.models.precision import precision
from telerank.text import Analyzer
from telerank.training.parallel import ALONE
from telerank.training.task import TrainingDevice
from telerank.training.term_weights.recall import JudgedDocument, RecallTargets
from telerank.training.term_weights.train import make_recall_task, train_term_weights
from telerank.types import silent

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return weights_place(tmp_path_factory.mktemp("weights"))


def open_task(place, output, **changes):
    output.mkdir(exist_ok=True)
    hardware = TrainingDevice(CPU, precision("float32", CPU), ALONE)
    return make_recall_task(None, hardware, silent, config=weights_training(place, **changes), output=output)


def test_recall_is_the_share_of_queries_that_hold_a_term():
    queries = ("presses of olives", "the olive press, an olive press", "oil")
    document = JudgedDocument("1", "The olive-press pressed oil and bread.", queries)
    analyzer = Analyzer.parse("english")
    assert document.recall(analyzer) == {"press": 2 / 3, "oliv": 2 / 3, "oil": 1 / 3}


def test_each_word_has_a_target_and_words_of_no_query_have_0():
    tokenizer = SideTokenizer(small_tokenizer("bert"), Side(64))
    targets = RecallTargets(tokenizer, Analyzer.parse("whitespace"), only_first=True)
    document = JudgedDocument("1", "d1 d2 d3 d1", ("d1 q1", "d3 d1"))
    [(text, words)] = targets([document])
    assert len(text.ids) == 6
    assert words == [(range(1, 2), 1.0), (range(2, 3), 0.0), (range(3, 4), 0.5), (range(4, 5), 1.0)]
    stopped = RecallTargets(tokenizer, Analyzer.parse("english"), only_first=True)
    [(text, words)] = stopped([JudgedDocument("1", "the d1, and", ("the d1",))])
    assert [target for _, target in words] == [0.0, 1.0, 0.0, 0.0]  # stop words and punctuation count


@pytest.mark.parametrize("word", ["first", "largest"])
def test_the_loss_is_the_mean_squared_error_over_words(place, tmp_path, word):
    model = {"start": str(place / "encoder"), "dropout": 0.0, "document_length": 16, "word": word}
    task = open_task(place, tmp_path / "out", model=model)
    batch = task.read(1)
    loss = task.backward(batch)
    with torch.no_grad():
        weights = task.weigher(batch.input_ids, batch.attention_mask).flatten()
    errors = []
    for slot, target in enumerate(batch.targets.tolist()):
        held = [weights[piece] for piece, own in zip(batch.pieces, batch.slots, strict=True) if own == slot]
        errors.append((float(max(held)) - target) ** 2)
    assert float(loss) == pytest.approx(np.mean(errors), rel=1e-5)
    assert all(weight.grad is not None for weight in task.weigher.head.parameters())
    # of a document "d3 x3, x3 d4" with the query "d3 q3" the words are d3, x3, the comma, x3 and d4
    assert len(batch.targets) == 5 * 6
    assert float(batch.targets.sum()) >= 6 - 1  # d0 has three queries, one of which holds d0
    assert counts_of(tmp_path / "out") == {"queries": PAIRS, "relevant pairs": PAIRS + 2, "documents": PAIRS}


def test_a_training_learns_which_words_are_asked_for(place, tmp_path):
    changes = {
        "optimisation": {"steps": 60, "batch": 12, "warm_up": 5, "learning_rate": 0.01},
        "dev": {"split": "dev", "every": 30, "measures": "RR@10"},
        "model": {"start": str(place / "encoder"), "document_length": 16, "dropout": 0.0},
    }
    trained = tr.train(
        "term-weights", weights_training(place, **changes).model_dump(mode="json"), tmp_path / "o"
    )
    assert losses(tmp_path / "o")[60] < 0.1 * losses(tmp_path / "o")[1]
    assert set(dev_losses(tmp_path / "o")) == {30, 60}
    measured = losses(tmp_path / "o", "dev")
    assert measured[60] > 0.9
    counts = counts_of(tmp_path / "o")
    assert (counts["documents"], counts["dev documents"]) == (18, 6)
    assert counts["relevant pairs with dev documents, left out"] == 6
    index = tr.index(
        place / "collection", tmp_path / "idx", analyzer="standard", weights_model=str(trained.model)
    )
    found = index.bm25(8, 0.9, over="weights").search("d30")  # of a document without a query
    assert found.docnos[0] == "d30"  # which begins with it, before d29, which ends with it


def test_the_dev_loss_is_the_error_of_the_documents_of_dev(place, tmp_path):
    dev = {"split": "dev", "every": 4, "measures": "loss"}
    task = open_task(
        place, tmp_path / "out", dev=dev, model={"start": str(place / "encoder"), "document_length": 16}
    )
    value = task.dev_loss(silent)
    made = task.targets(task.held_out)
    with torch.no_grad():
        errors = [
            float(
                task.weigher.eval()(
                    torch.tensor([text.ids]), torch.ones(1, len(text.ids), dtype=torch.int64)
                )[0, p.start]
                - target
            )
            ** 2
            for text, words in made
            for p, target in words
        ]
    assert value == pytest.approx(np.mean(errors), rel=1e-4)
    assert task.dev(silent) is None


def test_a_training_that_is_resumed_has_the_same_weights(place, tmp_path):
    config = weights_training(place, dev={"split": "dev", "every": 4, "measures": "loss"})
    train_term_weights(config, tmp_path / "whole")
    seen = []

    def stop(record):
        seen.append(record.step)
        if record.step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_term_weights(config, tmp_path / "parts", report=stop)
    train_term_weights(config, tmp_path / "parts", resume=True)
    for name in ("model.safetensors", "term_weights.safetensors"):
        whole, parts = (load_file(tmp_path / output / "model" / name) for output in ("whole", "parts"))
        assert all(torch.equal(weight, parts[key]) for key, weight in whole.items())
    assert losses(tmp_path / "whole") == losses(tmp_path / "parts")


def test_wrong_settings_are_refused_in_a_line(place, tmp_path):
    for changes, words in (
        ({"model": {"kind": "deepct", "queries": "model"}}, "queries must be counts or ones"),
        ({"model": {"scale": -2}}, "scale must be from 0"),
        ({"data": {"collection": "x", "negatives": {"random": True}}}, "leave out data.negatives"),
        ({"model": {"kind": "other"}}, "model.kind"),
    ):
        record = {**weights_training(place).model_dump(mode="json"), **changes}
        with pytest.raises(FormatError, match=words):
            tr.train("term-weights", record, tmp_path / "out")
    with pytest.raises(ModelError, match="texts of 67 tokens, but the model has 66 positions"):
        open_task(place, tmp_path / "a", model={"start": str(place / "encoder"), "document_length": 67})
    with pytest.raises(CollectionError, match="has no split 'test'"):
        open_task(place, tmp_path / "b", data={"collection": str(place / "collection"), "split": "test"})
