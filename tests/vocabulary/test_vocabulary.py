"""Corrections of misspelt words and suggestions, from the documents that are searched alone."""

from __future__ import annotations

import time
from random import Random

import numpy as np
import pytest

import telerank as tr
from telerank.errors import ArgumentError, ArgumentTypeError
from telerank.types import Doc
from telerank.vocabulary import lexicon
from telerank.vocabulary.lexicon import Lexicon, fold, open_lexicon
from telerank.vocabulary.spelling import correct, edit_cost, find_correction
from telerank.vocabulary.suggestions import suggest

DOCS = [
    Doc("1", "L’imprimerie à caractères mobiles vient d’Europe. L’école et l’imprimerie.", "Imprimerie"),
    Doc("2", "Une école de musique, l’école du village.", "École primaire"),
    Doc("3", "Le sperme de la baleine. Ecole.", "École primaire"),
    Doc("4", "Une baleine blanche et une imprimerie.", "Baleine"),
    Doc("5", "Le supreme et le sperme, secret.", "Secret de l'État"),
]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def index(tmp_path) -> tr.Index:
    return tr.index(DOCS, tmp_path / "idx", workers=1, analyzer="french")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("imprimmerie", "imprimerie"),  # a doubled letter
        ("impirmerie", "imprimerie"),  # two letters swapped
        ("inprimerie", "imprimerie"),  # n beside m on no keyboard row of AZERTY, one edit
        ("imprimrrie", "imprimerie"),  # r beside e
        ("imprimerie", "imprimerie"),
        ("Qui a inventé l’Inprimerie ?", "Qui a inventé l’Imprimerie ?"),
        ("BALLEINE", "BALEINE"),
        ("spreme", "sperme"),
        ("caracteres", "caracteres"),  # the analyzer makes the term of it that documents have
        ("mus", "mus"),  # nothing within one edit
        ("xyzzyq 12345 et", "xyzzyq 12345 et"),
        ("", ""),
        ("?!", "?!"),
    ],
)
def test_a_misspelt_word_is_corrected_from_the_words_of_the_index(index, typed, meant):
    assert index.correct(typed) == meant
    assert index.correct(meant) == meant


def test_words_of_deleted_hidden_and_later_documents(index):
    assert index.correct("secrte") == "secret"
    index.delete("5")
    assert index.correct("secrte") == "secrte"
    assert index.suggest("secret") == []
    index.add([Doc("6", "Un secret bien gardé.", "Garde")], workers=1)
    assert index.correct("secrte") == "secret"
    assert [each.text for each in index.suggest("gard")] == ["Garde"]
    index.add([Doc("6", "Rien.", "Rien")], update=True, workers=1)
    assert index.correct("secrte") == "secrte"
    index.merge()
    assert index.correct("secrte") == "secrte"
    assert index.correct("spreme") == "sperme"
    # marks of documents that a reader may not see
    hidden = [np.array([docno == "3" for docno in segment.docnos]) for segment in index.sparse.segments]
    some = Lexicon(index.sparse, hidden)
    assert find_correction(some, "spreme") == ""
    assert "sperme" not in some.words
    assert some.titles_starting("ecole", 5) == [("École primaire", 1)]


def test_an_edit_costs_what_the_error_is_worth():
    costs = [edit_cost("ecole", "école"), edit_cost("letre", "lettre"), edit_cost("spreme", "sperme")]
    costs += [edit_cost("maisin", "maison"), edit_cost("maixon", "maison"), edit_cost("maipon", "maison")]
    assert costs == [0.2, 0.6, 0.7, 0.7, 0.7, 1.0]
    assert edit_cost("", "abc") == edit_cost("abc", "") == 3.0
    random = Random(2)
    for _ in range(200):
        one, other = ("".join(random.choices("abé", k=random.randint(0, 6))) for _ in range(2))
        assert edit_cost(one, other) == pytest.approx(edit_cost(other, one))
        assert edit_cost(one, one) == 0


def test_titles_and_words_are_suggested_by_what_they_begin_with(index):
    assert [(s.text, s.kind, s.documents) for s in index.suggest("ecol")] == [
        ("École primaire", "title", 2),
        ("école", "word", 3),
    ]
    assert [s.text for s in index.suggest("l'impr")] == ["l'imprimerie"]
    assert [s.text for s in index.suggest("secret de l’é")] == ["Secret de l'État"]
    assert [s.text for s in index.suggest("une bale")] == ["une baleine"]
    assert index.suggest("e", 1) == index.suggest("É", 1)
    assert index.suggest("") == index.suggest("  ") == index.suggest("zz") == []
    assert len(index.suggest("e", 1)) == 1
    with pytest.raises(ArgumentError, match="k must be at least 1"):
        index.suggest("e", 0)
    with pytest.raises(ArgumentTypeError, match="typed must be a text"):
        index.suggest(3)


HOSTILE = [
    "a" * 100_000,
    "mot " * 25_000,
    " ".join(f"mot{n:x}xq" for n in range(20_000)),
    "".join(map(chr, range(1, 0xD800))),
    "\u0301" * 50_000,
    "e\u0301" * 50_000,
    "ﷺ" * 10_000,
    "\U0001f600" * 20_000,
    "\u202e\u0000\x1b[31m",
    "漢字かな交じり文" * 5000,
    "ﬁﬂﬃ ß İ ı",
]


@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_queries_take_bounded_time(index, query):
    index.correct("spreme")
    started = time.process_time()
    assert isinstance(index.correct(query), str)
    assert isinstance(index.suggest(query), list)
    assert time.process_time() - started < 3


def test_words_are_kept_in_the_cache_and_of_large_segments_a_part_is_read(index, cache, monkeypatch):
    index.correct("spreme")
    [kept] = [path for path in (cache / "telerank" / "words").iterdir() if path.is_dir()]
    index.delete("1")
    index.correct("spreme")
    assert [path for path in (cache / "telerank" / "words").iterdir() if path.is_dir()] == [kept]
    monkeypatch.setattr(lexicon, "CHARACTERS", 100)
    part = Lexicon(index.sparse)
    assert 0 < len(part.words) < len(open_lexicon(index.sparse).words)


def test_entries_are_ordered_as_a_plain_count_has_them(tmp_path):
    random = Random(7)
    docs = [
        Doc(f"d{n}", " ".join(f"wo{random.choice('abéè')}{random.choice('xyz')}" for _ in range(5)))
        for n in range(99)
    ]
    built = tr.index(docs[:60], tmp_path / "idx", workers=1, analyzer="standard")
    built.add(docs[60:], workers=1)
    counts = {}
    for doc in docs:
        for word in set(doc.text.split()):
            counts[word] = counts.get(word, 0) + 1
    expected = sorted(
        ((w, c) for w, c in counts.items() if fold(w).startswith("woe")), key=lambda p: (-p[1], p[0])
    )
    assert open_lexicon(built.sparse).words_starting("woe", 50) == expected
    assert open_lexicon(built.sparse).words == counts
    assert correct(built.sparse, "wooaxx") in ("woax", "wooaxx")
    assert suggest(built.sparse, "woe", 50)[0].documents == expected[0][1]
