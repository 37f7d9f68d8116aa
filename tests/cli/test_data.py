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
        (["ls", "nosuch/docs.jsonl"], "nosuch/docs.jsonl: no such file or folder\n"),
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


def test_an_unknown_file_shows_its_first_line_and_the_nearest_formats(tmp_path, command):
    (tmp_path / "docs.txt").write_text('{"id": "1", "text": "a"}\n')
    status, shown, said = command("show", tmp_path / "docs.txt")
    lines = said.splitlines()
    assert (status, shown) == (2, "")
    assert 1 < len(lines) <= 5
    assert "no known collection format; its first line is '{" in lines[0]
    assert lines[1] == "  not jsonl: its name ends neither in .jsonl nor in .json"
    assert lines[2].startswith("  not csv: ")
    assert lines[3] == "  all formats: telerank data ls"


def test_a_collection_that_gives_nothing_says_so(tmp_path, command):
    (tmp_path / "qrels.txt").write_text("1 0 a 1\n")
    status, shown, said = command("show", tmp_path / "qrels.txt")
    assert (status, shown) == (2, "")
    assert "no documents and no queries, read as topics" in said


def test_files_beside_a_collection_are_named(folder, command):
    (folder / "more.jsonl").write_text("{}\n")
    (folder / "README.md").write_text("x")
    status, shown, said = command("show", folder, "d3")
    assert (status, "document d3" in shown) == (0, True)
    assert said == f"note: not read in {folder}: more.jsonl\n"
    assert json.loads(run("ls", folder, "--json"))["unread"] == ["more.jsonl"]


def test_questions_without_ids_are_counted(tmp_path):
    paragraph = {"context": "A lake.", "qas": [{"question": "What?"}, {"question": "Why?", "id": None}]}
    (tmp_path / "dev.json").write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    assert [query.qid for query in open_collection(tmp_path).split_queries()] == ["0-0-0", "0-0-1"]
    assert "questions numbered" in run("ls", tmp_path)
    assert json.loads(run("ls", tmp_path, "--json"))["notes"]["questions_numbered"] == 2


ESCAPES = "\x1b[31m\x1b]0;title\x07\x9b2J\u202e\r"


def test_terminal_escapes_of_foreign_files_are_not_printed(tmp_path, command):
    place = tmp_path / f"x{ESCAPES}"
    place.mkdir()
    doc = {"_id": "d", "title": f"t{ESCAPES}", "text": f"lake {ESCAPES}", "url": ESCAPES}
    (place / "docs.jsonl").write_text(json.dumps(doc))
    (place / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": f"What {ESCAPES}?"}))
    (tmp_path / "unknown").write_text(ESCAPES)
    for arguments in (
        *(
            ["show", place],
            ["show", place, "--json"],
            ["ls", place],
            ["ls", place, "--json"],
            ["ls", tmp_path],
        ),
        *(["stats", place], ["show", tmp_path / "unknown"], ["show", place, ESCAPES]),
    ):
        _, shown, said = command(*arguments)
        assert shown + said
        assert not {*"\x1b\x07\x9b\u202e\r"} & {*shown, *said}, arguments


def test_docnos_that_look_like_paths_stay_names(tmp_path):
    docnos = [
        "../../up",
        "/etc/passwd",
        "a/../b",
        "..",
        "~",
        "-rf",
        "C:\\x",
        "%2e%2e%2f",
        "$(id)",
        "a\u2044b",
        "NUL",
    ]
    lines = [json.dumps({"id": docno, "text": "lake"}) + "\n" for docno in docnos]
    (tmp_path / "docs.jsonl").write_text("".join(lines))
    for form in ("beir", "jsonl", "msmarco", "trec"):
        run("convert", tmp_path / "docs.jsonl", tmp_path / form, "--to", form)
        assert [doc.docno for doc in open_collection(tmp_path / form).docs()] == docnos
    names = {path.name for path in tmp_path.rglob("*")}
    assert names == {
        *(
            "beir",
            "jsonl",
            "msmarco",
            "trec",
            "corpus.jsonl",
            "queries.jsonl",
            "docs.jsonl",
            "collection.tsv",
        ),
        "docs.trec",
    }


def test_terminal_escapes_in_a_result_are_not_printed(tmp_path, monkeypatch, capsys):
    (tmp_path / "docs.jsonl").write_text(json.dumps({"id": "d", "title": ESCAPES, "text": f"lake {ESCAPES}"}))
    for arguments in (
        ["index", tmp_path / "docs.jsonl", tmp_path / "idx"],
        ["search", tmp_path / "idx", "--query", f"lake {ESCAPES}"],
        ["search", tmp_path / "idx", "--query", f"lake {ESCAPES}", "--json", "--explain"],
    ):
        monkeypatch.setattr(sys, "argv", ["telerank", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        assert left.value.code == 0
        printed = "".join(capsys.readouterr())
        assert printed
        assert not {*"\x1b\x07\x9b\u202e\r"} & {*printed}
