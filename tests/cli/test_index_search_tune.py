"""telerank index, search and tune, as they are typed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import telerank
from commands import ok, refusal, typed
from small_set import write_beir
from telerank.trec import read_run

DOCS = {
    "d1": "Aspirin prevents colorectal cancer in trials",
    "d2": "Vitamin C does not prevent colds",
    "d3": "Cancer cells divide; aspirin slows cancer",
    "d4": "Colds pass by themselves",
}
QUERIES = {"q1": "does aspirin prevent cancer", "q2": "colds", "q3": "the of and"}
QRELS = [("q1", "d3", 1), ("q2", "d4", 1), ("q3", "d2", 1)]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A BEIR folder ``set`` and an English index ``idx`` of it, in the working folder."""
    monkeypatch.chdir(tmp_path)
    docs = ({"_id": docno, "title": "", "text": text} for docno, text in DOCS.items())
    write_beir(tmp_path / "set", docs, QUERIES, {"test": QRELS})
    ok("index set idx --analyzer english")


def write_docs(path: str, docs: dict[str, str]) -> None:
    lines = (json.dumps({"docno": docno, "text": text}) + "\n" for docno, text in docs.items())
    Path(path).write_text("".join(lines), encoding="utf-8")


def test_a_run_is_written_with_its_settings_beside_it():
    said = ok("search idx set --split test --model 'bm25(k1=0.9, b=0.4)' --keep 3 -o a.run").stderr
    assert "1 of 3 queries found nothing: q3" in said
    rankings = {ranking.query.qid: ranking for ranking in read_run("a.run")}
    assert sorted(rankings["q1"].docnos) == ["d1", "d2", "d3"]
    settings = json.loads(Path("a.run.json").read_text())
    assert settings["pipeline"] == "bm25(k1=0.9, b=0.4) % 3"
    assert settings["versions"]["telerank"] == telerank.__version__
    assert "snowball(porter)" in settings["sources"]["index"]["analyzer"]


def test_a_run_can_go_to_standard_output_and_threads_change_nothing():
    shown = ok("search idx set -k 1").stdout
    assert [line.split()[:4] for line in shown.splitlines()] == [
        ["q1", "Q0", "d1", "1"],
        ["q2", "Q0", "d4", "1"],
    ]
    assert ok("search idx set -k 1 -j 2").stdout == shown


def test_topics_and_documents_can_come_from_standard_input():
    assert ok("search idx --queries - -k 1", stdin=b"7\tcolds\n").stdout.startswith("7 Q0 d4 1 ")
    ok("index - piped", stdin=b'{"docno": "x1", "text": "aspirin"}\n{"docno": "x2", "text": "b"}\n')
    assert [doc.docno for doc in telerank.open("piped").docs.values()] == ["x1", "x2"]
    assert "expected text in utf-8" in refusal("search idx --query -", stdin=b"caf\xe9\n")


def test_one_query_is_answered_for_reading():
    like = ok("search idx --like d1 --explain").stdout
    assert like.startswith("d1\n")
    assert "from the query" in like
    shown = ok("search idx --query 'aspirin cancer' -k 1 --explain").stdout
    assert "Cancer cells divide" in shown
    assert "'aspirin': tf 1, df 2, cf 2" in shown
    assert "nothing found" in ok("search idx --query 'the of'").stdout


def test_misspelt_words_are_said_and_searched_if_nothing_is_found():
    answer = ok("search idx -q asprin")
    assert "nothing found for 'asprin'; searched for 'aspirin'" in answer.stderr
    assert answer.stdout.startswith("aspirin\n")
    answer = ok("search idx -q 'colds asprin'")
    assert "did you mean 'colds aspirin'?" in answer.stderr
    assert answer.stdout.startswith("colds asprin\n")
    record = json.loads(ok("search idx -q asprin --json").stdout)
    assert (record["query"], record["typed"], record["meant"]) == ("aspirin", "asprin", "aspirin")
    for command in ("search idx -q asprin --no-spelling", "search idx -q -"):
        typed = ok(command, stdin=b"asprin\n")
        assert "nothing found for 'asprin'" in typed.stdout
        assert "aspirin" not in typed.stdout + typed.stderr
    assert ok("search idx --queries -", stdin=b"1\tasprin\n").stdout == ""  # a run is of what is written


def test_one_query_is_answered_for_machines():
    ranking = json.loads(ok("search idx --query colds --json --explain").stdout)["ranking"]
    assert [row["docno"] for row in ranking] == ["d4", "d2"]
    assert ranking[0]["explanation"]["value"] == pytest.approx(ranking[0]["score"])


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("search idx", "give one of a COLLECTION, --query, --queries or --like"),
        ("search idx --like nothing", "no document 'nothing'"),
        ("search idx --like d1 -q x", "give one of"),
        ("search idx --like d1 --model bm25", "leave out --model"),
        ("search idx -q ' '", "search: --query is empty"),
        (f"search idx --queries {os.devnull}", f"{os.devnull} has no query"),
        (f"search idx --queries {os.devnull} --format pdf", "unknown format 'pdf' of topics"),
        ("search nowhere -q x", "no index here"),
        ("search idx -q x --model bm26", "bm26"),
        ("search idx -q x --analyzer french", "was built with the analyzer"),
        ("search idx set --split dev", "no split 'dev'"),
        ("index set idx", "holds an index already"),
        ("index set idx2 --analyzer klingon", "klingon"),
        ("index nowhere idx2", "nowhere"),
        ("index delete idx d9", "no document 'd9'"),
        ("index add set idx", "is in the index already"),
        ("tune idx set --measures nonsense", "nonsense"),
        ("tune idx set --folds 9", "too few queries"),
    ],
)
def test_bad_input_is_refused(command, message):
    assert message in refusal(command)


def test_documents_can_be_added_replaced_deleted_and_merged():
    write_docs("more.jsonl", {"d4": "Colds pass in a week", "d5": "Sneezing"})
    assert "added 2 documents" in ok("index add more.jsonl idx --update").stderr
    assert telerank.open("idx").docs["d4"].text == "Colds pass in a week"
    assert "deleted 1 document from idx" in ok("index delete idx d2").stderr
    ok("index merge idx")
    facts = json.loads(ok("index info idx --json").stdout)
    assert (facts["documents"], facts["segments"], facts["deleted, not yet merged"]) == (4, 1, 0)
    assert "as they were written" in ok("index verify idx").stderr
    ok("index --overwrite set idx --analyzer none")
    assert str(telerank.open("idx").analyzer) == "whitespace"


def test_tuning_reports_the_dev_and_the_held_out_value():
    record = json.loads(ok("tune idx set --model lmd --model dfi -m R@1 --folds 3 --json").stdout)
    assert 0 <= record["held_out"] <= 1
    assert record["tuned"]["dev"] == max(setting["dev"] for setting in record["settings"])
    assert sum(choice["queries"] for choice in record["choices"]) == 3


def test_tuning_tries_analyzers():
    shown = ok("tune idx set --setting bm25 --analyzers english,none --folds 2").stdout
    assert "bm25(k1=1.2, b=0.75), none" in shown
    assert "held-out" in shown


def test_an_index_of_another_collection_is_not_tuned():
    write_docs("other.jsonl", {"x1": "aspirin"})
    ok("index other.jsonl other")
    assert "/other: holds no document that set judges" in refusal("tune other set --folds 2")


def test_names_with_brackets_and_long_ones_are_shown_on_one_line():
    Path("a [b]").mkdir()
    write_docs("a [b]/more [red].jsonl", {"d1": "beta"})
    assert "of more [red].jsonl into a [b]/idx" in ok("index 'a [b]/more [red].jsonl' 'a [b]/idx'").stderr
    assert "run in a [b]/x [i].run, " in ok("search idx set -o 'a [b]/x [i].run'").stderr
    assert "a [b]/idx" in ok("index info 'a [b]/idx'").stdout
    assert "a [b]/idx: " in ok("index verify 'a [b]/idx'").stderr
    long = f"{'long' * 40}.run"
    assert f"run in {long}, its settings in {long}.json" in ok(f"search idx set -o {long}").stderr


def test_fields_are_indexed_searched_and_tuned_as_they_are_typed():
    rows = [
        ("d1", "cold", "aspirin helps"),
        ("d2", "aspirin", "a cold drink"),
        ("d3", "vitamins", "none of it"),
    ]
    lines = (json.dumps({"docno": n, "title": title, "text": text}) + "\n" for n, title, text in rows)
    Path("titled.jsonl").write_text("".join(lines), encoding="utf-8")
    ok("index titled.jsonl fields --fields title,text --positions --analyzer english")
    facts = json.loads(ok("index info fields --json").stdout)
    assert (facts["fields"], facts["positions"]) == ("title, text", "yes")
    for model, first in (("bm25f(title=9, text=1)", "d2"), ("bm25(field=text)", "d1")):
        printed = json.loads(ok(f"search fields --query aspirin --model '{model}' --json").stdout)
        assert printed["ranking"][0]["docno"] == first
    assert "has no field 'titel'; did you mean 'title'?" in refusal(
        "search fields --query a --model 'bm25f(titel=1)'"
    )
    assert "has no fields: index it again with --fields title,text" in refusal(
        "search idx --query a --model bm25f"
    )
    ok("index set by-field --analyzer english --fields title,text")
    tuned = ok("tune by-field set --model 'bm25f(title=1, text=1)' --folds 2 --measures RR").stdout
    assert "80 settings" in tuned
    assert "bm25f(title=" in tuned


def test_tuning_searches_within_a_filter():
    rows = [
        ("d1", "alpha beta", "a"),
        ("d2", "beta beta", "b"),
        ("d3", "alpha gamma", "a"),
        ("d4", "gamma", "b"),
    ]
    lines = (json.dumps({"_id": n, "text": text, "kind": kind}) + "\n" for n, text, kind in rows)
    folder = Path("kinds")
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text("".join(lines), encoding="utf-8")
    queries = (json.dumps({"_id": f"q{n}", "text": text}) + "\n" for n, text in enumerate(["beta", "gamma"]))
    (folder / "queries.jsonl").write_text("".join(queries), encoding="utf-8")
    grades = "query-id\tcorpus-id\tscore\nq0\td2\t1\nq1\td4\t1\n"
    (folder / "qrels/test.tsv").write_text(grades, encoding="utf-8")
    ok("index kinds by-kind --analyzer english")
    tuned = "tune by-kind kinds --setting bm25 --folds 2 --measures RR --json"
    found = [json.loads(ok(f"{tuned} --filter 'kind == \"{kind}\"'").stdout)["held_out"] for kind in "ab"]
    assert found == [0, 1]
    assert "kinds" in refusal(f"{tuned} --filter 'kinds == 1'")


def test_an_unknown_facet_is_told_before_anything_is_shown():
    ran = typed("search idx --query aspirin --facet nothing")
    assert (ran.status, ran.stdout) == (2, "")
