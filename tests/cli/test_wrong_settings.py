"""Settings files that are none, or of other types: one line, and the exit status 2."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from commands import refusal

COMMANDS = (
    "train bi-encoder s.yaml",
    "train reranker s.yaml",
    "experiment run s.yaml",
    "experiment run s.yaml --small",
)
TEXTS = {
    "lists in lists": "[" * 1_000,
    "a date": "a: 2001-99-99",
    "a tag": "data: !!int foo",
    "digits": "seed: " + "9" * 5000,
    "a large number": "data: {collection: c}\nseed: " + "9" * 4000,
    "nothing": "",
    "a word": "word",
    "a list": "[1, 2]",
    "numbers as keys": "1: 2\n2001-01-01: 3\nnull: 4",
    "a list as data": "data: [1]",
    "a date as data": "data: 2001-01-01",
    "a set": "data: !!set {a, b}\ntitle: !!set {a}",
    "bytes": "data: !!binary aGk=\ntitle: !!binary aGk=",
    "pairs": "data: !!omap [a: 1]\nmodels: !!pairs [a: 1]",
    "infinity": "data: {collection: c}\noptimisation: {steps: .inf, learning_rate: .nan}",
    "sections": "model: 5\noptimisation: x\ndev: []\ndata: {}\ntest: 1",
    "a kind": "data: {collection: c}\nmodel: {kind: {a: 1}, start: [1]}",
    "a grid": "data: {collection: c}\ngrid: {a.b: [1], {a: 1}: [2]}",
    "a grid of a word": "data: {collection: c}\ngrid: word",
    "small": "title: t\nsmall: [1]\ndata: {a: {}}\nanalyses: {}",
    "systems": "title: t\ndata: {a: {}}\nsystems: {a: 1, b: [1]}\nanalyses: [{kind: x}]\nsmall: {data: 1}",
    "deep systems": "title: t\ndata: {a: {}}\nsystems: {a: '%s'}\nanalyses: [{kind: recall, depths: [1]}]"
    % ("(" * 50_000),
    "differs": "title: t\ndata: {a: {differs: {data: {b: 1}, analyses: 5}}}\nanalyses: [{kind: recall, depths: [1]}]",
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_settings_that_are_none_are_named(text, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    line = refusal(command)
    assert line.startswith("telerank: s.yaml:")
    assert len(line) < 700
