# ruff: noqa: ARG005
"""A Python function as a stage: what it may give, what it is given, and how its scores are explained."""

from __future__ import annotations

import numpy as np
import pytest

import telerank as tr
from small_vectors import Letters
from telerank.errors import ArgumentError, ArgumentTypeError, CollectionError, TelerankError
from telerank.testing import check_stage
from telerank.types import Query, Ranking

TEXTS = {"a": "the press of Gutenberg", "b": "a press for olives", "c": "the Bible"}
QUERIES = [Query("1", "press"), Query("2", "the olives")]


def count_words(query: str, text: str) -> float:
    return float(sum(text.split().count(word) for word in query.split()))


def count_all(query: str, texts: list[str]) -> list[float]:
    return [count_words(query, text) for text in texts]


def search_texts(query: str, k: int) -> list[tuple[str, float]]:
    scores = {docno: count_words(query, text) for docno, text in TEXTS.items()}
    return sorted(((docno, score) for docno, score in scores.items() if score), key=lambda hit: hit[1])[-k:]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    docs = [tr.Doc(docno, text) for docno, text in TEXTS.items()]
    return tr.index(docs, tmp_path_factory.mktemp("functions") / "idx", analyzer="english", progress=False)


def test_a_function_is_a_stage_with_the_laws(index):
    candidates = [Ranking.ranked(query, tuple(TEXTS), [3, 2, 1]) for query in QUERIES]
    for stage in (tr.scorer(count_words, TEXTS), tr.scorer(count_all, index, batch=True)):
        check_stage(stage, candidates)
    check_stage(tr.retriever(search_texts), QUERIES)
    as_dict = tr.retriever(lambda query, k: dict(search_texts(query, k)))
    assert [list(ranking) for ranking in as_dict.run(QUERIES)] == [
        list(ranking) for ranking in tr.retriever(search_texts).run(QUERIES)
    ]


def test_a_function_behind_vectors_reads_the_texts_of_their_index(tmp_path):
    index = tr.index(TEXTS, tmp_path / "idx", analyzer="english", progress=False)
    index.encode(Letters(), name="letters", progress=False)
    dense = index.dense("letters", make_encoder=lambda *_: Letters())
    assert (dense >> tr.scorer(lambda query, text: len(text)) % 1).search("press").docnos == ("a",)
    assert (tr.minmax(dense) >> tr.scorer(lambda query, text: -len(text)) % 1).search("press").docnos == (
        "c",
    )


def test_one_line_scores_what_a_first_stage_found_in_its_index(index):
    longest = index.bm25() >> tr.scorer(lambda query, text: len(text)) % 1
    assert longest.search("press").docnos == ("a",)
    fused = index.bm25() >> (tr.scorer(count_words) + 0.5 * tr.minmax(tr.scorer(lambda query, text: 1)))
    assert len(fused.search("press")) == 2
    first = tr.retriever(search_texts, texts=TEXTS) % 2
    assert (first >> tr.scorer(count_words)).search("press").docnos == ("b", "a")
    grouped = (index.bm25() >> tr.scorer(count_words)) >> tr.scorer(count_all, batch=True)
    assert grouped == index.bm25() >> (tr.scorer(count_words) >> tr.scorer(count_all, batch=True))


def test_a_function_stands_in_an_experiment(index):
    systems = {"bm25": index.bm25(), "own": index.bm25() >> tr.scorer(count_words)}
    qrels = [tr.Qrel("1", "a", 1), tr.Qrel("2", "b", 1)]
    shown = str(tr.experiment(systems, QUERIES, qrels, measures=["RR@10"], progress=False))
    assert "own" in shown


def test_a_score_is_explained_by_the_function_or_by_its_name(index):
    plain = index.bm25() >> tr.scorer(count_words)
    assert str(plain.explain("press", "a")) == "1  given by the function count_words"
    with pytest.raises(KeyError):
        plain.explain("press", "z")

    def own(query: str, text: str) -> tr.Explanation:
        return tr.Explanation(2.0, "two of", (tr.Explanation(1.0, "one"),))

    assert (index.bm25() >> tr.scorer(own)).explain("press", "a") == own("", "")
    engine = tr.retriever(lambda query, k: [("x", own("", "")), ("y", 1)], name="engine")
    assert list(engine.search("q")) == [("x", 2.0), ("y", 1.0)]
    assert engine.explain("q", "x") == own("", "")
    assert str(engine.explain("q", "y")) == "1  given by the function engine"


def test_numbers_of_numpy_are_scores_and_the_depth_is_what_the_pipeline_cuts():
    asked = []

    def search(query: str, k: int) -> list[tuple[str, np.float32]]:
        asked.append(k)
        return [(f"d{n}", np.float32(n)) for n in range(k)]

    stage = tr.retriever(search)
    assert len(stage.search("q")) == 1000
    assert (stage % 3).search("q").docnos == ("d2", "d1", "d0")
    assert asked == [1000, 3]


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        (lambda: tr.scorer(3), ArgumentTypeError, "tr.scorer: function must be a function, got 3"),
        (
            lambda: tr.retriever("bm25"),
            ArgumentTypeError,
            "tr.retriever: function must be a function, got 'bm25'",
        ),
        (
            lambda: tr.retriever(lambda q, k: ["d0"]).search("q"),
            ArgumentTypeError,
            "expected pairs",
        ),
        (lambda: tr.retriever(lambda q, k: None).search("q"), ArgumentTypeError, "gave None, expected pairs"),
        (
            lambda: tr.retriever(lambda q, k: ["ab"]).search("q"),
            ArgumentTypeError,
            "expected pairs",
        ),
        (
            lambda: tr.retriever(lambda q, k: [(1, 2)]).search("q"),
            ArgumentTypeError,
            "gave the docno 1, expected",
        ),
        (lambda: tr.retriever(lambda q, k: [("a", 1)] * 2).search("q"), ArgumentError, "gave 'a' twice for"),
        (
            lambda: search(lambda q, t: "x"),
            ArgumentTypeError,
            "gave 'x' for the document a and the query 'press'",
        ),
        (lambda: search(lambda q, t: True), ArgumentTypeError, "gave True for the document a"),
        (
            lambda: search(lambda q, t: float("nan")),
            ArgumentError,
            "gave nan for .* expected a finite number",
        ),
        (lambda: search(lambda q, t: [1], batch=True), ArgumentError, "gave 1 score for 3 texts"),
        (
            lambda: search(lambda q, t: 1, batch=True),
            ArgumentTypeError,
            "gave 1, expected a score for each text",
        ),
        (lambda: search(count_words, {"a": ""}), CollectionError, "document 'b' is not among the documents"),
        (
            lambda: search(count_words, None),
            CollectionError,
            r"write tr\.scorer\(count_words, texts\) with an index",
        ),
    ],
)
def test_what_a_function_may_not_be_or_give_is_told_in_one_line(wrong, error, says):
    with pytest.raises(error, match=says) as caught:
        wrong()
    assert isinstance(caught.value, TelerankError)


def search(function, texts=TEXTS, **settings):
    return next(tr.scorer(function, texts, **settings)([Ranking.ranked(QUERIES[0], tuple(TEXTS), [3, 2, 1])]))
