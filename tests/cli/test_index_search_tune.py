"""telerank index, search and tune, as they are typed."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import telerank
from telerank.cli.main import app, main
from telerank.trec import read_run

DOCS = {
    "d1": "Aspirin prevents colorectal cancer in trials",
    "d2": "Vitamin C does not prevent colds",
    "d3": "Cancer cells divide; aspirin slows cancer",
    "d4": "Colds pass by themselves",
}
QUERIES = {"q1": "does aspirin prevent cancer", "q2": "colds", "q3": "the of and"}
QRELS = {"q1": "d3", "q2": "d4", "q3": "d2"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A BEIR folder ``set`` and an English index ``idx`` of it, in the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "set/qrels").mkdir(parents=True)
    _jsonl("set/corpus.jsonl", [{"_id": docno, "title": "", "text": text} for docno, text in DOCS.items()])
    _jsonl("set/queries.jsonl", [{"_id": qid, "text": text} for qid, text in QUERIES.items()])
    lines = [f"{qid}\t{docno}\t1" for qid, docno in QRELS.items()]
    (tmp_path / "set/qrels/test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines, ""]))
    ok("index", "set", "idx", "--analyzer", "english")
    return tmp_path


def _jsonl(path, records):
    Path(path).write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def ok(*arguments: str, stdin: str | None = None):
    result = CliRunner().invoke(app, list(arguments), input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def refusal(monkeypatch, capsys, *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["telerank", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    return line


def test_a_run_is_written_with_its_settings_beside_it(folder):
    ok(
        "search",
        "idx",
        "set",
        "--split",
        "test",
        "--model",
        "bm25(k1=0.9, b=0.4)",
        "--keep",
        "3",
        "-o",
        "a.run",
    )
    rankings = {ranking.query.qid: ranking for ranking in read_run("a.run")}
    assert sorted(rankings["q1"].docnos) == ["d1", "d2", "d3"]
    settings = json.loads((folder / "a.run.json").read_text())
    assert settings["pipeline"] == "bm25(k1=0.9, b=0.4) % 3"
    assert settings["versions"]["telerank"] == telerank.__version__
    assert "snowball(porter)" in settings["sources"]["index"]["analyzer"]


def test_queries_without_results_are_named(folder):
    assert "1 of 3 queries found nothing: q3" in ok("search", "idx", "set", "-o", "a.run").stderr


def test_a_run_can_go_to_standard_output(folder):
    lines = ok("search", "idx", "set", "-k", "1").stdout.splitlines()
    assert [line.split()[:4] for line in lines] == [["q1", "Q0", "d1", "1"], ["q2", "Q0", "d4", "1"]]


def test_topics_can_come_from_standard_input(folder, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"7\tcolds\n")))
    assert ok("search", "idx", "--topics", "-", "-k", "1", stdin="7\tcolds\n").stdout.startswith("7 Q0 d4 1 ")


def test_one_query_is_answered_for_reading(folder):
    shown = ok("search", "idx", "--query", "aspirin cancer", "-k", "1", "--explain").stdout
    assert "Cancer cells divide" in shown
    assert "'aspirin': tf 1, df 2, cf 2" in shown


def test_one_query_is_answered_for_machines(folder):
    found = json.loads(ok("search", "idx", "--query", "colds", "--json", "--explain").stdout)
    assert [one["docno"] for one in found["ranking"]] == ["d4", "d2"]
    first = found["ranking"][0]
    assert first["explanation"]["value"] == pytest.approx(first["score"])


def test_an_empty_answer_says_so(folder):
    assert "nothing found" in ok("search", "idx", "--query", "the of").stdout


def test_threads_change_nothing(folder):
    one, two = (ok("search", "idx", "set", "-j", threads).stdout for threads in ("1", "2"))
    assert one == two


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["search", "idx"], "give one of a COLLECTION, --query or --topics"),
        (["search", "idx", "-q", " "], "search: --query is empty"),
        (["search", "idx", "--topics", os.devnull], f"{os.devnull} has no query"),
        (["search", "idx", "--topics", os.devnull, "--format", "pdf"], "unknown format 'pdf' of topics"),
        (["search", "nowhere", "-q", "x"], "no index here"),
        (["search", "idx", "-q", "x", "--model", "bm26"], "bm26"),
        (["search", "idx", "-q", "x", "--analyzer", "french"], "was built with the analyzer"),
        (["search", "idx", "set", "--split", "dev"], "no split 'dev'"),
        (["index", "set", "idx"], "holds an index already"),
        (["index", "set", "idx2", "--analyzer", "klingon"], "klingon"),
        (["index", "nowhere", "idx2"], "nowhere"),
        (["index", "delete", "idx", "d9"], "no document 'd9'"),
        (["index", "add", "set", "idx"], "is in the index already"),
        (["tune", "idx", "set", "--measure", "nonsense"], "nonsense"),
        (["tune", "idx", "set", "--folds", "9"], "too few queries"),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_line(folder, monkeypatch, capsys, arguments, said):
    assert said in refusal(monkeypatch, capsys, *arguments)


def test_documents_can_be_added_replaced_deleted_and_merged(folder):
    _jsonl(
        "more.jsonl", [{"docno": "d4", "text": "Colds pass in a week"}, {"docno": "d5", "text": "Sneezing"}]
    )
    assert "added 2 documents" in ok("index", "add", "more.jsonl", "idx", "--update").stderr
    assert telerank.open("idx").docs["d4"].text == "Colds pass in a week"
    assert "deleted 1 document from idx" in ok("index", "delete", "idx", "d2").stderr
    ok("index", "merge", "idx")
    facts = json.loads(ok("index", "info", "idx", "--json").stdout)
    assert (facts["documents"], facts["segments"], facts["deleted, not yet merged"]) == (4, 1, 0)
    assert "as they were written" in ok("index", "verify", "idx").stderr


def test_an_index_can_be_built_anew(folder):
    ok("index", "--overwrite", "set", "idx", "--analyzer", "none")
    assert str(telerank.open("idx").analyzer) == "whitespace"


def test_tuning_reports_the_dev_and_the_held_out_value(folder):
    told = json.loads(
        ok(
            "tune", "idx", "set", "--model", "lmd", "--model", "dfi", "-m", "R@1", "--folds", "3", "--json"
        ).stdout
    )
    assert 0 <= told["held_out"] <= 1
    assert told["tuned"]["dev"] == max(one["dev"] for one in told["settings"])
    assert sum(choice["queries"] for choice in told["choices"]) == 3


def test_tuning_tries_analyzers(folder):
    shown = ok(
        "tune", "idx", "set", "--setting", "bm25", "--analyzers", "english,none", "--folds", "2"
    ).stdout
    assert "bm25(k1=1.2, b=0.75), none" in shown
    assert "held-out" in shown


def test_brackets_in_names_are_shown(folder):
    (folder / "a [b]").mkdir()
    _jsonl("a [b]/more [red].jsonl", [{"docno": "d1", "text": "beta"}])
    assert "of more [red].jsonl into a [b]/idx" in ok("index", "a [b]/more [red].jsonl", "a [b]/idx").stderr
    assert "run in a [b]/x [i].run, " in ok("search", "idx", "set", "-o", "a [b]/x [i].run").stderr
    assert "a [b]/idx" in ok("index", "info", "a [b]/idx").stdout
    assert "a [b]/idx: " in ok("index", "verify", "a [b]/idx").stderr


def test_a_message_is_one_line_however_long_a_name_is(folder):
    name = f"{'long' * 40}.run"
    assert f"run in {name}, its settings in {name}.json" in ok("search", "idx", "set", "-o", name).stderr


def test_an_index_of_another_collection_is_not_tuned(folder, monkeypatch, capsys):
    _jsonl("other.jsonl", [{"docno": "x1", "text": "aspirin"}])
    ok("index", "other.jsonl", "other")
    said = refusal(monkeypatch, capsys, "tune", "other", "set", "--folds", "2")
    assert "/other: holds no document that set judges" in said


def test_documents_are_indexed_from_standard_input(folder):
    ok("index", "-", "piped", stdin='{"docno": "x1", "text": "aspirin"}\n{"docno": "x2", "text": "b"}\n')
    assert [doc.docno for doc in telerank.open("piped").docs] == ["x1", "x2"]


def test_a_document_cannot_steer_the_terminal(folder):
    text = "beta \x1b]0;title\x07 \x1b[31mred \x9b2J \u202elaid"
    _jsonl("bad.jsonl", [{"docno": "x1", "title": "t\x1b[2J", "text": text}])
    ok("index", "bad.jsonl", "bad")
    for said in (ok("search", "bad", "--query", "beta").stdout, ok("data", "show", "bad.jsonl").stdout):
        assert "�[31mred" in said
        assert not set(said) & set("\x1b\x07\x9b\u202e")
    found = json.loads(ok("search", "bad", "--query", "beta", "--json").stdout)
    assert found["ranking"][0]["text"] == text


def test_queries_on_standard_input_are_utf_8(folder, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9\n"), "utf-8", "surrogateescape"))
    assert "expected text in utf-8" in refusal(monkeypatch, capsys, "search", "idx", "--query", "-")
