"""telerank data: what a person and a program are shown, and what bad input says."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from telerank.cli.main import app, main
from telerank.corpus.formats import open_collection


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A BEIR folder of three documents and two queries."""
    place = tmp_path / "tiny"
    (place / "qrels").mkdir(parents=True)
    docs = [
        {"_id": "d1", "title": "Cats [of] the world", "text": "A cat " * 200},
        {"_id": "d2", "text": "Where dogs are"},
        {"_id": "d3", "text": ""},
    ]
    (place / "corpus.jsonl").write_text("".join(f"{json.dumps(doc)}\n" for doc in docs))
    (place / "queries.jsonl").write_text(
        '{"_id": "q1", "text": "what is a cat"}\n{"_id": "q2", "text": "where"}\n'
    )
    (place / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td2\t0\nq1\td1\t2\nq2\td2\t1\n")
    return place


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["data", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def command(monkeypatch, capsys):
    """The program as a shell sees it: exit status, standard output, standard error."""

    def program(*arguments: object) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["telerank", "data", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code, *capsys.readouterr()

    return program


def test_a_collection_is_listed_with_its_counts_by_split(folder):
    shown = run("ls", folder)
    assert "tiny" in shown
    assert "beir" in shown
    assert "not stated by the files" in shown
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines()]
    assert ["test", "2", "3"] in cells


def test_a_listing_is_json_for_machines(folder):
    listed = json.loads(run("ls", folder, "--json"))
    assert (listed["format"], listed["documents"]) == ("beir", 3)
    assert listed["splits"] == {"test": {"queries": 2, "qrels": 3}}


def test_a_folder_of_collections_is_listed_by_name_and_format(folder):
    (folder.parent / "notes.pdf").write_bytes(b"%PDF")
    (folder.parent / "more.jsonl").write_text('{"id": "1", "text": "x"}\n')
    assert json.loads(run("ls", folder.parent, "--json")) == {"more.jsonl": "jsonl", "tiny": "beir"}
    assert "more.jsonl" in run("ls", folder.parent)


def test_without_an_argument_the_formats_are_listed():
    formats = json.loads(run("ls", "--json"))
    assert {"beir", "msmarco", "trec", "squad", "ir_datasets"} <= formats.keys()
    assert "cranfield" in run("ls")


def test_a_document_is_shown_by_docno_and_long_texts_say_so(folder):
    shown = run("show", folder, "d1")
    assert "document d1" in shown
    assert "Cats [of] the world" in shown
    assert "600 more characters (--json shows them)" in shown


def test_documents_are_shown_in_the_order_asked_for(folder):
    records = [json.loads(line) for line in run("show", folder, "d3", "d1", "--json").splitlines()]
    assert [record["docno"] for record in records] == ["d3", "d1"]
    assert records[1]["text"] == "A cat " * 200


def test_a_query_is_shown_with_its_judgments_best_first(folder):
    shown = run("show", folder, "--query", "q1")
    assert "query q1 (test)" in shown
    assert shown.index("grade 2: d1") < shown.index("grade 0: d2")


def test_the_head_is_shown_unless_something_is_named(folder):
    kinds = [json.loads(line)["kind"] for line in run("show", folder, "--json").splitlines()]
    assert kinds == ["document"] * 3 + ["query"] * 2
    kinds = [json.loads(line)["kind"] for line in run("show", folder, "-n", "1", "--json").splitlines()]
    assert kinds == ["document", "query"]


def test_a_collection_is_converted_and_read_back(folder, tmp_path):
    assert "3 documents, 2 queries, 3 qrels" in run("convert", folder, tmp_path / "out", "--to", "trec")
    read = open_collection(tmp_path / "out")
    assert list(read.docs())[1] == list(open_collection(folder).docs())[1]
    told = json.loads(run("convert", folder, tmp_path / "again", "--to", "msmarco", "--json"))
    assert told == {"docs": 3, "queries": 2, "qrels": 3, "notes": []}


def test_what_a_format_cannot_hold_is_told_on_standard_error(folder, tmp_path, command):
    (folder / "corpus.jsonl").write_text('{"_id": "d1", "text": "two\\nlines"}\n')
    status, told, noted = command("convert", folder, tmp_path / "out", "--to", "msmarco", "--json")
    assert status == 0
    assert json.loads(told)["notes"] == ["1 texts had tabs or line ends, which became blanks"]
    assert "note: 1 texts had tabs or line ends" in noted


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ls", "{}/nowhere"], "nowhere: no such file or folder"),
        (["ls", "{}", "--format", "warc"], "unknown format 'warc'"),
        (["show", "{}", "d1", "d9", "d8"], "tiny has no document 'd9', 'd8'"),
        (["show", "{}", "--query", "q9"], "tiny has no query 'q9' in test"),
        (["show", "{}", "--query", "q1", "--split", "dev"], "tiny has no split 'dev'; it has: test"),
        (["convert", "{}", "{}", "--to", "beir"], "tiny: already exists"),
    ],
)
def test_bad_input_is_one_line_and_status_2(folder, command, arguments, message):
    status, told, said = command(*(argument.format(folder) for argument in arguments))
    assert (status, told, len(said.splitlines())) == (2, "", 1)
    assert message in said


@pytest.mark.parametrize("name", ["convert", "ls", "show"])
def test_every_help_has_an_example(name):
    assert f"telerank data {name}" in run(name, "--help").replace("\n", " ").split("Example", 1)[1]


@pytest.mark.data
def test_the_folder_of_real_collections_is_listed(data):
    listed = json.loads(run("ls", data, "--json"))
    assert listed["scifact"] == "beir"
    assert listed["cranfield"] == "cranfield"
    assert listed["msdocs"] == "passages"
    assert not any(" or " in format_ for format_ in listed.values())
