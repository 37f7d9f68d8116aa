"""``telerank data stats``."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from telerank.cli.main import app

QUESTIONS = ["Qui est là ?", "Où est-il ?", "Que dit-il ?", "Que dit-on [là] ?"]


@pytest.fixture
def small(tmp_path):
    qas = [{"id": f"q{n}", "question": text, "answers": []} for n, text in enumerate(QUESTIONS)]
    paragraphs = [{"context": "Il est là et il dit oui.", "qas": qas}]
    path = tmp_path / "small.json"
    path.write_text(json.dumps({"data": [{"title": "Ici", "paragraphs": paragraphs}]}))
    return path


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["data", "stats", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_tables_of_the_report_are_shown(small):
    shown = run(small)
    assert "question words (french)" in shown
    assert "[112,212[" in shown
    assert "Que dit-il ?" in shown
    assert "4 pairs of a question and a document: 4 relevant (100.0 %), 0 not" in shown


def test_json_holds_the_numbers_of_every_table(small):
    told = json.loads(run(small, "--json"))
    assert told["documents"]["histogram"] == {"8": 1}
    assert told["inputs"]["bins"][0] == {"name": "[0,112[", "count": 4, "cumulative": 1.0}
    kinds = {one["name"]: one["count"] for one in told["question_words"]["kinds"] if one["count"]}
    assert kinds == {"Que": 2, "Qui": 1, "Où": 1}


def test_several_sets_are_described_one_after_the_other(small, tmp_path):
    other = tmp_path / "other.json"
    other.write_bytes(small.read_bytes())
    assert [one["name"] for one in json.loads(run(small, other, "--json"))] == ["small", "other"]
    run(small, other, "--plots", tmp_path / "plots")
    assert sorted(place.name for place in (tmp_path / "plots").iterdir()) == ["other", "small"]


def test_plots_are_drawn_into_the_folder(small, tmp_path):
    run(small, "--plots", tmp_path / "plots", "--plot-format", "svg")
    names = sorted(place.name for place in (tmp_path / "plots").iterdir())
    assert names == [
        "document-lengths.svg",
        "input-lengths.svg",
        "question-lengths.svg",
        "question-words.svg",
    ]


def test_tokens_are_those_of_a_tokenizer_file(small, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    pieces = tokenizers.Tokenizer(tokenizers.models.WordLevel({"Il": 0, "?": 1}, unk_token="?"))
    pieces.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    pieces.save(str(tmp_path / "tokenizer.json"))
    told = json.loads(run(small, "--tokenizer", tmp_path / "tokenizer.json", "--json"))
    assert told["documents"]["histogram"] == {"8": 1}


@pytest.mark.parametrize(
    ("option", "message"), [("--split=dev", "no split 'dev'"), ("--analyzer=klingon", "klingon")]
)
def test_bad_input_is_one_line(small, option, message):
    program = "from telerank.cli.main import main; main()"
    command = [sys.executable, "-c", program, "data", "stats", str(small), option]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert message in ran.stderr
    assert ran.stderr.count("\n") == 1
