"""Boolean retrieval: expressions against Python's own logic, the laws, and what cannot be an expression."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import build, docs, terms_of

from telerank.errors import ExpressionError
from telerank.fusion.stages import within
from telerank.pipelines.functions import pipeline
from telerank.retrieval.index import Index
from telerank.sparse.index import SparseIndex
from telerank.sparse.writer import IndexWriter
from telerank.testing import check_stage
from telerank.types import Query

TEXTS = ["a b c", "a", "b c d", "", "a d", "c c c", "a b c d", "e"]


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    """Two segments, one document deleted."""
    folder = tmp_path_factory.mktemp("boolean") / "index"
    build(folder, TEXTS[:5])
    with IndexWriter(folder, workers=1) as writer:
        writer.add(docs([*TEXTS[5:], "a b c d e"], 5))
        writer.delete(["d8"])
    return Index(folder)


# An expression as a text, and the set of the documents' terms that fulfil it, as a function.
words = st.sampled_from("abcdez").map(lambda word: (word, lambda terms: word in terms))


def _atoms(inner):
    negated = st.tuples(st.just("NOT "), inner).map(
        lambda pair: (pair[0] + pair[1][0], lambda t: not pair[1][1](t))
    )
    return st.one_of(inner, negated)


def _queries(atoms):
    both = st.tuples(st.lists(atoms, min_size=1, max_size=3), st.sampled_from([" AND ", " ", "  AND  "])).map(
        lambda pair: (
            pair[1].join(text for text, _ in pair[0]),
            lambda terms: all(holds(terms) for _, holds in pair[0]),
        )
    )
    return st.lists(both, min_size=1, max_size=3).map(
        lambda parts: (
            " OR ".join(text for text, _ in parts),
            lambda terms: any(holds(terms) for _, holds in parts),
        )
    )


expressions = _queries(
    _atoms(
        st.recursive(
            words,
            lambda atoms: _queries(_atoms(atoms)).map(lambda pair: (f"({pair[0]})", pair[1])),
            max_leaves=6,
        )
    )
)


@given(expressions)
def test_the_documents_are_those_for_which_the_expression_is_true(index, expression):
    text, holds = expression
    expected = {docno for docno, terms in terms_of(index.sparse).items() if holds(set(terms))}
    ranking = index.boolean().search(text)
    assert set(ranking.docnos) == expected
    assert set(ranking.scores.tolist()) <= {1.0}
    assert list(ranking.docnos) == sorted(expected, reverse=True)
    for docno in terms_of(index.sparse):
        assert index.boolean().explain(text, docno).value == (docno in expected)


def test_the_reports_form_and_words_side_by_side(index):
    assert set(index.boolean().search("a AND b NOT d").docnos) == {"d0"}
    assert set(index.boolean().search("a b").docnos) == {"d0", "d6"}
    assert set(index.boolean("or").search("a e").docnos) == {"d0", "d1", "d4", "d6", "d7"}
    assert set(index.boolean("or").search("(a e) NOT d").docnos) == {"d0", "d1", "d7"}


def test_it_obeys_the_laws_and_reads_back_from_its_text(index):
    queries = [Query(str(n), text) for n, text in enumerate(("a OR c", "", "NOT a", "b AND (a OR d)", "zzz"))]
    for stage in (index.boolean(), index.boolean("or") % 2, within(index.boolean(), index.bm25())):
        check_stage(stage, queries)
        assert pipeline(repr(stage), index) == stage


def test_a_ranked_boolean_search_has_the_order_of_its_scores(index):
    ranked = pipeline("within(boolean, bm25)", index).search("c NOT a")
    assert ranked.docnos == ("d5", "d2")


def test_words_without_terms_stand_for_nothing_and_words_of_several_terms_need_all(tmp_path):
    english = Index(
        build(tmp_path / "english", ["the red house", "the blue house", "red and blue"], "english").folder
    )
    search = english.boolean().search
    assert set(search("the AND house").docnos) == {"d0", "d1"}
    assert set(search("house NOT the").docnos) == {"d0", "d1"}
    assert search("the").docnos == search("NOT the").docnos == ()
    assert search("red-house").docnos == ("d0",)
    what = [part.what for part in english.boolean().explain("the AND house", "d0").parts]
    assert what == ["'the': has no term, and stands for nothing", "'house': in the document"]


def test_a_synonym_stands_for_its_word(tmp_path):
    (tmp_path / "synonyms.txt").write_text("car, auto\n")
    analyzer = f"english|synonyms({tmp_path}/synonyms.txt)"
    index = Index(build(tmp_path / "index", ["a car", "an auto", "a bus"], analyzer).folder)
    assert set(index.boolean().search("car").docnos) == {"d0", "d1"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("AND a", "expected a word before AND (at the beginning)"),
        ("a OR", "expected a word after OR"),
        ("a NOT", "expected a word after NOT"),
        ("a AND OR b", "expected a word before OR (after 'a AND ')"),
        ("(a OR b", "'(' without ')'"),
        ("a OR b)", "expected '(' before )"),
        ("()", "expected a word before )"),
        ("a (", "expected a word after ("),
    ],
)
def test_what_is_no_expression_is_refused_with_its_place(text, says, index):
    with pytest.raises(ExpressionError) as caught:
        index.boolean().search(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_deep_expression_is_evaluated_without_recursion(index):
    deep = "(" * 20_000 + "a" + ")" * 20_000
    assert len(index.boolean().search(deep)) == 4
    assert len(index.boolean().search("NOT " * 20_000 + "a")) == 4


def test_join_is_and_or_or(index):
    with pytest.raises(ExpressionError, match="expected and or or, got 'xor'"):
        pipeline("boolean(join=xor)", index)
    assert isinstance(index.sparse, SparseIndex)
