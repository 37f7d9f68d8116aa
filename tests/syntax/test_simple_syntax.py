"""The simple syntax: what each part does, against Python's own logic, the laws, and hostile queries."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import telerank as tr
from telerank.sparse.writer import IndexWriter
from telerank.syntax import matching
from telerank.syntax.parser import parse_typed
from telerank.syntax.reading import read_typed
from telerank.testing import check_stage
from telerank.types import Doc, Query

DOCS = [
    Doc("lost", "Une carte d’identité perdue se déclare à la mairie.", "Carte d’identité", columns={"type": "fiche", "year": 2020}),
    Doc("fee", "Le prix d'une carte grise. La carte vitale est gratuite.", "Prix", columns={"type": "fiche", "year": 2024}),
    Doc("news", "La mairie annonce une carte d'électeur et l'identité numérique.", "Annonce", columns={"type": "news"}),
    Doc("pass", "Le passeport volé ou perdu.", "Passeport", columns={"type": "fiche", "topics": ["voyage"]}),
    Doc("visa", "Le passeport et le visa pour un voyage.", "Visa", columns={"type": "news", "topics": ["voyage", "étranger"]}),
]  # fmt: skip


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> tr.Index:
    """Two segments, one document deleted."""
    folder = tmp_path_factory.mktemp("syntax") / "index"
    tr.index(DOCS[:3], folder, analyzer="french", workers=1, progress=False)
    with IndexWriter(folder, workers=1) as writer:
        writer.add([*DOCS[3:], Doc("gone", "passeport perdu", "Passeport", columns={"type": "fiche"})])
        writer.delete(["gone"])
    return tr.open(folder)


def hits(index: tr.Index, query: str) -> set[str]:
    return {*index.simple().search(query).docnos}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('"carte d\'identité"', {"lost"}),
        ("«\u00a0Carte d’Identité\u00a0»", {"lost"}),
        ('"carte identité"', {"lost"}),  # the analyzer takes the article off
        ('"identité carte"', set()),
        ('"volé ou perdu"', {"pass"}),
        ('"volé et perdu"', set()),  # stop words count in a phrase
        ('carte -"carte vitale"', {"lost", "news"}),
        ("passeport -visa", {"pass"}),
        ("passeport NOT visa", {"pass"}),
        ("passeport SAUF visa", {"pass"}),
        ("carte AND mairie", {"lost", "news"}),
        ("carte ET mairie SAUF électeur", {"lost"}),
        ("perdu OU visa", {"lost", "pass", "visa"}),
        ("(perdu OR visa) AND passeport", {"pass", "visa"}),
        ("passeport AND (perdu OR (visa AND voyage))", {"pass", "visa"}),
        ("title:passeport", {"pass"}),
        ("titre:carte", {"lost"}),
        ('title:"carte identité" perdue', {"lost"}),
        ("title:pass*", {"pass"}),
        ("mairie -title:annonce", {"lost"}),
        ("pass*", {"pass", "visa"}),
        ("ident* AND mairie", {"lost", "news"}),
        ("idént*", {"lost", "news"}),
        ("type:fiche", {"lost", "fee", "pass"}),
        ("type:fiche carte", {"lost", "fee"}),
        ("carte -type:fiche", {"news"}),
        ("year:>=2021", {"fee"}),
        ("topics:voyage visa", {"visa"}),
        ('topics:"étranger"', {"visa"}),
        ("-type:fiche", {"news", "visa"}),
        ("-carte -visa", {"pass"}),
        ("docno:lost OR docno:visa", {"lost", "visa"}),
        ("NOT NOT passeport", {"pass", "visa"}),
        ("carte vitale", {"lost", "fee", "news"}),  # words alone only rank
        ("(carte) vitale", {"lost", "fee", "news"}),
        ("carte -(mairie OR vitale)", set()),
        ("carte AND (mairie -électeur)", {"lost"}),
    ],
)  # fmt: skip
def test_each_part_does_what_it_says(index, query, expected):
    assert hits(index, query) == expected
    for docno in expected:
        explained = index.simple().explain(query, docno)
        assert explained.value == dict(index.simple().search(query))[docno]


def test_words_rank_as_they_do_without_syntax(index):
    plain, typed = index.bm25(), index.simple()
    for query in ("passeport perdu", "la carte (vitale)", "e-mail http://x.y/z 12:30", "a - b", ""):
        assert typed.search(query) == plain.search(query)
    among = index.bm25().where('docno in ["lost", "pass"]').search("passeport perdu")
    assert typed.search('passeport "perdu"').docnos == among.docnos
    assert typed.search('passeport "perdu"').scores.tolist() == among.scores.tolist()


def test_conditions_hold_before_any_cut(index):
    assert (index.simple(index.bm25() % 1)).search("carte type:news").docnos == ("news",)
    assert (index.simple() % 1).search("-type:fiche").docnos == ("visa",)


words = st.sampled_from(["carte", "mairie", "passeport", "visa", "perdu", "zzz"])
TERMS = {"carte": "cart", "mairie": "mair", "passeport": "passeport", "visa": "vis", "perdu": "perdu"}


def _join(parts, sign, holds):
    return sign.join(f"({text})" for text, _ in parts), lambda terms: holds(has(terms) for _, has in parts)


expressions = st.recursive(
    words.map(lambda word: (word, lambda terms: TERMS.get(word, word) in terms)),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: _join(parts, " AND ", all)),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: _join(parts, " OU ", any)),
        inner.map(lambda pair: (f"NOT ({pair[0]})", lambda terms: not pair[1](terms))),
    ),
    max_leaves=8,
)


@given(expressions)
def test_operators_select_the_documents_for_which_the_expression_is_true(index, expression):
    text, holds = expression
    read = read_typed(index.sparse, text)
    if read.chosen is None:
        assert set(text) & {*"()"} or text in TERMS or text == "zzz"
        return
    expected = {doc.docno for doc in index.docs.values() if holds({*index.analyzer(doc.full_text)})}
    passing = {docno for docno in index.docs if read.chosen.tree.passes(docno)}
    assert passing == expected


def test_it_obeys_the_laws_and_reads_back_from_its_text(index):
    texts = ('"carte vitale"', "", "passeport -visa", "type:fiche", "carte AND mairie", '"open')
    queries = [Query(str(number), text) for number, text in enumerate(texts)]
    for stage in (index.simple(), index.simple(index.bm25() % 3) % 2):
        check_stage(stage, queries)
        assert tr.pipeline(repr(stage), index) == stage


def test_what_cannot_be_read_is_searched_as_words_and_says_why(index):
    for query, problem in (
        ('passeport "perdu', 'a quotation mark " that is not closed'),
        ("passeport AND", "expected a word after AND"),
        ("OR passeport", "expected a word before OR"),
        ("passeport (-perdu", "'(' without ')'"),
        ("passeport year:perdu", "the column year is a number"),
        ("passeport ce-la*", "expected the beginning of one word"),
        (f'passeport "{"mot " * 51}"', "more than 50 words"),
    ):
        read = index.simple().read(Query("1", query))
        assert problem in read.problem
        assert read.words == query
        assert index.simple().search(query).docnos == index.bm25().search(query).docnos
    notes = index.simple().read(Query("1", "typ:fiche pa*s -visa")).remarks
    assert "'typ': is no column of the documents; did you mean 'type'?" in notes
    assert "'pa*s': * counts at the end of a word, behind two letters" in notes
    assert index.simple().read(Query("1", '"le" -visa')).remarks == [
        '"le": has no term, and stands for nothing'
    ]


def test_explanations_say_what_each_part_did(index):
    explained = index.simple().explain('"carte vitale" -mairie title:prix year:2024', "fee")
    assert explained.what == 'fulfils the expression "carte vitale" -mairie title:prix year:2024'
    assert [(part.value, part.what) for part in explained.parts[1:]] == [
        (1.0, "'\"carte vitale\"': in the document"),
        (0.0, "'mairie': not in the document"),
        (1.0, "'title:prix': in the document"),
        (1.0, "'year:2024': so is the document"),
    ]
    with pytest.raises(KeyError):
        index.simple().explain('"carte vitale"', "lost")
    parts = index.simple().read(Query("1", 'pass* -visa type:fiche "le"')).parts
    assert [(part.text, part.effect, part.documents) for part in parts] == [
        ("pass*", "ranks", None),
        ("visa", "excludes", 1),
        ("type:fiche", "requires", 3),
        ('"le"', "nothing", None),
    ]
    for query, effects in (
        ("passeport AND (perdu OR visa)", ["requires", "alternative", "alternative"]),
        ("NOT (perdu OR visa)", ["excludes", "excludes"]),
        ("NOT (perdu AND NOT visa)", ["alternative", "alternative"]),
    ):
        assert [part.effect for part in index.simple().read(Query("1", query)).parts] == effects
    assert parts[0].terms == ("passeport",)


def test_beginnings_are_bounded_and_counted(index, monkeypatch):
    assert index.simple().read(Query("1", "vi* AND passeport")).parts[0].terms == ("vis", "vital")
    monkeypatch.setattr(matching, "MOST_TERMS", 1)
    read = index.simple().read(Query("1", "vi* AND passeport"))
    assert (read.parts[0].terms, read.parts[0].many) == (("vis",), 2)
    assert read.remarks == ["vi*: 1 of 2 terms that begin so"]
    monkeypatch.setattr(matching, "_MOST_BEGINNING", 0)
    assert "write more of it" in index.simple().read(Query("1", "ca* OR vi*")).problem


def test_positions_find_the_same_phrases_and_leave_less_to_read(index, tmp_path):
    placed = tr.index(DOCS, tmp_path / "placed", analyzer="french", positions=True, workers=1, progress=False)
    phrases = ('"carte d\'identité"', '"identité carte"', '"volé ou perdu"', '"volé et perdu"', '"carte vitale"',
               'title:"carte identité" perdue', 'carte -"carte vitale"', '"passeport et le visa"')  # fmt: skip
    for phrase in phrases:
        assert hits(placed, phrase) == hits(index, phrase)
    part = parse_typed('"vitale carte"', {}).steps[0]
    read, placed_read = (matching.PartMatcher(each.sparse, left=0) for each in (index, placed))
    assert not read.select(part, 0).any()
    assert not placed_read.select(part, 0).any()
    assert read.unread
    assert not placed_read.unread


def test_phrases_are_read_up_to_a_bound_which_is_told(index, monkeypatch):
    monkeypatch.setattr(matching, "MOST_READ", 0)
    matcher = matching.PartMatcher(index.sparse, left=0)
    part = parse_typed('"carte vitale"', {}).steps[0]
    assert not matcher.select(part, 0).any()
    assert matcher.unread == {'"carte vitale"': 1}


def test_a_view_tells_nothing_of_other_documents(index):
    view = index.within('type == "news"')
    assert {*view.simple().search("passeport").docnos} == {"visa"}
    read = view.simple().read(Query("1", "pass* AND perd* -fiche"))
    assert read.parts[0].documents == 1
    assert read.parts[1].terms == ()
    assert {*view.simple().search("-zzz").docnos} == {"news", "visa"}
    assert {*view.simple().search('"volé ou perdu" OR voyage').docnos} == {"visa"}


HOSTILE = [
    "(" * 10_000 + "passeport" + ")" * 10_000,
    "(" * 100_000,
    "-(" * 10_000 + "passeport" + ")" * 10_000,
    "passeport AND " * 7_000 + "visa",
    "passeport OR (visa AND " * 4_000 + "carte" + ")" * 4_000,
    "NOT " * 25_000 + "passeport",
    '"' * 100_000,
    "«" * 100_000,
    '"passeport ' * 9_000,
    "-passeport " * 9_000,
    "x:y " * 25_000,
    "pa* " * 25_000,
    "a" * 100_000 + "*",
    ":" * 100_000,
    "-" * 100_000,
    "*" * 100_000,
    "\u202e\u200b\ufeff" * 30_000,
    "😀 AND 漢字 OR e\u0301\u0301\u0301*" * 3_000,
    "\0 AND \x1b\u2028 -\u0000",
    "\ud800 AND \udfff*",
    "İstanbul* AND ﬁn* -ǅ*",
]


@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_queries_are_answered_in_bounded_time(index, query):
    started = time.process_time()
    index.simple().search(query)
    assert time.process_time() - started < 5


def test_queries_of_files_are_words_to_the_byte_without_the_syntax(index, tmp_path):
    queries = {
        "1": '"carte vitale" -mairie',
        "2": "title:prix AND type:fiche",
        "3": "pass* OR (visa",
        "4": "docno:lost NOT perdue",
    }
    tr.search(index, queries, progress=False).save(str(tmp_path / "run"))
    lines = []
    for qid, text in queries.items():
        ranked = (index.bm25() % 1000).search(Query(qid, text))
        lines += [
            f"{qid} Q0 {docno} {rank} {score!r} telerank" for rank, (docno, score) in enumerate(ranked, 1)
        ]
    saved = [line.split() for line in (tmp_path / "run").read_text().splitlines()]
    assert [line[:4] for line in saved] == [line.split()[:4] for line in lines]
    assert [float(line[4]) for line in saved] == [float(line.split()[4]) for line in lines]
    tr.search(index, queries, syntax="none", progress=False).save(str(tmp_path / "none"))
    assert (tmp_path / "none").read_bytes() == (tmp_path / "run").read_bytes()
    tr.search(index, queries, syntax="simple", progress=False).save(str(tmp_path / "simple"))
    assert (tmp_path / "simple").read_bytes() != (tmp_path / "run").read_bytes()
