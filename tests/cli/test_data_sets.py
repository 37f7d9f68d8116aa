"""``telerank data make-ranking-set`` with the sparse engine behind it, and ``telerank data stats``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import ok, refusal
from telerank.corpus.formats import open_collection

PARAGRAPHS = 24
MAKE = "data make-ranking-set set rivers.json"


@pytest.fixture(autouse=True)
def rivers(tmp_path, monkeypatch):
    """Towns by rivers; two towns a river, so that the neighbour's paragraph holds the answer."""
    monkeypatch.chdir(tmp_path)
    paragraphs = []
    for n in range(PARAGRAPHS):
        river = f"f{n // 2}"
        text = f"La ville numéro v{n} est au bord du fleuve {river}."
        answers = [{"text": river, "answer_start": text.index(river)}]
        questions = (f"Quel fleuve coule à v{n} ?", f"Au bord de quel fleuve est la ville v{n} ?")
        qas = [
            {"id": f"{n}-{k}", "question": question, "answers": answers}
            for k, question in enumerate(questions)
        ]
        paragraphs.append({"context": text, "qas": qas})
    Path("rivers.json").write_text(json.dumps({"data": [{"title": "Villes", "paragraphs": paragraphs}]}))


def test_bm25_negatives_share_words_with_the_question_and_do_not_hold_its_answer():
    record = json.loads(ok(f"{MAKE} --analyzer french --depth 5 --json").stdout)
    assert record["recipe"]["model"] == "bm25 over french"
    assert record["merged"]["kept"] == 2 * PARAGRAPHS
    questions = {part: counts["questions"] for part, counts in record["parts"].items()}
    assert questions == {"train": 38, "dev": 5, "test": 5}
    assert record["refused_as_negative"]["holds the answer"] > 0
    opened = open_collection("set")
    texts = {doc.docno: doc.text for doc in opened.docs()}
    for part in questions:
        answers = {answer.qid: answer for answer in opened.answers[part]()}
        for ranking in opened.pools[f"{part}/negatives"]():
            assert len(ranking) == 5
            answer = answers[ranking.query.qid]
            assert answer.docno not in ranking.docnos
            assert not any(f"{answer.text}." in texts[docno] for docno in ranking.docnos)


@pytest.mark.parametrize(("option", "title"), [("", "Villes"), ("--no-titles", "")])
def test_no_titles_leaves_the_titles_out(option, title):
    record = json.loads(ok(f"{MAKE} --negatives random {option} --json").stdout)
    assert record["recipe"]["titles"] is not bool(option)
    assert {doc.title for doc in open_collection("set").docs()} == {title}


def test_the_table_shows_parts_and_the_leak():
    shown = ok(f"{MAKE} --negatives random").stdout
    assert "48 questions; left out: 0 duplicates" in shown
    assert "also in train" in shown
    rows = [line.split("│")[1].strip() for line in shown.splitlines() if line.startswith("│")]
    assert rows == ["train", "dev", "test"]
    other = ok("data make-ranking-set other rivers.json --negatives gold --split-by paragraph").stdout
    assert other.count("0 (0.0 %)") == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [("--analyzer klingon", "klingon"), ("--model bm26", "bm26"), ("--format beir", "corpus.jsonl")],
)
def test_bad_input_is_refused_and_leaves_nothing(options, message):
    assert message in refusal(f"{MAKE} {options}")
    assert not Path("set").exists()


@pytest.mark.data
def test_the_french_sets_with_bm25_have_nearly_eleven_pairs_a_question_as_in_the_report(data):
    record = json.loads(
        ok(f"data make-ranking-set set {data}/piaf {data}/fquad --analyzer french --json").stdout
    )
    pairs = sum(counts["positives"] + counts["negatives"] for counts in record["parts"].values())
    assert 10.85 < pairs / record["merged"]["kept"] < 11
    assert record["leak"]["test"] == {"documents": 891, "in_train": 889}


QUESTIONS = ["Qui est là ?", "Où est-il ?", "Que dit-il ?", "Que dit-on [là] ?"]


@pytest.fixture
def small(rivers):
    qas = [{"id": f"q{n}", "question": text, "answers": []} for n, text in enumerate(QUESTIONS)]
    paragraphs = [{"context": "Il est là et il dit oui.", "qas": qas}]
    for name in ("small", "other"):
        Path(f"{name}.json").write_text(json.dumps({"data": [{"title": "Ici", "paragraphs": paragraphs}]}))


def test_the_tables_of_the_report_are_shown(small):
    shown = ok("data stats small.json").stdout
    for text in (
        "question words (french)",
        "[112,212[",
        "Que dit-il ?",
        "4 pairs of a question and a document: 4 relevant (100.0 %), 0 not",
    ):
        assert text in shown


def test_json_holds_the_numbers_of_every_table(small):
    record = json.loads(ok("data stats small.json --json").stdout)
    assert record["documents"]["histogram"] == {"8": 1}
    assert record["inputs"]["bins"][0] == {"name": "[0,112[", "count": 4, "cumulative": 1.0}
    kinds = {kind["name"]: kind["count"] for kind in record["question_words"]["kinds"] if kind["count"]}
    assert kinds == {"Que": 2, "Qui": 1, "Où": 1}


def test_several_sets_are_described_one_after_the_other_and_drawn_into_folders(small):
    records = json.loads(ok("data stats small.json other.json --json").stdout)
    assert [record["name"] for record in records] == ["small", "other"]
    ok("data stats small.json other.json --plots plots")
    assert sorted(path.name for path in Path("plots").iterdir()) == ["other", "small"]
    ok("data stats small.json --plots alone --plot-format svg")
    names = ["document-lengths.svg", "input-lengths.svg", "question-lengths.svg", "question-words.svg"]
    assert sorted(path.name for path in Path("alone").iterdir()) == names


def test_tokens_are_those_of_a_tokenizer_file(small):
    tokenizers = pytest.importorskip("tokenizers")
    pieces = tokenizers.Tokenizer(tokenizers.models.WordLevel({"Il": 0, "?": 1}, unk_token="?"))
    pieces.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    pieces.save("tokenizer.json")
    record = json.loads(ok("data stats small.json --tokenizer tokenizer.json --json").stdout)
    assert record["documents"]["histogram"] == {"8": 1}


@pytest.mark.parametrize(
    ("option", "message"), [("--split=dev", "no split 'dev'"), ("--analyzer=klingon", "klingon")]
)
def test_bad_input_of_statistics_is_refused(small, option, message):
    assert message in refusal(f"data stats small.json {option}")
