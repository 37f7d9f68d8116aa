"""What a notebook shows: HTML that is well-formed, escaped, and has everything."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

import telerank as tr
from letters import Letters
from telerank.show.notebook import Box, render_diagram
from telerank.show.progress import is_notebook, show_progress
from telerank.types import Query, Ranking, silent


def texts(html: str) -> list[str]:
    return [text.strip() for text in ET.fromstring(f"<html>{html}</html>").itertext() if text.strip()]


def test_a_pipeline_is_a_diagram():
    pipeline = 0.4 * tr.minmax(Letters(depth=5)) + Letters() >> Letters() % 2
    first, second = Letters(depth=5).text, Letters().text
    shown = texts(pipeline._repr_html_())
    assert shown == ["… + …", "0.4 * …", "minmax(…)", first, second, "→", (Letters() % 2).text]
    assert "&lt;b&gt;" in render_diagram(Box("<b>"))


def test_a_ranking_is_a_table_of_its_first_documents():
    scores = [float(number) for number in range(12, 0, -1)]
    ranking = Ranking.ranked(Query("1", "<press>"), tuple(f"d{number:02}" for number in range(12)), scores)
    shown = texts(ranking._repr_html_())
    assert shown[:7] == ["<press>, the first 10 of 12", "rank", "score", "docno", "1", "12.0000", "d00"]
    assert len(shown) == 4 + 3 * 10
    assert texts(Ranking(Query("7", ""))._repr_html_())[0] == "7"


@pytest.mark.parametrize("kind", ["ZMQInteractiveShell", "TerminalInteractiveShell", "NoneType"])
def test_progress_is_shown_in_notebooks(kind, monkeypatch):
    shell = type(kind, (), {})()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert is_notebook() == (kind == "ZMQInteractiveShell")
    with show_progress() as progress:
        assert (progress is not silent) == is_notebook()
    with show_progress(False) as progress:
        assert progress is silent
