"""telerank data: what a person and a program are shown, and what bad input says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import ok, refusal, typed
from small_set import write_beir
from telerank.corpus.formats import open_collection

CONTROLS = {*"\x1b\x07\x9b\u202e\r"}
ESCAPES = "\x1b[31m\x1b]0;title\x07\x9b2J\u202e\r"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A BEIR folder ``tiny`` of three documents and two queries, in the working folder."""
    monkeypatch.chdir(tmp_path)
    docs = [
        {"_id": "d1", "title": "Cats [of] the world", "text": "A cat " * 200},
        {"_id": "d2", "text": "Where dogs are"},
        {"_id": "d3", "text": ""},
    ]
    qrels = {"test": [("q1", "d2", 0), ("q1", "d1", 2), ("q2", "d2", 1)]}
    return write_beir(tmp_path / "tiny", docs, {"q1": "what is a cat", "q2": "where"}, qrels)


def printed_json(command: str):
    return json.loads(ok(f"data {command} --json").stdout)


def test_a_collection_is_listed_with_its_counts_by_split(folder):
    shown = ok("data ls tiny").stdout
    for text in ("tiny", "beir", "not stated by the files"):
        assert text in shown
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines()]
    assert ["test", "2", "3"] in cells
    listed = printed_json("ls tiny")
    assert (listed["format"], listed["documents"]) == ("beir", 3)
    assert listed["splits"] == {"test": {"queries": 2, "qrels": 3}}


def test_a_folder_of_collections_is_listed_by_name_and_format(folder):
    Path("notes.pdf").write_bytes(b"%PDF")
    Path("more.jsonl").write_text('{"id": "1", "text": "x"}\n')
    assert printed_json("ls .") == {"more.jsonl": "jsonl", "tiny": "beir"}
    assert "more.jsonl" in ok("data ls .").stdout


@pytest.mark.data
def test_the_folder_of_real_collections_is_listed(data):
    listed = printed_json(f"ls {data}")
    assert listed["scifact"] == "beir"
    assert listed["cranfield"] == "cranfield"
    assert listed["msdocs"] == "passages"
    assert not any(" or " in format_ for format_ in listed.values())


def test_without_an_argument_the_formats_are_listed():
    assert {"beir", "msmarco", "trec", "squad", "ir_datasets"} <= printed_json("ls").keys()
    assert "cranfield" in ok("data ls").stdout


def test_documents_are_shown_by_docno_in_the_order_of_the_command_and_long_texts_say_so(folder):
    shown = ok("data show tiny d1").stdout
    for text in ("document d1", "Cats [of] the world", "600 more characters (--json shows them)"):
        assert text in shown
    records = [json.loads(line) for line in ok("data show tiny d3 d1 --json").stdout.splitlines()]
    assert [record["docno"] for record in records] == ["d3", "d1"]
    assert records[1]["text"] == "A cat " * 200


def test_a_query_is_shown_with_its_judgments_best_first(folder):
    shown = ok("data show tiny --qid q1").stdout
    assert "query q1 (test)" in shown
    assert shown.index("grade 2: d1") < shown.index("grade 0: d2")


@pytest.mark.parametrize(
    ("options", "kinds"), [("", ["document"] * 3 + ["query"] * 2), ("-n 1", ["document", "query"])]
)
def test_the_head_is_shown_unless_something_is_named(folder, options, kinds):
    lines = ok(f"data show tiny {options} --json").stdout.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == kinds


def test_a_collection_is_converted_and_read_back(folder):
    assert "3 documents, 2 queries, 3 qrels" in ok("data convert tiny out --to trec").stdout
    assert list(open_collection("out").docs())[1] == list(open_collection(folder).docs())[1]
    counts = printed_json("convert tiny again --to msmarco")
    assert counts == {"docs": 3, "queries": 2, "qrels": 3, "notes": []}


@pytest.mark.filterwarnings("default::telerank.errors.MissingQueries")
def test_predicted_queries_are_appended_to_the_texts_that_are_written(folder):
    Path("q.jsonl").write_text('{"id": "d1", "predicted_queries": ["what is new", "news"]}\n')
    said = ok("data convert tiny out --to jsonl --expansion q.jsonl").stderr
    assert "q.jsonl: 2 documents have no line there" in said
    before, after = ({doc.docno: doc for doc in open_collection(name).docs()} for name in ("tiny", "out"))
    assert after["d1"].text == f"{before['d1'].text} what is new news"
    assert after["d2"] == before["d2"]
    assert "none.jsonl: no such file" in refusal("data convert tiny more --to jsonl --expansion none.jsonl")


def test_what_a_format_cannot_hold_is_said_on_standard_error(folder):
    (folder / "corpus.jsonl").write_text('{"_id": "d1", "text": "two\\nlines"}\n')
    printed = ok("data convert tiny out --to msmarco --json")
    assert json.loads(printed.stdout)["notes"] == ["1 texts had tabs or line ends, which became blanks"]
    assert "note: 1 texts had tabs or line ends" in printed.stderr


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("ls tiny/nowhere", "nowhere: no such file or folder"),
        ("ls nosuch/docs.jsonl", "nosuch/docs.jsonl: no such file or folder"),
        ("ls tiny --format warc", "unknown format 'warc'"),
        ("show tiny d1 d9 d8", "tiny has no document 'd9', 'd8'"),
        ("show tiny --qid q9", "tiny has no query 'q9' in test"),
        ("show tiny --qid q1 --split dev", "tiny has no split 'dev'; it has: test"),
        ("convert tiny tiny --to beir", "tiny: already exists"),
        ("show qrels.txt", "no documents and no queries, read as topics"),
    ],
)
def test_bad_input_is_refused(folder, command, message):
    Path("qrels.txt").write_text("1 0 a 1\n")
    assert message in refusal(f"data {command}")


def test_an_unknown_file_shows_its_first_line_and_the_nearest_formats(tmp_path):
    (tmp_path / "docs.txt").write_text('{"id": "1", "text": "a"}\n')
    status, shown, said = typed("data show", tmp_path / "docs.txt")
    lines = said.splitlines()
    assert (status, shown) == (2, "")
    assert 1 < len(lines) <= 5
    assert "no known collection format; its first line is '{" in lines[0]
    assert lines[1] == "  not jsonl: its name ends neither in .jsonl nor in .json"
    assert lines[2].startswith("  not csv: ")
    assert lines[3] == "  all formats: telerank data ls"


def test_files_beside_a_collection_are_named(folder):
    (folder / "more.jsonl").write_text("{}\n")
    (folder / "README.md").write_text("x")
    printed = ok("data show tiny d3")
    assert "document d3" in printed.stdout
    assert printed.stderr == "note: not read in tiny: more.jsonl\n"
    assert printed_json("ls tiny")["unread"] == ["more.jsonl"]


def test_questions_without_ids_are_counted(tmp_path):
    paragraph = {"context": "A lake.", "qas": [{"question": "What?"}, {"question": "Why?", "id": None}]}
    (tmp_path / "dev.json").write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    assert [query.qid for query in open_collection(tmp_path).split_queries()] == ["0-0-0", "0-0-1"]
    assert "questions numbered" in ok("data ls", tmp_path).stdout
    assert printed_json(f"ls {tmp_path}")["notes"]["questions_numbered"] == 2


def test_terminal_escapes_of_foreign_files_are_not_printed(tmp_path):
    foreign = tmp_path / f"x{ESCAPES}"
    foreign.mkdir()
    doc = {"_id": "d", "title": f"t{ESCAPES}", "text": f"lake {ESCAPES}", "url": ESCAPES}
    (foreign / "docs.jsonl").write_text(json.dumps(doc))
    (foreign / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": f"What {ESCAPES}?"}))
    (tmp_path / "unknown").write_text(ESCAPES)
    query = ("--query", f"lake {ESCAPES}")
    for command, *words in (
        ("data show", foreign),
        ("data show --json", foreign),
        ("data ls", foreign),
        ("data ls --json", foreign),
        ("data ls", tmp_path),
        ("data stats", foreign),
        ("data show", tmp_path / "unknown"),
        ("data show", foreign, ESCAPES),
        ("index", foreign / "docs.jsonl", tmp_path / "idx"),
        ("search", tmp_path / "idx", *query),
        ("search --json --explain", tmp_path / "idx", *query),
    ):
        _, shown, said = typed(command, *words)
        assert shown + said
        assert not CONTROLS & {*shown, *said}, command
    shown = ok("search", tmp_path / "idx", *query).stdout
    assert "�[31m" in shown
    first = json.loads(ok("search --json", tmp_path / "idx", *query).stdout)["ranking"][0]
    assert first["text"] == doc["text"]


def test_docnos_that_look_like_paths_stay_names(tmp_path):
    docnos = ["../../up", "/etc/passwd", "a/../b", "..", "~", "-rf", "C:\\x", "%2e%2e%2f", "$(id)"]
    docnos += ["a\u2044b", "NUL"]
    lines = [json.dumps({"id": docno, "text": "lake"}) + "\n" for docno in docnos]
    (tmp_path / "docs.jsonl").write_text("".join(lines))
    folders = {"beir", "jsonl", "msmarco", "trec"}
    for form in folders:
        ok("data convert", tmp_path / "docs.jsonl", tmp_path / form, "--to", form)
        assert [doc.docno for doc in open_collection(tmp_path / form).docs()] == docnos
    names = {path.name for path in tmp_path.rglob("*")} - folders
    assert names == {"corpus.jsonl", "queries.jsonl", "docs.jsonl", "collection.tsv", "docs.trec"}
