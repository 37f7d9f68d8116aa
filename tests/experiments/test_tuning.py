"""Tuned families of sparse models: what is tuned is measured on other queries, and the figures are right."""

from __future__ import annotations

import json

import numpy as np
import pytest
from small_bench import SMALL_GRIDS, judged, make_bench

from telerank.evaluation.measures import measure
from telerank.evaluation.tune import Folds
from telerank.experiments.analyses.bench import analyse
from telerank.experiments.analyses.tuning import (
    DEFAULT,
    GIVEN,
    TUNED,
    SparseSystem,
    TuningAnalysis,
    run_study,
)
from telerank.sparse.similarities.families import make_grid, parse_similarity

SPEC = TuningAnalysis(
    kind="tuning", families=SMALL_GRIDS, objective="AP@5", measures=["R@1", "AP@5"], depths=[1, 3, 5]
)
FOLDED = SPEC.model_copy(update={"folds": 3, "given": ("dfi(independence=chisquared)",), "depths": ()})
JELINEK = SparseSystem("lm_jelinek_mercer", TUNED, "standard")


@pytest.fixture(scope="module")
def dealt(tmp_path_factory):
    """A bench with dev queries, its study, and what the analysis says of it."""
    bench = make_bench(tmp_path_factory.mktemp("dealt"), count=60, dev=20)
    return bench, run_study(bench, SPEC), analyse(bench, SPEC)


@pytest.fixture(scope="module")
def folded(bench):
    return run_study(bench, FOLDED)


def mean_of(bench, setting, judged, analyzer="standard"):
    rankings = bench.data.index(analyzer).retriever(setting).run(judged.queries)
    return measure(rankings, judged.qrels, "R@1 AP@5").mean


def test_every_system_is_measured_on_the_queries_that_measure(dealt):
    bench, study, _ = dealt
    assert len(study.evaluations) == 2 * 2 * len(SMALL_GRIDS)
    measuring = frozenset(query.qid for query in bench.judged.queries)
    assert {frozenset(one.qids) for one in study.evaluations.values()} == {measuring}
    assert (study.dev, study.queries) == (20, 40)
    for analyzer in ("standard", "none"):
        for family in SMALL_GRIDS:
            mean = study.evaluations[SparseSystem(family, DEFAULT, analyzer)].mean
            expected = mean_of(bench, parse_similarity(family), bench.judged, analyzer)
            assert {name: mean[name] for name in expected} == expected


def test_the_dev_queries_choose_and_the_others_measure(dealt):
    bench, study, _ = dealt
    settings = make_grid(parse_similarity(JELINEK.model))
    dev = [mean_of(bench, setting, bench.data.dev)["AP@5"] for setting in settings]
    best = settings[int(np.argmax(dev))]
    assert study.tunings[JELINEK].best == best
    assert study.values(JELINEK) == {
        "dev": pytest.approx(max(dev)),
        "held out": mean_of(bench, best, bench.judged)["AP@5"],
        "default": study.evaluations[SparseSystem(JELINEK.model, DEFAULT, "standard")].mean["AP@5"],
    }


def test_with_folds_each_query_is_measured_under_what_the_others_chose(bench, folded):
    index, (queries, qrels) = bench.data.index("standard"), (bench.judged.queries, bench.judged.qrels)
    values = [
        measure(index.retriever(setting).run(queries), qrels, "AP@5").of("AP@5")
        for setting in make_grid(parse_similarity(JELINEK.model))
    ]
    tuned = folded.evaluations[JELINEK].of("AP@5")
    for fold in Folds(3).deal(qrels):
        means = [np.mean([of[qid] for qid in of if qid not in fold]) for of in values]
        chosen = values[int(np.argmax(np.array(means) >= max(means) - 1e-12))]
        assert {qid: tuned[qid] for qid in fold} == {qid: chosen[qid] for qid in fold}
    assert folded.dev is None
    assert [str(system) for system in folded.evaluations if system.parameters == GIVEN] == [
        "dfi(independence=chisquared), standard",
        "dfi(independence=chisquared), none",
    ]


def test_a_measure_without_cutoff_sees_the_depth_of_the_bench(tmp_path):
    bench = make_bench(tmp_path, count=10, depth=1)
    spec = TuningAnalysis(kind="tuning", families=["dfi"], objective="R@1", measures=["AP"], folds=2)
    for evaluation in run_study(bench, spec).evaluations.values():
        assert evaluation.mean["AP"] == evaluation.mean["R@1"]


def test_tables_have_the_means_marks_and_the_best(dealt):
    _, study, result = dealt
    by_recall, by_precision, effects, tunings = result.tables
    assert by_recall.columns == ("R@k, k =", "1", "3", "5")
    assert [row[0].text for row in by_precision.rows] == [
        "LMJelinekMercer default",
        "LMJelinekMercer",
        "DFI",
    ]
    for family, row in zip(SMALL_GRIDS, by_recall.rows[1:], strict=True):
        mean = study.evaluations[SparseSystem(family, TUNED, "standard")].mean
        assert [cell.text for cell in row[1:]] == [
            f"{mean[f'R@{k}']:.3f}".removeprefix("0") for k in (1, 3, 5)
        ]
    rows = {tuple(cell.text for cell in row[:3]): row[3:] for row in effects.rows}
    assert [cell.marks for cell in rows["LMJelinekMercer", "standard", "default"]] == ["", ""]
    # without folding of case about half of the words of a query are lost
    assert [cell.marks for cell in rows["LMJelinekMercer", "none", "default"]] == ["†", "†"]
    for column in zip(*rows.values(), strict=True):
        assert [cell.strong for cell in column] == [
            float(cell.text) == max(float(one.text) for one in column) for cell in column
        ]
    assert "over 40 queries, with Holm's correction over the 14 tests" in effects.notes[0]
    assert tunings.columns == ("tuned setting", "analyzer", "tried", "dev", "held out", "default")
    assert [row[0].text for row in tunings.rows] == [repr(one.best) for one in study.tunings.values()]


def test_with_folds_the_tables_say_how_many_agreed(bench, folded):
    effects, tunings = analyse(bench, FOLDED).tables
    assert [row[0].text for row in effects.rows[-2:]] == ["dfi(independence=chisquared)"] * 2
    shares = [f"{one.choices.count(one.best)}/3" for one in folded.tunings.values()]
    assert [row[3].text for row in tunings.rows] == shares
    assert "how many of 3 chose it, too" in tunings.notes[0]


def test_plots_show_curves_and_the_effects_on_each_family(dealt):
    _, study, result = dealt
    assert [axis.get_ylabel() for axis in result.plots["curves"].axes] == ["R@k", "AP@k"]
    panel = result.plots["effects"].axes[1]
    heights = {bars.get_label(): [bar.get_height() for bar in bars] for bars in panel.containers}
    assert list(heights) == ["standard, default", "standard, tuned", "none, default", "none, tuned"]
    means = [study.evaluations[SparseSystem(one, DEFAULT, "none")].mean["AP@5"] for one in SMALL_GRIDS]
    assert heights["none, default"] == pytest.approx(means)


def test_notes_are_figures_of_the_tables(dealt):
    _, study, result = dealt
    preprocessing, tuning, *best = result.notes
    base, plain = (
        study.evaluations[SparseSystem("lm_jelinek_mercer", DEFAULT, one)].mean["AP@5"]
        for one in ("standard", "none")
    )
    assert f"{base:.3f} with the analyzer standard, {plain:.3f} with none" in preprocessing
    gains = [
        study.values(system)["held out"] - study.values(system)["default"]
        for system in study.tuned_under(study.baseline.analyzer)
    ]
    assert f"by {min(gains):+.3f} to {max(gains):+.3f}" in tuning
    highest = max(one.mean["AP@5"] for one in study.evaluations.values())
    assert all(f"{highest:.3f}" in note for note in best)


def test_the_record_has_every_value(dealt):
    _, study, result = dealt
    record = json.loads(json.dumps(result.record, allow_nan=False))
    assert {one["name"]: one["means"] for one in record["systems"]} == {
        str(system): evaluation.mean for system, evaluation in study.evaluations.items()
    }
    assert record["baseline"] == "lm_jelinek_mercer default, standard"
    assert record["queries"] == {"dev": 20, "folds": None, "test": 40}
    assert record["analyzers"] == {
        "standard": "nfkc|casefold|words",
        "none": str(record["analyzers"]["none"]),
    }
    assert [one["best"] for one in record["tunings"]] == [repr(one.best) for one in study.tunings.values()]
    tests = {name: len(differences) for name, differences in record["comparisons"].items()}
    assert tests == {"R": 6, "AP": 6, "all systems": 14}


def test_queries_are_dealt_by_the_seed_alone():
    all_queries = judged(20)
    dev, measuring = all_queries.deal(5, 10)
    assert (len(dev.queries), len(measuring.queries)) == (5, 10)
    assert not dev.qrels.keys() & measuring.qrels.keys()
    turned = type(all_queries)(all_queries.queries[::-1], all_queries.qrels)
    assert turned.deal(5, 10)[0].qrels == dev.qrels
    assert all_queries.deal(5, 10, seed=1)[0].qrels != dev.qrels
    assert len(all_queries.deal(5)[1].queries) == 15


def test_tables_by_depth_have_the_measures_analyzers_and_printed_values_that_are_named(bench):
    changes = {"depth_measures": ("Success",), "depths": (1, 3), "every_analyzer": True, "families": ("dfi",)}
    printed = {"words": {"DFI": {"Success@1": 0.5, "Success@3": None}}}
    result = analyse(bench, SPEC.model_copy(update={**changes, "published": printed}))
    first, second, *_ = result.tables
    assert first.columns == second.columns == ("Success@k, k =", "1", "3")
    assert [table.caption.rpartition(" ")[2] for table in (first, second)] == ["standard", "none"]
    rows = [[cell.text for cell in row] for row in first.rows]
    assert rows[-1] == ["  paper", ".500", "–"]
    assert not any(row[0].text.strip() == "paper" for row in second.rows)
    means = next(one["means"] for one in result.record["systems"] if one["name"] == "dfi tuned, standard")
    assert rows[-2] == ["DFI", *(f"{means[f'Success@{k}']:.3f}".removeprefix("0") for k in (1, 3))]
    assert set(result.record["comparisons"]) == {"Success", "Success, none", "all systems"}
    assert [axis.get_ylabel() for axis in result.plots["curves"].axes] == [
        "Success@k, standard",
        "Success@k, none",
    ]


def test_without_folds_the_best_of_the_grid_is_measured_on_the_queries_that_chose_it(bench):
    result = analyse(bench, FOLDED.model_copy(update={"folds": None, "given": ()}))
    values = next(one for one in result.record["tunings"] if one["model"] == JELINEK.model)
    chosen = mean_of(bench, parse_similarity(values["best"]), bench.judged)["AP@5"]
    assert values["held out"] == values["dev"] == pytest.approx(chosen)
    assert result.tables[-1].columns == ("tuned setting", "analyzer", "tried", "dev", "default")
    assert "which chose it" in result.tables[-1].notes[0]
    assert any("too optimistic" in note for note in result.notes)
