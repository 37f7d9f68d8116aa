"""Analyses of long documents: measures by the position of relevance, and P@1 of segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from small_bench import DOCS, judged

from telerank.corpus.answers import write_answers
from telerank.evaluation.measures import measure
from telerank.evaluation.statistics import bootstrap_intervals, holm, paired_t
from telerank.experiments.analyses.bench import analyse
from telerank.experiments.analyses.iterations import (
    DEV,
    TEST,
    TRAIN,
    IterationsAnalysis,
    known_pairs,
)
from telerank.experiments.analyses.relevant_text import BehindFirstAnalysis, PositionsAnalysis
from telerank.experiments.analyses.segments import (
    BM25,
    FIRST,
    RANDOM,
    SegmentsAnalysis,
    TruePair,
)
from telerank.experiments.analysis import Unavailable
from telerank.experiments.systems import SystemRuns
from telerank.stage import Stage
from telerank.training.reranker.config import SegmentTraining
from telerank.types import Answer, Explanation, Query, Ranking

TEXTS = {doc.docno: doc.text for doc in DOCS}


def answer_of(query: Query, docno: str) -> Answer:
    """The first word of the document that the query has."""
    words = {word.lower() for word in query.text.split()}
    word = next(word for word in TEXTS[docno].split() if word.lower() in words)
    return Answer(query.qid, docno, word, f" {TEXTS[docno]} ".index(f" {word} "))


QUERIES = judged()
ANSWERS = {query.qid: answer_of(query, *QUERIES.qrels[query.qid]) for query in QUERIES.queries}


def with_answers(bench, answers):
    texts = {"answers": {"all": lambda: iter(answers)}} if answers else {"answers": {}}
    queries = {"all": lambda: iter(bench.judged.queries)}
    collection = replace(bench.data.collection, queries=queries, **texts)
    return replace(bench, data=replace(bench.data, collection=collection))


@pytest.fixture(scope="module")
def answered(bench):
    """BM25 and DFR over random words, with an answer of each query."""
    systems = {name: bench.systems[name] for name in ("BM25", "DFR")}
    return with_answers(replace(bench, systems=systems), [*ANSWERS.values()])


def test_measures_are_of_the_queries_whose_relevant_text_begins_in_a_range(answered):
    result = analyse(answered, PositionsAnalysis(kind="positions", measures="AP@5", edges=(2, 6)))
    (table,) = result.tables
    counts = result.record["queries"]
    assert [*counts] == ["0 to 1", "2 to 5", "6 and more"]
    assert sum(counts.values()) == 30
    assert all(counts.values())
    assert table.columns[1] == f"0 to 1 ({counts['0 to 1']})"
    early = {
        answer.qid: answered.judged.qrels[answer.qid]
        for answer in ANSWERS.values()
        if len(TEXTS[answer.docno][: answer.start].split()) < 2
    }
    expected = measure(answered.rankings("BM25"), early, ["AP@5"]).mean["AP@5"]
    value = result.record["values"]["BM25"]["0 to 1"]
    assert value["mean"] == pytest.approx(expected)
    assert value["low"] <= value["mean"] <= value["high"]
    assert table.rows[0][1].text.startswith(f"{expected:.3f} [")


def test_a_range_without_queries_is_a_dash_and_queries_without_answers_are_counted(answered):
    some = with_answers(answered, [*ANSWERS.values()][:10])
    result = analyse(some, PositionsAnalysis(kind="positions", measures="AP@5", edges=(500,)))
    assert result.tables[0].rows[0][2].text == "–"
    assert result.notes == ("20 measured queries have no known relevant text.",)


def test_without_answers_there_are_no_positions_and_no_segments(answered):
    none = with_answers(answered, [])
    with pytest.raises(Unavailable, match="has no answers"):
        analyse(none, PositionsAnalysis(kind="positions", measures="AP", edges=(1,)))
    with pytest.raises(Unavailable, match="no measured query of words has known relevant text"):
        analyse(replace(none, systems={"x": SystemRuns("x", "", ())}), SegmentsAnalysis(kind="segments"))


class Match(NamedTuple):
    number: int
    span: tuple[int, int]
    score: float


class Segments(Stage):
    """Lists what comes in, and matches segments."""

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return iter(stream)

    def explanation(self, query: Query, docno: str) -> Explanation:  # noqa: ARG002
        raise KeyError(docno)


@dataclass(frozen=True, eq=False)
class WordSegments(Segments):
    """Segments of ten characters; ``knows`` scores those with the answer highest, or else the last."""

    knows: bool

    def match(self, query: Query, docno: str) -> list[Match]:
        answer, size = ANSWERS[query.qid], len(TEXTS[docno])
        middle = (answer.start + answer.end) // 2
        spans = [(begin, min(begin + 10, size)) for begin in range(0, size, 10)]
        scores = [begin <= middle < end if self.knows else begin for begin, end in spans]
        return [Match(n, *pair) for n, pair in enumerate(zip(spans, scores, strict=True))][::-1]


def test_segment_precision_is_of_the_segments_that_a_stage_matches(answered):
    stages = {"knows": WordSegments(knows=True), "last": WordSegments(knows=False)}
    systems = {name: SystemRuns(name, "", (), stage) for name, stage in stages.items()}
    scoring = replace(answered, systems={**answered.systems, **systems}, published={"knows": {"P@1": 0.491}})
    result = analyse(scoring, SegmentsAnalysis(kind="segments", title="Segments", rule="most"))
    (table,) = result.tables
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert [*rows] == [RANDOM, FIRST, BM25, "knows", "last"]
    assert table.columns == ("system", "P@1", "95% interval", "P@1, paper")
    assert rows["knows"] == ["1.000", "1.000 to 1.000", "0.491"]
    assert float(rows["last"][0]) < float(rows[BM25][0]) <= 1
    assert result.record["knows"]["chance"] == pytest.approx(float(rows[RANDOM][0]), abs=0.001)
    fewer = analyse(scoring, SegmentsAnalysis(kind="segments", pairs=12))
    assert fewer.record["knows"]["pairs"] == 12
    assert result.record["knows"]["reachable"] == 1.0
    whole = analyse(scoring, SegmentsAnalysis(kind="segments"))
    assert whole.record["knows"]["reachable"] < 1.0


def test_segments_are_of_stages_also_if_the_candidates_are_a_run_alone(answered):
    ran = replace(answered, systems={"knows": SystemRuns("knows", "", (), ran=WordSegments(knows=True))})
    assert analyse(ran, SegmentsAnalysis(kind="segments", rule="most")).record["knows"]["precision"] == 1
    with pytest.raises(Unavailable, match="no system with a stage ranks documents by their segments"):
        analyse(answered, SegmentsAnalysis(kind="segments"))


class FewTrained(NamedTuple):
    """A training that learned from one query, as the analysis of its iterations asks for it."""

    qid: str

    def learned(self) -> set[str]:
        return {self.qid}


@pytest.mark.parametrize("has_file", [True, False])
def test_known_text_of_iterations_is_that_of_the_training_if_it_has_a_file(answered, tmp_path, has_file):
    """Its passages are sought in the documents: their offsets need not be right."""
    first, second, *_ = answered.judged.queries
    (docno,) = answered.judged.qrels[first.qid]
    wrong = Answer(first.qid, docno, TEXTS[docno][9:40], 0)
    write_answers(tmp_path / "answers.jsonl", [wrong])
    answers = str(tmp_path / "answers.jsonl") if has_file else None
    config = SimpleNamespace(
        data=SimpleNamespace(split="all", segments=SegmentTraining(select="best", answers=answers)),
        dev=SimpleNamespace(split="all"),
    )
    runner = SimpleNamespace(configure_reranker=lambda _: config)
    spec = IterationsAnalysis(kind="iterations", model="BeST")
    pairs = known_pairs(replace(answered, runner=runner), spec, FewTrained(first.qid))
    if has_file:
        pair = TruePair(first, docno, ((9, 40),))
        assert pairs == {TRAIN: [pair], DEV: [], TEST: [pair]}
    else:
        counts = {column: len(known) for column, known in pairs.items()}
        assert counts == {TRAIN: 1, DEV: len(ANSWERS) - 1, TEST: len(ANSWERS)}
    pairs = known_pairs(replace(answered, runner=runner), spec, FewTrained(second.qid))
    assert len(pairs[TRAIN]) == (0 if has_file else 1)


@dataclass(frozen=True, eq=False)
class FirstSegment(Segments):
    """Reads the first characters of a document, ``size`` of them."""

    size: int

    def match(self, query: Query, docno: str) -> list[Match]:  # noqa: ARG002
        return [Match(1, (self.size, 999), 2.0), Match(0, (0, self.size), 1.0)]


def reading(bench, size):
    stage = FirstSegment(size)
    systems = {"First": replace(bench.systems["BM25"], stage=stage), "BeST": bench.systems["DFR"]}
    return replace(bench, systems=systems)


FIRST_SPEC = BehindFirstAnalysis(
    kind="behind-first", title="Behind", measures=("AP@5", "RR"), baseline="First"
)


def test_a_system_is_compared_where_the_answer_begins_behind_the_first_segment(answered):
    answers = [*ANSWERS.values()]
    size = sorted(answer.start for answer in answers)[len(answers) // 2]  # one begins there: it is behind
    result = analyse(reading(answered, size), FIRST_SPEC)
    behind = [answer.qid for answer in answers if answer.start >= size]
    rows = [(row["measure"], row["group"], row["queries"]) for row in result.record["differences"]]
    assert rows == [
        (name, f"{where} the first segment", count)
        for name in ("AP@5", "RR")
        for where, count in (("behind", len(behind)), ("within", len(answers) - len(behind)))
    ]
    values = {
        name: measure(answered.rankings(name), answered.judged.qrels, ["AP@5"]).of("AP@5")
        for name in ("BM25", "DFR")
    }
    deltas = np.array([values["DFR"][qid] - values["BM25"][qid] for qid in behind])
    row = result.record["differences"][0]
    assert row["difference"] == pytest.approx(deltas.mean())
    assert (row["low"], row["high"]) == pytest.approx(bootstrap_intervals([deltas])[0])
    assert row["p"] == pytest.approx(paired_t(deltas))
    corrected = holm([own["p"] for own in result.record["differences"]])
    assert [own["p_holm"] for own in result.record["differences"]] == pytest.approx(corrected)
    (table,) = result.tables
    assert table.columns[3:6] == ("First", "BeST", "difference")
    assert "the first segment is that which First reads" in table.notes[0]
    assert result.items["RR, behind the first segment"]["BeST"].keys() == {*behind}


def test_an_answer_in_the_first_segment_of_one_document_is_not_behind(answered):
    """A query with several relevant documents, or answers: none may begin within the first segment."""
    answers = [*ANSWERS.values()]
    late = max(answers, key=lambda answer: answer.start)
    more = [*answers, replace(late, docno=next(a.docno for a in answers if a.docno != late.docno), start=0)]
    twice, size = with_answers(answered, more), late.start
    assert (
        late.qid in analyse(reading(answered, size), FIRST_SPEC).items["RR, behind the first segment"]["BeST"]
    )
    items = analyse(reading(twice, size), FIRST_SPEC).items
    assert late.qid in items["RR, within the first segment"]["BeST"]
    assert late.qid not in items.get("RR, behind the first segment", {}).get("BeST", {})


def test_without_the_systems_or_segments_or_answers_nothing_is_compared(answered):
    with pytest.raises(Unavailable, match="no First and no BeST to compare"):
        analyse(answered, FIRST_SPEC)
    plain = replace(answered, systems={"First": answered.systems["BM25"], "BeST": answered.systems["DFR"]})
    with pytest.raises(Unavailable, match="First has no stage that reads segments"):
        analyse(plain, FIRST_SPEC)
    with pytest.raises(Unavailable, match="no measured query of words has known relevant text"):
        analyse(reading(with_answers(answered, []), 9), FIRST_SPEC)
