"""``telerank data stats``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import ok, refusal

QUESTIONS = ["Qui est là ?", "Où est-il ?", "Que dit-il ?", "Que dit-on [là] ?"]


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    qas = [{"id": f"q{n}", "question": text, "answers": []} for n, text in enumerate(QUESTIONS)]
    paragraphs = [{"context": "Il est là et il dit oui.", "qas": qas}]
    for name in ("small", "other"):
        Path(f"{name}.json").write_text(json.dumps({"data": [{"title": "Ici", "paragraphs": paragraphs}]}))


def test_the_tables_of_the_report_are_shown():
    shown = ok("data stats small.json").stdout
    for text in (
        "question words (french)",
        "[112,212[",
        "Que dit-il ?",
        "4 pairs of a question and a document: 4 relevant (100.0 %), 0 not",
    ):
        assert text in shown


def test_json_holds_the_numbers_of_every_table():
    record = json.loads(ok("data stats small.json --json").stdout)
    assert record["documents"]["histogram"] == {"8": 1}
    assert record["inputs"]["bins"][0] == {"name": "[0,112[", "count": 4, "cumulative": 1.0}
    kinds = {kind["name"]: kind["count"] for kind in record["question_words"]["kinds"] if kind["count"]}
    assert kinds == {"Que": 2, "Qui": 1, "Où": 1}


def test_several_sets_are_described_one_after_the_other_and_drawn_into_folders():
    records = json.loads(ok("data stats small.json other.json --json").stdout)
    assert [record["name"] for record in records] == ["small", "other"]
    ok("data stats small.json other.json --plots plots")
    assert sorted(path.name for path in Path("plots").iterdir()) == ["other", "small"]
    ok("data stats small.json --plots alone --plot-format svg")
    names = ["document-lengths.svg", "input-lengths.svg", "question-lengths.svg", "question-words.svg"]
    assert sorted(path.name for path in Path("alone").iterdir()) == names


def test_tokens_are_those_of_a_tokenizer_file():
    tokenizers = pytest.importorskip("tokenizers")
    pieces = tokenizers.Tokenizer(tokenizers.models.WordLevel({"Il": 0, "?": 1}, unk_token="?"))
    pieces.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    pieces.save("tokenizer.json")
    record = json.loads(ok("data stats small.json --tokenizer tokenizer.json --json").stdout)
    assert record["documents"]["histogram"] == {"8": 1}


@pytest.mark.parametrize(
    ("option", "message"), [("--split=dev", "no split 'dev'"), ("--analyzer=klingon", "klingon")]
)
def test_bad_input_is_refused(option, message):
    assert message in refusal(f"data stats small.json {option}")
