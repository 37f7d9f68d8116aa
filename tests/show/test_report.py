from __future__ import annotations

import csv
import json
import math

import pytest

from telerank.show.report import Report, render_tables, to_json
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


def test_in_csv_marks_are_a_column_of_their_own_and_several_tables_have_their_captions():
    rows = [
        ["system", "AP", "AP marks", "+/=/-"],
        ["bm25", "0.5000", "", "–"],
        ["a, b", "0.6250", "†", "1/0/2"],
    ]
    assert list(csv.reader(render_tables([MEANS], "csv").splitlines())) == rows
    both = list(csv.reader(render_tables([MEANS, MEANS], "csv").splitlines()))
    assert both == [["Means"], *rows, [], ["Means"], *rows]


def test_numbers_are_numbers_in_json():
    (table,) = json.loads(Example(MEANS).render("json"))["tables"]
    assert table["rows"] == [["bm25", 0.5, "", "–"], ["a, b", 0.625, "†", "1/0/2"]]
    assert (table["caption"], table["notes"]) == ("Means", ["† p < 0.05"])
    counts = Table.of(("queries", "p"), [["12", "nan"]], left=0)
    assert json.loads(render_tables([counts], "json"))["tables"][0]["rows"] == [[12, "nan"]]


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("t.md", "**Means**"),
        ("t.tex", "\\begin{table}"),
        ("t.HTML", "<!doctype html>"),
        ("t.csv", "system,AP"),
        ("t.json", "{"),
        ("t.txt", "Means"),
        ("t.run", "Means"),
        ("table", "Means"),
    ],
)
def test_a_report_is_saved_in_the_format_of_the_suffix(tmp_path, name, start):
    Example(MEANS).save(tmp_path / name)
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)


def test_in_json_control_characters_are_escapes_and_what_is_not_a_finite_number_is_null():
    record = {"docno": "a\x9b2J\u202e", "lines": ["é", 1.5]}
    text = to_json({**record, "b": (math.nan, math.inf)})
    assert not {"\x9b", "\u202e"} & set(text)
    assert json.loads(text) == {**record, "b": [None, None]}
