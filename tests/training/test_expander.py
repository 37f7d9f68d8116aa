"""Training of models that write queries: the loss is transformers' own, and a word is learned to be asked for."""

from __future__ import annotations

import json
import math
import warnings

import pytest
import torch
from small_training import ON_CPU, PAIRS, expander_training, small_place
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import telerank as tr
from small_seq2seq import small_t5
from telerank.errors import FormatError, ModelError
from telerank.training.expander.train import make_expander_task, train_expander
from telerank.training.log import read_log
from telerank.types import silent

DEV = {"split": "dev", "every": 4, "patience": 8}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = small_place(tmp_path_factory.mktemp("expander"))
    small_t5(folder / "t5")
    return folder


def open_task(place, output, **changes):
    output.mkdir(exist_ok=True)
    config = expander_training(place, **changes)
    return make_expander_task(None, ON_CPU, silent, config=config, output=output, shared=output)


@pytest.mark.parametrize("start", ["encoder", "t5"])
def test_the_loss_is_that_of_transformers(place, tmp_path, start):
    model = {"start": str(place / start), "dropout": 0.0}
    task = open_task(place, tmp_path / "out", model=model, dev=DEV)
    task.written.model.eval()
    task.save(tmp_path / "saved")
    own = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "saved").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "saved")
    batch = task.read(0)
    groups = [task.groups[number] for number in range(6)]
    texts = tokenizer([group.documents[0] for group in groups], padding=True, return_tensors="pt")
    labels = tokenizer([group.query for group in groups], padding=True, return_tensors="pt")["input_ids"]
    labels = labels[:, int(labels[0, 0] == task.written.start_id) :]
    labels = labels.masked_fill(labels == tokenizer.pad_token_id, -100)
    given = {name: texts[name] for name in ("input_ids", "attention_mask")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of the loss of two halves
        expected = own(**given, labels=labels).loss.detach()
    assert float(task.backward(batch)) == pytest.approx(float(expected), rel=1e-5)
    perplexity = task.dev(silent)
    assert perplexity == pytest.approx(math.exp(task.dev_loss(silent)))
    assert len(task.dev_pairs) == PAIRS


def test_it_learns_to_ask_for_a_word_and_expands_documents(place, tmp_path):
    settings = {
        "optimisation": {"steps": 150, "batch": 12, "accumulation": 1, "warm_up": 10, "learning_rate": 0.01},
        "model": {"start": str(place / "t5"), "dropout": 0.0},
        "dev": {**DEV, "every": 50, "patience": 500},
        "checkpoint_every": 100,
    }
    config = expander_training(place, **settings)
    trained = tr.train("expander", config.model_dump(mode="json"), tmp_path / "out")
    values = [record.dev for record in read_log(tmp_path / "out" / "log.jsonl") if record.dev is not None]
    assert values[0] > 20
    assert values[-1] < 1.5
    assert "perplexity" in str(trained.tables()[0])
    counts = json.loads((tmp_path / "out" / "data.json").read_text())
    assert counts["relevant pairs"] == PAIRS
    docs = {f"d{i}": f"d{i} x{i % 5} x{i % 7}" for i in range(PAIRS)}
    tr.expand(
        docs, tmp_path / "q.jsonl", model=str(trained.model), queries=1, sampling="greedy",
        max_length=12, max_query=6,
    )  # fmt: skip
    lines = map(json.loads, (tmp_path / "q.jsonl").read_text().splitlines())
    right = sum(line["predicted_queries"] == [line["id"].replace("d", "q")] for line in lines)
    assert right >= PAIRS - 2


def test_wrong_settings_are_one_line(place, tmp_path):
    record = expander_training(place).model_dump(mode="json")
    data = {**record["data"], "negatives": {"random": True}}
    with pytest.raises(FormatError, match="an expander learns from relevant documents alone"):
        tr.train("expander", {**record, "data": data}, tmp_path / "out")
    with pytest.raises(ModelError, match=r"model\.max_length is 100, but the model has 64 positions"):
        train_expander(expander_training(place, model={"max_length": 100}), tmp_path / "out")
    with pytest.raises(FormatError, match="expected perplexity or loss, got 'AP'"):
        tr.train("expander", {**record, "dev": {"split": "dev", "measures": "AP"}}, tmp_path / "out")


def test_dev_queries_of_the_same_split_are_not_learned_from(place, tmp_path):
    task = open_task(place, tmp_path / "out", dev={"split": "train", "queries": 5, "every": 4, "patience": 8})
    learned = {task.groups[number].query for number in range(len(task.groups))}
    assert len(learned) == PAIRS - 5
    assert not learned & {query for query, _ in task.dev_pairs}
    assert torch.is_grad_enabled()
