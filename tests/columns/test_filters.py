"""Filters: their grammar, what they mean, and that hostile ones end."""

from __future__ import annotations

import datetime as dt
import random
import time

import numpy as np
import pytest

import telerank as tr
from letters import Letters
from telerank.columns.filters import Filter, passes
from telerank.columns.kinds import conform_doc
from telerank.errors import FilterError
from telerank.stage import Stage
from telerank.testing import check_stage
from telerank.types import Query, doc_values

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]


def by_length(query: str, text: str) -> float:
    return float(len(text))


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    draw = random.Random(7)
    docs = []
    for number in range(6000):
        doc = {"docno": f"d{number:04}", "text": " ".join(draw.choices(WORDS, k=6)), "n": number % 200}
        doc |= {"type": draw.choice(["fiche", "note"])} if draw.random() < 0.8 else {}
        doc |= {"date": f"20{draw.randint(10, 29)}-0{draw.randint(1, 9)}-11", "open": draw.random() < 0.5}
        doc |= {"topics": draw.sample(["emploi", "argent", "santé"], draw.randint(1, 3))}
        docs.append(doc)
    made = tr.index(docs[:4000], tmp_path_factory.mktemp("filters") / "i", workers=1)
    made.add(docs[4000:])
    made.delete([f"d{number:04}" for number in range(0, 6000, 7)])
    return made


FILTERS = [
    "n == 1",
    "n < 2 and type == 'fiche'",
    "n >= 100",
    "n != 5",
    'type != "fiche"',
    "not type == 'note' and date >= 2020-01-01",
    "'emploi' in topics and not ('argent' in topics or open == true)",
    "topics in ['santé', 'x'] or n in [3, 4]",
    "type is null",
    "type is not null and 2015-01-01 <= date",
    "docno < 'd0300'",
    "n == 1000",
    "n == 7 or docno == 'd0007'",
]


@pytest.mark.parametrize("text", FILTERS)
def test_a_filtered_search_is_the_whole_ranking_without_the_others(index, text):
    tree = Filter.parse(text).bind(index.columns)
    stage = index.bm25().where(text)
    for query in ("alpha beta", "kappa", "zeta zeta iota theta", "nothing"):
        whole = index.bm25().search(query)
        kept = [passes(tree, doc_values(index.docs[docno])) for docno in whole.docnos]
        docnos = [docno for docno, own in zip(whole.docnos, kept, strict=True) if own]
        for k in (1, 10, 700, 6000):
            ranking = (stage % k).search(query)
            assert list(ranking.docnos) == docnos[:k]
            assert np.array_equal(ranking.scores, whole.scores[kept][:k])


def test_a_filter_is_its_own_text(index):
    for text in FILTERS:
        stage = index.bm25().where(text)
        assert tr.pipeline(repr(stage), index) == stage
        assert tr.pipeline(repr(stage % 10), index) == stage % 10 == (index.bm25() % 10).where(text)
        assert Filter.parse(str(Filter.parse(text))) == Filter.parse(text)
    assert repr(index.bm25().where("n==1") % 5) == "where(bm25(k1=1.2, b=0.75), 'n == 1') % 5"
    twice = index.bm25().where("n == 1").where("open == true")
    assert twice == index.bm25().where("open == true and n == 1")


def test_pipelines_are_filtered_before_any_cut(index):
    pipeline = index.bm25() % 20 >> tr.scorer(by_length) % 10
    both = 0.5 * index.bm25() % 30 + index.lm_dirichlet() % 5
    for stage, least in ((pipeline, 10), (both, 30)):
        ranking = stage.where("n < 6").search("alpha")
        assert len(ranking) >= least
        assert all(index.docs[docno].columns["n"] < 6 for docno in ranking.docnos)


def test_stages_without_columns_of_their_own_are_filtered_behind(index):
    docnos = list(index.docs)[:50]

    def engine(query: str, k: int) -> list[tuple[str, float]]:
        return [(docno, float(-number)) for number, docno in enumerate(docnos[:k])]

    stage = (tr.retriever(engine) % 3).where("type == 'fiche'", index.docs)
    expected = [docno for docno in docnos if index.docs[docno].columns.get("type") == "fiche"][:3]
    assert list(stage.search("x").docnos) == expected
    reranked = index.bm25() % 50 >> tr.scorer(by_length).where("n < 50", index.docs) % 10
    assert all(index.docs[docno].columns["n"] < 50 for docno in reranked.search("alpha beta").docnos)
    with pytest.raises(tr.TelerankError, match="no documents, whose columns the filter reads"):
        tr.retriever(engine).where("n == 1").search("x")


def test_where_obeys_the_laws_of_stages(index):
    queries = [Query("1", "alpha beta"), Query("2", ""), Query("3", "kappa"), Query("4", "alpha beta")]
    stages: list[Stage] = [
        index.bm25().where("n < 20"),
        index.bm25().where("n < 20") % 5,
        (index.bm25() % 50 >> tr.scorer(by_length) % 5).where("open == true"),
        tr.pipeline("where(minmax(bm25 % 10) + 0.5 * lm_dirichlet % 20, 'n < 100') % 7", index),
    ]
    for stage in stages:
        check_stage(stage, queries)
    letters = {name: f"{name} {number}" for number, name in enumerate(("ace", "bee", "cab", "dab"))}
    check_stage((Letters() % 3).where("docno != 'bee'", letters), queries)


def test_documents_in_memory_have_columns():
    docs = {
        "ace": tr.Doc("ace", "x", columns={"year": 2020}),
        "bee": tr.Doc("bee", "x", columns={"year": "2024"}),
        "cab": tr.Doc("cab", "x"),
    }
    ranked = tr.retriever(lambda query, k: [("ace", 3.0), ("bee", 2.0), ("cab", 1.0), ("dab", 0.5)])  # noqa: ARG005
    assert ranked.where("year is null", docs).search("q").docnos == ("cab",)
    with pytest.raises(FilterError, match="the column year is a string"):
        ranked.where("year >= 2021", docs).search("q")


def test_a_hidden_document_is_not_explained(index):
    stage = index.bm25().where("n == 1")
    shown = stage.search("alpha").docnos[0]
    assert stage.explain("alpha", shown) == index.bm25().explain("alpha", shown)
    hidden = next(
        docno for docno in index.bm25().search("alpha").docnos if index.docs[docno].columns["n"] != 1
    )
    with pytest.raises(KeyError, match="no score for it"):
        stage.explain("alpha", hidden)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a test"),
        ("type", "after the column type, got the end"),
        ("type = 'x'", "equal is '=='"),
        ("type == fiche", 'a text stands in quotes, "fiche"'),
        ("type == 'x", "a quotation mark that is not closed"),
        ("date == 2024-02-30", "there is no day 2024-02-30"),
        ("n == 1 n == 2", "'and', 'or' or the end"),
        ("(n == 1", "'and', 'or' or ')'"),
        ("tipe == 'x'", "unknown column 'tipe'; did you mean 'type'?"),
        ("type == 3", "the column type is a string, got 3"),
        ("n == 'x'", "the column n is a number"),
        ("date > 'hier'", "the column date is a date"),
        ("topics == 'emploi'", '"text" in topics'),
        ("'x' in type", "the column type is a string"),
        ("open > true", "open == true"),
    ],
)
def test_a_wrong_filter_is_one_line(index, text, message):
    with pytest.raises(FilterError) as caught:
        index.bm25().where(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 50_000,
        "not " * 20_000,
        "n == 1 or " * 9_000,
        f"n in [{'1, ' * 30_000}1]",
        "'" + "x" * 100_000,
        '"' + "\\" * 60_000,
        "`" + "x" * 60_000,
        "not (" * 10_000 + "n == 1" + ")" * 10_000,
        "n == " + "9" * 60_000,
        "1" * 60_000,
        "a-" * 30_000,
    ],
)
def test_a_hostile_filter_ends_soon_in_one_line(text):
    began = time.process_time()
    with pytest.raises(FilterError) as caught:
        Filter.parse(text)
    assert time.process_time() - began < 2
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_random_filters_mean_what_a_plain_loop_says(index):
    draw = random.Random(3)
    docs = [conform_doc(doc, index.columns) for doc in index.docs.values()][:1500]

    def test() -> str:
        return draw.choice(
            [
                f"n {draw.choice(['==', '!=', '<', '<=', '>', '>='])} {draw.randint(0, 199)}",
                f"type {draw.choice(['==', '!='])} '{draw.choice(['fiche', 'note', 'x'])}'",
                f"date {draw.choice(['<', '>='])} 20{draw.randint(10, 29)}-05-01",
                f"'{draw.choice(['emploi', 'x'])}' {draw.choice(['', 'not '])}in topics",
                f"open == {draw.choice(['true', 'false'])}",
                f"type is {draw.choice(['', 'not '])}null",
                f"title is {draw.choice(['', 'not '])}null",
            ]
        )

    def build(depth: int) -> str:
        if depth == 0 or draw.random() < 0.2:
            return test()
        form = draw.choice(["({} and {})", "({} or {})", "not ({} and {})"])
        return form.format(build(depth - 1), build(depth - 1))

    for _ in range(60):
        text = build(3)
        tree = Filter.parse(text).bind(index.columns)
        hidden = index.docs.hidden(Filter.parse(text))
        for doc in docs[:: draw.randint(20, 40)]:
            number, row = index.docs.locate(doc.docno)
            assert bool(hidden[number][row]) != passes(tree, doc_values(doc)), (text, doc)


def test_filters_are_kept_a_bounded_number(index):
    for number in range(200):
        index.docs.hidden(Filter.parse(f"n == {number}"))
    assert index.sparse.selections.cache_info().currsize <= 64


def test_facets_are_those_of_a_plain_count(index):
    from collections import Counter

    query, text = "alpha kappa", "date < 2020-01-01"
    docs = [index.docs[docno] for docno in index.bm25().where(text).search(query).docnos]
    by_type, by_topic, by_year, by_n = index.facets(query, ["type", "topics", "date:year", "n"], where=text)
    assert by_type.is_exact
    assert by_type.documents == len(docs)
    assert {v.value: v.count for v in by_type.values} == Counter(
        doc.columns["type"] for doc in docs if "type" in doc.columns
    )
    assert by_type.missing == sum("type" not in doc.columns for doc in docs)
    assert {v.value: v.count for v in by_topic.values} == Counter(
        t for doc in docs for t in doc.columns["topics"]
    )
    assert {v.text: v.count for v in by_year.values} == Counter(str(doc.columns["date"].year) for doc in docs)
    assert sum(v.count for v in by_n.values) == len(docs)
    assert by_year.values[0].value == dt.date(2010, 1, 1)
    for facet in (by_type, by_topic, by_year, by_n):
        for value in facet.values:
            own = index.bm25().where(text).where(value.filter).search(query)
            assert len(own) == value.count
    [depth] = index.facets(query, "type", index.bm25() % 30 >> tr.scorer(by_length))
    assert (depth.is_exact, depth.documents) == (False, 30)
