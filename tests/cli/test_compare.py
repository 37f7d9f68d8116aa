"""telerank compare, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import ok, refusal
from telerank.trec import write_qrels

pytestmark = pytest.mark.usefixtures("three_runs")

COMPARE = "compare qrels.txt weak.run strong.run best.run"


def test_the_means_are_marked_and_the_differences_shown():
    shown = ok(f"{COMPARE} --baseline weak.run --baseline strong -m 'RR P@1'").stdout
    lines = [line.split() for line in shown.splitlines()]
    assert lines[4][0] == "weak"
    assert lines[6] == ["best", "1.0000†‡", "1.0000†‡"]
    assert "Differences from weak" in shown
    assert "Queries that changed most from strong" in shown
    best = next(line for line in lines if line[:2] == ["best", "RR"])
    assert (best[2], best[5], best[-1][-2:]) == ("1.0000", "<0.001", "/0")


def test_the_baseline_is_the_first_run_unless_one_is_named_and_changed_queries_can_be_left_out():
    assert "Differences from weak" in ok(COMPARE).stdout
    shown = ok(f"{COMPARE} -b best --changes 0 -m RR").stdout
    assert "Differences from best" in shown
    assert "changed most" not in shown


def test_json_and_tables_are_for_machines():
    record = json.loads(ok(f"{COMPARE} -m RR --json").stdout)
    assert record["queries"] == 40
    assert record["baselines"] == ["weak"]
    assert record["means"]["best"] == {"RR": 1.0}
    strong, best = record["differences"]
    assert (strong["system"], best["measure"], best["losses"]) == ("strong", "RR", 0)
    assert len(best["changed"]) == 10
    assert ok(f"{COMPARE} -m RR --as csv -o out").stdout == ""
    assert Path("out").read_text().startswith("Means\nsystem,")
    assert best["p"] <= best["p_holm"] < 0.001


def test_what_is_not_a_number_is_null_in_json():
    write_qrels("one.txt", {"q00": {"wrong0": 1}})
    record = json.loads(ok("compare one.txt weak.run best.run -m 'P@1 P@2' --json").stdout)
    assert {row["effect"] for row in record["differences"]} <= {None, 0.0}


def test_runs_that_are_the_same_do_not_differ():
    Path("copy.run").write_bytes(Path("weak.run").read_bytes())
    shown = ok("compare qrels.txt weak.run copy.run -m RR").stdout
    row = next(line.split() for line in shown.splitlines() if line.split()[:2] == ["copy", "RR"])
    assert row[3:] == ["+0.0000", "+0.0", "1.000", "+0.00", "[+0.0000,", "+0.0000]", "0/40/0"]
    assert "Queries that changed most" not in shown


def test_the_level_decides_what_is_significant():
    means = ok(f"{COMPARE} -m RR --level 0 --changes 0").stdout.split("\n\n")[0]
    assert "†" not in means


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("compare qrels.txt weak.run", "there is nothing to compare: give two runs or more"),
        (f"{COMPARE} -b nope", "there is no run 'nope'; known: weak, strong, best"),
        (f"{COMPARE} -m 'P()'", "'P()': P needs a cutoff, as in P@10"),
        (f"{COMPARE} -m NumRet", "NumRet is a sum over the queries: only differences of means"),
        (f"{COMPARE} -o none/deeper/out.md", "none/deeper: No such file or directory"),
    ],
)
def test_bad_input_is_refused(command, message):
    assert message in refusal(command)
