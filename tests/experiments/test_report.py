"""The files of an experiment's results: one page that needs no other file, tables, plots, values."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime
from html.parser import HTMLParser

import pytest

from telerank.experiments.analyses.bench import analyse_all
from telerank.experiments.report import ExperimentOutcome, write_report
from telerank.experiments.schema import Experiment, read_experiment

ANALYSES = [
    {"kind": "recall", "depths": [1, 2], "title": "Recall of <words>", "about": "At two depths."},
    {"kind": "recall", "depths": [1, 5]},
    {"kind": "quality", "measures": ["AP"], "latency_queries": 0},
]


@pytest.fixture(scope="module")
def outcome(bench, tmp_path_factory) -> ExperimentOutcome:
    """With its files written."""
    bench = replace(bench, systems={name: bench.systems[name] for name in ("BM25", "DFR")})
    spec = Experiment.model_validate(
        {
            "title": "Words <of> & signs",
            "source": "Nobody, 2020",
            "data": {"words": bench.data.spec},
            "systems": {"BM25": "bm25", "DFR": "dfr", "BERT": "given('a run')"},
            "analyses": ANALYSES,
        }
    )
    lacking = {"BERT": "not given: a run"}
    results = analyse_all(bench, spec.analyses)
    folder = tmp_path_factory.mktemp("results")
    outcome = ExperimentOutcome(spec, bench.data, "full size", bench.systems, lacking, results, folder, 75.0)
    write_report(outcome)
    return outcome


@pytest.fixture(scope="module")
def page(outcome):
    return (outcome.folder / "report.html").read_text(encoding="utf-8")


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


def test_the_page_is_whole_and_needs_no_other_file(page):
    elements = Elements()
    elements.feed(page)
    assert elements.closed
    assert elements.open == []
    assert [address.partition(",")[0] for address in elements.addresses] == ["data:image/svg+xml;base64"] * 2
    assert not re.search(r"https?:|@import|url\(", page)


def test_texts_of_the_experiment_are_escaped(page):
    assert "<h1>Words &lt;of&gt; &amp; signs</h1>" in page
    assert page.count("Recall of &lt;words&gt;") == 1  # the heading; the caption would repeat it
    assert "<of>" not in page


def test_the_page_says_what_was_run(page):
    assert "Measured on words: random words (40 documents, 30 judged queries; full size)." in page
    assert "Not measured: BERT (not given: a run)." in page
    assert "<p>At two depths.</p>" in page
    for fact in ("Size", "Seed", "Time", "Versions", "Machine"):
        assert f"<dt>{fact}</dt>" in page


def test_the_time_is_in_a_file_of_its_own(outcome, page):
    times = json.loads((outcome.folder / "times.json").read_text())
    assert times["seconds"] == 75.0
    assert datetime.fromisoformat(times["ended"]).tzinfo is not None
    assert (outcome.time, replace(outcome, seconds=4.2).time) == ("1.2 minutes", "4 seconds")
    assert "<dd>in times.json</dd>" in page


def test_everything_is_written_into_the_folder(outcome):
    files = {path.name for path in outcome.folder.iterdir()}
    plots = {f"{name}.{form}" for name in ("recall", "recall-2") for form in ("svg", "png")}
    assert files == {"report.html", "tables.md", "results.json", "times.json", "experiment.yaml", *plots}
    assert read_experiment(outcome.folder / "experiment.yaml") == outcome.spec
    tables = (outcome.folder / "tables.md").read_text(encoding="utf-8")
    assert tables.startswith("# Words <of> & signs (full size)\n")
    assert "- Not measured: BERT (not given: a run)." in tables
    record = json.loads((outcome.folder / "results.json").read_text(encoding="utf-8"))
    assert [(one["kind"], one["title"]) for one in record["results"]] == [
        ("recall", "Recall of <words>"),
        ("recall", ""),
        ("quality", ""),
    ]
    assert record["results"][0]["recall"] == {
        name: list(values) for name, values in outcome.results[0].record["recall"].items()
    }
    assert record["lacking"] == {"BERT": "not given: a run"}
    assert {"telerank", "python", "numpy"} <= record["versions"].keys()


def test_a_page_of_results_has_answers_with_and_without_an_answer_but_no_groups(tmp_path, describe_results):
    captions = ("Answers", "SQuAD 2.0: With and without an answer")
    left_out = ("Best thresholds of no-answer", "by question word", "by answer length")
    tables = [
        f"**{caption}**\n\n| a |\n| :-- |\n"
        for caption in (*captions, *(f"SQuAD 2.0: {each}" for each in left_out))
    ]
    notes = ["Measured on piaf (3 documents)."]
    record = {"size": "full size", "data": {"name": "piaf"}, "experiment": {"systems": {}}, "notes": notes}
    (tmp_path / "results.json").write_text(json.dumps(record))
    (tmp_path / "tables.md").write_text("\n".join(["# Answers\n", *tables, f"- {notes[0]}\n"]))
    text = describe_results("piaf/no-answers", tmp_path)
    assert re.findall(r"[*]{2}(.*)[*]{2}", text) == list(captions)
