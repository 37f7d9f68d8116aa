"""telerank fuse, tune-fusion, combine, consistency and depth, as they are typed."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from telerank.cli.main import app, main
from telerank.evaluation.measures import measure
from telerank.fusion import interleave_rankings, sum_rankings, sum_reciprocal_ranks
from telerank.trec import read_run, write_qrels, write_run
from telerank.types import Query, Ranking

QIDS = [f"q{i:02}" for i in range(40)]
QRELS = {qid: {"right": 1} for qid in QIDS}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Forty queries with one relevant document each, and three runs that find it at different ranks."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    write_qrels("qrels.txt", QRELS)
    for name, most in (("weak", 9), ("strong", 4), ("best", 2)):
        rankings = []
        for qid in QIDS:
            docnos = [f"{name}{i}" for i in range(4)] + [f"wrong{i}" for i in range(5)]
            docnos.insert(int(random.integers(most)), "right")
            rankings.append(Ranking(Query(qid, ""), tuple(docnos), np.sort(random.normal(size=10))[::-1]))
        write_run(f"{name}.run", rankings)
    return tmp_path


def run(*arguments: str):
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def refusal(monkeypatch, capsys, *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["telerank", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def lists(*names: str):
    return zip(*(read_run(f"{name}.run") for name in names), strict=True)


@pytest.mark.parametrize(
    ("options", "fusion"),
    [
        (["--method", "interleave"], interleave_rankings),
        (["--method", "interleave", "--keep", "3"], lambda one: interleave_rankings(one, 3)),
        (["--method", "rrf"], sum_reciprocal_ranks),
        (["--rrf-k", "1"], lambda one: sum_reciprocal_ranks(one, 1)),
        (["--method", "linear"], lambda one: sum_rankings(one, [0.5, 0.5])),
        (["--method", "linear", "--weights", "0.9,-0.5"], lambda one: sum_rankings(one, [0.9, -0.5])),
        (["--depth", "4"], lambda one: sum_reciprocal_ranks([ranking.cut(4) for ranking in one]).cut(4)),
        (
            ["--depth", "4", "-k", "9"],
            lambda one: sum_reciprocal_ranks([ranking.cut(4) for ranking in one]),
        ),
    ],
)
def test_runs_are_fused_as_the_library_fuses_rankings(folder, options, fusion):
    told = run("fuse", "weak.run", "strong.run", *options, "-o", "fused.run").stderr
    assert "40 queries fused; run in fused.run, its settings in fused.run.json" in told
    assert list(read_run("fused.run")) == [fusion(one) for one in lists("weak", "strong")]


def test_what_made_a_run_stands_beside_it(folder):
    run("fuse", "weak.run", "best.run", "--method", "linear", "--weights", "0.4,0.6", "-o", "fused.run.gz")
    settings = json.loads((folder / "fused.run.gz.json").read_text())
    assert settings["weights"] == [0.4, 0.6]
    assert (settings["method"], settings["runs"], settings["depth"]) == (
        *("linear", ["weak.run", "best.run"]),
        1000,
    )
    assert "telerank" in settings["versions"]


def test_queries_that_a_run_lacks_are_fused_of_the_others_and_counted(folder):
    first, *others = read_run("weak.run")
    write_run("some.run", others)
    told = run("fuse", "some.run", "strong.run", "-o", "fused.run").stderr
    assert "some: has no list for 1 of 40 queries: fused from the others" in told
    assert {one.query.qid for one in read_run("fused.run")} == set(QIDS)
    fused = {one.query.qid: one for one in read_run("fused.run")}[first.query.qid]
    assert fused.docnos == next(read_run("strong.run")).docnos


def test_the_run_goes_to_standard_output(folder):
    assert run("fuse", "weak.run", "best.run").stdout.splitlines()[0].split()[:2] == ["q00", "Q0"]


def test_bad_fusions_are_refused_in_one_line(folder, monkeypatch, capsys):
    assert "two runs or more" in refusal(monkeypatch, capsys, "fuse", "weak.run")
    asked = ("fuse", "weak.run", "best.run", "--method", "linear", "--weights", "1,2,3")
    assert "expected 2 numbers separated by commas, got '1,2,3'" in refusal(monkeypatch, capsys, *asked)
    asked = ("fuse", "weak.run", "best.run", "--weights", "1,2")
    assert "--weights are for --method linear, not rrf" in refusal(monkeypatch, capsys, *asked)


def test_tuning_prints_in_sample_held_out_and_oracle_and_draws(folder):
    arguments = ("tune-fusion", "qrels.txt", "weak.run", "strong.run", "--measure", "RR@10", "--folds", "4")
    told = run(*arguments, "--plot", "curve.svg")
    record = json.loads(run(*arguments, "--json").stdout)
    for name in ("in_sample", "held_out", "oracle"):
        assert f"{record[name]:.4f}" in told.stdout
    assert record["held_out"] <= record["in_sample"] <= record["oracle"]
    assert len(record["grid"]) == 11
    assert len(record["choices"]) == 4
    best = [sum_rankings(one, record["weights"]) for one in lists("weak", "strong")]
    assert record["in_sample"] == pytest.approx(measure(best, QRELS, "RR@10").mean["RR@10"])
    assert "plot in curve.svg" in told.stderr
    assert (folder / "curve.svg").read_bytes().startswith(b"<?xml")


def test_three_runs_are_tuned_over_the_whole_simplex_and_drawn_as_a_triangle(folder):
    arguments = ("tune-fusion", "qrels.txt", "weak.run", "strong.run", "best.run", "-m", "RR")
    record = json.loads(run(*arguments, "--step", "0.2", "--plot", "all.png", "--json").stdout)
    assert len(record["grid"]) == 21
    assert (folder / "all.png").stat().st_size > 1000


def test_independent_weights_are_tuned_and_drawn_as_a_square(folder):
    arguments = ("tune-fusion", "qrels.txt", "weak.run", "strong.run", "-m", "RR", "--grid", "square")
    record = json.loads(run(*arguments, "--step", "0.5", "--plot", "square.svg", "--json").stdout)
    assert [point["weights"] for point in record["grid"]][:3] == [[0, 0.5], [0, 1], [0.5, 0]]
    assert (folder / "square.svg").exists()


def test_tuning_tells_what_does_not_count(folder):
    _, _, *others = read_run("weak.run")
    write_run("some.run", [*others, Ranking(Query("unjudged", ""), ("x",), [1.0])])
    write_run("more.run", list(read_run("strong.run"))[1:])
    told = run("tune-fusion", "qrels.txt", "some.run", "more.run").stderr
    assert "some: has no list for 1 queries: fused from the others" in told
    assert "more: has no list for 1 queries" in told
    assert "1 of 40 queries of the qrels have no list in any run: they count 0" in told
    assert "1 queries are not in the qrels: they do not count" in told


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--step", "0.3"], "step: 1 must be a multiple of the step, got 0.3; use 1/4"),
        (["--folds", "50"], "50 folds of 40 judged queries: too few queries"),
        (["--measure", "RR AP"], "tuning takes one measure"),
        (["--plot", "curve.jpeg"], "the name of a plot, ending in .png, .svg, .pdf"),
        (
            ["best.run", "rest.run", "--plot", "curve.png"],
            "--plot cannot draw the weights of 4 runs on the simplex",
        ),
    ],
)
def test_bad_tunings_are_refused_in_one_line(folder, monkeypatch, capsys, options, told):
    write_run("rest.run", [])
    asked = ("tune-fusion", "qrels.txt", "weak.run", "strong.run", *options)
    assert told in refusal(monkeypatch, capsys, *asked)


def test_runs_of_other_queries_are_not_tuned(folder, monkeypatch, capsys):
    for name in ("a", "b"):
        write_run(f"{name}.run", [Ranking(Query("other", ""), ("x",), [1.0])])
    line = refusal(monkeypatch, capsys, "tune-fusion", "qrels.txt", "a.run", "b.run")
    assert "no query of the runs is judged in qrels.txt" in line


def test_all_ordered_pairs_are_combined(folder):
    told = run("combine", "qrels.txt", "weak.run", "strong.run", "best.run", "-m", "RR@10 R@4").stdout
    rows = [line.split() for line in told.splitlines()]
    assert ["+", "weak", "+", "strong", "+", "best"] in rows
    fused = measure(map(interleave_rankings, lists("weak", "best")), QRELS, "RR@10").mean["RR@10"]
    (weak, *_) = [row for row in rows if row[:1] == ["weak"]]
    assert weak[4] == f"{fused:.3f}"
    assert weak[-1].endswith("%)†")  # a document nearer to the first rank in nearly all of 40 queries
    assert "Holm's correction over all cells of all measures" in told


def test_combinations_as_json(folder):
    asked = ("combine", "qrels.txt", "weak.run", "best.run", "-m", "RR", "--method", "rrf", "--depth", "5")
    record = json.loads(run(*asked, "--json").stdout)
    assert [(one["first"], one["second"]) for one in record["combinations"]] == [
        ("weak", "best"),
        ("best", "weak"),
    ]
    cut = [[one.cut(5) for one in both] for both in lists("weak", "best")]
    fused = measure([sum_reciprocal_ranks(both).cut(5) for both in cut], QRELS, "RR").mean["RR"]
    assert record["combinations"][0]["mean"] == pytest.approx(fused)


def test_consistency_by_depth(folder):
    told = run("consistency", "best.run", "best.run", "--depths", "1,5", "--plot", "c.png").stdout
    assert told.split()[-4:] == ["best", "C", "1.000", "1.000"]
    asked = ("consistency", "best.run", "weak.run", "--depths", "10", "--reference-depth", "10")
    (found,) = json.loads(run(*asked, "--json").stdout)["runs"]
    assert found["by_depth"] == pytest.approx([0.6])  # all but the four of its own
    assert (folder / "c.png").exists()


def test_consistency_tells_what_does_not_count(folder, monkeypatch, capsys):
    write_run("some.run", list(read_run("weak.run"))[1:])
    assert (
        "has no document for 1 queries of the reference" in run("consistency", "best.run", "some.run").stderr
    )
    assert "no list for 1 of 40 queries: they count 0" in run("consistency", "some.run", "best.run").stderr
    write_run("other.run", [Ranking(Query("other", ""), ("x",), [1.0])])
    line = refusal(monkeypatch, capsys, "consistency", "best.run", "other.run")
    assert "other.run: none of its queries is in best.run" in line


def test_reranking_by_depth(folder):
    asked = ("depth", "qrels.txt", "weak.run", "strong.run", "--depths", "1,3,10", "-r", "best.run")
    result = run(*asked, "--plot", "d.svg")
    assert result.stdout.startswith("RR@10 of the first n, re-ranked")
    assert "In brackets the change from weak." in result.stdout
    assert "candidates have no score in best.run: they stay below the others" in result.stderr
    record = json.loads(run(*asked, "--json").stdout)
    everything = measure(read_run("best.run"), QRELS, "RR@10").mean["RR@10"]
    assert record["reranked"]["strong"]["by_depth"][-1] >= everything  # its own wrong documents stay below
    assert (folder / "d.svg").exists()


def test_one_measure_is_of_the_reranked_lists(folder, monkeypatch, capsys):
    line = refusal(monkeypatch, capsys, "depth", "qrels.txt", "weak.run", "-r", "best.run", "-m", "RR AP")
    assert "by one measure, got 'RR AP'" in line


@pytest.mark.parametrize("number", ["inf", "nan", "1e999"])
def test_a_k_that_is_not_finite_is_refused(folder, number):
    result = CliRunner().invoke(app, ["fuse", "weak.run", "best.run", "--rrf-k", number, "-o", "fused.run"])
    assert result.exit_code == 2
    assert "--rrf-k" in result.stderr
    assert not (folder / "fused.run").exists()
