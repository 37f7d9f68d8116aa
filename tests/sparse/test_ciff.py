"""CIFF in and out: against messages written by protobuf itself, and files that are made to do harm."""

from __future__ import annotations

import gzip
import json
import lzma
import shutil
import tracemalloc
import warnings

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.encoder import _VarintBytes

import telerank as tr
from telerank.corpus.docstore import Docstore
from telerank.errors import CollectionError, DocumentError, FormatError, IndexFault, MissingWeights
from telerank.sparse.weights.ciff import CiffReader, CiffWeights
from telerank.types import Doc

INT32, INT64, DOUBLE, STRING, MESSAGE = 5, 3, 1, 9, 11
FIELDS = {
    "Header": [
        *(
            (name, INT32)
            for name in ("version", "num_postings_lists", "num_docs", "total_postings_lists", "total_docs")
        ),
        ("total_terms_in_collection", INT64),
        ("average_doclength", DOUBLE),
        ("description", STRING),
    ],
    "Posting": [("docid", INT32), ("tf", INT32)],
    "PostingsList": [("term", STRING), ("df", INT64), ("cf", INT64), ("postings", MESSAGE)],
    "DocRecord": [("docid", INT32), ("collection_docid", STRING), ("doclength", INT32)],
}


@pytest.fixture(scope="session")
def kinds():
    """The classes of the messages, made by protobuf from the published definition."""
    file = descriptor_pb2.FileDescriptorProto(name="ciff.proto", package="ciff", syntax="proto3")
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields, 1):
            made = message.field.add(name=field, number=number, type=kind, label=1)
            if kind == MESSAGE:
                made.type_name, made.label = ".ciff.Posting", 3
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ciff.{name}")) for name in FIELDS
    }


def pack(*messages) -> bytes:
    """Messages behind their lengths."""
    parts = [each if isinstance(each, bytes) else each.SerializeToString() for each in messages]
    return b"".join(_VarintBytes(len(part)) + part for part in parts)


def make_messages(kinds, vectors):
    """The messages of weights by document and term."""
    docids = {docno: number for number, docno in enumerate(vectors)}
    terms = sorted({term for vector in vectors.values() for term in vector})
    header = kinds["Header"](version=1, num_postings_lists=len(terms), num_docs=len(vectors))
    lists = []
    for term in terms:
        held = [(docids[docno], vector[term]) for docno, vector in vectors.items() if term in vector]
        each, last = kinds["PostingsList"](term=term, df=len(held), cf=sum(tf for _, tf in held)), 0
        for docid, tf in held:
            each.postings.add(docid=docid - last, tf=tf)
            last = docid
        lists.append(each)
    records = [
        kinds["DocRecord"](docid=docid, collection_docid=docno, doclength=sum(vectors[docno].values()))
        for docno, docid in docids.items()
    ]
    return header, lists, records


def draw(count, terms=30, seed=1):
    random = np.random.default_rng(seed)
    vectors = {}
    for number in range(count):
        held = random.choice(terms, random.integers(0, min(terms, 12)), replace=False).tolist()
        vectors[f"d{number}"] = {f"té{term}": int(random.integers(1, 300)) for term in held}
    return vectors


def as_docs(vectors):
    return [Doc(docno, "x") for docno in reversed(vectors)]


def read_stored(index):
    """The vectors of an index."""
    stored: dict[str, dict[str, float]] = {}
    for segment in index.sparse.segments:
        file = segment.weights
        for number in range(len(file.offsets) - 1):
            _, rows, tfs = file.read(np.array([number]))
            for row, tf in zip(rows.tolist(), tfs.tolist(), strict=True):
                stored.setdefault(segment.docnos[row], {})[file.term(number)] = tf
    return stored


@pytest.mark.parametrize("name", ["w.ciff", "w.ciff.gz"])
def test_weights_that_protobuf_wrote_are_those_of_the_index(tmp_path, kinds, name):
    vectors = draw(400)
    header, lists, records = make_messages(kinds, vectors)
    content = pack(header, *lists, *reversed(records))
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    index = tr.index(as_docs(vectors), tmp_path / "idx", weights=tmp_path / name)
    assert read_stored(index) == {docno: vector for docno, vector in vectors.items() if vector}
    assert index.sparse.manifest.term_weights.step == 1
    assert not list((tmp_path / "idx" / "segments").glob("*/ciff"))
    lines = (json.dumps({"id": docno, "vector": vector}) for docno, vector in vectors.items())
    (tmp_path / "w.jsonl").write_text("\n".join(lines))
    other = tr.index(as_docs(vectors), tmp_path / "other", weights=tmp_path / "w.jsonl")
    assert list(index.impact().search("té1 té2")) == list(other.impact().search("té1 té2"))


def test_long_lists_come_in_parts(tmp_path, kinds, monkeypatch):
    monkeypatch.setattr("telerank.sparse.weights.ciff._CHUNK", 100)
    monkeypatch.setattr("telerank.sparse.weights.ciff._LONGEST_FIELD", 40)
    vectors = {f"d{number}": {"a": number * 77 % 4000 + 1, "b": 2} for number in range(500)}
    header, lists, records = make_messages(kinds, vectors)
    (tmp_path / "w.ciff").write_bytes(pack(header, *lists, *records))
    with CiffReader(tmp_path / "w.ciff") as reader:
        parts = list(reader.lists())
        assert len(parts) > 10
        assert len(list(reader.records())) == 500
    for number, term in enumerate("ab"):
        own = [part for part in parts if part.number == number]
        assert {part.term for part in own} == {term}
        assert np.concatenate([part.docids for part in own]).tolist() == list(range(500))
        assert np.concatenate([part.tfs for part in own]).tolist() == [v[term] for v in vectors.values()]


@pytest.mark.parametrize("end", [".ciff", ".ciff.gz"])
def test_an_export_is_what_protobuf_reads_and_comes_back(tmp_path, kinds, end):
    vectors = draw(300)
    lines = (json.dumps({"id": docno, "vector": vector}) for docno, vector in vectors.items())
    (tmp_path / "w.jsonl").write_text("\n".join(lines))
    docs = [
        Doc(docno, " ".join(" ".join([t] * (n % 5 + 1)) for t, n in v.items()))
        for docno, v in vectors.items()
    ]
    with pytest.warns(MissingWeights, match="of no document"):
        index = tr.index(docs[:200], tmp_path / "idx", analyzer="none", weights=tmp_path / "w.jsonl")
    with pytest.warns(MissingWeights, match="of no document"):
        index.add(docs[200:], weights=tmp_path / "w.jsonl")
    index.delete(["d7", "d250"])
    left = {docno: vector for docno, vector in vectors.items() if docno not in ("d7", "d250")}
    for weights in (True, False):
        files = [tmp_path / f"{number}{weights}{end}" for number in range(2)]
        for file in files:
            counts = tr.export_ciff(index, file, weights=weights)
        assert files[0].read_bytes() == files[1].read_bytes()
        content = files[0].read_bytes()
        content = gzip.decompress(content) if end.endswith("gz") else content
        expected = left
        if not weights:
            expected = {d: {term: n % 5 + 1 for term, n in v.items()} for d, v in left.items()}
        _, lists, records = make_messages(kinds, expected)
        parsed = kinds["Header"].FromString(content[1 : 1 + content[0]])
        assert parsed.num_docs == parsed.total_docs == counts.documents == 298
        assert parsed.num_postings_lists == counts.terms == len(lists)
        total = sum(sum(vector.values()) for vector in expected.values())
        assert parsed.total_terms_in_collection == total
        assert parsed.average_doclength == total / 298
        assert content[1 + content[0] :] == pack(*lists, *records)
        assert counts.postings == sum(map(len, expected.values()))
        with pytest.warns(MissingWeights, match="2 documents of 300 have no weights"):
            again = tr.index(docs, tmp_path / f"again{weights}", weights=files[0])
        assert read_stored(again) == {docno: vector for docno, vector in expected.items() if vector}


def test_what_cannot_be_exported_is_one_line(tmp_path):
    index = tr.index({"1": "a"}, tmp_path / "idx")
    with pytest.raises(IndexFault, match="has no weights of terms"):
        tr.export_ciff(index, tmp_path / "x.ciff", weights=True)
    index.delete("1")
    with pytest.raises(DocumentError, match="there is no document to export"):
        tr.export_ciff(index, tmp_path / "x.ciff")
    assert not list(tmp_path.glob("x.ciff*"))


def test_documents_of_one_side_alone_are_counted(tmp_path, kinds):
    vectors = draw(20)
    (tmp_path / "w.ciff").write_bytes(pack(make_messages(kinds, vectors)[0], *_rest(kinds, vectors)))
    docs = [*as_docs(vectors)[5:], Doc("new", "x")]
    with pytest.warns(MissingWeights) as warned:
        tr.index(docs, tmp_path / "idx", weights=tmp_path / "w.ciff")
    notes = [str(each.message) for each in warned]
    assert any("5 vectors of no document that is indexed now, such as 'd15'" in note for note in notes)
    assert any("1 document of 16 has no weights of terms" in note for note in notes)


def _rest(kinds, vectors):
    _, lists, records = make_messages(kinds, vectors)
    return *lists, *records


WRONG = {
    "not the version": (lambda m: m[0].__setattr__("version", 2), "version 1, got '2'"),
    "more documents than bytes": (lambda m: m[0].__setattr__("num_docs", 2**31 - 1), "room for"),
    "negative documents": (lambda m: m[0].__setattr__("num_docs", -1), "whole numbers of lists"),
    "one list more": (lambda m: m[0].__setattr__("num_postings_lists", 99), "a term, df|fields of protobuf|"),
    "a df too large": (lambda m: m[1][0].__setattr__("df", 9), "9 postings, as its df says"),
    "no term": (lambda m: m[1][0].__setattr__("term", ""), "a term before its postings"),
    "a term twice": (lambda m: m[1][1].__setattr__("term", m[1][0].term), "one postings list for a term"),
    "a gap beyond": (lambda m: m[1][0].postings[1].__setattr__("docid", 2**31 - 1), "docids below 3"),
    "a negative gap": (
        lambda m: m[1][0].postings[1].__setattr__("docid", -1),
        "postings of a docid and a tf",
    ),
    "no gap": (lambda m: m[1][0].postings[1].__setattr__("docid", 0), "ascending docids"),
    "a negative tf": (lambda m: m[1][0].postings[1].__setattr__("tf", -4), "postings of a docid and a tf"),
    "a large tf": (lambda m: m[1][0].postings[1].__setattr__("tf", 2**24), "a tf below 16,777,216"),
    "a docid twice": (lambda m: m[2][1].__setattr__("docid", 2), "one record for a docid"),
    "a docid beyond": (lambda m: m[2][1].__setattr__("docid", 3), "a docid below 3"),
    "a docno twice": (
        lambda m: m[2][1].__setattr__("collection_docid", "d2"),
        "one record a document, got 'd2'",
    ),
    "no docno": (lambda m: m[2][1].__setattr__("collection_docid", ""), "a docno"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_message_is_one_line(tmp_path, kinds, wrong):
    vectors = {"d0": {"a": 1, "b": 2}, "d1": {"a": 3}, "d2": {"b": 1, "a": 2}}
    messages = make_messages(kinds, vectors)
    change, expected = WRONG[wrong]
    change(messages)
    (tmp_path / "w.ciff").write_bytes(pack(messages[0], *messages[1], *messages[2]))
    with pytest.raises(FormatError, match=expected) as error:
        tr.index(as_docs(vectors), tmp_path / "idx", weights=tmp_path / "w.ciff")
    assert "\n" not in str(error.value)
    assert str(tmp_path / "w.ciff") in str(error.value)
    assert not (tmp_path / "idx" / "manifest.json").exists()


@pytest.fixture
def docstore(tmp_path):
    index = tr.index([Doc(f"d{n}", "x") for n in range(50)], tmp_path / "docs")
    return Docstore(index.sparse.segments[0].folder)


def weigh(path, docstore):
    """What is read of a file; it may leave nothing behind."""
    taken = {}
    try:
        CiffWeights(str(path)).weigh(
            docstore, None, lambda row, w: taken.setdefault(row, w) is w, lambda *_: None
        )
    finally:
        shutil.rmtree(docstore.folder / "ciff", ignore_errors=True)
    return taken


def test_every_truncation_and_every_flipped_byte_is_read_or_one_line(tmp_path, kinds, docstore):
    messages = make_messages(kinds, draw(50, terms=6))
    content, file = pack(messages[0], *messages[1], *messages[2]), tmp_path / "w.ciff"
    for size in range(0, len(content), 7):
        file.write_bytes(content[:size])
        with pytest.raises(FormatError, match=r"w\.ciff: expected "):
            weigh(file, docstore)
    random, refused = np.random.default_rng(3), 0
    for at in random.choice(len(content), 150, replace=False).tolist():
        file.write_bytes(
            content[:at] + bytes([content[at] ^ int(random.integers(1, 256))]) + content[at + 1 :]
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MissingWeights)  # of another docno
            try:
                weigh(file, docstore)
            except FormatError:
                refused += 1
    assert refused > 50
    file.write_bytes(content + b"\0")
    with pytest.raises(FormatError, match="nothing behind the last record"):
        weigh(file, docstore)
    with pytest.raises(CollectionError, match="no such file"):
        weigh(tmp_path / "none.ciff", docstore)


@pytest.mark.parametrize(("end", "pack_file"), [("gz", gzip.compress), ("xz", lzma.compress)])
def test_a_damaged_archive_is_one_line(tmp_path, kinds, docstore, end, pack_file):
    messages = make_messages(kinds, draw(50, terms=6))
    content = pack_file(pack(messages[0], *messages[1], *messages[2]))
    file, random = tmp_path / f"w.ciff.{end}", np.random.default_rng(4)
    damaged = [content[:size] for size in range(0, len(content), 37)]
    flipped = random.choice(len(content), 30, replace=False).tolist()
    damaged += [content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :] for at in flipped]
    refused = 0
    for each in damaged:
        file.write_bytes(each)
        try:
            weigh(file, docstore)
        except FormatError:
            refused += 1
    assert refused > len(damaged) - 10  # nobody looks at some bytes, such as the time in gzip's head


@pytest.mark.parametrize(
    "content",
    [
        b"\xff" * 9 + b"\x01",  # a message of 2^64 bytes
        b"\xff\xff\xff\xff\x07",
        pack(b"\x08\x01\x10\x01\x18\x01") + b"\xff\xff\xff\xff\x07" + b"\x0a\x01a",  # a list of 2 GiB
        pack(b"\x08\x01\x10\x01\x18\x01", b"\x0a\xff\xff\xff\xff\x07a"),  # a term of 2 GiB
        pack(b"\x08\x01\x10\x01\x18\x01", b"\x0a\x01a" + b'"\x02\x08\x00' * 3),
        pack(b"\x08\x01\x10\x01\x18\x01", b"\x0a\x01a\x10\x01" + b'"\x0b\x08' + b"\xff" * 9 + b"\x01"),
        pack(b"\x0b\x0b\x0b"),  # groups
        b"",
    ],
)
def test_lengths_that_lie_take_no_memory(tmp_path, docstore, content):
    (tmp_path / "w.ciff").write_bytes(content)
    tracemalloc.start()
    with pytest.raises(FormatError):
        weigh(tmp_path / "w.ciff", docstore)
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()
