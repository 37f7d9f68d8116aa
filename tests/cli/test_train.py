"""``telerank train`` from the command line."""

from __future__ import annotations

import json
import re
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import yaml

from small_models import small_encoder
from telerank.cli.main import main
from telerank.models.encoders.folders import load_bi_encoder


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_encoder(tmp_path / "encoder")
    folder = tmp_path / "pairs"
    (folder / "qrels").mkdir(parents=True)
    for name, kind in (("corpus", "d"), ("queries", "q")):
        lines = [json.dumps({"_id": f"{kind}{i}", "text": f"{kind}{i}"}) for i in range(6)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    pairs = "\n".join(f"q{i}\td{i}\t1" for i in range(6))
    (folder / "qrels" / "train.tsv").write_text(f"query-id\tcorpus-id\tscore\n{pairs}")
    record = {
        "data": {"collection": "pairs"},
        "model": {"start": "./encoder", "document_length": 12},
        "optimisation": {"steps": 4, "warm_up": 1, "batch": 2, "learning_rate": 0.001},
        "dev": {"split": "train", "queries": 2, "every": 2},
        "log_every": 1,
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(record))
    return record


def run(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["telerank", "train", "bi-encoder", *words])
    with pytest.raises(SystemExit) as left:
        main()
    return left.value.code


def test_a_training_says_how_it_goes_and_leaves_a_model(config, monkeypatch, capsys):
    assert run(monkeypatch, "config.yaml", "-o", "trained") in (0, None)
    said = capsys.readouterr()
    assert said.out == ""
    lines = said.err.splitlines()
    told = r"update 2: loss \d+\.\d{4}, rate 0\.001, dev \d\.\d{4}, dev loss \d\.\d{4}, \d+:\d\d:\d\d, \d+:\d\d:\d\d to go"
    assert re.search(told, " ".join(said.err.split()))
    assert lines[-1] == "trained trained/model"
    assert load_bi_encoder("./trained/model")[0].settings.document.max_length == 12
    assert run(monkeypatch, "config.yaml", "-o", "trained") == 2
    assert "resume it (--resume), or name another folder" in " ".join(capsys.readouterr().err.split())
    assert run(monkeypatch, "config.yaml", "-o", "trained", "--resume") in (0, None)


def test_a_setting_that_does_not_exist_is_one_line_and_status_2(config, monkeypatch, capsys, tmp_path):
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({**config, "epochs": 3}))
    assert run(monkeypatch, "config.yaml") == 2
    assert capsys.readouterr().err == "telerank: config.yaml: expected known keys, not 'epochs'\n"
    assert not (tmp_path / "trained").exists()


def test_a_file_that_is_not_there_is_named(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "nowhere.yaml") == 2
    message = capsys.readouterr().err
    packaged = "bert-dmn/authors, best/robust04, best/trec-dl-2019, piaf/answers, piaf/grid"
    assert f"nowhere.yaml: no such file; packaged trainings are: {packaged}" in message


def test_a_packaged_training_has_a_name(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "repbert/insuranceqa") == 2
    assert "insuranceqa-v2: " in capsys.readouterr().err  # its collection is not in this folder
