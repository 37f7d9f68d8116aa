"""Analysing distinct pieces is analysing the texts."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from telerank.sparse.runs import find_surfaces
from telerank.text import PRESETS, Analyzer

ANALYZERS = {name: Analyzer.parse(name) for name in (*PRESETS, "french|asciifold")}
TELLING = "aZéœßİſ9_.,'’ʼ-/ \t\n\0\x1c\u00a0\u0301\u0338=<\u200b\xad“»…\ud800한𝒜ﬁ½²U.S"
LIVELY = st.lists(st.one_of(st.text(TELLING, max_size=30), st.text(max_size=30)), max_size=8)


def through_pieces(texts: list[str], analyzer: Analyzer) -> list[list[str]]:
    distinct, which, ends = find_surfaces(texts, analyzer.classes)
    terms = [analyzer(piece.decode("utf-8", "surrogatepass")) for piece in distinct]
    starts = [0, *ends[:-1]]
    spans = zip(starts, ends, strict=True) if texts else ()
    return [[term for piece in which[a:b] for term in terms[piece]] for a, b in spans]


@pytest.mark.parametrize("name", ANALYZERS)
@given(texts=LIVELY)
@example(texts=["U.S.A. 3.14, 10,000. don't 'quoted' l’État x.y a''b 1'000 aujourd'hui", "", "."])
@example(texts=["=\u0338a", "a\u0301", " \u0301b", "\u0338"])
def test_pieces_give_the_terms_of_the_texts(name, texts):
    analyzer = ANALYZERS[name]
    assert through_pieces(texts, analyzer) == [analyzer(text) for text in texts]


def test_equal_pieces_are_one_and_different_ones_are_not():
    texts = [" ".join(f"word{i % 30_000}" for i in range(100_000))]  # more than the first table holds
    distinct, which, _ = find_surfaces(texts, ANALYZERS["standard"].classes)
    assert len(distinct) == 30_000
    assert [distinct[i].decode() for i in which[:40_000]] == texts[0].split(" ")[:40_000]
    distinct, _, _ = find_surfaces(["pi is 3.14. 'It' isn't 3,2."], ANALYZERS["standard"].classes)
    assert distinct == [b"pi", b"is", b"3.14", b"It", b"isn't", b"3,2"]
