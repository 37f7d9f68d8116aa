"""Vectors follow the documents of an index: whatever was done, they rank as those of a new encoding."""

from __future__ import annotations

import pickle
import shutil
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from filelock import FileLock

import telerank as tr
from small_vectors import Letters, docs
from telerank.dense.encode import Encoding, encode_documents
from telerank.dense.retriever import build_approximate, read_report
from telerank.dense.search import search
from telerank.dense.vectors import Vectors
from telerank.errors import IndexDamaged, IndexFault, IndexLocked, MissingVectors
from telerank.retrieval.index_vectors import documents_of
from telerank.sparse.writer import IndexWriter
from telerank.types import Doc

TEXTS = [f"{n % 9} bears {'xyz'[n % 3] * (n % 5)} of {n // 10}" for n in range(60)]
QUERIES = ("bears 4", "xxx of 1", "new", "e")


class Counting(Letters):
    """Counts the documents that it encodes, one of which follows another in ``texts``."""

    texts: list[str] = []  # noqa: RUF012 — of one test

    def encode_tokens(self, tokens, *given):
        self.texts.extend("".join(map(chr, ids)) for ids in tokens)
        return super().encode_tokens(tokens, *given)


@pytest.fixture
def index(tmp_path, monkeypatch):
    """An index of 60 documents with vectors; what is encoded from now on is counted."""
    index = tr.index(docs(TEXTS), tmp_path / "idx", workers=1, progress=False)
    index.encode(Counting(), name="letters", progress=False)
    monkeypatch.setattr(Counting, "texts", [])
    return index


def encode_anew(index: tr.Index, name: str = "anew", encoder: Letters | None = None) -> tr.Index:
    """The documents of an index in another one, with vectors."""
    folder = index.folder.with_name(name)
    stored = list(index.docs.values())
    other = tr.index(stored, folder, workers=1, overwrite=True, progress=False)
    other.encode(encoder or Letters(), name="letters", overwrite=True, progress=False)
    return other


def dense(index: tr.Index, **settings):
    return index.dense("letters", make_encoder=lambda *_: Letters(), **settings)


def check_equal(index: tr.Index, other: tr.Index) -> None:
    stage, expected = dense(index), dense(other)
    for query in QUERIES:
        for depth in (1, 3, 7, 1000):  # those of few are found by codes
            assert (stage % depth).search(query) == (expected % depth).search(query), (query, depth)


def add_and_update(index):
    index.add(
        {"new": "new text", "d3": "another text", "twin": TEXTS[4]}, update=True, workers=1, progress=False
    )


def rename(index):
    index.add([Doc(f"r{n}", TEXTS[n]) for n in range(20)], workers=1, progress=False)
    index.delete([f"d{n}" for n in range(20)])


def add_often(index):
    for n in range(40):  # more than the segments that an index keeps
        index.add({f"n{n}": f"{n} new bears"}, workers=1, progress=False)


def replace_all(index):
    tr.index(docs(TEXTS[::-1]), index.folder, overwrite=True, workers=1, progress=False)
    index.encode(Counting(), name="letters", progress=False)


CHANGES: dict[str, tuple[Callable[[tr.Index], object], int]] = {
    "add and update": (add_and_update, 2),
    "delete": (lambda index: index.delete(["d0", "d59", "d30"]), 0),
    "rename": (rename, 0),
    "delete and merge": (lambda index: (index.delete(["d7"]), index.merge(progress=False)), 0),
    "update and merge": (lambda index: (add_and_update(index), index.merge(progress=False)), 2),
    "add often": (add_often, 40),
    "replace all": (replace_all, 0),
}


@pytest.mark.parametrize(
    "change",
    [pytest.param(name, marks=[pytest.mark.process] * (name == "add often")) for name in CHANGES],
)
def test_only_new_texts_are_encoded_and_rankings_are_those_of_a_new_encoding(index, change):
    do, encoded = CHANGES[change]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        do(index)
        assert len(Counting.texts) == encoded
        check_equal(tr.open(index.folder), encode_anew(index))
    vectors = dense(index).vectors
    vectors.verify()
    docnos, arrays = index.arrays("letters")
    assert sorted(docnos) == sorted(index.docs)
    assert np.array_equal(arrays, vectors.take(np.array([vectors.docnos.row(docno) for docno in docnos])))
    assert pickle.loads(pickle.dumps(vectors)) == vectors
    assert index.info()["vectors"] == {"letters": f"{len(index)} x 24 float16 by letters"}
    assert len(vectors.manifest.shards) < 70
    for docno in ("d7", "d0", "d30"):
        assert (docno in vectors.docnos) == (docno in index.docs)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8"])
def test_every_type_and_every_search_ranks_the_same_over_many_shards(index, dtype):
    torch_search = pytest.importorskip("telerank.dense.torch_search")
    settings = Encoding(dtype, shard=8, source=index.sparse.state)
    folder = index.vectors_folder("letters")
    encode_documents(index.docs.values(), folder, Letters(), encoding=settings, overwrite=True)
    add_and_update(index)
    index.delete(["d9", "d10", "twin"])
    index.add(docs([f"more {n} bears" for n in range(100, 400)])[60:], workers=1, progress=False)
    vectors = dense(index).vectors
    assert vectors.dtype == dtype
    assert len(vectors.manifest.shards) > 30
    assert len(vectors.shards) == 1  # small ones are joined in memory
    anew = Vectors(
        encode_documents(
            index.docs.values(), index.folder.with_name("v"), Letters(), encoding=Encoding(dtype)
        ).folder
    )
    for query in QUERIES:
        encoded = Letters().encode_queries([query] * 5)
        for k in (1, 5, 20):
            expected = read(anew, search(anew, encoded, k))
            for hits in (
                search(vectors, encoded, k),
                torch_search.DeviceVectors(vectors, "cpu").search(encoded, k),
            ):
                assert read(vectors, hits) == expected


def read(vectors, hits):
    return [(vectors.docnos.take(each.rows), each.scores.tolist()) for each in hits]


def test_vectors_that_were_made_as_one_block_take_part_by_docno(index):
    """Those of an index whose documents change without them, as vectors did not follow an index at first."""
    folder, settings = index.vectors_folder("letters"), Encoding(source=index.sparse.state)
    block = encode_documents(index.docs.values(), folder, Letters(), encoding=settings, overwrite=True)
    assert (block.manifest.follows, block.manifest.source) == (False, index.sparse.state)
    assert dense(index).search("bears") == dense(encode_anew(index)).search("bears")
    with IndexWriter(index.folder, workers=1) as writer:
        writer.add([Doc("new", "new text"), Doc("d3", "another")], update=True)
        writer.delete(["d5"])
    opened = tr.open(index.folder)
    with pytest.warns(MissingVectors, match=r"idx: the vectors of letters lack 2 of 60 documents \(encode"):
        stage = dense(opened)
    expected = [hit for hit in dense(encode_anew(opened)).search("bears") if hit[0] not in ("new", "d3")]
    assert list(stage.search("bears")) == expected
    assert "d3" not in stage.vectors.docnos
    assert opened.info()["vectors"] == {"letters": "58 x 24 float16 by letters; 2 documents without"}
    opened.encode(Counting(), name="letters", progress=False)
    assert Counting.texts == ["new text", "another"]
    check_equal(opened, encode_anew(opened))


def test_what_is_left_behind_is_encoded_later_or_with_the_next_change(index):
    index.add({"a": "left behind"}, vectors=False, workers=1, progress=False)
    assert Counting.texts == []
    with pytest.warns(MissingVectors, match="lack 1 of 61 documents"):
        dense(index)
    index.add({"b": "the next"}, workers=1, progress=False)
    assert Counting.texts == ["left behind", "the next"]
    check_equal(index, encode_anew(index))


def test_a_model_that_cannot_be_opened_leaves_the_change_and_says_what_lacks(index, monkeypatch):
    from telerank.dense.encoder import TorchEncoder

    monkeypatch.setattr(TorchEncoder, "fingerprint", "0" * 63 + "1")
    opened = tr.open(index.folder)
    with pytest.warns(
        MissingVectors, match=r"lack 1 of 61 documents: .*were made by letters \(0{12}\), not by"
    ):
        opened.add({"new": "new text"}, workers=1, progress=False)
    assert opened.bm25().search("new").docnos == ("new",)
    shutil.rmtree(opened.vectors_folder("letters"))
    opened.add({"newer": "new text"}, workers=1, progress=False)


def test_two_writers_do_not_meet(index):
    lock = index.vectors_folder("letters").with_name("letters.writing.lock")
    with FileLock(lock), pytest.raises(IndexLocked, match="another process encodes into it"):
        index.add({"new": "new text"}, workers=1, progress=False)
    assert "new" not in tr.open(index.folder).docs
    with FileLock(lock):
        assert index.add({"new": "new text"}, vectors=False, workers=1, progress=False) == 1


def test_vectors_alone_and_damaged_ones_are_refused(index):
    add_and_update(index)
    folder = index.vectors_folder("letters")
    with pytest.raises(IndexFault, match="these vectors follow an index: open the index"):
        Vectors(folder)
    with pytest.raises(IndexFault, match="holds other vectors already"):
        index.encode(Letters(seed=1), name="letters", progress=False)
    file = next(folder.glob("rows.0001.npy"))
    content = file.read_bytes()
    file.write_bytes(content[:-1] + b"\x07")
    with pytest.raises(IndexDamaged, match=r"rows.0001.npy: damaged"):
        dense(index)


def test_an_approximate_index_has_the_first_rows_and_new_ones_are_searched_exactly(index):
    faiss = pytest.importorskip("faiss")
    faiss.omp_set_num_threads(1)
    build_approximate(dense(index).vectors)
    add_and_update(index)
    index.delete(["d9"])
    near = dense(index, approximate="hnsw", candidates=70)
    for query in QUERIES:
        assert near.search(query) == dense(index).search(query)
    assert near.report.rows == 60
    build_approximate(near.vectors)
    assert read_report(near.vectors, "hnsw").rows == len(near.vectors) + 2  # with those of d3 and d9
    index.merge(progress=False)
    for query in QUERIES:
        assert dense(index, approximate="hnsw").search(query) == dense(index).search(query)
    assert len(documents_of(index.sparse).segments) == 1
