"""Analyses of long documents: measures by the position of relevance, and P@1 of segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import pytest
from small_bench import make_bench, write_systems

from telerank.evaluation.measures import measure
from telerank.experiments.analyses.analyse import analyse
from telerank.experiments.analyses.bench import Unavailable
from telerank.experiments.analyses.long_documents.choices import BM25, FIRST, RANDOM
from telerank.experiments.analyses.specs import PositionsSpec, SegmentsSpec
from telerank.experiments.systems import SystemRuns
from telerank.stage import Stage
from telerank.types import Answer, Explanation, Query, Ranking


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """The answer of a query is the first word of its relevant document that the query has."""
    folder = tmp_path_factory.mktemp("bench")
    empty = make_bench(folder)
    texts = {doc.docno: doc.text for doc in empty.data.collection.docs()}
    answers = []
    for query in empty.judged.queries:
        (docno,) = empty.judged.qrels[query.qid]
        words = {word.lower() for word in query.text.split()}
        word = next(word for word in texts[docno].split() if word.lower() in words)
        start = f" {texts[docno]} ".index(f" {word} ")
        answers.append(Answer(query.qid, docno, word, start))
    collection = replace(
        empty.data.collection,
        queries={"all": lambda: iter(empty.judged.queries)},
        answers={"all": lambda: iter(answers)},
    )
    named = replace(empty, data=replace(empty.data, collection=collection))
    return replace(named, systems=write_systems(named, folder, {"BM25": "bm25", "DFR": "dfr"}))


def test_measures_are_of_the_queries_whose_relevant_text_begins_in_a_range(bench):
    result = analyse(bench, PositionsSpec(kind="positions", measure="AP@5", edges=(2, 6)))
    (table,) = result.tables
    counts = result.record["queries"]
    assert [*counts] == ["0 to 1", "2 to 5", "6 and more"]
    assert sum(counts.values()) == 30
    assert all(counts.values())
    assert table.columns[1] == f"0 to 1 ({counts['0 to 1']})"
    texts = {doc.docno: doc.text for doc in bench.data.collection.docs()}
    early = {
        answer.qid: bench.judged.qrels[answer.qid]
        for answer in bench.data.collection.answers["all"]()
        if len(texts[answer.docno][: answer.start].split()) < 2
    }
    expected = measure(bench.rankings("BM25"), early, ["AP@5"]).mean["AP@5"]
    value = result.record["values"]["BM25"]["0 to 1"]
    assert value["mean"] == pytest.approx(expected)
    assert value["low"] <= value["mean"] <= value["high"]
    assert table.rows[0][1].text.startswith(f"{expected:.3f} [")


def test_a_range_without_queries_is_a_dash_and_queries_without_answers_are_counted(bench):
    few = [*bench.data.collection.answers["all"]()][:10]
    collection = replace(bench.data.collection, answers={"all": lambda: iter(few)})
    some = replace(bench, data=replace(bench.data, collection=collection))
    result = analyse(some, PositionsSpec(kind="positions", measure="AP@5", edges=(500,)))
    assert result.tables[0].rows[0][2].text == "–"
    assert result.notes == ("20 measured queries have no known relevant text.",)


def test_without_answers_there_are_no_positions_and_edges_rise(bench):
    collection = replace(bench.data.collection, answers={})
    none = replace(bench, data=replace(bench.data, collection=collection))
    with pytest.raises(Unavailable, match="has no answers"):
        analyse(none, PositionsSpec(kind="positions", measure="AP", edges=(1,)))
    with pytest.raises(Unavailable, match="no measured query of words has known relevant text"):
        analyse(replace(none, systems={"x": SystemRuns("x", "", ())}), SegmentsSpec(kind="segments"))
    with pytest.raises(ValueError, match="edges must rise"):
        PositionsSpec(kind="positions", measure="AP", edges=(5, 2))


class Match(NamedTuple):
    number: int
    span: tuple[int, int]
    score: float


@dataclass(frozen=True, eq=False)
class WordSegments(Stage):
    """Segments of ten characters; ``knows`` scores those with the answer highest, or else the last."""

    texts: dict[str, str]
    answers: dict[str, Answer]
    knows: bool

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return iter(stream)

    def explanation(self, query: Query, docno: str) -> Explanation:  # noqa: ARG002
        raise KeyError(docno)

    def match(self, query: Query, docno: str) -> list[Match]:
        answer, size = self.answers[query.qid], len(self.texts[docno])
        middle = (answer.start + answer.end) // 2
        spans = [(begin, min(begin + 10, size)) for begin in range(0, size, 10)]
        scores = [begin <= middle < end if self.knows else begin for begin, end in spans]
        return [Match(n, *pair) for n, pair in enumerate(zip(spans, scores, strict=True))][::-1]


def test_segment_precision_is_of_the_segments_that_a_stage_matches(bench):
    texts = {doc.docno: doc.text for doc in bench.data.collection.docs()}
    answers = {answer.qid: answer for answer in bench.data.collection.answers["all"]()}
    stages = {name: WordSegments(texts, answers, knows=name == "knows") for name in ("knows", "last")}
    systems = {name: SystemRuns(name, "", (), stage) for name, stage in stages.items()}
    scoring = replace(bench, systems={**bench.systems, **systems}, published={"knows": {"P@1": 0.491}})
    result = analyse(scoring, SegmentsSpec(kind="segments", title="Segments", rule="most"))
    (table,) = result.tables
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert [*rows] == [RANDOM, FIRST, BM25, "knows", "last"]
    assert table.columns == ("system", "P@1", "95% interval", "P@1, paper")
    assert rows["knows"] == ["1.000", "1.000 to 1.000", "0.491"]
    assert float(rows["last"][0]) < float(rows[BM25][0]) <= 1
    assert result.record["knows"]["chance"] == pytest.approx(float(rows[RANDOM][0]), abs=0.001)
    fewer = analyse(scoring, SegmentsSpec(kind="segments", pairs=12))
    assert fewer.record["knows"]["pairs"] == 12
    assert result.record["knows"]["reachable"] == 1.0
    whole = analyse(scoring, SegmentsSpec(kind="segments"))
    assert whole.record["knows"]["reachable"] < 1.0


def test_segments_are_matched_though_the_candidates_are_a_run_alone(bench):
    texts = {doc.docno: doc.text for doc in bench.data.collection.docs()}
    answers = {answer.qid: answer for answer in bench.data.collection.answers["all"]()}
    ran = WordSegments(texts, answers, knows=True)
    scoring = replace(bench, systems={"knows": SystemRuns("knows", "", (), None, ran=ran)})
    assert analyse(scoring, SegmentsSpec(kind="segments", rule="most")).record["knows"]["precision"] == 1


def test_systems_without_segments_have_no_segment_precision(bench):
    with pytest.raises(Unavailable, match="no system with a stage ranks documents by their segments"):
        analyse(bench, SegmentsSpec(kind="segments"))
