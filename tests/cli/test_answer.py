"""``telerank answer``: answers in their sentences, predictions as SQuAD's script reads them."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import telerank as tr
from commands import ok, refusal
from small_readers import small_reader
from telerank.answers.combine import MU
from telerank.errors import CollectionError
from telerank.models.readers import read_settings, save_reader, write_settings
from telerank.sparse.writer import build_index
from telerank.types import Doc, Query

DOCS = [Doc("a", "x1 x2. d1 d2 q1 d3. x3", "d9"), Doc("b", "q1 d4 d5 d6"), Doc("c", "x9 x8 q3")]
BY_DOCNO = {doc.docno: doc for doc in DOCS}
READING = "answer idx --reader reader"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("answer")
    build_index(DOCS, folder / "idx", analyzer="standard", workers=1)
    for name in ("reader", "never"):
        save_reader(small_reader(folder), folder / name)
    write_settings(folder / "never", replace(read_settings(folder / "never"), threshold=-1000.0))
    (folder / "topics.tsv").write_text("1\tq1\n2\tq3 q1\n3\tx39\n")
    return folder


@pytest.fixture(autouse=True)
def folder(prepared, monkeypatch):
    monkeypatch.chdir(prepared)


def test_each_answer_is_shown_in_its_sentence():
    shown = ok(f"{READING} --query q1 -k 2").stdout
    pipeline = tr.open("idx").bm25() % 20 >> tr.read("reader", tr.open("idx"))
    lines = shown.splitlines()
    assert lines[0] == "q1"
    for number, answer in enumerate((pipeline % 2).answer("q1"), 1):
        at = lines.index(f"{number}. {answer.text}  (confidence {answer.confidence:.2f})")
        assert f"[{answer.text}]" in lines[at + 1]
        assert f"document {answer.docno}" in lines[at + 2]
        assert (DOCS[0].title in lines[at + 2]) == (answer.docno == "a")
    assert "3. " not in shown


def test_it_says_when_there_is_no_answer():
    never = "answer idx --query q1 --reader never"
    line = r"no answer in the documents that were read: it scores \d+\.\d\d (above|below) the best span "
    assert re.search(line + r"\(threshold: 1000\.00 below\)", ok(never).stdout)
    assert "no answer" not in ok(f"{never} --always").stdout
    nothing = ok(f"{READING} --query x39").stdout
    assert nothing.splitlines()[1] == "no document was found, so that nothing was read"
    record = json.loads(ok(f"{READING} -q x39 --json").stdout)
    assert (record["documents"], record["answers"]) == (0, [])


def test_it_says_why_a_later_answer_has_a_higher_confidence():
    """Where the ranking decides, all answers of its first document come before the best of the second."""
    command = f"{READING} -q 'q1 d4 q3' --mu 0.1 -k 40"
    line = "answers are in the order of their scores, 0.1 of the reader's and 0.9 of the ranking's; a confidence is"
    by_ranking = ok(command)
    confidences = [float(each) for each in re.findall(r"confidence (\d\.\d+)", by_ranking.stdout)]
    assert confidences != sorted(confidences, reverse=True)
    assert line in by_ranking.stderr
    assert line in ok(f"{command} --json").stderr
    assert "the order of" not in ok(f"{command} -k 1").stderr


def test_json_has_everything():
    record = json.loads(ok(f"{READING} -q q1 --json --explain --mu 0.5").stdout)
    assert record["query"] == "q1"
    assert len(record["answers"]) == 3
    for answer in record["answers"]:
        text = BY_DOCNO[answer["corpus-id"]].text
        assert text[answer["start"] :].startswith(answer["text"])
        assert answer["text"] in answer["sentence"] in text
        assert answer["explanation"]["value"] == pytest.approx(answer["score"], abs=1e-5)
    explained = ok(f"{READING} -q q1 --explain").stdout
    assert "logit of its start" in explained
    assert f"{MU:g} times " in explained


def test_the_help_has_the_weight_that_is_the_default():
    assert f"Default: {MU}." in " ".join(ok("answer --help").stdout.replace("│", " ").split())


def test_a_collection_gives_predictions_lines_and_null_odds(prepared):
    files = ("predictions.json", "lines.jsonl", "odds.json")
    printed = ok(f"{READING} --queries topics.tsv -o {files[0]} --lines {files[1]} --no-answers {files[2]}")
    predictions, odds = (json.loads((prepared / name).read_text()) for name in (files[0], files[2]))
    lines = [json.loads(line) for line in (prepared / files[1]).read_text().splitlines()]
    assert list(predictions) == list(odds) == [line["query-id"] for line in lines] == ["1", "2", "3"]
    for line in lines:
        assert predictions[line["query-id"]] == (line["answers"][0]["text"] if line["answers"] else "")
        for answer in line["answers"]:
            assert answer["sources"][0] == {"corpus-id": answer["corpus-id"], "start": answer["start"]}
    assert (predictions["3"], odds["3"], lines[2]["no-answer"]) == ("", 1e9, None)
    assert odds["1"] == lines[0]["no-answer"]
    record = json.loads((prepared / "predictions.json.json").read_text())
    index = tr.open("idx")
    assert record["pipeline"] == repr(index.bm25() % 20 >> tr.read("reader", index))
    assert "1 of 3 queries have no answer: 3" in printed.stderr
    assert "1 of 3 queries found no document to read: 3" in printed.stderr


def test_a_pipeline_may_have_its_reader():
    model = "--model \"bm25 % 1 >> read('reader') % 1\""
    printed = ok(f"answer idx --queries topics.tsv {model}")
    assert set(json.loads(printed.stdout)) == {"1", "2", "3"}
    assert ok(f"answer idx --queries topics.tsv {model} -o -") == printed
    assert "how in" not in printed.stderr
    assert ok(f"answer idx -q q1 {model}").stdout.count("(confidence") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-q '' --reader r", "answer: --query is empty"),
        ("-q ' ' --reader r", "answer: --query is empty"),
        (f"--queries {os.devnull} --reader reader", f"{os.devnull} has no query"),
        ("--queries t --reader reader --format pdf", "unknown format 'pdf' of topics; known: trec"),
        ("--reader r", "give one of a COLLECTION, --query or --queries"),
        ("-q q1 --reader r -o x.json", "go with a COLLECTION or --queries"),
        ("c --reader r -o x --lines x", "need different files"),
        ("c --reader r --explain", "--explain and --json go with --query"),
        ("c --reader r --json", "--explain and --json go with --query"),
        ("-q q1 --reader r --model 'bm25 >> read(s)'", "takes no other one"),
        ("-q q1 --depth 9 --model 'bm25 >> read(s)'", "and no depth"),
        ("-q q1 --always --model 'bm25 >> read(s)'", "no settings of one"),
        ("-q q1 --model 'read(reader)'", "nothing ranks what it reads"),
    ],
)
def test_what_does_not_go_together_is_named(words, message):
    assert message in refusal(f"answer idx {words}")


def test_the_verb_answers_queries_in_memory():
    queries = [Query("1", "q1"), Query("2", "q3")]
    run = tr.answer("idx", queries, reader="reader", k=1, depth=2)
    assert [len(each) for each in run] == [1, 1]
    assert run.queries == 2
    assert run.record()["queries"] == "in memory"
    with pytest.raises(CollectionError, match="query 1 comes twice"):
        tr.answer("idx", [Query("1", "a"), Query("1", "b")], reader="reader")
