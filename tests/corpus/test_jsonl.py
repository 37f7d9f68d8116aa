from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path

import pytest

from telerank.corpus.formats import open_collection
from telerank.corpus.readers.plain import read_docs
from telerank.errors import CollectionError, FormatError
from telerank.types import Doc, Qrel, Query


def lines(path: Path, *records: object) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


def test_docno_and_text_have_several_names(tmp_path):
    for docno in ("docno", "_id", "id", "doc_id", "docid"):
        for text in ("text", "contents", "content", "body"):
            first = {docno: "7", text: "words", "title": None, "other": [1]}
            path = lines(tmp_path / "x.jsonl", first, {docno: 8, text: ""})
            assert list(read_docs(path)) == [Doc("7", "words", columns={"other": [1]}), Doc("8", "")]
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
        ('{"id": "a", "text": "smile \\ud83d"}', r"whole characters, got 'half of a surr.* U\+D83D'"),
        ('{"id": "a", "text": "x", "text": "y"}', "a JSON object .the key 'text' comes twice"),
        ('{"id": "a", "text": "x", "o": [{"k": 1, "k": 1}]}', "a JSON object .the key 'k' comes twice"),
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


def test_other_encodings_must_be_named(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes('{"id": "a", "text": "plain"}\n{"id": "b", "text": "été"}\n'.encode("latin-1"))
    said = r"x\.jsonl:2: expected utf-8 text .*encoding=.latin-1.\), got 'byte 0xe9 at position 22"
    with pytest.raises(FormatError, match=said):
        list(open_collection(path).docs())
    assert [doc.text for doc in open_collection(path, encoding="latin-1").docs()] == ["plain", "été"]
    wrong = {"utf-16": "convert the files to UTF-8 first", "klingon": "unknown encoding 'klingon'"}
    for encoding, message in wrong.items():
        with pytest.raises(CollectionError, match=message):
            list(open_collection(path, encoding=encoding).docs())


def test_a_folder_may_hold_queries_and_qrels_beside_the_documents(tmp_path):
    lines(tmp_path / "b.jsonl", {"id": "2", "text": "y"})
    lines(tmp_path / "a.jsonl", {"id": "1", "text": "x"})
    lines(tmp_path / "queries.dev.jsonl", {"_id": "q", "text": "which"})
    (tmp_path / "qrels.dev.tsv").write_text("query-id\tcorpus-id\tscore\nq\t2\t1\n")
    collection = open_collection(tmp_path)
    assert (collection.format, collection.splits) == ("jsonl", ("dev",))
    for _ in range(2):  # each reading begins anew
        assert [doc.docno for doc in collection.docs()] == ["1", "2"]
    assert list(collection.split_queries()) == [Query("q", "which")]
    assert list(collection.split_qrels()) == [Qrel("q", "2", 1)]


def test_queries_and_qrels_without_a_split_are_one_and_one_file_of_queries_serves_all_splits(tmp_path):
    path = lines(tmp_path / "queries.jsonl", {"_id": "a", "text": "which"}, {"_id": "b", "text": "what"})
    assert open_collection(path).splits == open_collection(tmp_path).splits == ("all",)
    lines(tmp_path / "docs.jsonl", {"id": "1", "text": "x"})
    (tmp_path / "qrels.tsv").write_text("a\t1\t1\n")
    collection = open_collection(tmp_path)
    assert (collection.format, collection.splits) == ("jsonl", ("all",))
    assert list(collection.split_queries()) == [Query("a", "which"), Query("b", "what")]
    assert list(collection.split_qrels()) == [Qrel("a", "1", 1)]
    assert list(collection.docs()) == [Doc("1", "x")]
    (tmp_path / "qrels.tsv").unlink()
    for split, qid in (("dev", "a"), ("test", "b")):
        (tmp_path / f"qrels.{split}.tsv").write_text(f"{qid}\t1\t1\n")
    collection = open_collection(tmp_path)
    assert list(collection.split_queries("dev")) == [Query("a", "which")]
    assert list(collection.split_queries("test")) == [Query("b", "what")]
