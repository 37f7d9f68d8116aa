"""Which answers are equal: their words and signs, which the French normalisation has without signs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telerank.evaluation.answers.overlap import answer_words, is_sign, normalise_french


@pytest.mark.parametrize(
    ("text", "language", "words"),
    [
        ("L’Homme", "fr", "homme"),
        ("l'an  2000", "fr", "an 2000"),
        ("d'un", "fr", "d"),
        ("qu’il", "fr", "qu il"),
        ("qu'aujourd’hui", "fr", "qu aujourd'hui"),
        ("quelqu'un", "fr", "quelqu'un"),
        ("de Paris", "fr", "de paris"),
        ("50 l", "fr", "50 l"),
        ("The «End»", "en", "end"),
        ("le", "fr", "le"),
        ("!", "fr", "!"),
        ("Cafe\u0301", "fr", "café"),
        ("ﬁn", "fr", "fin"),
        ("1 500,5", "fr", "1500,5"),
        ("1,500.5", "en", "1500.5"),
        ("−5 °C", "fr", "− 5 ° c"),
        ("- 5 °C", "fr", "5 ° c"),
        ("(–5)", "en", "− 5"),
        ("1939-1945", "fr", "1939 1945"),
        ("J.-C.", "fr", "j c"),
        ("AB-", "fr", "ab −"),
        ("R & D", "fr", "r & d"),
        ("½", "en", "1 ⁄ 2"),
        ("10²", "fr", "10^2"),
        ("", "fr", ""),
    ],
)
def test_words_of_answers(text, language, words):
    assert answer_words(text, language) == tuple(words.split())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("-5", "−5"),
        ("10 %", "10%"),
        ("1 500 €", "1500€"),
        ("3,5", "3.5"),
        ("1939–1945", "1939-1945"),
        ("œuvre", "OEUVRE"),
        ("20 ℃", "20 °C"),
    ],
)
def test_spelling_makes_no_other_answer(first, second):
    assert answer_words(first, "fr") == answer_words(second, "fr")


@pytest.mark.parametrize("language", ["en", "fr"])
@pytest.mark.parametrize(
    "answers",
    [
        ("5", "-5", "+5", "± 5", "5 %", "5 ‰", "5 €", "5 $", "5 °", "> 5", "-5 €"),
        ("C", "C++", "C#", "C+"),
        ("AB", "AB+", "AB-"),
        ("102", "10²", "10 2"),
        ("3.5", "35", "3 5"),
        ("1/2", "12", "1-2"),
    ],
)
def test_signs_make_other_answers(answers, language):
    assert len({answer_words(answer, language) for answer in answers}) == len(answers)


@given(st.text(st.sampled_from("xyzé'’ -−+%€°#.,25²()«»½\u00a0"), max_size=20))
def test_the_french_normalisation_is_these_words_without_signs(text):
    words = [word for word in answer_words(text, "fr") if not is_sign(word) and any(map(str.isalnum, word))]
    assert " ".join(words).replace("^", "") == normalise_french(text)
