"""tr.experiment: shared stages run once, kept runs, results to print, save and look into."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pytest

import telerank as tr
from letters import ByLength
from letters import Letters as AnyLetters
from telerank.errors import CollectionError, ExpressionError, MeasureError
from telerank.evaluation.measures import measure
from telerank.experiments.comparison import JudgedQueries, run_systems
from telerank.trec import read_run, write_run
from telerank.types import Explanation, Query, Ranking

DOCS = ("ace", "bad", "bee", "cab", "dab", "face", "bear", "zebra")


def Letters():  # noqa: N802
    """Docnos without blanks, so that runs can be written."""
    return AnyLetters(DOCS)


QUERIES = tuple(Query(str(n), text) for n, text in enumerate(("bear", "ace", "cab zebra", "face dab"), 1))
QRELS = {"1": {"bear": 1}, "2": {"ace": 1, "face": 1}, "3": {"zebra": 1}, "4": {"dab": 2, "bad": 0}}
JUDGED = JudgedQueries(QUERIES, QRELS)


@dataclass(frozen=True)
class Counting(tr.Stage):
    """Letters, counting the queries that it answers."""

    calls: Counter = field(default_factory=Counter, compare=False)
    name: str = "a"

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        for ranking in Letters()(stream):
            self.calls[ranking.query.qid] += 1
            yield ranking

    def explanation(self, query: Query, docno: str) -> Explanation:
        return Letters().explanation(query, docno)


def systems(first):
    both = 0.4 * tr.minmax(first) + 0.6 * tr.minmax(Letters())
    return {
        "first": first,
        "both": both,
        "reranked": both % 3 >> ByLength() % 2,
        "rrf": tr.rrf(first, Letters()),
        "chain": first >> ByLength(),
    }


def test_a_stage_that_systems_share_runs_once_and_rankings_are_those_of_each_system_alone():
    first = Counting()
    rankings, seconds = run_systems(systems(first), QUERIES)
    assert first.calls == Counter({query.qid: 1 for query in QUERIES})
    for name, stage in systems(Counting()).items():
        assert rankings[name] == list(stage.run(QUERIES))
        assert seconds[name] > 0


def test_a_stage_behind_other_stages_is_not_the_same():
    first = Counting()
    rankings, _ = run_systems({"a": ByLength() >> first, "b": first}, QUERIES)
    assert set(first.calls.values()) == {2}
    assert rankings["a"] == rankings["b"]


def test_means_are_those_of_measure_and_the_table_has_marks_and_times():
    result = tr.experiment(systems(Letters()), JUDGED, measures="RR@10 R@2", baseline="first")
    for name, stage in systems(Letters()).items():
        assert result.evaluations[name].mean == measure(stage.run(QUERIES), QRELS, "RR@10 R@2").mean
    printed = str(result)
    assert "RR@10" in printed
    assert "ms/query" in printed
    assert "differs from first" in printed
    assert "<table" in result._repr_html_()
    assert result.comparison.baselines == ("first",)
    with pytest.raises(CollectionError, match="no system 'third'"):
        result.run("third")


def test_runs_in_memory_run_files_and_stages_stand_side_by_side(tmp_path):
    run = list(Letters().run(QUERIES[:3]))
    write_run(tmp_path / "letters.run", run)
    result = tr.experiment(
        {"stage": Letters(), "memory": run, "file": tmp_path / "letters.run"}, JUDGED, measures="R@10"
    )
    means = {name: evaluation.of("R@10") for name, evaluation in result.evaluations.items()}
    assert means["memory"] == means["file"]
    assert means["memory"]["1"] == means["stage"]["1"]
    assert (means["memory"]["4"], means["stage"]["4"]) == (0.0, 1.0)


def test_a_kept_run_is_reused_until_what_it_depends_on_changes(tmp_path):
    first = Counting()
    before = tr.experiment({"a b": first}, JUDGED, measures="RR@10", folder=tmp_path)
    again = tr.experiment({"a b": first}, JUDGED, measures="R@5", folder=tmp_path)
    assert set(first.calls.values()) == {1}
    assert list(again.run("a b")) == list(before.run("a b"))
    tr.experiment({"a b": Counting(first.calls, "b")}, JUDGED, measures="R@5", folder=tmp_path)
    assert set(first.calls.values()) == {2}
    tr.experiment({"a b": Counting(first.calls, "b")}, JudgedQueries(QUERIES[:2], QRELS), folder=tmp_path)
    assert first.calls["1"] == 3
    (record,) = tmp_path.glob("*.json")
    record.write_text("{", encoding="utf-8")
    tr.experiment({"a b": Counting(first.calls, "b")}, JUDGED, measures="R@5", folder=tmp_path)
    assert first.calls["4"] == 3


def test_a_result_is_saved_by_its_suffix_and_is_a_frame(tmp_path):
    result = tr.experiment({"letters": Letters()}, JUDGED, measures="RR@10", title="A title")
    for suffix in ("md", "tex", "html", "csv", "json"):
        result.save(tmp_path / f"table.{suffix}")
        assert "letters" in (tmp_path / f"table.{suffix}").read_text(encoding="utf-8")
    record = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    assert record["systems"]["letters"]["per_query"]["RR@10"].keys() == QRELS.keys()
    result.run("letters").save(tmp_path / "letters.run")
    assert [ranking.docnos for ranking in read_run(tmp_path / "letters.run")] == [
        ranking.docnos for ranking in result.run("letters")
    ]
    pandas = pytest.importorskip("pandas")
    frame = result.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.columns.tolist() == ["system", "qid", "RR@10"]
    assert frame["qid"].tolist() == [query.qid for query in QUERIES]


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"systems": {}}, CollectionError, "at least one system"),
        ({"baseline": "b"}, CollectionError, "the baseline 'b' is none of the systems: a"),
        ({"measures": "nonsense@3"}, MeasureError, "there is no measure .nonsense."),
        ({"systems": {"a": "missing.run"}}, CollectionError, "missing.run is no file"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_a_line(change, error, says):
    arguments = {"systems": {"a": Letters()}, "data": JUDGED, **change}
    with pytest.raises(error, match=says):
        tr.experiment(arguments.pop("systems"), arguments.pop("data"), **arguments)


def test_a_text_names_the_stages_above_it():
    result = tr.experiment({"first": Letters(), "cut": "minmax(first) % 1"}, JUDGED, measures="R@1 R@5")
    first, cut = (result.evaluations[name].mean for name in ("first", "cut"))
    assert cut["R@1"] == first["R@1"] == cut["R@5"]
    with pytest.raises(ExpressionError, match=r"unknown name 'frist'; did you mean 'first'"):
        tr.experiment({"first": Letters(), "cut": "frist % 1"}, JUDGED)
