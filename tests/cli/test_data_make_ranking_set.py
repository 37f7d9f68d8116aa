"""``telerank data make-ranking-set`` with the sparse engine behind it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from telerank.cli.main import app
from telerank.corpus.formats import open_collection

PARAGRAPHS = 24


@pytest.fixture
def rivers(tmp_path) -> Path:
    """Towns by rivers; two towns a river, so that the neighbour's paragraph holds the answer."""
    paragraphs = []
    for n in range(PARAGRAPHS):
        text = f"La ville numéro v{n} est au bord du fleuve f{n // 2}."
        qas = [
            {
                "id": f"{n}-{k}",
                "question": question,
                "answers": [{"text": f"f{n // 2}", "answer_start": text.index(f"f{n // 2}")}],
            }
            for k, question in enumerate(
                (f"Quel fleuve coule à v{n} ?", f"Au bord de quel fleuve est la ville v{n} ?")
            )
        ]
        paragraphs.append({"context": text, "qas": qas})
    path = tmp_path / "rivers.json"
    path.write_text(json.dumps({"data": [{"title": "Villes", "paragraphs": paragraphs}]}))
    return path


def run(*arguments: object) -> str:
    result = CliRunner().invoke(
        app, ["data", "make-ranking-set", *map(str, arguments)], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return result.stdout


def test_bm25_negatives_share_words_with_the_question_and_do_not_hold_its_answer(rivers, tmp_path):
    told = json.loads(run(tmp_path / "set", rivers, "--analyzer", "french", "--depth", 5, "--json"))
    assert told["recipe"]["model"] == "bm25 over french"
    assert told["merged"]["kept"] == 2 * PARAGRAPHS
    assert {part: one["questions"] for part, one in told["parts"].items()} == {
        "train": 38,
        "dev": 5,
        "test": 5,
    }
    assert told["refused_as_negative"]["holds the answer"] > 0
    opened = open_collection(tmp_path / "set")
    texts = {doc.docno: doc.text for doc in opened.docs()}
    for part in ("train", "dev", "test"):
        answers = {one.qid: one for one in opened.answers[part]()}
        for ranking in opened.pools[f"{part}/negatives"]():
            assert len(ranking) == 5
            answer = answers[ranking.query.qid]
            assert answer.docno not in ranking.docnos
            assert not any(f"{answer.text}." in texts[docno] for docno in ranking.docnos)


def test_no_titles_leaves_the_titles_out(rivers, tmp_path):
    for options, titles in (((), {"Villes"}), (("--no-titles",), {""})):
        folder = tmp_path / f"set{len(options)}"
        told = json.loads(run(folder, rivers, "--negatives", "random", *options, "--json"))
        assert told["recipe"]["titles"] is not bool(options)
        assert {doc.title for doc in open_collection(folder).docs()} == titles


def test_the_table_shows_parts_and_the_leak(rivers, tmp_path):
    shown = run(tmp_path / "set", rivers, "--negatives", "random")
    assert "48 questions; left out: 0 duplicates" in shown
    assert "also in train" in shown
    assert [line.split("│")[1].strip() for line in shown.splitlines() if line.startswith("│")] == [
        "train",
        "dev",
        "test",
    ]
    shown = run(tmp_path / "other", rivers, "--negatives", "gold", "--split-by", "paragraph")
    assert shown.count("0 (0.0 %)") == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--analyzer", "klingon"], "klingon"),
        (["--model", "bm26"], "bm26"),
        (["--format", "beir"], "corpus.jsonl"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(rivers, tmp_path, options, message):
    program = "from telerank.cli.main import main; main()"
    command = [
        sys.executable,
        "-c",
        program,
        "data",
        "make-ranking-set",
        str(tmp_path / "set"),
        str(rivers),
        *options,
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.startswith("telerank: ")
    assert message in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert not (tmp_path / "set").exists()


@pytest.mark.data
def test_the_french_sets_with_bm25_have_nearly_eleven_pairs_a_question_as_in_the_report(data, tmp_path):
    told = json.loads(run(tmp_path / "set", data / "piaf", data / "fquad", "--analyzer", "french", "--json"))
    pairs = sum(one["positives"] + one["negatives"] for one in told["parts"].values())
    assert 10.85 < pairs / told["merged"]["kept"] < 11
    assert told["leak"]["test"] == {"documents": 891, "in_train": 889}
