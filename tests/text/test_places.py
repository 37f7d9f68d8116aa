from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telerank.text import PRESETS, Analyzer
from telerank.text.analyzer import locate_terms

ANY_TEXT = st.text(st.characters(exclude_categories=()))
HARD_TEXT = st.text(
    st.sampled_from("aAeEéœßİıſŉ'’ʼ‘.,-_ \u00a0\u0301\u0327\u00ad\u200b0123½™²ﬁ´\n가ᄀ\u1161\u11a8ﷺ")
)


@given(st.sampled_from(sorted(PRESETS)), ANY_TEXT | HARD_TEXT)
def test_places_are_those_of_the_terms_in_their_order(name: str, text: str):
    analyzer = Analyzer.parse(name)
    places = list(locate_terms(analyzer, text))
    assert [place.term for place in places] == analyzer(text)
    assert all(0 <= place.start < place.end <= len(text) for place in places)


@given(st.sampled_from(sorted(PRESETS)), HARD_TEXT.filter(lambda text: "\u1161" not in text))
def test_a_place_holds_a_text_with_its_term(name: str, text: str):
    """Without characters that compose to one another a place alone gives its term."""
    analyzer = Analyzer.parse(name)
    for place in locate_terms(analyzer, text):
        assert place.term in analyzer(text[place.start : place.end]) or "." in text


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("french", "Les droits de l’État, l'ÉTAT.", ["droits", "État", "ÉTAT"]),
        ("french", "aujourd’hui", ["aujourd’hui"]),
        ("english", "the ﬁnest Straße", ["ﬁnest", "Straße"]),
        ("standard", "x² costs 3,14 €", ["x²", "costs", "3,14"]),
        ("none", "A B", ["A", "B"]),
    ],
)
def test_places_in_the_text_as_it_was_given(name: str, text: str, found: list[str]):
    places = list(locate_terms(Analyzer.parse(name), text))
    assert [text[place.start : place.end] for place in places] == found


def test_marks_written_apart_belong_to_their_letter():
    text = unicodedata.normalize("NFD", "le congé payé")
    places = [text[start:end] for _, start, end in locate_terms(Analyzer.parse("french"), text)]
    assert places == [unicodedata.normalize("NFD", word) for word in ("congé", "payé")]


@given(st.sampled_from(sorted(PRESETS)), ANY_TEXT | HARD_TEXT)
def test_places_do_not_depend_on_what_stands_behind(name: str, text: str):
    """The ellipsis becomes three characters, so that the text is aligned word by word."""
    analyzer = Analyzer.parse(name)
    behind = [place for place in locate_terms(analyzer, f"{text}\n…") if place.start <= len(text)]
    assert behind == list(locate_terms(analyzer, text))
