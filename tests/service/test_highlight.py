from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telerank.service.page.highlight import Part, around, find_matches, mark, snippet
from telerank.text import Analyzer
from telerank.text.sentences import Span

FRENCH = Analyzer.parse("french")
ENGLISH = Analyzer.parse("english")


def marked(text: str, query: str, analyzer: Analyzer = FRENCH) -> list[str]:
    terms = dict.fromkeys(analyzer(query), 1.0)
    spans = [(match.start, match.end) for match in find_matches(analyzer, text, terms)]
    return [part.text for part in mark(text, spans) if part.kind == "match"]


def snippet_of(text: str, query: str, length: int, weights: dict[str, float] | None = None) -> list[Part]:
    terms = weights or dict.fromkeys(ENGLISH(query), 1.0)
    return snippet(text, find_matches(ENGLISH, text, terms), terms, length)


def test_words_match_as_the_index_matches_them():
    text = "L’État verse une allocation ; les allocations de l'état, aujourd’hui."
    assert marked(text, "allocation État") == ["État", "allocation", "allocations", "état"]
    assert marked(text, "aujourd'hui") == ["aujourd’hui"]
    assert marked("la prime de la ville", "la prime") == ["prime"]  # no stop words
    assert marked("congé\u00a0parental, congé", "congé parental") == ["congé\u00a0parental", "congé"]


@given(st.text(max_size=60), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=5))
def test_marked_parts_are_the_whole_text(text: str, pairs: list[tuple[int, int]]):
    spans = [(min(pair), max(pair)) for pair in pairs]
    assert "".join(part.text for part in mark(text, spans)) == text


def test_a_snippet_holds_the_rarest_words_and_begins_with_their_sentence():
    text = (
        "Nothing here at all. " * 40 + "The tax office answers in June. Bring a form. " + "More text. " * 40
    )
    shown = snippet_of(text, "tax form", 80)
    assert shown[0] == Part("The ")
    assert [part.text for part in shown if part.kind == "match"] == ["tax", "form"]
    assert shown[-1] == Part(" …", "cut")


def test_words_far_apart_are_shown_in_two_passages():
    text = "A tax is due. " + "Nothing here at all. " * 60 + "A form is needed. " + "More text. " * 40
    shown = snippet_of(text, "tax form", 100)
    assert [part.text for part in shown if part.kind == "match"] == ["tax", "form"]
    assert Part(" … ", "cut") in shown
    assert sum(len(part.text) for part in shown) < 200


def test_a_heavy_word_counts_more_than_two_light_ones():
    text = "one two. " + "filler words only. " * 30 + "rare. " + "filler words only. " * 30
    shown = snippet_of(text, "", 40, {"one": 1.0, "two": 1.0, "rare": 9.0})
    assert "rare" in [part.text for part in shown if part.kind == "match"]


def test_without_matches_a_snippet_is_the_beginning():
    assert snippet_of("First words of a text. " * 20, "absent", 30)[0].text.startswith("First words of")
    assert snippet_of("", "absent", 30) == []
    assert snippet_of("short", "absent", 30) == [Part("short")]


@given(st.text(st.sampled_from("ab tax.\n é\u0301"), max_size=400), st.integers(10, 60))
def test_a_snippet_is_taken_from_the_text_and_is_not_much_longer_than_asked(text: str, length: int):
    shown = snippet_of(text, "tax", length)
    pieces = "".join(part.text if part.kind != "cut" else "\0" for part in shown).split("\0")
    assert all(piece in text for piece in pieces)
    longest_word = 60
    assert sum(map(len, pieces)) <= 2 * length + 4 * longest_word


@given(st.text(st.sampled_from("ab tax.\n é\u0301"), min_size=1, max_size=300), st.data())
def test_the_sentences_around_a_span_hold_it(text: str, data: st.DataObject):
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    shown = around(text, Span(start, end), 40)
    assert 0 <= shown.start <= shown.end <= len(text)
    assert text[start:end].strip() in text[shown.start : shown.end]


def test_the_sentences_around_an_answer_are_whole_and_have_their_neighbours():
    text = "Before it. The prize is ten francs. It is paid in June. Much later nothing happens at all."
    start = text.index("ten francs")
    span = around(text, Span(start, start + 10), 60)
    assert text[span.start : span.end] == "Before it. The prize is ten francs. It is paid in June."


@pytest.mark.parametrize("analyzer", ["none", "standard", "english", "french"])
def test_hostile_texts_are_cut_and_marked_in_linear_time(analyzer: str):
    text = "<b>" * 5_000 + "'" * 5_000 + "a\u0301" * 5_000 + " tax"
    chosen = Analyzer.parse(analyzer)
    terms = {"tax": 1.0}
    assert any(part.kind == "match" for part in snippet(text, find_matches(chosen, text, terms), terms))
