"""A collection in another format is the same collection, or the notes say what is not."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telerank.corpus.collection import Collection
from telerank.corpus.formats import open_collection
from telerank.corpus.writing import WRITERS, convert
from telerank.errors import CollectionError, DocumentError, FormatError
from telerank.types import Answer, Doc, Qrel, Query, Ranking

WORDS = st.lists(st.text("abé<>&;'\"%", min_size=1, max_size=4), max_size=4).map(" ".join)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
FIELD = st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=("Cs",)), max_size=12)
TEXTS = {"beir": TEXT, "jsonl": TEXT, "msmarco": FIELD, "trec": WORDS}
"""What each format keeps: SGML does not keep every blank."""
NAME = st.text("abcé0-_.", min_size=1, max_size=5)
DOCS = (Doc("d1", "one & <two>", "Title", "http://a"), Doc("d2", "", ""), Doc("d3", "three"))


def collection(docs=DOCS, *, queries=None, qrels=None, **more) -> Collection:
    queries = {"dev": [Query("q1", "what?"), Query("q2", "l'été")]} if queries is None else queries
    qrels = {"dev": [Qrel("q1", "d1", 1), Qrel("q2", "d3", 2)]} if qrels is None else qrels
    return Collection(
        "made", "memory", lambda: iter(docs),
        {split: lambda held=held: iter(held) for split, held in queries.items()},
        {split: lambda held=held: iter(held) for split, held in qrels.items()},
        **more,
    )  # fmt: skip


@settings(deadline=None, max_examples=100)
@given(st.data(), st.sampled_from(sorted(WRITERS)))
def test_a_collection_is_read_back_equal(data, to):
    texts = TEXTS[to]
    drawn = data.draw(st.dictionaries(NAME, st.tuples(texts, texts), max_size=4))
    docs = [Doc(docno, text, title) for docno, (text, title) in drawn.items()]
    asked = data.draw(st.dictionaries(NAME, texts, min_size=1, max_size=4))
    queries = [Query(qid, text) for qid, text in asked.items()]
    qrels = [Qrel(qid, "d", data.draw(st.integers(-2, 3))) for qid in asked]
    held = collection(docs, queries={"dev": queries}, qrels={"dev": qrels})
    with tempfile.TemporaryDirectory() as folder:
        done = convert(held, Path(folder) / "out", to)
        read = open_collection(Path(folder) / "out", format=to)
        assert (done.docs, done.queries, done.qrels) == (len(docs), len(queries), len(qrels))
        assert (done.notes, read.splits) == ((), ("dev",))
        assert list(read.docs()) == docs
        assert list(read.split_queries()) == queries
        assert list(read.split_qrels()) == qrels


def test_what_a_format_cannot_hold_is_said(tmp_path):
    docs = [Doc("d1", "two\nlines\tand a tab"), Doc("d2", " blanks around ", "two  blanks", "url")]
    made = collection(
        docs,
        answers={"dev": lambda: iter([Answer("q1", "d1", "two", 0)])},
        pools={"dev/5": lambda: iter([Ranking(Query("q1", ""))])},
    )
    always = ("answers are left out: the format has none", "pools are left out: dev/5")
    notes = {to: convert(made, tmp_path / to, to).notes for to in WRITERS}
    assert notes == {
        "beir": ("1 urls are left out: the format has none", *always),
        "jsonl": always,
        "msmarco": ("1 texts had tabs or line ends, which became blanks", *always),
        "trec": ("2 texts had blanks that SGML does not keep", *always),
    }
    assert [doc.text for doc in open_collection(tmp_path / "msmarco").docs()] == [
        "two lines and a tab",
        docs[1].text,
    ]


def test_queries_without_qrels_are_written_and_said(tmp_path):
    queries = {"dev": [Query("q1", "a"), Query("q2", "b")], "eval": [Query("q3", "c")]}
    made = collection([Doc("d1", "x")], queries=queries, qrels={"dev": [Qrel("q1", "d1", 1)]})
    done = convert(made, tmp_path / "out", "beir")
    assert done.notes == (
        "1 queries of dev have no qrels: they are written, but belong to no split",
        "1 queries of eval have no qrels: they are written, but belong to no split",
    )
    assert [query.qid for query in open_collection(tmp_path / "out").split_queries()] == ["q1"]


@pytest.mark.parametrize("to", WRITERS)
def test_documents_alone_are_converted_and_splits_with_a_slash_are_named_for_files(tmp_path, to):
    convert(collection(queries={}, qrels={}), tmp_path / "docs", to)
    assert list(open_collection(tmp_path / "docs", format=to).docs()) == [
        replace(doc, url=doc.url * (to != "beir")) for doc in DOCS
    ]
    held = collection(queries={"dev/small": [Query("q1", "a")]}, qrels={"dev/small": [Qrel("q1", "d1", 1)]})
    convert(held, tmp_path / "out", to)
    read = open_collection(tmp_path / "out")
    assert (read.format, read.splits) == (to, ("dev-small",))


@pytest.mark.parametrize(
    ("made", "error", "message"),
    [
        (collection([Doc("a b", "x")]), DocumentError, "document 1: its docno 'a b'"),
        (
            collection(qrels={"dev": [Qrel("q 1", "d", 1)]}),
            FormatError,
            "a qid that is not empty and has no blank",
        ),
        (collection([Doc("d", "half \ud83d")]), DocumentError, "document 'd' contains a lone surrogate"),
    ],
)
def test_nothing_is_left_where_a_record_cannot_be_written(tmp_path, made, error, message):
    with pytest.raises(error, match=message):
        convert(made, tmp_path / "out", "jsonl")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(CollectionError, match="out: already exists"):
        convert(collection(), tmp_path / "out", "beir")
    with pytest.raises(CollectionError, match="write the format 'warc'; known: beir, jsonl, msmarco, trec"):
        convert(collection(), tmp_path / "new", "warc")
    two = collection(queries={"a": [Query("q", "one")], "b": [Query("q", "two")]}, qrels={})
    with pytest.raises(CollectionError, match="query 'q' has two texts"):
        convert(two, tmp_path / "new", "beir")


def test_progress_is_told(tmp_path):
    told = []
    docs = [Doc(f"d{i}", "x") for i in range(2500)]
    convert(collection(docs, size=2500), tmp_path / "out", "jsonl", progress=lambda *what: told.append(what))
    assert told == [("documents", 1000, 2500), ("documents", 2000, 2500)]


@pytest.mark.data
@pytest.mark.parametrize("to", sorted(WRITERS))
def test_vaswani_survives_every_format(tmp_path, data, to):
    vaswani = open_collection(data / "vaswani")
    convert(vaswani, tmp_path / "out", to)
    read = open_collection(tmp_path / "out")
    same = (lambda text: " ".join(text.split())) if to == "msmarco" else str
    assert [(d.docno, same(d.text)) for d in read.docs()] == [(d.docno, same(d.text)) for d in vaswani.docs()]
    assert list(read.split_queries()) == list(vaswani.split_queries())
    assert list(read.split_qrels()) == list(vaswani.split_qrels())
