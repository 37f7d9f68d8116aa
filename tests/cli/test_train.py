"""``telerank train`` from the command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import yaml

from commands import ok, refusal
from small_models import small_encoder
from small_set import write_beir
from telerank.models.encoders.folders import load_bi_encoder

CONFIG = {
    "data": {"collection": "pairs"},
    "model": {"start": "./encoder", "document_length": 12},
    "optimisation": {"steps": 4, "warm_up": 1, "batch": 2, "learning_rate": 0.001},
    "dev": {"split": "train", "queries": 2, "every": 2},
    "log_every": 1,
}
TRAIN = "train bi-encoder config.yaml -o trained"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_training_says_how_it_goes_and_leaves_a_model(tmp_path):
    small_encoder(tmp_path / "encoder")
    docs = ({"_id": f"d{i}", "text": f"d{i}"} for i in range(6))
    qrels = {"train": [(f"q{i}", f"d{i}", 1) for i in range(6)]}
    write_beir(tmp_path / "pairs", docs, {f"q{i}": f"q{i}" for i in range(6)}, qrels)
    Path("config.yaml").write_text(yaml.safe_dump(CONFIG))
    printed = ok(TRAIN)
    assert printed.stdout == ""
    line = r"update 2: loss \d+\.\d{4}, rate 0\.001, dev \d\.\d{4}, dev loss \d\.\d{4}, \d+:\d\d:\d\d, \d+:\d\d:\d\d to go"
    assert re.search(line, " ".join(printed.stderr.split()))
    assert printed.stderr.splitlines()[-1] == "trained trained/model"
    assert load_bi_encoder("./trained/model")[0].settings.document.max_length == 12
    assert "resume it (--resume), or name another folder" in refusal(TRAIN)
    ok(f"{TRAIN} --resume")


def test_a_setting_that_does_not_exist_is_refused():
    Path("config.yaml").write_text(yaml.safe_dump({**CONFIG, "epochs": 3}))
    assert refusal(TRAIN) == "telerank: config.yaml: expected known keys, not 'epochs'"
    assert not Path("trained").exists()


def test_a_file_that_is_not_there_is_named():
    packaged = "bert-dmn/authors, best/robust04, best/trec-dl-2019, piaf/answers, piaf/grid"
    message = f"nowhere.yaml: no such file; packaged trainings are: {packaged}"
    assert message in refusal("train bi-encoder nowhere.yaml")


def test_a_packaged_training_has_a_name():
    said = refusal("train bi-encoder repbert/insuranceqa")
    assert "insuranceqa-v2: " in said  # its collection is not in this folder
