"""JSON lines: documents as they stand, and lines that are no documents named."""

from __future__ import annotations

import gzip
import json
import lzma
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telerank.corpus.formats import open_collection
from telerank.corpus.readers.jsonl import read_docs
from telerank.errors import CollectionError, FormatError
from telerank.types import Doc, Qrel, Query

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


def lines(path: Path, *records: object) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(TEXT, TEXT, TEXT, TEXT), max_size=10), st.booleans())
def test_what_json_holds_is_read_back(records, escaped):
    docs = [Doc(*record) for record in records]
    text = "".join(
        json.dumps({"docno": d.docno, "text": d.text, "title": d.title, "url": d.url}, ensure_ascii=escaped)
        + "\n"
        for d in docs
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "docs.jsonl"
        path.write_text(text, encoding="utf-8", newline="\n")
        assert list(read_docs(path)) == docs


@pytest.mark.parametrize("docno", ["docno", "_id", "id", "doc_id", "docid"])
@pytest.mark.parametrize("text", ["text", "contents", "content", "body"])
def test_docno_and_text_have_several_names(tmp_path, docno, text):
    path = lines(
        tmp_path / "x.jsonl", {docno: "7", text: "words", "title": None, "other": [1]}, {docno: 8, text: ""}
    )
    assert list(read_docs(path)) == [Doc("7", "words"), Doc("8", "")]
    assert open_collection(path).format == "jsonl"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{", "a JSON object"),
        ('["a"]', "a JSON object, got"),
        ('{"text": "x"}', "a docno as docno or _id"),
        ('{"id": true, "text": "x"}', "a docno as docno or _id"),
        ('{"id": 1.5, "text": "x"}', "a docno as docno or _id"),
        ('{"id": "a"}', "a string as text or contents"),
        ('{"id": "a", "text": null}', "a string as text or contents"),
        ('{"id": "a", "text": "x", "title": 3}', "a string as title"),
        (
            '{"id": "a", "text": "smile \\ud83d"}',
            r"whole characters, got 'half of a surrogate pair, U\+D83D'",
        ),
        ("[" * 100_000, "a JSON object"),
    ],
)
def test_a_line_that_is_no_document_is_named(tmp_path, line, expected):
    path = tmp_path / "x.jsonl"
    path.write_text(
        '{"id": "a", "text": "pairs \\ud83d\\ude00 and \\\\ud83d"}\n\n' + line + "\n", encoding="utf-8"
    )
    docs = read_docs(path)
    assert next(docs).text == "pairs 😀 and \\ud83d"
    with pytest.raises(FormatError, match=rf"x\.jsonl:3: expected {expected}"):
        next(docs)


@pytest.mark.parametrize("pack", [gzip, lzma], ids=["gz", "xz"])
def test_packed_files_are_read_and_damaged_ones_named(tmp_path, pack):
    path = tmp_path / f"docs.jsonl.{'gz' if pack is gzip else 'xz'}"
    held = pack.compress(b"".join(b'{"id": "%d", "text": "x"}\n' % number for number in range(1000)))
    path.write_bytes(held)
    assert sum(1 for _ in open_collection(path).docs()) == 1000
    path.write_bytes(held[: len(held) // 2])
    with pytest.raises(FormatError, match=r"docs\.jsonl"):
        list(read_docs(path))


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id": "a", "text": "x"}\r\n{"id": "b", "text": "y"}\r\n')
    assert list(open_collection(path).docs()) == [Doc("a", "x"), Doc("b", "y")]


def test_other_encodings_must_be_named(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes('{"id": "a", "text": "plain"}\n{"id": "b", "text": "été"}\n'.encode("latin-1"))
    with pytest.raises(
        FormatError,
        match=r"x\.jsonl:2: expected utf-8 text .*--encoding latin-1\), got 'byte 0xe9 at position 22",
    ):
        list(open_collection(path).docs())
    assert [doc.text for doc in open_collection(path, encoding="latin-1").docs()] == ["plain", "été"]
    for wrong, message in (
        ("utf-16", "convert the files to UTF-8 first"),
        ("klingon", "unknown encoding 'klingon'"),
    ):
        with pytest.raises(CollectionError, match=message):
            list(open_collection(path, encoding=wrong).docs())


def test_a_folder_may_hold_queries_and_qrels_beside_the_documents(tmp_path):
    lines(tmp_path / "b.jsonl", {"id": "2", "text": "y"})
    lines(tmp_path / "a.jsonl", {"id": "1", "text": "x"})
    lines(tmp_path / "queries.dev.jsonl", {"_id": "q", "text": "which"})
    (tmp_path / "qrels.dev.tsv").write_text("query-id\tcorpus-id\tscore\nq\t2\t1\n")
    collection = open_collection(tmp_path)
    assert (collection.format, collection.splits) == ("jsonl", ("dev",))
    assert [doc.docno for doc in collection.docs()] == ["1", "2"]
    assert list(collection.split_queries()) == [Query("q", "which")]
    assert list(collection.split_qrels()) == [Qrel("q", "2", 1)]


def test_a_collection_can_be_read_again_from_its_beginning(tmp_path):
    collection = open_collection(lines(tmp_path / "x.jsonl", {"id": "1", "text": "x"}))
    assert list(collection.docs()) == list(collection.docs()) == [Doc("1", "x")]


def test_queries_and_qrels_without_a_split_are_one(tmp_path):
    lines(tmp_path / "docs.jsonl", {"id": "1", "text": "x"})
    lines(tmp_path / "queries.jsonl", {"_id": "q", "text": "which"})
    (tmp_path / "qrels.tsv").write_text("q\t1\t1\n")
    collection = open_collection(tmp_path)
    assert (collection.format, collection.splits) == ("jsonl", ("all",))
    assert list(collection.split_queries()) == [Query("q", "which")]
    assert list(collection.split_qrels()) == [Qrel("q", "1", 1)]
    assert [doc.docno for doc in collection.docs()] == ["1"]


def test_one_file_of_queries_serves_all_splits(tmp_path):
    lines(tmp_path / "docs.jsonl", {"id": "1", "text": "x"})
    lines(tmp_path / "queries.jsonl", {"_id": "a", "text": "which"}, {"_id": "b", "text": "what"})
    for split, qid in (("dev", "a"), ("test", "b")):
        (tmp_path / f"qrels.{split}.tsv").write_text(f"{qid}\t1\t1\n")
    collection = open_collection(tmp_path)
    assert list(collection.split_queries("dev")) == [Query("a", "which")]
    assert list(collection.split_queries("test")) == [Query("b", "what")]


def test_queries_alone_have_the_split_all(tmp_path):
    path = lines(tmp_path / "queries.jsonl", {"_id": "q", "text": "which"})
    assert open_collection(path).splits == ("all",)
    assert open_collection(tmp_path).splits == ("all",)


def test_a_repeated_key_is_refused_at_any_depth(tmp_path):
    for record in (
        '{"id": "a", "text": "x", "text": "y"}',
        '{"id": "a", "text": "x", "o": [{"k": 1, "k": 1}]}',
    ):
        (tmp_path / "x.jsonl").write_text(record)
        with pytest.raises(
            FormatError, match=r"x\.jsonl:1: expected a JSON object .the key '(text|k)' comes twice"
        ):
            list(read_docs(tmp_path / "x.jsonl"))
