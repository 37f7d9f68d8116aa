from __future__ import annotations

from collections import Counter

from telerank.corpus.readers.files.text import count_words, join_accents, join_divided


def test_a_divided_word_is_joined_and_a_compound_keeps_its_hyphen():
    compounds = (
        "peut-être",
        "c’est-à-dire",
        "viendrez-vous",
        "ceux-ci",
        "ci-joint",
        "Saint-Denis",
        "2019-2020",
    )
    for compound in compounds:
        assert join_divided(compound.replace("-", "\x02", 1), Counter()) == compound
    assert join_divided("c’est-à\x02dire", Counter()) == "c’est-à-dire"
    assert join_divided("a-t\x02il", Counter()) == "a-t-il"
    for divided, joined in (("admi\x02nistration", "administration"), ("con\x02\ntinue", "continue")):
        assert join_divided(divided, Counter()) == joined
    assert len(join_divided("a" * 1_000_000 + "\x02b" + "-" * 1_000_000, Counter())) > 2_000_000


def test_the_rest_of_the_file_decides_first():
    words = count_words(["la demi-journée", "un porte-monnaie, le vous", "il parle"])
    assert join_divided("demi\x02journée", words) == "demi-journée"
    assert join_divided("Porte\x02monnaie", words) == "Porte-monnaie"
    assert count_words(["un mot di\x02visé ici"]) == Counter(["un", "mot", "ici"])  # not what is divided
    assert join_divided("par\x02le", words) == "parle"
    assert join_divided("rendez\x02vous", count_words(["rendezvous rendezvous"])) == "rendezvous"


def test_a_grave_accent_alone_is_a_quotation_mark():
    assert join_accents(["`a la carte`"]) == ["`a la carte`"]
    assert join_accents(["`a la carte", "l’´et´e"]) == ["à la carte", "l’été"]
    assert join_accents(["´q ¨ı"]) == ["´q ï"]
