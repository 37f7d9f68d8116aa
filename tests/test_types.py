from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telerank.types import Answer, Doc, Explanation, Location, Mark, Query, Ranking

QUERY = Query("7", "black bear")
DOCNOS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4)
SCORES = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 1.0, 2.0])
LISTS = st.dictionaries(DOCNOS, SCORES, max_size=12)


@given(LISTS, st.randoms(), st.integers(0, 14))
def test_a_ranking_is_in_order_of_score_then_docno_whatever_the_order_before(scores, random, k):
    pairs = list(scores.items())
    random.shuffle(pairs)
    found = Ranking.ranked(QUERY, [docno for docno, _ in pairs], [score for _, score in pairs])
    expected = sorted(scores.items(), key=lambda pair: (pair[1], pair[0]), reverse=True)
    assert list(found) == expected
    assert list(found.cut(k)) == expected[:k]
    assert Ranking(QUERY, found.docnos, found.scores) == found
    assert found.scores.dtype == np.float64
    for again in (pickle.loads(pickle.dumps(found)), copy.copy(found), copy.deepcopy(found)):
        assert again == found
        assert hash(again) == hash(found)


@pytest.mark.parametrize(
    ("docnos", "scores", "message"),
    [
        (("a",), [1.0, 2.0], "query 7: 1 docnos but scores of shape"),
        (("a",), 1.0, "query 7: 1 docnos but scores of shape"),
        (("a", "b"), [1.0, 2.0], "'a' comes before 'b'"),
        (("a", "b"), [1.0, 1.0], "'a' comes before 'b'"),
        (("a",), [float("nan")], "not a finite number"),
        (("a",), [float("inf")], "not a finite number"),
        (("a", "a"), [2.0, 1.0], "a docno comes twice"),
    ],
)
def test_a_list_that_breaks_an_invariant_is_refused(docnos, scores, message):
    with pytest.raises(ValueError, match=message):
        Ranking(QUERY, docnos, scores)
    if isinstance(scores, list) and "comes before" not in message:
        with pytest.raises(ValueError):
            Ranking.ranked(QUERY, docnos, scores)


def test_a_ranking_holds_float64_of_its_own_and_may_be_a_bare_query():
    close = Ranking.ranked(QUERY, ("a", "b"), [21.4567891234, 21.4567891230])
    assert list(close) == [("a", 21.4567891234), ("b", 21.4567891230)]
    assert list(Ranking(QUERY, ("a",), [1e39])) == [("a", 1e39)]
    assert Ranking.ranked(QUERY, ("a", "b"), [0.0, -0.0]).docnos == ("b", "a")
    scores = np.array([2.0, 1.0])
    ranking = Ranking(QUERY, ("a", "b"), scores)
    scores[0] = -1.0
    assert list(ranking) == [("a", 2.0), ("b", 1.0)]
    with pytest.raises(ValueError, match="read-only"):
        ranking.scores[0] = 0.0
    assert len(Ranking(QUERY)) == 0
    assert list(Ranking(QUERY)) == []
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        Ranking(QUERY).cut(-1)


def test_rankings_of_other_queries_documents_or_scores_differ_and_the_first_three_are_printed():
    ranking = Ranking(QUERY, ("a", "b"), [2.0, 1.0])
    assert ranking != Ranking(Query("8", "black bear"), ("a", "b"), [2.0, 1.0])
    assert ranking != Ranking(QUERY, ("a", "c"), [2.0, 1.0])
    assert ranking != Ranking(QUERY, ("a", "b"), [2.0, 1.5])
    assert ranking != "a ranking"
    long = Ranking(QUERY, ("a", "b", "c", "d"), [4.0, 3.0, 2.0, 1.0])
    assert repr(long) == "Ranking('7', 4 documents: a: 4.0000, b: 3.0000, c: 2.0000 …)"


def test_texts_of_documents_answers_and_explanations():
    assert Doc("1", "attacks", "Bears").full_text == "Bears attacks"
    assert Doc("1", "attacks").full_text == "attacks"
    assert Answer("1", "d", "bear", 10).end == 14
    said = Explanation(3.0, "sum of", (Explanation(1.0, "bear"), Explanation(2.0, "attack")))
    assert str(said) == "3  sum of\n  1  bear\n  2  attack"


MARKED = Doc(
    "d",
    "0123456789",
    file="a/b.pdf",
    marks=(Mark(0, 3, "A"), Mark(4, 4, "A"), Mark(6, 4, "B"), Mark(8, 5, "B")),
)


@pytest.mark.parametrize(
    ("span", "expected", "printed"),
    [
        ((), Location("a/b.pdf", 3, 5, "A"), "a/b.pdf, pages 3–5"),
        ((1, 4), Location("a/b.pdf", 3, 3, "A"), "a/b.pdf, page 3"),
        ((3, 5), Location("a/b.pdf", 3, 4, "A"), "a/b.pdf, pages 3–4"),
        ((7,), Location("a/b.pdf", 4, 5, "B"), "a/b.pdf, pages 4–5"),
        ((8, 8), Location("a/b.pdf", 5, 5, "B"), "a/b.pdf, page 5"),
        ((99,), Location("a/b.pdf", 5, 5, "B"), "a/b.pdf, page 5"),
    ],
)
def test_characters_of_a_document_lead_to_its_file_and_pages(span, expected, printed):
    assert MARKED.locate(*span) == expected
    assert str(expected) == printed


def test_pages_are_in_order_and_a_file_may_have_none_and_a_document_no_file():
    note = (Mark(0, 1), Mark(3, 2), Mark(5, 1), Mark(7, 2))  # it follows the next page
    doc = Doc("d", "0123456789", file="a.pdf", marks=note)
    assert doc.locate(3, 6) == Location("a.pdf", 1, 2)
    assert str(Doc("d", "x", file="a.md").locate()) == "a.md"
    assert str(Doc("d", "x", file="a.md", marks=(Mark(0, 0, "A"),)).locate()) == "a.md"
    assert Doc("d", "x").locate() is None
