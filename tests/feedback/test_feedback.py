"""Feedback: the weights against the formulas of the papers, the second search against sums in plain Python."""

from __future__ import annotations

import pickle
from collections import Counter
from math import log2, sqrt
from random import Random

import numpy as np
import pytest

import telerank as tr
from small_models import small_encoder
from telerank.errors import ArgumentError, CollectionError, UnknownDocument
from telerank.sparse.similarities.families import BM25
from telerank.testing import check_stage
from telerank.types import Doc, Query, Ranking

WORDS = [f"w{n}" for n in range(60)]
QUERIES = [
    Query("1", "w3 w7 w7 nowhere"),
    Query("2", ""),
    Query("3", "nowhere"),
    Query("4", "w0 w1"),
    Query("5", "w41"),
]


def random_docs(seed: int = 5, size: int = 300) -> list[Doc]:
    random = Random(seed)
    weights = [1 / (n + 1) for n in range(len(WORDS))]
    return [
        Doc(f"d{n}", " ".join(random.choices(WORDS, weights, k=random.randint(1, 40)))) for n in range(size)
    ]


DOCS = {doc.docno: doc for doc in random_docs()}


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> tr.Index:
    """Two segments."""
    folder = tmp_path_factory.mktemp("feedback") / "idx"
    docs = [*DOCS.values()]
    tr.index(docs[:200], folder, workers=1, analyzer="standard")
    index = tr.open(folder)
    index.add(docs[200:], workers=1)
    return index


def counts(docno: str) -> Counter[str]:
    return Counter(DOCS[docno].text.split())


COLLECTION = sum(map(counts, DOCS), Counter[str]())
DF = Counter(term for docno in DOCS for term in counts(docno))


def rm3(query: str, ranking: Ranking, fb_terms: int, weight: float, max_df: float) -> dict[str, float]:
    """Abdul-Jaleel et al. 2004: (1 - weight) P(w|R) + weight P(w|Q), P(w|R) = sum of P(w|D) P(Q|D)."""
    relevance = {}
    for term in {term for docno, _ in ranking for term in counts(docno)}:
        if DF[term] <= max_df * len(DOCS):
            relevance[term] = sum(counts(d)[term] / sum(counts(d).values()) * score for d, score in ranking)
    kept = sorted(relevance, key=lambda term: (-relevance[term], term))[:fb_terms]
    total = sum(relevance[term] for term in kept)
    asked = Counter(query.split())
    return {
        term: weight * asked[term] / asked.total()
        + (1 - weight) * (relevance[term] / total if term in kept else 0)
        for term in {*asked, *kept}
    }


def bo1(query: str, ranking: Ranking, fb_terms: int) -> dict[str, float]:
    """Terrier's description of Bo1: qtf / max qtf + w(t) / the limit of w of the best term for F -> tfx."""
    fed = sum((counts(docno) for docno, _ in ranking), Counter[str]())

    def information(tfx: int, mean: float) -> float:
        return tfx * log2((1 + mean) / mean) + log2(1 + mean)

    values = {term: information(tfx, COLLECTION[term] / len(DOCS)) for term, tfx in fed.items()}
    kept = sorted(values, key=lambda term: (-values[term], term))[:fb_terms]
    most = information(fed[kept[0]], fed[kept[0]] / len(DOCS))
    asked = Counter(query.split())
    return {
        term: asked[term] / max(asked.values()) + (values[term] / most if term in kept else 0)
        for term in {*asked, *kept}
    }


def rocchio(query: str, ranking: Ranking, fb_terms: int, alpha: float, beta: float) -> dict[str, float]:
    """alpha q / |q| + beta m / |m|, of the mean m of documents of length 1."""
    vectors = np.array([[counts(docno)[term] for term in WORDS] for docno, _ in ranking], float)
    mean = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).mean(axis=0)
    kept = sorted(range(len(WORDS)), key=lambda n: (-mean[n], WORDS[n]))[:fb_terms]
    norm = np.linalg.norm(mean[kept])
    asked = Counter(query.split())
    length = sqrt(sum(tf * tf for tf in asked.values()))
    weights = {term: alpha * tf / length for term, tf in asked.items()}
    for n in kept:
        weights[WORDS[n]] = weights.get(WORDS[n], 0) + beta * mean[n] / norm
    return weights


CASES = [
    ("rm3(max_df=0.4)", 10, lambda q, r: rm3(q, r, 10, 0.5, 0.4)),
    ("rm3(fb_docs=4, fb_terms=7, original_query_weight=0.8, max_df=1)", 4, lambda q, r: rm3(q, r, 7, 0.8, 1)),
    ("bo1", 3, lambda q, r: bo1(q, r, 10)),
    ("bo1(fb_docs=6, fb_terms=25)", 6, lambda q, r: bo1(q, r, 25)),
    ("rocchio(max_df=1)", 10, lambda q, r: rocchio(q, r, 10, 1, 0.75)),
    ("rocchio(fb_docs=2, fb_terms=5, alpha=0.4, beta=2, max_df=1)", 2, lambda q, r: rocchio(q, r, 5, 0.4, 2)),
]


@pytest.mark.parametrize("query", ["w3 w7 w7 nowhere", "w41", "w0 w0 w1"])
@pytest.mark.parametrize(("text", "fb_docs", "formula"), CASES, ids=[case[0] for case in CASES])
def test_weights_are_those_of_the_papers_and_scores_their_sums(index, text, fb_docs, formula, query):
    stage = tr.pipeline(f"bm25 >> {text}", index)
    first = index.bm25().search(query).cut(fb_docs)
    expected = formula(query, first)
    weights = stage.stages[-1].weigh(first)
    kept = {term: value for term, value in expected.items() if value > 0}
    assert {term: weight.value for term, weight in weights.items() if weight.value > 0} == pytest.approx(
        kept, rel=1e-9
    )
    statistics, totals = index.sparse.statistics, Counter[str]()
    for term, weight in expected.items():
        for docno in DOCS:
            if tf := counts(docno)[term]:
                length = np.array([sum(counts(docno).values())])
                [value] = BM25().contributions(np.array([tf]), length, DF[term], COLLECTION[term], statistics)
                totals[docno] += weight * value
    ranking = stage.search(query)
    assert dict(ranking) == pytest.approx({d: s for d, s in totals.items() if s > 1e-3}, abs=0.02)
    rounded = np.abs([score - totals[docno] for docno, score in ranking])
    # as the docstring says
    assert rounded.max() < 0.02
    assert np.median(rounded) < 0.003


@pytest.mark.parametrize("model", ["lm_dirichlet_printed(mu=50)", "tfidf(norm=cosine)", "tfidf(norm=length)"])
def test_absent_terms_and_lengths_of_vectors_count_as_in_the_model(index, model):
    stage = tr.pipeline(f"{model} >> rm3(fb_docs=3, fb_terms=8)", index)
    first, plain = tr.pipeline(model, index).search("w3 w7 w41"), tr.pipeline(model, index)
    weights = stage.stages[-1].weigh(first.cut(3))
    terms = " ".join(weights)
    ranking = stage.search("w3 w7 w41")
    assert len(ranking) > 100
    for docno, score in ranking:
        parts = (
            part for part in plain.explain(terms, docno).parts if "term" in getattr(part.what, "facts", {})
        )
        expected = sum(weights[part.what.facts["term"]].value * part.value for part in parts)
        assert score == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("text", [case[0] for case in CASES])
def test_stages_of_feedback_obey_the_laws_and_explanations_sum_to_scores(index, text):
    stage = tr.pipeline(f"bm25 >> {text}", index)
    check_stage(stage, QUERIES)
    if text == "bo1":
        check_stage(
            tr.pipeline(f"minmax(bm25 >> {text}) + 0.5 * lm_dirichlet", index), QUERIES, tolerance=1e-9
        )
    for query in QUERIES:
        for docno, score in stage.search(query).cut(5):
            why = stage.explain(query, docno)
            assert why.value == score == sum(part.value for part in why.parts)
    assert "from the query" in str(why)
    assert pickle.loads(pickle.dumps(stage)) == stage == tr.pipeline(stage.text, index)


def test_the_first_stage_gives_similarity_index_and_no_more_than_is_fed_back(index):
    stage = index.bm25(0.9, 0.4) >> tr.rm3(fb_docs=7)
    assert stage.text.startswith("bm25(k1=0.9, b=0.4) % 7 >> rm3(fb_docs=7, fb_terms=10")
    assert stage == tr.pipeline("bm25(k1=0.9, b=0.4) >> rm3(fb_docs=7)", index)
    other = index.bm25(0.9, 0.4) >> tr.rm3(fb_docs=7, model="inl2")
    assert "model=dfr(" in other.text
    assert tr.pipeline(other.text, index) == other
    assert other.search("w3 w7") != stage.search("w3 w7")
    twice = index.bm25() >> tr.bo1() >> tr.rm3() % 3
    assert len(twice.search("w3")) == 3
    assert twice == index.bm25() >> (tr.bo1() >> tr.rm3() % 3)
    # over a file, whose rankings name documents of the index
    with pytest.raises(CollectionError, match=r"rm3 has no index.*tr\.rm3"):
        tr.rm3().search("w3")


def test_a_stage_before_it_may_be_any(index, tmp_path):
    fused = tr.pipeline("(0.5 * bm25 + lm_dirichlet) >> rm3", index)
    assert len(fused.search("w3 w7")) > 10
    tr.search(index, {"1": "w3 w7 w7 nowhere"}, "bm25", k=10).save(tmp_path / "a.run")
    again = tr.pipeline(f"run('{tmp_path / 'a.run'}') >> rm3", index)
    assert again.search(QUERIES[0]) == tr.pipeline("bm25 >> rm3", index).search(QUERIES[0])
    negative = tr.pipeline("-1 * bm25 >> rm3", index)  # scores below 0: every document weighs as much
    assert len(negative.search("w3"))


def test_a_query_without_documents_is_searched_as_it_is(index):
    stage = tr.rm3(max_df=0.0)
    ranking = (index.bm25() >> stage).search("w3 w7")
    whole = {docno: score / 2 for docno, score in index.bm25().search("w3 w7")}  # a weight of 1/2 each
    assert dict(ranking) == pytest.approx(whole, abs=0.01)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tr.rm3(fb_docs=0), "rm3: fb_docs must be from 1 to"),
        (
            lambda: tr.rm3(original_query_weight=1.5),
            "rm3: original_query_weight must be from 0 to 1, got 1.5",
        ),
        (lambda: tr.rm3(original_query_weight=float("nan")), "original_query_weight must be from 0 to 1"),
        (lambda: tr.bo1(fb_trems=3), "fb_terms"),
        (lambda: tr.rocchio(beta=-1.0), "rocchio: beta must be from 0 to 1000"),
        (lambda: tr.rm3(fb_terms="many"), "fb_terms must be a whole number"),
    ],
)
def test_wrong_parameters_are_named(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bm25 >> rm3(fb_docs=0)", "expected a whole number"),
        ("bm25 >> rm3(docs=3)", "no parameter 'docs'"),
        ("bm25 >> rm3(original_query_weight=2)", "must be from 0 to 1, got 2"),
        ("bm25 >> bo1(model=bm52)", "bm52"),
        ("like(fb_terms=0)", "expected a whole number"),
    ],
)
def test_wrong_texts_are_named(index, text, message):
    with pytest.raises(ValueError, match=message):
        tr.pipeline(text, index)


@pytest.fixture(scope="module")
def with_vectors(index, tmp_path_factory) -> tr.Index:
    folder = tmp_path_factory.mktemp("vectors") / "idx"
    docs = [Doc(f"d{n}", f"x{n} q1 x2. q1 x{n + 1} d3. q2 " + "x5 d4 " * n) for n in range(12)]
    tr.index(docs, folder, workers=1, analyzer="standard")
    (folder / "models").mkdir()
    small_encoder(folder / "models" / "encoder")
    tr.open(folder).encode("encoder")
    return tr.open(folder)


def test_rocchio_behind_vectors_moves_the_vector_of_the_query(with_vectors):
    stage = tr.pipeline("dense >> rocchio(fb_docs=3, alpha=0.6, beta=0.4)", with_vectors)
    docnos, vectors = with_vectors.arrays()
    [query] = with_vectors.dense().encoder.encode_queries(["q1 x4"]).vectors
    by_docno = dict(zip(docnos, vectors.astype(np.float64), strict=True))
    first = with_vectors.dense().search("q1 x4").docnos[:3]
    moved = 0.6 * query + 0.4 * np.mean([by_docno[docno] for docno in first], axis=0)
    ranking = stage.search("q1 x4")
    assert dict(ranking) == pytest.approx({d: float(moved @ v) for d, v in by_docno.items()}, rel=1e-5)
    why = stage.explain("q1 x4", ranking.docnos[0])
    assert why.value == ranking.scores[0] == pytest.approx(sum(part.value for part in why.parts), rel=1e-12)
    assert [part.what.facts["docno"] for part in why.parts[1:-1]] == list(first)
    check_stage(stage, [Query("1", "q1 x4"), Query("2", "d4"), Query("3", "q2")], tolerance=1e-5)
    words = tr.pipeline("dense >> rm3", with_vectors)
    assert "'" in str(words.explain("q1 x4", words.search("q1 x4").docnos[0]))
    both = tr.pipeline("(bm25 + dense) >> rocchio", with_vectors)
    assert both.role == "words"
    assert tr.pipeline(stage.text, with_vectors) == stage


def test_more_like_a_document(index):
    ranking = index.like("d7", 5)
    assert len(ranking) == 5
    assert "d7" not in ranking.docnos
    stage = tr.pipeline("like", index)
    assert stage.search("d7").cut(5).docnos == ranking.docnos == (stage % 5).search(" d7 ").docnos
    why = stage.explain("d7", ranking.docnos[0])
    assert why.value == ranking.scores[0] == sum(part.value for part in why.parts)
    check_stage(stage, [Query("1", "d7"), Query("2", ""), Query("3", "no such"), Query("4", "d299")])
    assert len(stage.search("no such")) == 0
    with pytest.raises(UnknownDocument, match="no document 'no such'"):
        index.like("no such")
    with pytest.raises(ArgumentError, match="k must be at least 1"):
        index.like("d7", 0)


def test_a_copy_of_a_document_is_most_like_it(tmp_path):
    docs = [*random_docs(3, 50), Doc("copy", random_docs(3, 50)[4].text)]
    index = tr.index(docs, tmp_path / "idx", workers=1, analyzer="standard")
    assert index.like("d4", 3).docnos[0] == "copy"
    assert index.like("d4", 3, fb_terms=3, model="inl2").docnos
    index.delete("copy")
    assert "copy" not in index.like("d4", 50).docnos
