"""Words of PDF files that are divided at line ends, and letters whose accents stand beside them."""

from __future__ import annotations

from collections import Counter

import pytest

from telerank.corpus.readers.files.pdf.words import count_words, join_accents, join_divided


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("admi\x02nistration", "administration"),
        ("peut\x02être", "peut-être"),
        ("c’est\x02à-dire", "c’est-à-dire"),
        ("c’est-à\x02dire", "c’est-à-dire"),
        ("viendrez\x02vous", "viendrez-vous"),
        ("ceux\x02ci", "ceux-ci"),
        ("ci\x02joint", "ci-joint"),
        ("Saint\x02Denis", "Saint-Denis"),
        ("2019\x022020", "2019-2020"),
        ("a-t\x02il", "a-t-il"),
        ("con\x02\ntinue", "continue"),
    ],
)
def test_a_divided_word_is_joined_and_a_compound_keeps_its_hyphen(text, joined):
    assert join_divided(text, Counter()) == joined


def test_the_rest_of_the_file_decides_first():
    words = count_words(["la demi-journée", "un porte-monnaie, le vous", "il parle"])
    assert join_divided("demi\x02journée", words) == "demi-journée"
    assert join_divided("Porte\x02monnaie", words) == "Porte-monnaie"
    assert join_divided("par\x02le", words) == "parle"
    assert join_divided("rendez\x02vous", count_words(["rendezvous rendezvous"])) == "rendezvous"


def test_words_that_are_divided_do_not_count():
    assert count_words(["un mot di\x02visé ici"]) == Counter(["un", "mot", "ici"])


def test_a_grave_accent_alone_is_a_quotation_mark():
    assert join_accents(["`a la carte`"]) == ["`a la carte`"]
    assert join_accents(["`a la carte", "l’´et´e"]) == ["à la carte", "l’été"]
    assert join_accents(["´q ¨ı"]) == ["´q ï"]


def test_a_very_long_word_takes_no_longer_than_it_is():
    assert len(join_divided("a" * 1_000_000 + "\x02b" + "-" * 1_000_000, Counter())) > 2_000_000
