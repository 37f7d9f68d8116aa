"""telerank fuse, tune-fusion, combine, consistency and depth, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import ok, refusal, typed
from small_set import QRELS
from telerank.evaluation.measures import measure
from telerank.fusion import interleave_rankings, sum_rankings, sum_reciprocal_ranks
from telerank.trec import read_run, write_run
from telerank.types import Query, Ranking

pytestmark = pytest.mark.usefixtures("three_runs")

OTHER = [Ranking(Query("other", ""), ("x",), [1.0])]
TUNE = "tune-fusion qrels.txt weak.run strong.run"


def lists(*names: str):
    return zip(*(read_run(f"{name}.run") for name in names), strict=True)


@pytest.mark.parametrize(
    ("options", "fusion"),
    [
        ("--method interleave", interleave_rankings),
        ("--method interleave --keep 3", lambda both: interleave_rankings(both, 3)),
        ("--method rrf", sum_reciprocal_ranks),
        ("--rrf-k 1", lambda both: sum_reciprocal_ranks(both, 1)),
        ("--method linear", lambda both: sum_rankings(both, [0.5, 0.5])),
        ("--method linear --weights 0.9,-0.5", lambda both: sum_rankings(both, [0.9, -0.5])),
        ("--depth 4", lambda both: sum_reciprocal_ranks([each.cut(4) for each in both]).cut(4)),
        ("--depth 4 -k 9", lambda both: sum_reciprocal_ranks([each.cut(4) for each in both])),
    ],
)
def test_runs_are_fused_as_the_library_fuses_rankings(options, fusion):
    said = ok(f"fuse weak.run strong.run {options} -o fused.run").stderr
    assert "40 queries fused; run in fused.run, its settings in fused.run.json" in said
    assert list(read_run("fused.run")) == [fusion(both) for both in lists("weak", "strong")]


def test_what_made_a_run_stands_beside_it():
    ok("fuse weak.run best.run --method linear --weights 0.4,0.6 -o fused.run.gz")
    settings = json.loads(Path("fused.run.gz.json").read_text())
    assert (settings["method"], settings["weights"]) == ("linear", [0.4, 0.6])
    assert (settings["runs"], settings["depth"]) == (["weak.run", "best.run"], 1000)
    assert "telerank" in settings["versions"]


def test_queries_that_a_run_lacks_are_fused_of_the_others_and_counted():
    first, *others = read_run("weak.run")
    write_run("some.run", others)
    said = ok("fuse some.run strong.run -o fused.run").stderr
    assert "some: has no list for 1 of 40 queries: fused from the others" in said
    fused = {each.query.qid: each for each in read_run("fused.run")}
    assert fused.keys() == QRELS.keys()
    assert fused[first.query.qid].docnos == next(read_run("strong.run")).docnos


def test_the_run_goes_to_standard_output():
    assert ok("fuse weak.run best.run").stdout.splitlines()[0].split()[:2] == ["q00", "Q0"]


def test_tuning_prints_in_sample_held_out_and_oracle_and_draws():
    printed = ok(f"{TUNE} --measures RR@10 --folds 4 --plot curve.svg")
    record = json.loads(ok(f"{TUNE} --measures RR@10 --folds 4 --json").stdout)
    for name in ("in_sample", "held_out", "oracle"):
        assert f"{record[name]:.4f}" in printed.stdout
    assert record["held_out"] <= record["in_sample"] <= record["oracle"]
    assert len(record["grid"]) == 11
    assert len(record["choices"]) == 4
    best = [sum_rankings(both, record["weights"]) for both in lists("weak", "strong")]
    assert record["in_sample"] == pytest.approx(measure(best, QRELS, "RR@10").mean["RR@10"])
    assert "plot in curve.svg" in printed.stderr
    assert Path("curve.svg").read_bytes().startswith(b"<?xml")


def test_weights_of_three_runs_are_the_whole_simplex_and_independent_ones_a_square():
    record = json.loads(ok(f"{TUNE} best.run -m RR --step 0.2 --plot all.png --json").stdout)
    assert len(record["grid"]) == 21
    assert Path("all.png").stat().st_size > 1000
    record = json.loads(ok(f"{TUNE} -m RR --grid square --step 0.5 --plot square.svg --json").stdout)
    assert [point["weights"] for point in record["grid"]][:3] == [[0, 0.5], [0, 1], [0.5, 0]]
    assert Path("square.svg").exists()


def test_tuning_says_what_does_not_count():
    _, _, *others = read_run("weak.run")
    write_run("some.run", [*others, *OTHER])
    write_run("more.run", list(read_run("strong.run"))[1:])
    said = ok("tune-fusion qrels.txt some.run more.run -m RR").stderr
    assert "some: has no list for 1 query: fused from the others" in said
    assert "more: has no list for 1 query" in said
    assert "1 of 40 queries of the qrels has no list in any run: it counts 0" in said
    assert "1 query is not in the qrels: it does not count" in said


def test_all_ordered_pairs_are_combined():
    shown = ok("combine qrels.txt weak.run strong.run best.run -m 'RR@10 R@4'").stdout
    rows = [line.split() for line in shown.splitlines()]
    assert ["+", "weak", "+", "strong", "+", "best"] in rows
    fused = measure(map(interleave_rankings, lists("weak", "best")), QRELS, "RR@10").mean["RR@10"]
    (weak, *_) = [row for row in rows if row[:1] == ["weak"]]
    assert weak[4] == f"{fused:.3f}"
    assert weak[-1].endswith("%)†")  # a document nearer to the first rank in nearly all of 40 queries
    assert "Holm's correction over all cells of all measures" in shown


def test_combinations_as_json():
    command = "combine qrels.txt weak.run strong.run -m RR --method rrf --depth 5 --json"
    rows = json.loads(ok(command).stdout)["combinations"]
    assert [(row["first"], row["second"]) for row in rows] == [("weak", "strong"), ("strong", "weak")]
    fused = [sum_reciprocal_ranks([each.cut(5) for each in both]).cut(5) for both in lists("weak", "strong")]
    assert rows[0]["mean"] == pytest.approx(measure(fused, QRELS, "RR").mean["RR"])


def test_consistency_by_depth():
    shown = ok("consistency best.run best.run --depths 1,5 --plot c.png").stdout
    assert shown.split()[-4:] == ["best", "C", "1.000", "1.000"]
    command = "consistency best.run weak.run --depths 10 --reference-depth 10 --json"
    (row,) = json.loads(ok(command).stdout)["runs"]
    assert row["by_depth"] == pytest.approx([0.6])  # all but the four of its own
    assert Path("c.png").exists()


def test_consistency_says_what_does_not_count():
    write_run("some.run", list(read_run("weak.run"))[1:])
    said = ok("consistency best.run some.run").stderr
    assert "has no document for 1 query of the reference" in said
    assert "no list for 1 of 40 queries: they count 0" in ok("consistency some.run best.run").stderr


def test_reranking_by_depth():
    command = "depth qrels.txt weak.run strong.run --depths 1,3,10 -r best.run"
    printed = ok(f"{command} --plot d.svg")
    assert printed.stdout.startswith("RR@10 of the first n, re-ranked")
    assert "In brackets the change from weak." in printed.stdout
    assert "candidates have no score in best.run: they stay below the others" in printed.stderr
    record = json.loads(ok(f"{command} --json").stdout)
    everything = measure(read_run("best.run"), QRELS, "RR@10").mean["RR@10"]
    assert record["reranked"]["strong"]["by_depth"][-1] >= everything  # its own wrong documents stay below
    assert Path("d.svg").exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("fuse weak.run", "two runs or more"),
        (
            "fuse weak.run best.run --method linear --weights 1,2,3",
            "expected 2 numbers separated by commas, got '1,2,3'",
        ),
        ("fuse weak.run best.run --weights 1,2", "--weights are for --method linear, not rrf"),
        (f"{TUNE} --step 0.3", "step: 1 must be a multiple of the step, got 0.3; use 1/4"),
        (f"{TUNE} --folds 50", "50 folds of 40 judged queries: too few queries"),
        (f"{TUNE} --measures 'RR AP'", "tuning takes one measure"),
        (f"{TUNE} --plot curve.jpeg", "the name of a plot, ending in .png, .svg, .pdf"),
        (f"{TUNE} best.run none.run --plot c.png", "--plot cannot draw the weights of 4 runs on the simplex"),
        ("tune-fusion qrels.txt a.run b.run", "no query of the runs is judged in qrels.txt"),
        ("consistency best.run a.run", "a.run: none of its queries is in best.run"),
        ("depth qrels.txt weak.run -r best.run -m 'RR AP'", "by one measure, got 'RR AP'"),
    ],
)
def test_bad_input_is_refused(command, message):
    for name, rankings in (("a", OTHER), ("b", OTHER), ("none", [])):
        write_run(f"{name}.run", rankings)
    assert message in refusal(command)


@pytest.mark.parametrize("number", ["inf", "nan", "1e999"])
def test_a_k_that_is_not_finite_is_refused(number):
    printed = typed(f"fuse weak.run best.run --rrf-k {number} -o fused.run")
    assert printed.status == 2
    assert "--rrf-k" in printed.stderr
    assert not Path("fused.run").exists()
