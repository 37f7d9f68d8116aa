"""``telerank answer``: answers in their sentences, predictions as SQuAD's script reads them."""

from __future__ import annotations

import json
import os
import re

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("transformers")

import telerank as tr
from small_readers import small_reader
from telerank.answers.weight import MU
from telerank.cli.main import app
from telerank.errors import CollectionError, ExpressionError
from telerank.models.readers.reader import read_settings, save_reader, write_settings
from telerank.sparse.writer import build_index
from telerank.types import Doc, Query

DOCS = [Doc("a", "x1 x2. d1 d2 q1 d3. x3", "d9"), Doc("b", "q1 d4 d5 d6"), Doc("c", "x9 x8 q3")]
BY_DOCNO = {doc.docno: doc for doc in DOCS}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("answer")
    build_index(DOCS, folder / "idx", analyzer="standard", workers=1)
    save_reader(small_reader(folder), folder / "reader")
    save_reader(small_reader(folder), folder / "never")
    settings = read_settings(folder / "never")
    from dataclasses import replace

    write_settings(folder / "never", replace(settings, threshold=-1000.0))
    (folder / "topics.tsv").write_text("1\tq1\n2\tq3 q1\n3\tx39\n")
    return folder


def run(*arguments: object):
    return CliRunner().invoke(app, ["answer", *map(str, arguments)])


def test_each_answer_is_shown_in_its_sentence(place):
    result = run(place / "idx", "--query", "q1", "--reader", place / "reader", "-k", 2)
    assert result.exit_code == 0, result.output
    pipeline = tr.open(place / "idx").bm25() % 20 >> tr.read(str(place / "reader"), tr.open(place / "idx"))
    lines = result.stdout.splitlines()
    assert lines[0] == "q1"
    for number, answer in enumerate((pipeline % 2).answer("q1"), 1):
        at = lines.index(f"{number}. {answer.text}  (confidence {answer.confidence:.2f})")
        assert f"[{answer.text}]" in lines[at + 1]
        assert f"document {answer.docno}" in lines[at + 2]
        assert (DOCS[0].title in lines[at + 2]) == (answer.docno == "a")
    assert "3. " not in result.stdout


def test_it_says_when_there_is_no_answer(place):
    silent = run(place / "idx", "--query", "q1", "--reader", place / "never")
    assert silent.exit_code == 0
    line = r"no answer in the documents that were read: it scores \d+\.\d\d (above|below) the best span "
    assert re.search(line + r"\(threshold: 1000\.00 below\)", silent.stdout)
    assert (
        "no answer" not in run(place / "idx", "--query", "q1", "--reader", place / "never", "--always").stdout
    )
    nothing = run(place / "idx", "--query", "x39", "--reader", place / "reader").stdout
    assert nothing.splitlines()[1] == "no document was found, so that nothing was read"
    record = json.loads(run(place / "idx", "-q", "x39", "--reader", place / "reader", "--json").stdout)
    assert (record["documents"], record["answers"]) == (0, [])


def test_it_says_why_a_later_answer_has_a_higher_confidence(place):
    """Where the ranking decides, all answers of its first document come before the best of the second."""
    words = ["-q", "q1 d4 q3", "--reader", place / "reader", "-k", 40, "--mu"]
    line = "answers are in the order of their scores, 0.1 of the reader's and 0.9 of the ranking's; a confidence is"
    by_ranking = run(place / "idx", *words, 0.1)
    confidences = [float(each) for each in re.findall(r"confidence (\d\.\d+)", by_ranking.stdout)]
    assert confidences != sorted(confidences, reverse=True)
    assert line in by_ranking.stderr
    assert line in run(place / "idx", *words, 0.1, "--json").stderr
    assert "the order of" not in run(place / "idx", *words, 0.1, "-k", 1).stderr


def test_json_has_everything(place):
    result = run(place / "idx", "-q", "q1", "--reader", place / "reader", "--json", "--explain", "--mu", 0.5)
    record = json.loads(result.stdout)
    assert record["query"] == "q1"
    assert len(record["answers"]) == 3
    for answer in record["answers"]:
        text = BY_DOCNO[answer["corpus-id"]].text
        assert text[answer["start"] :].startswith(answer["text"])
        assert answer["text"] in answer["sentence"] in text
        assert answer["explanation"]["value"] == pytest.approx(answer["score"], abs=1e-5)
    explained = run(place / "idx", "-q", "q1", "--reader", place / "reader", "--explain").stdout
    assert "logit of its start" in explained
    assert f"{MU:g} times " in explained


def test_the_help_has_the_weight_that_is_the_default():
    assert f"Default: {MU}." in " ".join(run("--help").stdout.replace("│", " ").split())


def test_a_collection_gives_predictions_lines_and_null_odds(place):
    files = [place / name for name in ("predictions.json", "lines.jsonl", "odds.json")]
    options = zip(("-o", "--lines", "--no-answers"), files, strict=True)
    result = run(
        place / "idx", "--topics", place / "topics.tsv", "--reader", place / "reader", *sum(options, ())
    )
    assert result.exit_code == 0, result.output
    predictions, odds = (json.loads(file.read_text()) for file in (files[0], files[2]))
    lines = [json.loads(line) for line in files[1].read_text().splitlines()]
    assert list(predictions) == list(odds) == [line["query-id"] for line in lines] == ["1", "2", "3"]
    for line in lines:
        assert predictions[line["query-id"]] == (line["answers"][0]["text"] if line["answers"] else "")
        for answer in line["answers"]:
            assert answer["sources"][0] == {"corpus-id": answer["corpus-id"], "start": answer["start"]}
    assert (predictions["3"], odds["3"], lines[2]["no-answer"]) == ("", 1e9, None)
    assert odds["1"] == lines[0]["no-answer"]
    record = json.loads((place / "predictions.json.json").read_text())
    index = tr.open(place / "idx")
    assert record["pipeline"] == repr(index.bm25() % 20 >> tr.read(str(place / "reader"), index))
    assert "1 of 3 queries have no answer: 3" in result.stderr
    assert "1 of 3 queries found no document to read: 3" in result.stderr


def test_a_pipeline_may_have_its_reader(place):
    text = f"bm25 % 1 >> read('{place / 'reader'}') % 1"
    result = run(place / "idx", "--topics", place / "topics.tsv", "--model", text)
    assert result.exit_code == 0, result.output
    assert set(json.loads(result.stdout)) == {"1", "2", "3"}
    printed = run(place / "idx", "--topics", place / "topics.tsv", "--model", text, "-o", "-")
    assert (printed.stdout, printed.stderr) == (result.stdout, result.stderr)
    assert "how in" not in printed.stderr
    assert run(place / "idx", "-q", "q1", "--model", text).stdout.count("(confidence") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-q", "q1"], "answering needs a reader"),
        (["-q", "", "--reader", "r"], "answer: --query is empty"),
        (["-q", " ", "--reader", "r"], "answer: --query is empty"),
        (["--topics", os.devnull, "--reader", "r"], f"{os.devnull} has no query"),
        (
            ["--topics", "t", "--reader", "r", "--format", "pdf"],
            "unknown format 'pdf' of topics; known: trec",
        ),
        (["--reader", "r"], "give one of a COLLECTION, --query or --topics"),
        (["-q", "q1", "--reader", "r", "-o", "x.json"], "go with a COLLECTION or --topics"),
        (["c", "--reader", "r", "-o", "x", "--lines", "x"], "need different files"),
        (["c", "--reader", "r", "--explain"], "--explain and --json go with --query"),
        (["c", "--reader", "r", "--json"], "--explain and --json go with --query"),
        (["-q", "q1", "--reader", "r", "--model", "bm25 >> read(s)"], "takes no other one"),
        (["-q", "q1", "--depth", 9, "--model", "bm25 >> read(s)"], "and no depth"),
        (["-q", "q1", "--always", "--model", "bm25 >> read(s)"], "no settings of one"),
        (["-q", "q1", "--model", "read(s)"], "nothing ranks what it reads"),
        (["-q", "q1", "--model", "bm25 >> read(s) >> bm25"], "it can only come last"),
        (["-q", "q1", "--model", "bm25 >> read(s) >> read(s)"], "it can only come last"),
    ],
)
def test_what_does_not_go_together_is_named(place, arguments, message):
    result = run(place / "idx", *arguments)
    assert result.exit_code != 0
    assert message in f"{result.output}{result.exception}"


def test_the_verb_answers_queries_in_memory(place):
    queries = [Query("1", "q1"), Query("2", "q3")]
    run_of = tr.answer(place / "idx", queries, reader=str(place / "reader"), k=1, depth=2)
    answers = list(run_of)
    assert [len(each) for each in answers] == [1, 1]
    assert run_of.queries == 2
    assert run_of.record()["queries"] == "in memory"
    with pytest.raises(CollectionError, match="query 1 comes twice"):
        tr.answer(place / "idx", [Query("1", "a"), Query("1", "b")], reader=str(place / "reader"))
    with pytest.raises(ExpressionError, match="answering needs a reader"):
        tr.answer(place / "idx", queries)


def test_batches_that_do_not_fit_into_memory_are_said_once(place, tmp_path, monkeypatch):
    import torch

    from telerank.answers import scorer

    real = scorer.compute

    def make(*given):
        compute = real(*given)

        def refuse(batch):
            if len(batch) > 1:
                raise torch.OutOfMemoryError("CUDA out of memory.\nmore")
            return compute(batch)

        return refuse

    words = (place / "idx", "--topics", place / "topics.tsv", "--reader", place / "reader", "-o")
    assert run(*words, tmp_path / "one.json").exit_code == 0
    monkeypatch.setattr(scorer, "compute", make)
    result = run(*words, tmp_path / "other.json")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("out of memory") == 1
    assert "out of memory: batches of" in result.stderr
    assert (tmp_path / "other.json").read_text() == (tmp_path / "one.json").read_text()
