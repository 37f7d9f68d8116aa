"""Documents of two languages in one index: detection, a column, queries that are sure or not."""

from __future__ import annotations

import pickle

import pytest

import telerank as tr
from commands import ok
from telerank.errors import AnalyzerError
from telerank.text import Analyzer
from telerank.text.analyzer import locate_terms
from telerank.types import Doc

BOTH = "language(fr=french, en=english)"
DOCS = [
    Doc("fr1", "Les travailleurs indépendants déclarent leurs revenus à l’administration fiscale.", "Impôts"),
    Doc("fr2", "Le passeport est valable dix ans et coûte quatre-vingt-six euros à la mairie.", "Passeport"),
    Doc("en1", "Workers who are self-employed declare their earnings to the tax administration.", "Taxes"),
    Doc("en2", "A passport is valid for ten years, and costs eighty-six euros at the town hall.", "Passport"),
]


@pytest.fixture(scope="module")
def analyzer() -> Analyzer:
    return Analyzer.parse(BOTH)


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> tr.Index:
    folder = tmp_path_factory.mktemp("languages") / "index"
    return tr.index(DOCS, folder, analyzer=BOTH, workers=1, progress=False)


def test_each_document_has_the_terms_of_its_language(analyzer):
    for doc in DOCS:
        own = Analyzer.parse("french" if doc.docno.startswith("fr") else "english")
        assert analyzer(doc.full_text) == own(doc.full_text)
    assert analyzer(DOCS[0].full_text) != Analyzer.parse("english")(DOCS[0].full_text)


def test_its_text_form_reads_back_and_names_what_decides_the_terms(analyzer):
    assert str(analyzer) == f"nfkc|casefold|{BOTH}"
    assert Analyzer.parse(str(analyzer)) == analyzer == Analyzer.parse("language( fr = french ,en=english )")
    assert pickle.loads(pickle.dumps(analyzer)) == analyzer
    quoted = Analyzer.parse("language(fr='nfkc|casefold|words|stop(french)', en=english)|asciifold")
    assert quoted("Les impôts sont dus à la fin de l'année par tous") == [
        "impots",
        "dus",
        "fin",
        "l'annee",
        "tous",
    ]
    prints = {
        each.fingerprint() for each in (analyzer, quoted, Analyzer.parse("french"), Analyzer.parse("english"))
    }
    assert len(prints) == 4


def test_a_query_that_is_sure_has_one_language_and_others_have_all(analyzer):
    sure = "comment déclarer les revenus d'un travailleur indépendant ?"
    assert next(iter(analyzer.languages(sure).items()))[1] > 0.9
    assert analyzer.query(sure) == Analyzer.parse("french")(sure)
    [(_, share), _] = analyzer.languages("relations").items()
    assert share < 0.9
    assert analyzer.query("relations") == ["relat"]  # both make the same term, which counts once
    assert set(analyzer.query("universités")) >= {*Analyzer.parse("french")("universités")}
    assert Analyzer.parse("french").languages(sure) == {}


def test_one_index_finds_both_languages_with_comparable_scores(index):
    assert index.bm25().search("les revenus des travailleurs indépendants").docnos[0] == "fr1"
    assert index.bm25().search("earnings of workers who are self-employed").docnos[0] == "en1"
    found = index.bm25().search("passeport passport")
    assert {*found.docnos} == {"fr2", "en2"}
    explained = index.bm25().explain("passeport passport", "en2")
    assert any("passport" in part.what for part in explained.parts)
    assert {*index.bm25().search("administration").docnos} == {"fr1", "en1"}
    assert index.sparse.statistics.documents == 4


def test_workers_make_the_same_index(index, tmp_path):
    other = tr.index(DOCS, tmp_path / "other", analyzer=BOTH, workers=1, progress=False)
    terms = [[segment.terms[n] for n in range(len(segment.terms))] for segment in other.sparse.segments]
    assert terms == [
        [segment.terms[n] for n in range(len(segment.terms))] for segment in index.sparse.segments
    ]


def test_a_column_sets_the_language_of_a_document(tmp_path):
    docs = [
        Doc("1", "universités nationales", columns={"lang": "en"}),
        Doc("2", "universités nationales", columns={"lang": "fr-CA"}),
        Doc("3", "universités nationales", columns={"lang": "de"}),
    ]
    index = tr.index(
        docs,
        tmp_path / "index",
        analyzer="language(fr=french, en=english, column=lang)",
        workers=1,
        progress=False,
    )
    french, english = (set(Analyzer.parse(name)("universités nationales")) for name in ("french", "english"))
    assert french != english
    for term in english - french:
        assert index.sparse.term(term).df == 1
    counts = {docno: index.analyzer(index.analyzer.mark(index[docno])) for docno in "12"}
    assert (set(counts["1"]), set(counts["2"])) == (english, french)


def test_places_and_phrases_are_found_in_either_language(analyzer, index):
    text = DOCS[0].text
    places = {
        place.term: text[place.start : place.end]
        for place in locate_terms(analyzer, text, {"travailleur", "administr"})
    }
    assert places == {"travailleur": "travailleurs", "administr": "administration"}
    assert {*index.simple().search('"administration fiscale"').docnos} == {"fr1"}
    assert {*index.simple().search('"tax administration"').docnos} == {"en1"}
    assert {*index.simple().search("title:passport OR title:impôts").docnos} == {"en2", "fr1"}
    assert {*index.simple().search("pass* AND euros").docnos} == {"fr2", "en2"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("language(fr=french)", "two or more languages"),
        ("language(french, english)", "expected languages with analyzers"),
        ("language(fr=french, fr=english)", "expected languages with analyzers"),
        ("language(fr=french, xx=english)", "unknown language"),
        ("language(fr=french, en=none)", "must be the same"),
        ("nfc|language(fr=french, en=english)", "leave out others"),
        ("language(fr=french, en=englich)", "englich"),
        ("language(fr=french, en='language(fr=french, en=english)')", "the tokenizer is words"),
    ],
)
def test_a_wrong_analyzer_is_refused_in_one_line(text, says):
    with pytest.raises(AnalyzerError) as caught:
        Analyzer.parse(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_command_says_that_a_language_is_not_sure(index):
    for query, unsure in (("relations", True), ("comment déclarer mes revenus d'indépendant", False)):
        said = ok(f"search {index.folder} -k 1 --no-spelling -q", query).stderr
        assert ("language not sure (" in said) == unsure
    assert '"languages"' in ok(f"search {index.folder} -q relations --json").stdout
