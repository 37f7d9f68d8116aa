"""telerank inspect efficiency, as it is typed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from telerank.cli.main import app, main
from telerank.trec import write_run
from telerank.types import Query, Ranking

pytest.importorskip("torch")
pytest.importorskip("transformers")

ASKED = ("inspect", "efficiency", "set", "start", "-c", "all.run", "--max-query", "8", "--max-length", "40")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A BEIR folder ``set``, a run of it, and an encoder ``start``."""
    from small_models import small_encoder

    monkeypatch.chdir(tmp_path)
    small_encoder(Path("start"))
    docs = {f"d{n}": f"d{n} d1. d2 d{n % 3}." for n in range(12)}
    Path("set/qrels").mkdir(parents=True)
    write("set/corpus.jsonl", [{"_id": docno, "title": "", "text": text} for docno, text in docs.items()])
    write("set/queries.jsonl", [{"_id": f"q{n}", "text": f"q{n} q{n + 1}"} for n in range(5)])
    lines = [f"q{n}\td{n + i}\t1" for n in range(5) for i in range(3)]
    Path("set/qrels/test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines, ""]))
    write_run("all.run", [Ranking.ranked(Query(f"q{n}", ""), list(docs), range(12)) for n in range(5)])


def write(path, records):
    Path(path).write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def test_three_trainings_are_timed(folder):
    asked = [*ASKED, "--rounds", "1", "--batch", "2"]
    shown = CliRunner().invoke(app, [*asked, "--as", "markdown"], catch_exceptions=False).stdout
    for way in ("fine-tuned", "frozen, first epoch", "frozen, later epochs"):
        assert f"| {way} |" in shown
    record = json.loads(CliRunner().invoke(app, [*asked, "--json"], catch_exceptions=False).stdout)
    assert record["encoder"] == "start"
    assert all(value > 0 for value in record["seconds"]["fine-tuned"][0])


def test_a_collection_with_too_few_pairs_is_refused(folder, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["telerank", *ASKED])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith("set: 384 pairs are needed, it has 60")
