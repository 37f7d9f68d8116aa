"""telerank compare, as it is typed."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from telerank.cli.main import app, main
from telerank.trec import write_qrels, write_run
from telerank.types import Query, Ranking


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Forty queries, and three runs that rank their one relevant document better and better."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    qids = [f"q{i}" for i in range(40)]
    write_qrels("qrels.txt", {qid: {"right": 1} for qid in qids})
    for name, most in (("weak", 9), ("strong", 3), ("best", 1)):
        rankings = []
        for qid in qids:
            docnos = [f"wrong{i}" for i in range(9)]
            docnos.insert(int(random.integers(most)), "right")
            rankings.append(Ranking(Query(qid, ""), tuple(docnos), list(range(10, 0, -1))))
        write_run(f"{name}.run", rankings)
    return tmp_path


def run(*arguments: str):
    result = CliRunner().invoke(app, ["compare", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def refusal(monkeypatch, capsys, *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["telerank", "compare", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


RUNS = ("weak.run", "strong.run", "best.run")


def test_the_means_are_marked_and_the_differences_told(folder):
    shown = run("qrels.txt", *RUNS, "--baseline", "weak.run", "--baseline", "strong", "-m", "RR P@1").stdout
    lines = [line.split() for line in shown.splitlines()]
    assert lines[4][0] == "weak"
    assert lines[6] == ["best", "1.0000†‡", "1.0000†‡"]
    assert "Differences from weak" in shown
    assert "Queries that changed most from strong" in shown
    best = next(line for line in lines if line[:2] == ["best", "RR"])
    assert (best[2], best[5], best[-1][-2:]) == ("1.0000", "<0.001", "/0")


def test_the_first_run_is_the_baseline_unless_one_is_named(folder):
    assert "Differences from weak" in run("qrels.txt", *RUNS).stdout
    assert "Differences from best" in run("qrels.txt", *RUNS, "-b", "best").stdout


def test_json_is_for_machines(folder):
    found = json.loads(run("qrels.txt", *RUNS, "-m", "RR", "--json").stdout)
    assert found["queries"] == 40
    assert found["baselines"] == ["weak"]
    assert found["means"]["best"] == {"RR": 1.0}
    strong, best = found["differences"]
    assert (strong["system"], best["measure"], best["losses"]) == ("strong", "RR", 0)
    assert len(best["changed"]) == 10
    assert best["p"] <= best["p_holm"] < 0.001


def test_what_is_not_a_number_is_null_in_json(folder):
    write_qrels("one.txt", {"q0": {"wrong0": 1}})
    found = json.loads(run("one.txt", "weak.run", "best.run", "-m", "P@1 P@2", "--json").stdout)
    assert {one["effect"] for one in found["differences"]} <= {None, 0.0}


def test_runs_that_are_the_same_do_not_differ(folder):
    (folder / "copy.run").write_bytes((folder / "weak.run").read_bytes())
    shown = run("qrels.txt", "weak.run", "copy.run", "-m", "RR").stdout
    row = next(line.split() for line in shown.splitlines() if line.split()[:2] == ["copy", "RR"])
    assert row[3:] == ["+0.0000", "+0.0", "1.000", "+0.00", "[+0.0000,", "+0.0000]", "0/40/0"]
    assert "Queries that changed most" not in shown


@pytest.mark.parametrize(
    ("form", "start"),
    [
        ("markdown", "**Means**"),
        ("latex", "\\begin{table}"),
        ("html", "<!doctype html>"),
        ("text", "Means"),
        ("csv", "Means\nsystem,"),
    ],
)
def test_the_tables_have_every_form(folder, form, start):
    assert run("qrels.txt", *RUNS, "--as", form, "-o", "out").stdout == ""
    text = (folder / "out").read_text()
    assert text.startswith(start)
    assert "Queries that changed most from weak" in text


def test_the_changed_queries_can_be_left_out(folder):
    assert "changed most" not in run("qrels.txt", *RUNS, "--queries", "0").stdout


def test_the_level_decides_what_is_significant(folder):
    assert (
        "†"
        not in run("qrels.txt", *RUNS, "-m", "RR", "--level", "0", "--queries", "0").stdout.split("\n\n")[0]
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["qrels.txt", "weak.run"], "there is nothing to compare: give two runs or more"),
        (
            ["qrels.txt", *RUNS, "-b", "nope"],
            "the baseline nope is not one of the runs: weak, strong, best",
        ),
        (["qrels.txt", *RUNS, "-m", "P()"], "'P()': P needs a cutoff, as in P@10"),
        (["qrels.txt", *RUNS, "-m", "NumRet"], "NumRet is a sum over the queries: only differences of means"),
        (["qrels.txt", *RUNS, "-o", "none/deeper/out.md"], "none/deeper: No such file or directory"),
    ],
)
def test_bad_input_is_one_line_and_status_2(folder, monkeypatch, capsys, arguments, said):
    assert said in refusal(monkeypatch, capsys, *arguments)


def test_help_has_an_example():
    shown = " ".join(run("--help").stdout.split())
    assert "telerank compare scifact bm25.run lmd.run --baseline bm25.run" in shown
