"""Runs, judgments, queries and documents that a program holds: dicts, lists, data frames of three libraries."""

from __future__ import annotations

from collections import namedtuple
from types import SimpleNamespace

import ir_measures
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import telerank as tr
from telerank.corpus.in_memory import read_docs, read_qrels, read_queries, read_run
from telerank.errors import ArgumentError, ArgumentTypeError, CollectionError, FormatError
from telerank.types import Doc, Qrel, Query, Ranking

RUN = {"1": {"a": 2.0, "b": 1.0}, "2": {"c": 0.5}, "3": {}}
QRELS = {"1": {"b": 1, "a": 0}, "2": {"c": 2}}
RANKINGS = [Ranking.ranked(Query(qid, ""), tuple(docs), list(docs.values())) for qid, docs in RUN.items()]
ROWS = [
    {"query_id": qid, "doc_id": docno, "score": score}
    for qid, docs in RUN.items()
    for docno, score in docs.items()
]
JUDGED = [
    {"qid": qid, "docno": docno, "label": grade}
    for qid, docs in QRELS.items()
    for docno, grade in docs.items()
]
POLARS = SimpleNamespace(columns=list(ROWS[0]), to_dicts=lambda: ROWS)
RANX = SimpleNamespace(to_dict=lambda: {qid: docs for qid, docs in RUN.items() if docs})


@pytest.mark.parametrize(
    "run",
    [RUN, ROWS, pd.DataFrame(ROWS), pa.Table.from_pylist(ROWS), POLARS, RANX, RANKINGS, iter(RANKINGS)],
    ids=["dict", "rows", "pandas", "pyarrow", "polars", "ranx", "rankings", "stream"],
)
def test_a_run_of_any_shape_is_measured_alike(run):
    expected = {"RR@10": {"1": 0.5, "2": 1.0}, "nDCG@10": {"1": pytest.approx(0.6309, abs=1e-4), "2": 1.0}}
    measured = tr.evaluate(run, "RR@10 nDCG@10", qrels=QRELS, progress=False).evaluations["run"]
    assert {name: measured.of(name) for name in expected} == expected


@pytest.mark.parametrize(
    "qrels",
    [
        QRELS,
        JUDGED,
        pd.DataFrame(JUDGED),
        [Qrel(row["qid"], row["docno"], row["label"]) for row in JUDGED],
        [ir_measures.Qrel(row["qid"], row["docno"], row["label"]) for row in JUDGED],
        {"1": {"b": np.int64(1), "a": 0.0}, "2": {"c": 2}},
        pd.DataFrame(
            [{"query-id": 1, "corpus-id": "b", "score": 1.0}, {"query-id": 2, "corpus-id": "c", "score": 2}]
        ),
    ],
)
def test_judgments_of_any_shape_are_the_same(qrels):
    graded = {
        qid: {docno: grade for docno, grade in own.items() if grade} for qid, own in read_qrels(qrels).items()
    }
    assert graded == {"1": {"b": 1}, "2": {"c": 2}}


def test_runs_by_name_are_judged_and_compared():
    other = {"1": {"b": 1.0}, "2": {"c": 1.0}}
    judged = tr.judge(
        {"one": RUN, "two": pd.DataFrame(ROWS), "three": RANKINGS, "other": other}, pd.DataFrame(JUDGED)
    )
    means = {
        name: own.mean["RR@10"]
        for name, own in tr.evaluate(judged, "RR@10", progress=False).evaluations.items()
    }
    assert means == {"one": 0.75, "two": 0.75, "three": 0.75, "other": 1.0}
    assert "other" in str(
        tr.compare({"one": RUN, "other": other}, measures="RR@10", qrels=QRELS, progress=False)
    )


def test_queries_and_judgments_are_an_experiment(tmp_path):
    docs = [
        {"id": "b", "contents": "black bears", "price": 3},
        {"id": "c", "contents": "a lion", "title": "Lions"},
    ]
    index = tr.index(docs, tmp_path / "idx", analyzer="english", progress=False)
    assert index["b"].columns == {"price": 3}
    assert index.docs["c"].full_text == "Lions a lion"
    for queries in (
        {"1": "bears", "2": "lions", "9": "x"},
        [Query("1", "bears"), Query("2", "lions")],
        pd.DataFrame({"qid": [1, 2], "query": ["bears", "lions"]}),
    ):
        result = tr.experiment({"bm25": index.bm25()}, queries, QRELS, measures="RR@10", progress=False)
        assert result.evaluations["bm25"].mean["RR@10"] == 1.0
    with pytest.raises(
        CollectionError, match="no query is judged by the qrels, whose qids are such as '1', not 'x'"
    ):
        tr.experiment({"bm25": index.bm25()}, {"x": "bears"}, QRELS)
    with pytest.raises(
        ArgumentTypeError, match=r"queries need judgments: tr\.experiment\(systems, queries, qrels\)"
    ):
        tr.experiment({"bm25": index.bm25()}, {"1": "bears"})


def test_documents_of_any_shape_are_indexed():
    Record = namedtuple("Record", "doc_id text")  # noqa: PYI024 — as ir_datasets has them
    expected = [Doc("0", "first"), Doc("1", "second")]
    shapes = (
        ["first", "second"],
        {"0": "first", "1": "second"},
        [Record("0", "first"), Record("1", "second")],
        pd.DataFrame({"docno": [0, 1], "text": ["first", "second"]}),
        (doc for doc in expected),
        dict(zip("01", expected, strict=True)),
    )
    assert all(list(read_docs(shape)) == expected for shape in shapes)
    assert read_queries(["first", "second"]) == [Query("1", "first"), Query("2", "second")]


@pytest.mark.parametrize(
    ("read", "values", "error", "says"),
    [
        (read_docs, {"a": None}, ArgumentTypeError, "document 'a': expected a text, got None"),
        (read_docs, {1.5: "x"}, ArgumentTypeError, "document 1.5: expected a docno, got 1.5"),
        (
            read_docs,
            [3],
            ArgumentTypeError,
            "document number 1: expected a text, or a row with docno and text, got 3",
        ),
        (read_docs, 3, ArgumentTypeError, "documents: expected a dict, a list or a data frame, got 3"),
        (
            read_docs,
            "abc",
            ArgumentTypeError,
            "documents: expected a dict, a list or a data frame, got 'abc'",
        ),
        (
            read_docs,
            [{"id": "a"}],
            ArgumentTypeError,
            "document number 1, 'a': expected text or contents or body",
        ),
        (read_queries, {"1": 2}, ArgumentTypeError, "query '1': expected a text, got 2"),
        (
            read_qrels,
            {"1": {"a": "x"}},
            ArgumentTypeError,
            "judgments, query '1', document 'a': expected a whole",
        ),
        (read_qrels, {"1": {"a": 0.5}}, ArgumentTypeError, "expected a whole number as the grade, got 0.5"),
        (
            read_qrels,
            {"1": ["a"]},
            ArgumentTypeError,
            "query '1': expected a dict of docnos, each with its grade",
        ),
        (
            read_qrels,
            [*JUDGED, {"qid": "2", "docno": "c", "label": 1}],
            FormatError,
            "one grade for document c",
        ),
        (read_run, {"1": {"a": "x"}}, ArgumentTypeError, "a run, query '1', document 'a': expected a number"),
        (read_run, {"1": {"a": float("nan")}}, ArgumentError, "expected a finite score, got nan"),
        (read_run, [*ROWS, ROWS[0]], ArgumentError, "a run, row 4: the document comes twice"),
        (read_run, 3, ArgumentTypeError, "a run: expected a dict, a list or a data frame, got 3"),
    ],
)
def test_what_has_another_shape_is_told_with_its_place(read, values, error, says):
    with pytest.raises(error) as caught:
        list(read(values))
    assert says in str(caught.value)
