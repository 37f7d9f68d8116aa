"""telerank evaluate and compare on files of predicted answers; the files themselves."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from commands import ok, refusal
from telerank.corpus.answers import (
    is_predictions_file,
    read_no_answer,
    read_predictions,
    write_predictions,
)
from telerank.errors import CollectionError, FormatError
from telerank.verbs.evaluate import compare_answers, evaluate_answers, read_gold

QUESTIONS = [
    {"id": "q1", "question": "Qui rit ?", "answers": [{"text": "le roi", "answer_start": 0}]},
    {"id": "q2", "question": "Où ?", "answers": [{"text": "l’an 2000", "answer_start": 99}]},
    {"id": "q3", "question": "Quand ?", "answers": [], "is_impossible": True},
]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """gold.json, two files of predictions, values of no-answer, in the working folder."""
    monkeypatch.chdir(tmp_path)
    paragraphs = [{"context": "le roi rit.", "qas": QUESTIONS}]
    (tmp_path / "gold.json").write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}))
    write_predictions("good.json", {"q1": "Le roi", "q2": "« l'an 2000 »", "q3": ""})
    write_predictions("bad.json.gz", {"q1": "rit", "q2": "", "q3": "x"})
    write_predictions("none.json", {"q1": 0.1, "q2": 0.2, "q3": 0.9})


def test_predictions_are_measured():
    command = "evaluate gold.json good.json bad.json.gz --json --groups --per-query"
    record = json.loads(ok(command).stdout)
    good, bad = record["systems"]
    assert (record["questions"], record["unanswerable"]) == (3, 1)
    assert good["mean"]["EM"] == pytest.approx(2 / 3)  # SQuAD's does not know the quotation marks
    assert good["mean"]["EM(fr)"] == 1
    assert bad["mean"]["EM"] == 0
    assert good["per_query"]["q2"]["EM(fr)"] == 1  # an answer that does not occur in its paragraph counts
    assert good["question_word"]["où"]["questions"] == 1
    assert good["squad2"]["has_answer"]["questions"] == 2


def test_tables_name_each_measure():
    shown = ok("evaluate gold.json good.json --groups").stdout
    for words in ("F1(characters): of characters", "HasAns", "By question word", "no answer"):
        assert words in shown


def test_chosen_measures():
    record = json.loads(ok("evaluate gold.json good.json -m 'F1(fr) EM' --json").stdout)
    assert list(record["systems"][0]["mean"]) == ["F1(fr)", "EM"]


def test_values_of_no_answer():
    write_predictions("all.json", {"q1": "le roi", "q2": "l’an 2000", "q3": "x"})
    command = "evaluate gold.json all.json --no-answer none.json --threshold 0.5 --json -m EM"
    system = json.loads(ok(command).stdout)["systems"][0]
    assert system["mean"]["EM"] == 1
    assert system["squad2"]["best"]["EM"] == {"mean": 1, "threshold": 0.2}


def test_predictions_are_compared():
    shown = ok("compare gold.json bad.json.gz good.json --baseline bad.json.gz --json").stdout
    rows = json.loads(shown)["differences"]
    assert [(row["system"], row["baseline"]) for row in rows] == [("good", "bad")] * 6
    with pytest.raises(CollectionError, match="nothing to compare"):
        compare_answers(evaluate_answers(["good.json"], "gold.json"))
    with pytest.raises(CollectionError, match="there is no system 'x'; known: good, bad"):
        compare_answers(evaluate_answers(["good.json", "bad.json.gz"], "gold.json"), ["x"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("good.json run.txt", "run.txt holds no predictions, good.json does"),
        ("good.json --depths 1,2", "--depths is for runs"),
        ("good.json --strict", "--strict is for runs"),
        ("run.txt --groups", "are for predicted answers, and these are runs"),
        ("good.json -m AP", "'AP' is not a measure of answers"),
        ("good.json good.json", "given twice"),
        ("other.json", "it answers no question of these (its first is 'q9')"),
        ("good.json bad.json.gz --no-answer none.json", "one by one"),
        ("good.json --no-answer few.json", "2 questions, as 'q2', have no"),
        ("good.json --split dev", "has no split 'dev'"),
    ],
)
def test_what_does_not_fit_is_refused(words, message):
    Path("run.txt").write_text("q1 Q0 0-0 1 1.0 tag\n")
    write_predictions("other.json", {"q9": "x"})
    write_predictions("few.json", {"q1": 0.5})
    assert message in refusal(f"evaluate gold.json {words}")


def test_a_collection_without_answers_is_refused():
    Path("set.jsonl").write_text('{"id": "d", "text": "x"}\n')
    with pytest.raises(CollectionError, match=r"no queries|has no answers"):
        read_gold("set.jsonl")


def test_files_are_read_as_they_were_written():
    texts = {"q1": "«\u202foui\u202f»\n non", "q2": "", "q3": "ﬁ שלום"}
    for name in ("a.json", "a.json.gz", "a.json.xz"):
        write_predictions(name, texts)
        assert is_predictions_file(name)
        assert read_predictions(name) == texts
    assert read_no_answer("none.json") == {"q1": 0.1, "q2": 0.2, "q3": 0.9}


def test_lines_are_read_and_the_first_of_a_question_counts():
    lines = [
        {"query-id": "q1", "corpus-id": "d", "text": "un", "start": 3},
        {"query-id": "q1", "text": "deux"},
        {"query-id": "q2", "text": ""},
    ]
    Path("p.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_predictions("p.jsonl") == {"q1": "un", "q2": ""}
    lists = [
        {"query-id": "q1", "answers": [{"text": "un"}, {"text": "x"}]},
        {"query-id": "q2", "answers": []},
    ]
    Path("p.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lists))
    assert read_predictions("p.jsonl") == {"q1": "un", "q2": ""}
    Path("p.jsonl").write_text(json.dumps(lines[0]))
    assert read_predictions("p.jsonl") == {"q1": "un"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "an empty file"),
        ("[1]", "expected an object from question ids"),
        ('{"q1": 3}', "expected a text as the answer of 'q1'"),
        ('{"q1": "a", "q1": "b"}', "'q1' comes twice"),
        ('{"q1": "a"', "expected JSON"),
        ('{"query-id": "q1", "text": "x"}\n{"text": "y"}', "p.json:2: expected an object with query-id"),
        ('{"query-id": "q1", "answers": [3]}', "expected a text as the answer of 'q1'"),
        ('{"query-id": "q1"}', "p.json:1: expected a text as the answer of 'q1'"),
        ('{"query-id": "q1", "text": "x"}\nx', "p.json:2: expected a JSON object"),
    ],
)
def test_files_that_hold_no_predictions(text, words):
    Path("p.json").write_text(text)
    with pytest.raises(FormatError, match=r"\w") as error:
        read_predictions("p.json")
    assert words in str(error.value)


@pytest.mark.parametrize("text", ['{"q1": "x"}', '{"q1": true}', '{"q1": NaN}', "[]", ""])
def test_values_of_no_answer_are_numbers(text):
    Path("n.json").write_text(text)
    with pytest.raises(FormatError):
        read_no_answer("n.json")


def test_what_is_no_file_of_predictions():
    Path("run.txt").write_text("q1 Q0 0-0 1 1.0 tag\n")
    Path("broken.json.gz").write_bytes(gzip.compress(b"{}")[:8])
    assert not any(map(is_predictions_file, ["run.txt", "-", "absent.json", "broken.json.gz"]))
