"""Tables, page and JSON of the sparse experiment: one set of figures, in a page that needs no other file."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
from sparse_task import plan, task

from telerank.evaluate.tune import Folds
from telerank.recipes.sparse import DEFAULT, FAMILIES, TUNED, Parts, System, run_plan
from telerank.recipes.sparse_report import View, facts, findings, page, record
from telerank.recipes.sparse_tables import depth_tables, effect_table, effects_plot, tuning_table
from telerank.sparse.similarities import BM25

DEPTHS = (1, 3, 5)
MEASURES = "R@1 R@3 R@5 AP@1 AP@3 AP@5"
VIEW = View(
    title="Words <of> & signs",
    collection={"Collection": "words", "Licence": "<none>"},
    depths=DEPTHS,
    measures=("R@1", "AP@5"),
    panels=("AP@5",),
    relevant="One each.",
)


@pytest.fixture(scope="module")
def outcome():
    return run_plan(task(60), plan(held_out=Parts(10), measures=MEASURES))


@pytest.fixture(scope="module")
def folded():
    return run_plan(task(), plan(held_out=Folds(3), measures=MEASURES, given=(BM25(0.9, 0.4),)))


@pytest.fixture(scope="module")
def written(outcome):
    return page(outcome, VIEW)


def test_tables_by_depth_have_the_means_of_the_tuned_models(outcome):
    for measure, table in zip(("R", "AP"), depth_tables(outcome, DEPTHS), strict=True):
        assert table.columns == (f"{measure}@k, k =", "1", "3", "5")
        labels = [row[0].text for row in table.rows]
        assert labels == ["BM25 default", "BM25", "LMDirichlet", "LMJelinekMercer", "DFR", "DFI"]
        for family, row in zip(FAMILIES, table.rows[1:], strict=True):
            mean = outcome.evaluations[System(family, TUNED, "folded")].mean
            shown = [f"{mean[f'{measure}@{depth}']:.3f}".removeprefix("0") for depth in DEPTHS]
            assert [cell.text for cell in row[1:]] == shown


def test_what_differs_significantly_is_marked(outcome):
    """Without folding of case about half of the words of a question are lost."""
    table = effect_table(outcome, ["R@1", "AP@5"])
    marks = {tuple(cell.text for cell in row[:3]): [cell.marks for cell in row[3:]] for row in table.rows}
    assert len(marks) == 2 * 2 * len(FAMILIES)
    assert marks["BM25", "folded", "default"] == ["", ""]
    assert marks["BM25", "plain", "default"] == ["†", "†"]
    comparison = outcome.compared(outcome.evaluations, ["R@1", "AP@5"])
    assert f"the {len(comparison.differences)} tests of this table" in table.notes[0]


def test_the_best_of_each_measure_is_strong(outcome):
    for column in zip(*(row[3:] for row in effect_table(outcome, ["R@1", "AP@5"]).rows), strict=True):
        best = max(float(cell.text) for cell in column)
        assert [cell.strong for cell in column] == [float(cell.text) == best for cell in column]


def test_tuned_settings_are_shown_with_dev_and_held_out_values(outcome, folded):
    table = tuning_table(outcome)
    assert table.columns == ("tuned setting", "analyzer", "tried", "dev", "held out", "default")
    assert [row[0].text for row in table.rows] == [repr(one.best) for one in outcome.tunings]
    with_folds = tuning_table(folded)
    assert with_folds.columns[3] == "folds"
    agreed = [one.choices.count(one.best) for one in folded.tunings]
    assert [row[3].text for row in with_folds.rows] == [f"{count}/3" for count in agreed]


def test_settings_besides_stand_last(folded):
    rows = effect_table(folded, ["AP@5"]).rows
    assert [row[0].text for row in rows[-2:]] == ["bm25(k1=0.9, b=0.4)"] * 2


def test_bars_are_those_of_all_systems(outcome):
    (panel,) = effects_plot(outcome, ["AP@5"]).axes
    heights = {bars.get_label(): [bar.get_height() for bar in bars] for bars in panel.containers}
    assert list(heights) == ["folded, default", "folded, tuned", "plain, default", "plain, tuned"]
    means = [outcome.evaluations[System(one, DEFAULT, "plain")].mean["AP@5"] for one in FAMILIES]
    assert heights["plain, default"] == pytest.approx(means)


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.closed = True

    def handle_starttag(self, tag, attributes):
        self.addresses += [value for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta", "img", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        self.closed &= self.open.pop() == tag


def test_the_page_is_whole_and_needs_no_other_file(written):
    elements = Elements()
    elements.feed(written)
    assert elements.closed
    assert elements.open == []
    assert [address.partition(",")[0] for address in elements.addresses] == ["data:image/svg+xml;base64"] * 2
    assert not re.search(r"https?:|@import|url\(", written)


def test_what_is_foreign_is_escaped(written):
    assert "Words &lt;of&gt; &amp; signs" in written
    assert "Words <of>" not in written
    assert "&lt;none&gt;" in written


def test_the_same_outcome_gives_the_same_page(outcome, written):
    assert page(outcome, VIEW) == written


def test_the_page_says_what_was_run(outcome, written):
    said = facts(outcome, VIEW)
    assert said["Questions"] == "10 choose, 50 others measure; drawn with seed 0"
    assert said["Analyzer folded"] == "nfkc|casefold|words"
    assert said["Tuned by"] == "AP@5, 14 settings tried"
    assert "numba" in said["Versions"]
    assert all(name in written for name in said)


def test_with_folds_it_says_so(folded):
    assert facts(folded, VIEW)["Questions"] == "3 folds of 30, seed 0"


def test_findings_are_figures_of_the_tables(outcome):
    preprocessing, tuning, *best = findings(outcome)
    base, plain = (
        outcome.evaluations[System("bm25", DEFAULT, one)].mean["AP@5"] for one in ("folded", "plain")
    )
    assert f"{base:.3f} with the analyzer folded, {plain:.3f} with plain" in preprocessing
    gains = [one.held_out - one.default for one in outcome.tunings if one.analyzer == "folded"]
    assert f"by {min(gains):+.3f} to {max(gains):+.3f}" in tuning
    highest = max(one.mean["AP@5"] for one in outcome.evaluations.values())
    assert all(f"{highest:.3f}" in said for said in best)


def test_json_has_every_figure(outcome):
    made = json.loads(json.dumps(record(outcome, VIEW), allow_nan=False))
    means = {(one["model"], one["how"], one["analyzer"]): one["means"] for one in made["systems"]}
    assert means == {
        (one.model, one.how, one.analyzer): evaluation.mean for one, evaluation in outcome.evaluations.items()
    }
    assert made["held_out"] == {"parts": {"dev": 10, "test": None, "seed": 0}}
    assert made["questions"] == {"dev": 10, "test": 50}
    assert [one["best"] for one in made["tunings"]] == [repr(one.best) for one in outcome.tunings]
    assert [(name, len(tests)) for name, tests in made["comparisons"].items()] == [
        ("R", 15),
        ("AP", 15),
        ("all systems", 38),
    ]
