"""Pooled folds: paired tests over the joined queries, their marks in the tables and on a page of results."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from small_bench import saved_results

from telerank.evaluation.measures import Evaluation
from telerank.evaluation.statistics import bootstrap_intervals, paired_t
from telerank.experiments.analyses.quality import PairedTests, QualityAnalysis, compare_pairs
from telerank.experiments.analyses.relevant_text import BehindFirstAnalysis
from telerank.experiments.analysis import AnalysisResult
from telerank.experiments.report import pool_outcomes

MEASURES = ("RR", "AP")
SYSTEMS = ("BM25", "MaxP", "BeST")
TESTS = PairedTests(level=0.01)


def values(fold: int) -> dict[str, dict[str, dict[str, list[float]]]]:
    """MaxP and BeST are above BM25 by a little on each query, and differ from each other by noise."""
    draw = np.random.default_rng(fold)
    base = draw.uniform(0.2, 0.6, 12)
    rows = {"BM25": base, "MaxP": base + draw.uniform(0, 0.2, 12), "BeST": base + draw.uniform(0, 0.2, 12)}
    return {
        name: {
            system: {f"{fold}-{n}": [float(value)] for n, value in enumerate(own)}
            for system, own in rows.items()
        }
        for name in MEASURES
    }


def pool(folder: Path, *folds, tests=TESTS, spec=None):
    spec = spec or QualityAnalysis(kind="quality", measures=MEASURES, tests=tests)
    outcomes = [
        SimpleNamespace(
            spec=SimpleNamespace(analyses=(spec,)),
            data=SimpleNamespace(name=f"fold{number}"),
            results=(AnalysisResult((), {}, items=items),),
            title="Pooling",
            folder=folder / f"fold{number}",
            seconds=60.0,
        )
        for number, items in enumerate(folds, 1)
    ]
    pooled = pool_outcomes(outcomes, folder / "best-table1-folds", "folds")
    return pooled, saved_results(pooled)[0]


def test_pooled_systems_are_tested_over_the_queries_of_all_folds(tmp_path, describe_results):
    first, second = values(1), values(2)
    pooled, record = pool(tmp_path, first, second)
    evaluations = {
        system: Evaluation(
            tuple(range(24)),
            {
                name: np.array([*first[name][system].values(), *second[name][system].values()])[:, 0]
                for name in MEASURES
            },
        )
        for system in SYSTEMS
    }
    expected = compare_pairs(evaluations, MEASURES, TESTS)
    assert record["tests"] == [pytest.approx(test) for test in expected.tests]
    assert [record["columns"]["RR"][system]["marks"] for system in SYSTEMS] == ["23", "1", "1"]
    assert record["marks"] == expected.describe_marks()
    assert "over 24 queries, not corrected for 6 tests: 1 BM25, 2 MaxP, 3 BeST" in record["marks"]
    tables = pooled.results[0].tables
    assert [table.caption for table in tables] == ["RR by fold", "AP by fold", "Paired t-tests"]
    cells = {row[0].text: row[-2] for row in tables[0].rows}
    assert [cells[system].marks for system in SYSTEMS] == ["23", "1", "1"]
    assert [cell.strong for cell in cells.values()].count(True) == 1
    assert tables[2].columns[-1] == "p, Holm"
    page = describe_results("best/table1", pooled.folder)  # without the table of tests
    rows = {line.split(" | ")[0]: line for line in page.splitlines() if line.startswith("| ")}
    assert re.search(r"0\.\d{3}<sup>23</sup> \[", rows["| BM25"])
    assert re.search(r"0\.\d{3}(\*\*)?<sup>1</sup> \[", rows["| BeST"])
    assert sum("**" in rows[f"| {system}"].split(" | ")[1] for system in SYSTEMS) == 1
    assert "Superscripts are the systems that differ, p \\< 0.01 in a paired t-test over 24 queries" in page
    assert "Holm |" not in page


def test_a_system_that_a_fold_lacks_is_not_tested(tmp_path):
    first, second = values(1), values(2)
    for rows in second.values():
        del rows["BeST"]
    _, record = pool(tmp_path, first, second)
    assert {one["system"] for one in record["tests"]} | {one["other"] for one in record["tests"]} == {
        "BM25",
        "MaxP",
    }
    assert record["columns"]["RR"]["BeST"]["marks"] == ""


def test_without_tests_nothing_is_marked(tmp_path, describe_results):
    pooled, record = pool(tmp_path, values(1), values(2), tests=None)
    assert record.keys() == {"kind", "title", "columns"}
    assert all(not cell.strong for table in pooled.results[0].tables for row in table.rows for cell in row)
    assert "<sup>" not in describe_results("best/table1", pooled.folder)


def behind(fold: int) -> dict[str, dict[str, dict[str, list[float]]]]:
    rows = values(fold)["RR"]
    return {
        "RR, behind the first segment": {name: rows[name] for name in ("MaxP", "BeST")},
        "RR, within the first segment": dict.fromkeys(("MaxP", "BeST"), rows["BM25"]),
    }


def test_pooled_systems_are_compared_where_the_answer_is_not_in_the_first_segment(tmp_path, describe_results):
    """Over the queries of all folds, one of which has no known relevant text; also on a page of results."""
    spec = BehindFirstAnalysis(kind="behind-first", title="Behind", measures=("RR",), baseline="MaxP")
    pooled, record = pool(tmp_path, behind(1), behind(2), {}, spec=spec)
    late, early = record["differences"]
    deltas = np.array(
        [
            own["RR"]["BeST"][qid][0] - own["RR"]["MaxP"][qid][0]
            for own in (values(1), values(2))
            for qid in own["RR"]["BeST"]
        ]
    )
    assert (late["queries"], late["difference"]) == (24, pytest.approx(deltas.mean()))
    assert (late["low"], late["high"]) == pytest.approx(bootstrap_intervals([deltas])[0])
    assert late["p"] == pytest.approx(paired_t(deltas))
    assert (early["group"], early["difference"], early["p"]) == ("within the first segment", 0.0, 1.0)
    tables = pooled.results[0].tables
    assert [table.caption for table in tables] == ["Behind", *(f"{column} by fold" for column in behind(1))]
    text = describe_results("best/table1", pooled.folder)
    assert f"| RR | behind the first segment | 24 | {late['baseline']:.3f} | {late['system']:.3f} | " in text
    assert f"{late['difference']:+.3f} [{late['low']:+.3f}, {late['high']:+.3f}]" in text
