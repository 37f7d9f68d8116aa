"""Reports: one set of tables, printed and saved in every format."""

from __future__ import annotations

import csv
import json
import math

import pytest

from telerank.show.report import Report, form_of, render_tables, to_json
from telerank.show.tables import Cell, Table

MEANS = Table.of(
    ("system", "AP", "+/=/-"),
    [["bm25", "0.5000", "–"], ["a, b", Cell("0.6250", strong=True, marks="†"), "1/0/2"]],
    caption="Means",
    notes=["† p < 0.05"],
)


class Example(Report):
    title = "An example"

    def __init__(self, *tables: Table) -> None:
        self._tables = tables

    def tables(self):
        return self._tables


def test_a_report_prints_itself():
    assert str(Example(MEANS)).splitlines()[0] == "Means"
    assert "a, b    0.6250†  1/0/2" in str(Example(MEANS))
    assert Example(MEANS)._repr_html_().startswith("<figure>")


def test_marks_are_a_column_of_their_own_in_csv():
    rows = list(csv.reader(render_tables([MEANS], "csv").splitlines()))
    assert rows == [
        ["system", "AP", "AP marks", "+/=/-"],
        ["bm25", "0.5000", "", "–"],
        ["a, b", "0.6250", "†", "1/0/2"],
    ]


def test_several_tables_in_csv_have_their_captions():
    rows = list(csv.reader(render_tables([MEANS, MEANS], "csv").splitlines()))
    assert [row for row in rows if len(row) < 2] == [["Means"], [], ["Means"]]


def test_numbers_are_numbers_in_json():
    (table,) = json.loads(Example(MEANS).render("json"))["tables"]
    assert table["rows"] == [["bm25", 0.5, "", "–"], ["a, b", 0.625, "†", "1/0/2"]]
    assert (table["caption"], table["notes"]) == ("Means", ["† p < 0.05"])
    counts = Table.of(("queries", "p"), [["12", "nan"]], left=0)
    assert json.loads(render_tables([counts], "json"))["tables"][0]["rows"] == [[12, "nan"]]


def test_what_is_not_a_finite_number_is_null_in_json():
    assert json.loads(to_json({"a": [math.nan, math.inf], "b": (1.5, "x")})) == {
        "a": [None, None],
        "b": [1.5, "x"],
    }


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("t.md", "**Means**"),
        ("t.tex", "\\begin{table}"),
        ("t.HTML", "<!doctype html>"),
        ("t.csv", "system,AP"),
        ("t.json", "{"),
        ("t.txt", "Means"),
    ],
)
def test_a_report_is_saved_in_the_format_of_the_suffix(tmp_path, name, start):
    Example(MEANS).save(tmp_path / name)
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)


def test_an_unknown_suffix_is_plain_text():
    assert form_of("table") == form_of("a.run") == "text"


def test_control_characters_of_a_terminal_are_escapes_in_json():
    text = to_json({"docno": "a\x9b2J\u202e", "lines": ["é", 1.5]})
    assert not {"\x9b", "\u202e"} & set(text)
    assert json.loads(text) == {"docno": "a\x9b2J\u202e", "lines": ["é", 1.5]}
