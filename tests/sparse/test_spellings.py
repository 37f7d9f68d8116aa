"""Words of a query in the spellings of an index: with other accents, or without."""

from __future__ import annotations

from pathlib import Path

import pytest

import telerank as tr
from telerank.sparse.segment import Terms, write_terms
from telerank.sparse.spellings import find_spellings, respell
from telerank.text.steps import fold_accents
from telerank.types import Doc
from telerank.verbs.index import add_documents

DOCS = [
    Doc("1", "L’école primaire, la sécurité et l’activité des employées. École !"),
    Doc("2", "La côte de la pêche, le péché ; l’œuvre naïve."),
    Doc("3", "Un cafe, une crème brulee, dans la généralité. La côte et les côtes."),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spellings") / "idx"
    tr.index(DOCS[:2], folder, workers=1, analyzer="french")
    add_documents(folder, DOCS[2:])
    return tr.open(folder).sparse


@pytest.mark.parametrize(
    ("query", "respelled"),
    [
        ("ecole", "école"),
        ("  L'ecole, ou la securite ?", "  L'école, ou la sécurité ?"),
        ("ACTIVITES", "activités"),
        ("l’oeuvre naive", "l’oeuvre naïve"),
        ("generalite", "généralité"),
        ("employees", "employées"),
        ("café crème brûlée", "café crème brulee"),
        ("ecole zebre", "école zebre"),
        ("école", "école"),
        ("zebre", "zebre"),
        ("le la de", "le la de"),
        ("", ""),
    ],
)
def test_a_word_that_no_document_holds_is_spelled_as_in_the_index(index, query: str, respelled: str):
    assert respell(index, query) == respelled


def test_several_spellings_stand_side_by_side_the_most_frequent_first(tmp_path: Path):
    docs = [Doc("1", "côté"), Doc("2", "cote", ""), Doc("3", "côté cotê"), Doc("4", "cotê"), Doc("5", "côté")]
    tr.index(docs, tmp_path / "idx", workers=1, analyzer="standard")
    index = tr.open(tmp_path / "idx").sparse
    assert find_spellings(index, "cóte") == ["côté", "cotê", "cote"]
    assert respell(index, "cóte") == "côté cotê cote"
    assert respell(index, "cote") == "cote"


def test_respelled_words_are_found(index):
    for word in ("ecole", "securite", "activites", "generalite", "brulée"):
        assert tr.open(index.folder).bm25().search(respell(index, word)).docnos


def test_terms_that_differ_in_accents_are_all_found(tmp_path: Path):
    words = [
        "a",
        "ab",
        "cote",
        "coté",
        "cotz",
        "côte",
        "côté",
        "e\u0323\u0302te",
        "zoé",
        "ß",
        "école",
        "日本",
    ]
    write_terms(tmp_path, sorted(words, key=str.encode))
    terms = Terms(tmp_path)
    for bare in {*map(fold_accents, words), "", "zz"}:
        expected = sorted(word for word in words if fold_accents(word) == bare and word != bare)
        assert sorted(terms.find_accented(bare)) == expected
    write_terms(tmp_path, [])
    assert Terms(tmp_path).find_accented("cote") == []
