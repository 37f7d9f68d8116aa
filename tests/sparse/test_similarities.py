"""Ranking models: their formulas on numbers worked out by hand, the laws of their values, their text form."""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from math import log, log2, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telerank.errors import ModelError
from telerank.sparse.similarities.base import Similarity, Statistics
from telerank.sparse.similarities.families import (
    BM25,
    DFI,
    DFR,
    H1,
    H2,
    H3,
    LMDirichlet,
    LMJelinekMercer,
    NoNormalization,
    Z,
    make_grid,
    parse_similarity,
)
from telerank.sparse.similarities.literal import TFIDF, BM25Printed, LMDirichletPrinted

SMALL = Statistics(documents=10, tokens=99)  # average length 9.9

normalizations = st.one_of(
    st.builds(H1, st.floats(0, 1000)),
    st.builds(H2, st.floats(0, 1000)),
    st.builds(H3, st.floats(0, 1e6)),
    st.builds(Z, st.floats(0.001, 0.499)),
    st.just(NoNormalization()),
)
models = st.one_of(
    st.builds(BM25, st.floats(0, 1000), st.floats(0, 1)),
    st.builds(LMDirichlet, st.floats(1e-3, 1e9)),
    st.builds(LMJelinekMercer, st.floats(1e-6, 1)),
    st.builds(
        DFR, st.sampled_from(["g", "if", "in", "ine"]), st.sampled_from(["b", "l", "none"]), normalizations
    ),
    st.builds(DFI, st.sampled_from(["standardized", "saturated", "chisquared"])),
    st.builds(
        TFIDF,
        st.sampled_from(["raw", "log", "sqrt"]),
        st.sampled_from(["log", "smooth"]),
        st.sampled_from(["cosine", "length", "none"]),
    ),
    st.builds(BM25Printed, st.floats(0, 1000), st.floats(0, 1)),
    st.builds(LMDirichletPrinted, st.floats(1e-3, 1e9)),
)


@st.composite
def postings(draw: st.DrawFn) -> tuple[int, int, int, int, Statistics]:
    """tf, length, df, cf and a collection in which they can be, up to 10 M documents and 1 M occurrences."""
    extreme = st.sampled_from([1, 2, 1_000_000])
    tf = draw(st.one_of(extreme, st.integers(1, 1_000_000)))
    length = tf + draw(st.one_of(st.just(0), st.integers(0, 10_000_000)))
    documents = draw(st.one_of(st.sampled_from([1, 2, 10_000_000]), st.integers(1, 10_000_000)))
    df = draw(st.one_of(st.sampled_from([1, documents]), st.integers(1, documents)))
    cf = tf + df - 1 + draw(st.one_of(st.just(0), st.integers(0, 10**10)))
    others = length - tf + documents - df + draw(st.one_of(st.just(0), st.integers(0, 10**12)))
    return tf, length, df, cf, Statistics(documents, cf + others)


@given(models, postings())
def test_every_contribution_is_finite_not_negative_and_below_two_to_the_41(model, posting):
    tf, length, df, cf, collection = posting
    value = float(model.contributions(tf, length, df, cf, collection))
    assert 0 <= value < 2**41


@given(models, st.lists(postings(), min_size=1, max_size=40))
def test_a_contribution_is_the_same_bits_alone_among_others_and_from_strided_counts(model, drawn):
    collection = drawn[0][4]
    tf, length = np.array([p[0] for p in drawn]), np.array([p[1] for p in drawn])
    df, cf = drawn[0][2], drawn[0][3]
    together = model.contributions(tf, length, df, cf, collection)
    alone = [float(model.contributions(t, n, df, cf, collection)) for t, n in zip(tf, length, strict=True)]
    strided = model.contributions(tf[::-1], length.astype(np.float64)[::-1], df, cf, collection)
    per_term = np.full(len(drawn), df), np.full(len(drawn), cf)
    assert together.dtype == np.float64
    assert together.tolist() == alone == strided[::-1].tolist()
    assert np.array_equal(together, model.contributions(tf, length, *per_term, collection))


@given(models, postings())
def test_more_occurrences_in_a_document_as_long_never_count_less(model, posting):
    tf, length, df, cf, collection = posting
    fewer = model.contributions(tf, length + 1, df, cf, collection)
    more = model.contributions(tf + 1, length + 1, df, cf, collection)
    assert more >= fewer * (1 - 1e-12)


@given(models, st.text(max_size=30))
def test_the_text_form_of_a_model_reads_back_and_any_other_text_is_a_model_or_a_model_error(model, text):
    assert parse_similarity(repr(model)) == model
    assert hash(parse_similarity(repr(model))) == hash(model)
    with suppress(ModelError):
        assert isinstance(parse_similarity(text), Similarity)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (BM25(0.9, 0.4), log(1 + 8.5 / 2.5) * 3 / (3 + 0.9 * (0.6 + 0.4 * 12 / 9.9))),
        (BM25(0, 1), log(1 + 8.5 / 2.5)),
        (LMDirichlet(100), log(1 + 3 / (100 * 0.08)) + log(100 / 112)),
        (LMJelinekMercer(0.25), log(1 + 0.75 * 3 / 12 / (0.25 * 0.08))),
        (DFI("standardized"), log2(1 + (3 - 0.96) / sqrt(0.96))),
        (DFI("saturated"), log2(1 + (3 - 0.96) / 0.96)),
        (DFI("chisquared"), log2(1 + (3 - 0.96) ** 2 / 0.96)),
        (DFR("in", "l", NoNormalization()), 3 * log2(11 / 2.5) / 4),
        (DFR("in", "b", NoNormalization()), 3 * log2(11 / 2.5) * 9 / 3 / 4),
        (DFR("if", "none", NoNormalization()), 3 * log2(1 + 11 / 7.5)),
        (DFR("ine", "none", NoNormalization()), 3 * log2(11 / (10 * (1 - 0.9**7) + 0.5))),
        (DFR("g", "none", NoNormalization()), log2(1 + 8 / 18) + 3 * log2((1 + 8 / 18) / (8 / 18))),
        (DFR("in", "none", H1(2)), 3 * 2 * 9.9 / 12 * log2(11 / 2.5)),
        (DFR("in", "none", H2(2)), 3 * log2(1 + 2 * 9.9 / 12) * log2(11 / 2.5)),
        (DFR("in", "none", H3(50)), 50 * (3 + 50 * 0.08) / 62 * log2(11 / 2.5)),
        (DFR("in", "none", Z(0.25)), 3 * (9.9 / 12) ** 0.25 * log2(11 / 2.5)),
        (TFIDF(), (1 + log(3)) * log(5) ** 2),  # without the lengths of vectors
        (TFIDF("raw", "smooth", "none"), 3 * (1 + log(11 / 3)) ** 2),
        (TFIDF("sqrt", "smooth", "length"), sqrt(3) * (1 + log(11 / 3)) ** 2 / sqrt(12)),
        (BM25Printed(0.9, 0.4), (8.5 / 2.5 + 1) * 3 * 1.9 / (3 + 0.9 * (0.6 + 0.4 * 12 / 9.9))),
        # above a document of 12 tokens without the term
        (LMDirichletPrinted(100), log((3 + 100 * 7 / 99) / 112) - log(100 * 7 / 99 / 112)),
    ],
    ids=repr,
)
def test_formulas_give_what_the_hand_gives(model, expected):
    """3 occurrences in 12 tokens; 7 occurrences in 2 of 10 documents, so that p = 8 / 100."""
    assert float(model.contributions(3, 12, 2, 7, SMALL)) == pytest.approx(expected, rel=1e-13)


def test_a_document_with_no_more_occurrences_than_expected_gets_nothing():
    collection = Statistics(2, 199)
    assert DFI().contributions([1, 2, 3], [20, 40, 20], 2, 9, collection).tolist()[:2] == [0, 0]
    assert float(DFI().contributions(3, 20, 2, 9, collection)) > 0
    assert float(LMDirichlet(10).contributions(1, 90, 2, 59, SMALL)) == 0
    assert LMJelinekMercer(1).contributions([1, 5], [9, 9], 2, 7, SMALL).tolist() == [0, 0]
    assert Statistics(0, 0).average_length == 0


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("bm25", BM25(1.2, 0.75)),
        ("bm25()", BM25()),
        ("bm25(b=.4, k1=0.9)", BM25(0.9, 0.4)),
        (" bm25 ( k1 = 1e-3 ) ", BM25(0.001)),
        ("lm_dirichlet", LMDirichlet(2000)),
        ("lmd(mu=50)", LMDirichlet(50)),
        ("ql", LMDirichlet()),
        ("lmjm(lambda=0.3)", LMJelinekMercer(0.3)),
        ("dfi", DFI("standardized")),
        ("dfi(independence=chisquared)", DFI("chisquared")),
        ("dfr", DFR("in", "l", H2(1))),
        ("dfr(normalization=h3(mu=7), basic_model=g)", DFR("g", "l", H3(7))),
        ("dfr(after_effect=none, normalization=none)", DFR("in", "none", NoNormalization())),
        ("inl2", DFR("in", "l", H2())),
        ("inl2(c=7)", DFR("in", "l", H2(7))),
        ("ineb3(mu=5)", DFR("ine", "b", H3(5))),
        ("ifbz", DFR("if", "b", Z())),
        ("gl1", DFR("g", "l", H1())),
        ("tfidf", TFIDF("log", "log", "cosine")),
        ("tfidf(tf=sqrt, idf=smooth, norm=length)", TFIDF("sqrt", "smooth", "length")),
        ("bm25_printed(k1=0.9)", BM25Printed(0.9, 0.75)),
        ("lm_dirichlet_printed(mu=50)", LMDirichletPrinted(50)),
    ],
)
def test_short_forms_read_as_meant(text, model):
    assert parse_similarity(text) == model


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "expected a name, a number or '(', got the end"),
        ("(", "expected a name, a number or '(', got the end"),
        ("bm26", "unknown model 'bm26'; did you mean 'bm25'?"),
        ("bm25(k1", "expected ',' or ')', got the end"),
        ("bm25(k1=.9", "expected ',' or ')', got the end"),
        ("bm25(b=.1,)", "expected a name, a number or '(', got ')' (after 'bm25(b=.1,')"),
        ("bm25 x", "or the end, got 'x'"),
        ("bm25(b=1, b=1)", "bm25: b is given twice"),
        ("bm25(q=1)", "bm25 has no parameter 'q'; known: k1, b"),
        ("bm25(k1=x)", "expected a number, got 'x' (after 'bm25(k1=')"),
        ("bm25(k1=h2(c=1))", "expected a number"),
        ("bm25(k1=-1)", "bm25: k1 must be from 0 to 1000, got -1"),
        ("bm25(b=1.5)", "bm25: b must be from 0 to 1, got 1.5"),
        ("bm25(b=nan)", "expected a number, got 'nan'"),
        ("lmd(mu=0)", "lm_dirichlet: mu must be from 0.001 to 1e+09, got 0"),
        ("lmjm(lambda=0)", "lm_jelinek_mercer: lambda must be from 1e-06 to 1, got 0"),
        ("dfi(independence=z)", "independence must be one of standardized, saturated, chisquared, got 'z'"),
        ("dfr(basic_model=p)", "dfr: basic_model must be one of g, if, in, ine, got 'p'"),
        ("dfr(after_effect=x)", "dfr: after_effect must be one of b, l, none, got 'x'"),
        ("dfr(normalization=h9)", "unknown model 'h9'; known: h1, h2, h3, z, none"),
        ("dfr(normalization=none(c=2))", "none has no parameter 'c'; none is known"),
        ("dfr(normalization=z(z=.5))", "z: z must be from 0.001 to 0.499, got 0.5"),
        ("inl2(mu=3)", "h2 has no parameter 'mu'; known: c"),
        ("inl3(mu=-3)", "h3: mu must be from 0 to 1e+06, got -3"),
        ("bm25(k1=" * 2000, "more than 100 brackets within each other"),
        ("gb1(c=inf)", "expected a number, got 'inf'"),
        ("tfidf(norm=cosinus)", "tfidf: norm must be one of cosine, length, none, got 'cosinus'"),
        ("lm_dirichlet_printed(mu=0)", "lm_dirichlet_printed: mu must be from 0.001 to 1e+09, got 0"),
    ],
)
def test_a_form_that_cannot_be_meant_is_refused_with_what_is_known(text, says):
    with pytest.raises(ModelError) as caught:
        parse_similarity(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_grid_holds_distinct_settings_of_its_family():
    for family in ("bm25", "lmd", "lmjm", "dfr", "dfi", "tfidf", "bm25_printed", "lm_dirichlet_printed"):
        model = parse_similarity(family)
        settings = make_grid(model)
        assert all(type(setting) is type(model) for setting in settings)
        assert model in settings
        assert len(set(settings)) == len(settings) <= 100
    parts = {(s.basic_model, s.after_effect, type(s.normalization)) for s in make_grid(DFR())}
    assert parts >= set(product(("g", "if", "in", "ine"), ("b", "l", "none"), (H2,)))
    assert {normalization for _, _, normalization in parts} == {H1, H2, H3, Z, NoNormalization}
