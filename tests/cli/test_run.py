"""telerank run, as it is typed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from papers import small_msmarco
from telerank.cli.main import app, main

REPBERT = Path(__file__).parent.parent.parent / "recipes" / "repbert"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TELERANK_DATA", raising=False)
    small_msmarco(tmp_path / "marco")
    return tmp_path


def run(*arguments: str):
    result = CliRunner().invoke(app, ["run", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_a_recipe_prints_its_table_and_what_must_be_known_of_it(folder):
    asked = (str(REPBERT / "table1.yaml"), "--data", "msmarco=marco", "--skip", "MiniLM")
    found = run(*asked)
    assert "RepBERT, table 1" in found.stdout
    assert "0.184" in found.stdout
    told = " ".join(found.stdout.split())
    assert "120 documents, 24 judged queries (split dev.small)" in told
    assert "tables, plots and figures in telerank-runs/repbert-table1-msmarco" in found.stderr
    assert (folder / "telerank-runs" / "repbert-table1-msmarco" / "results.json").exists()


def test_several_recipes_share_what_they_make(folder):
    paths = [str(REPBERT / f"{name}.yaml") for name in ("table3", "figure2")]
    skipped = ("--skip", "MiniLM", "--skip", "official top 1000")  # figure 2 alone has these
    asked = (*paths, "--data", "msmarco=marco", *skipped, "-o", "out", "--json")
    texts = run(*asked).stdout.replace("}\n{", "}\n\0{").split("\0")
    kinds = [json.loads(text)["recipe"]["analysis"]["kind"] for text in texts]
    assert kinds == ["combination", "consistency"]
    assert {path.name for path in (folder / "out").iterdir()} == {
        *("msmarco", "repbert-table3-msmarco", "repbert-figure2-msmarco"),
    }


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--system", "RepBERT"], "--system RepBERT: expected NAME=PATH"),
        (["--on", "scifact"], "no data here for this recipe (scifact)"),
        (["--data", "marco=marco"], "the recipe knows no data 'marco'"),
        (
            ["--skip", "MonoBERT"],
            "no recipe here has a system 'MonoBERT'; there are: BM25(Anserini), doc2query",
        ),
        (["--seeds", "0,1"], "--seeds: no system of these recipes is trained"),
        (["--seeds", "0,0"], "--seeds: expected different whole numbers from 0 on, got '0,0'"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(folder, monkeypatch, capsys, arguments, told):
    monkeypatch.setattr(sys, "argv", ["telerank", "run", str(REPBERT / "table1.yaml"), *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
