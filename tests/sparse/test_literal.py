"""The vector space model is a cosine, and equations 1 and 2 of the Piaf report stand as they are printed.

Scores are compared with the formulas over whole documents: no contribution, no inverted file.
"""

from __future__ import annotations

from collections import Counter
from math import log, sqrt

import pytest
from small import build, docs, retriever, terms_of

from telerank.sparse.index import SparseIndex
from telerank.sparse.writer import IndexWriter
from telerank.testing import check_stage
from telerank.types import Query

TEXTS = [
    "a b c",
    "a a a b",
    "b b d e f g h",
    "c",
    "a c c c d d e f f f f g h i j",
    "a b c d e f g h i j " * 5,
    "",
    "j j",
]
QUERIES = ("a", "c d", "a b b j", "h nowhere a", "e f g h i j", "nowhere", "")


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> SparseIndex:
    return build(tmp_path_factory.mktemp("literal") / "whole", TEXTS)


@pytest.fixture(scope="module")
def parts(tmp_path_factory) -> SparseIndex:
    """The same documents in three segments."""
    folder = tmp_path_factory.mktemp("literal") / "parts"
    build(folder, TEXTS[:3])
    with IndexWriter(folder, workers=1) as writer:
        writer.add(docs(TEXTS[3:5], 3))
        writer.add(docs(TEXTS[5:], 5))
    return SparseIndex(folder)


def cosines(documents: dict[str, list[str]], query: list[str]) -> dict[str, float]:
    """The cosine of the query's vector and each document's, times the length of the query's."""
    df = Counter(term for terms in documents.values() for term in set(terms))
    n = sum(1 for terms in documents.values() if terms)
    wanted = {term: count * log(n / df[term]) for term, count in Counter(query).items() if df[term]}
    scores = {}
    for docno, terms in documents.items():
        vector = {term: (1 + log(tf)) * log(n / df[term]) for term, tf in Counter(terms).items()}
        length = sqrt(sum(x * x for x in vector.values()))
        if set(query) & set(terms):
            scores[docno] = sum(wanted.get(term, 0) * x for term, x in vector.items()) / (length or 1)
    return scores


def equation_1(documents: dict[str, list[str]], query: list[str]) -> dict[str, float]:
    df = Counter(term for terms in documents.values() for term in set(terms))
    lengths = [len(terms) for terms in documents.values() if terms]
    n, average, k1, b = len(lengths), sum(lengths) / len(lengths), 1.2, 0.75
    scores = {}
    for docno, terms in documents.items():
        f, score = Counter(terms), 0.0
        for q in query:
            idf = (n - df[q] + 0.5) / (df[q] + 0.5) + 1
            score += idf * f[q] * (k1 + 1) / (f[q] + k1 * (1 - b + b * len(terms) / average))
        if set(query) & set(terms):
            scores[docno] = score
    return scores


def equation_2(documents: dict[str, list[str]], query: list[str]) -> dict[str, float]:
    collection = Counter(term for terms in documents.values() for term in terms)
    size, mu = collection.total(), 2000
    return {
        docno: sum(
            log((Counter(terms)[q] + mu * collection[q] / size) / (mu + len(terms)))
            for q in query
            if collection[q]
        )
        for docno, terms in documents.items()
        if set(query) & set(terms)
    }


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(
    ("model", "formula"),
    [("tfidf", cosines), ("bm25_printed", equation_1), ("lm_dirichlet_printed", equation_2)],
)
def test_scores_are_those_of_the_formula_over_whole_documents(model, formula, query, index, parts):
    expected = formula(terms_of(index), query.split())
    ranking = retriever(index, model).search(query)
    assert dict(ranking) == pytest.approx(expected, rel=1e-6, abs=1e-5)
    assert set(ranking.docnos) == set(expected)
    assert list(retriever(parts, model).search(query)) == list(ranking)  # to the bit


@pytest.mark.parametrize(
    "model", ["tfidf", "tfidf(tf=raw, idf=smooth)", "bm25_printed", "lm_dirichlet_printed"]
)
def test_retrievers_obey_the_laws_and_explanations_sum_to_scores(model, index, parts):
    queries = [Query(str(number), text) for number, text in enumerate(QUERIES)]
    for some in (index, parts):
        stage = retriever(some, model)
        check_stage(stage, queries)
        for ranking in stage.run(queries):
            for docno, score in ranking:
                explanation = stage.explain(ranking.query, docno)
                assert sum(part.value for part in explanation.parts) == explanation.value == score


def test_an_absent_term_costs_what_the_collection_has_of_it(index):
    """d3 is "c" alone; d is 8 of 86 terms of the collection."""
    explanation = retriever(index, "lm_dirichlet_printed").explain("c d", "d3")
    [absent] = [part for part in explanation.parts if "not in the document" in part.what]
    collection = Counter(term for terms in terms_of(index).values() for term in terms)
    assert absent.value == pytest.approx(log(2000 * collection["d"] / collection.total() / 2001), abs=1e-6)


def test_a_term_of_every_document_counts_nothing_and_divides_nothing_by_zero(tmp_path):
    index = build(tmp_path, ["a", "a a", "a b"])
    assert dict(retriever(index, "tfidf").search("a")) == {"d0": 0, "d1": 0, "d2": 0}
    assert dict(retriever(index, "tfidf").search("b"))["d2"] == pytest.approx(log(3), abs=1e-5)
