"""Hostile queries from the command line: 100 kB, nested deep, Unicode of every kind, answered in bounded time."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import telerank as tr
from telerank.cli.main import app

SECONDS = 20
QUERIES = {
    "long": "carte " * 16_000,
    "one word": "a" * 100_000,
    "nested": "(" * 10_000 + "carte" + ")" * 10_000,
    "nested, not closed": "carte " + "(" * 50_000,
    "negated": "-" * 50_000 + "carte",
    "operators": "carte AND " * 10_000 + "carte",
    "phrases": '"carte perdue" ' * 6_000,
    "columns": "type:fiche " * 9_000,
    "beginnings": "c* " * 30_000,
    "surrogates and marks": "carte \ud800 \u202e\u2066\u200d e" + "\u0301" * 30_000,
    "every plane": "".join(map(chr, [*range(1, 0x3000), *range(0x1F000, 0x1FA00), 0xE0001, 0x10FFFF])),
    "one letter that becomes many": "ﷺ" * 30_000,
}
MODELS = {"words": [], "simple": ["--syntax", "simple"], "boolean": ["--model", "boolean"],
          "feedback": ["--model", "bm25 >> rm3"], "synonyms": ["--synonyms", "syn.txt"]}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    records = [
        {"docno": str(n), "title": f"Fiche {n}", "text": "carte perdue ou volée", "type": "fiche"}
        for n in range(9)
    ]
    tr.index(records, folder / "idx", analyzer="french", workers=1, progress=False)
    (folder / "syn.txt").write_text("carte, titre\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("query", QUERIES)
def test_hostile_queries_end_in_bounded_time(place, monkeypatch, query, model):
    monkeypatch.chdir(place)
    began = time.process_time()
    ran = CliRunner().invoke(app, ["search", "idx", "--query", QUERIES[query], *MODELS[model]])
    assert time.process_time() - began < SECONDS
    assert len(ran.output) < 5_000  # of a long query the beginning is shown
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        assert type(ran.exception).__module__.startswith("telerank"), ran.exception
        assert len(str(ran.exception)) < 2_000
    assert sys.getrecursionlimit() < 5_000
