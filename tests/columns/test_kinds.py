"""Columns of documents: inferred, declared, stored, changed, and what does not fit."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys

import pytest

import telerank as tr
from telerank.columns.kinds import SchemaBuilder, UntypedText, parse_columns, split_list
from telerank.errors import ArgumentError, DocumentError, IndexFault, UnreadFiles
from telerank.types import Doc

DAY = dt.date(2024, 1, 31)


def infer(*values, declared=None):
    schema = SchemaBuilder(declared or {})
    for number, value in enumerate(values):
        schema.add(Doc(str(number), "", columns={"c": value}))
    return schema.finish()["c"]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ((True, False), "boolean"),
        ((1, 2.5), "number"),
        ((1, True), "string"),
        ((2**60, 1), "string"),
        (("2024-01-31", "2024-02-01T08:00:00Z"), "date"),
        ((DAY, "2024-02-01"), "date"),
        (("2024-01-31", "soon"), "string"),
        (("2024-13-31",), "string"),
        (("12", "7"), "string"),
        ((UntypedText("12"), UntypedText("7.5")), "number"),
        ((UntypedText("12"), UntypedText("007")), "string"),
        ((UntypedText("true"), UntypedText("False")), "boolean"),
        ((["a"], ("b", "c")), "list"),
        ((["a"], "b"), "list"),
        (([1, 2],), "list"),
        (([1.5],), "string"),
        (({"a": 1},), "string"),
        (("a", 1), "string"),
    ],
)
def test_a_kind_is_the_first_that_all_values_have(values, kind):
    assert infer(*values) == kind


def index(folder, docs, **settings):
    return tr.index(docs, folder, workers=1, **settings)


def test_what_is_stored_is_what_was_given(tmp_path):
    given = [
        {
            "docno": "a",
            "text": "x",
            "n": 3,
            "f": 2.5,
            "b": False,
            "d": "2024-01-31",
            "l": ["é", "f"],
            "o": {"k": [1]},
        },
        {"docno": "b", "text": "y", "n": None, "f": float("nan"), "b": None, "d": "", "l": [], "o": None},
    ]
    made = index(tmp_path / "i", given)
    columns = {"n": 3, "f": 2.5, "b": False, "d": DAY, "l": ("é", "f"), "o": '{"k": [1]}'}
    assert made.docs["a"].columns == columns
    assert made.docs["b"].columns == {}
    assert made.columns == {
        "n": "number", "f": "number", "b": "boolean", "d": "date", "l": "list", "o": "string"
    }  # fmt: skip
    assert made.info()["columns"] == made.columns
    assert json.loads(json.dumps(made.docs["a"].record))["columns"]["d"] == "2024-01-31"


def test_declared_kinds(tmp_path):
    file = tmp_path / "sheets.csv"
    file.write_text(
        "id;text;topics;code;open;since;drop\n1;x;emploi, argent;007;oui;2024-01-31T08:00;z\n2;y;;1;non;;z\n"
    )
    columns = parse_columns("topics:list code:string open:boolean drop:none")
    made = index(tmp_path / "i", file, columns=columns)
    assert made.docs["1"].columns == {
        "topics": ("emploi", "argent"), "code": "007", "open": True, "since": DAY
    }  # fmt: skip
    assert made.docs["2"].columns == {"code": "1", "open": False}
    assert "drop" not in made.columns
    again = index(tmp_path / "i", file, columns=columns)
    assert again == made
    with pytest.raises(IndexFault, match="column code is string, not number"):
        index(tmp_path / "i", file, columns={"code": "number"})


@pytest.mark.parametrize(
    ("columns", "value", "message"),
    [
        ("c:date", "bientôt", "document 'd': its column 'c' is a date: expected a date such as 2024-01-31, got 'bientôt'"),
        ("c:number", "12 ans", "document 'd': its column 'c' is a number: expected a number, got '12 ans'"),
        ("c:boolean", "peut-être", "expected true or false, got 'peut-être'"),
        ("c:list", {"a": 1}, "expected a list of texts"),
    ],
)  # fmt: skip
def test_a_value_of_another_kind_is_one_line(tmp_path, columns, value, message):
    with pytest.raises(DocumentError) as caught:
        index(tmp_path / "i", [{"docno": "d", "text": "x", "c": value}], columns=parse_columns(columns))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_columns_that_cannot_be_read():
    assert parse_columns("'date de création:date' topics:list") == {
        "date de création": "date",
        "topics": "list",
    }
    for text, message in (
        ("date", "expected NAME:KIND, such as date:date, got 'date'"),
        ("date:dat", "did you mean 'date'"),
        ("'x:date", "not closed"),
        (":date", "1 to 200 printable characters"),
    ):
        with pytest.raises(ArgumentError, match=message):
            parse_columns(text)
    assert split_list("a, b; c | d") == ("a, b", "c", "d")


def test_changes_keep_columns(tmp_path):
    made = index(tmp_path / "i", [{"docno": f"d{n}", "text": f"t{n}", "n": n} for n in range(5)])
    made.add([{"docno": "e", "text": "t", "n": 7, "topics": ["a"]}])
    made.add([{"docno": "d1", "text": "t", "n": 100}], update=True)
    made.delete("d0")
    with pytest.raises(DocumentError, match="document 'f': its column 'n' is a number"):
        made.add([{"docno": "f", "text": "t", "n": "seven"}])
    expected = {"d1": 100, "d2": 2, "d3": 3, "d4": 4, "e": 7}
    for _ in range(2):
        assert {docno: doc.columns["n"] for docno, doc in made.docs.items()} == expected
        assert made.docs["e"].columns["topics"] == ("a",)
        assert made.columns == {"n": "number", "topics": "list"}
        assert set(made.bm25().where("n >= 4").search("t4 t").docnos) == {"d4", "e", "d1"}
        made.merge()
    made.verify()
    made.backup(tmp_path / "b.tar")
    restored = tr.restore(tmp_path / "b.tar", tmp_path / "r")
    assert list(restored.docs.values()) == list(made.docs.values())
    damaged = next((tmp_path / "i").glob("segments/*/docs.columns.arrow"))
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(tr.TelerankError, match=r"docs\.columns\.arrow"):
        tr.open(tmp_path / "i").verify()


def test_too_many_columns_are_refused(tmp_path):
    with pytest.raises(DocumentError, match="one more than the 1,000 that are kept"):
        index(tmp_path / "i", ({"docno": str(n), "text": "x", f"c{n}": 1} for n in range(1001)))


def test_a_data_frame_has_columns(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "docno": ["a", "b"],
            "text": ["x", "y"],
            "when": pandas.to_datetime(["2024-01-31", None]),
            "n": [1, 2],
        }
    )
    made = index(tmp_path / "i", frame)
    assert made.columns == {"when": "date", "n": "number"}
    assert [doc.columns for doc in made.docs.values()] == [{"when": DAY, "n": 1}, {"n": 2}]


def test_beir_metadata_and_a_conversion_back(tmp_path):
    file = tmp_path / "docs.jsonl"
    record = {"_id": "1", "title": "T", "text": "x", "metadata": {"year": 1999, "kind": "a"}, "n": 2}
    file.write_text(json.dumps(record))
    [doc] = tr.collection(file).docs()
    assert doc.columns == {"year": 1999, "kind": "a", "n": 2}
    subprocess.run(
        [sys.executable, "-m", "telerank", "data", "convert", file, tmp_path / "out", "--to", "beir"],
        check=True,
    )
    [again] = tr.collection(tmp_path / "out").docs()
    assert again == doc


def test_front_matter_does_not_say_where_a_file_is(tmp_path):
    pytest.importorskip("markdown_it")
    folder = tmp_path / "docs"
    (folder / "rh").mkdir(parents=True)
    head = "title: Congés\nfolders: [public]\nfile: x\ndate: 2024-01-31\ntags: [a, b]"
    (folder / "rh" / "a.md").write_text(f"---\n{head}\n---\n# Demande\nPour demander un congé.\n")
    (folder / "b.md").write_text("---\n: [\n---\n# Autre\nTexte.\n")
    with pytest.warns(UnreadFiles, match="parts of a front matter: 3"):
        made = index(tmp_path / "i", folder)
    columns = made.docs["rh/a.md"].columns
    assert columns["folders"] == ("rh",)
    assert (columns["date"], columns["tags"], columns["heading"]) == (DAY, ("a", "b"), "Demande")
    assert made.docs["rh/a.md"].file == "rh/a.md"
    (folder / "dg").mkdir()
    (folder / "rh" / "a.md").rename(folder / "dg" / "a.md")
    with pytest.warns(UnreadFiles):
        made.update(folder)
    assert made.docs["dg/a.md"].file == "dg/a.md"
    assert made.docs["dg/a.md"].columns["folders"] == ("dg",)
