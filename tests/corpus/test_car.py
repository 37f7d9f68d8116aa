from __future__ import annotations

import gzip
from pathlib import Path

import cbor2
import pytest

from telerank.corpus.readers import car
from telerank.corpus.readers.car import TREC_CAR, read_outlines, read_paragraphs
from telerank.errors import FormatError
from telerank.types import Doc, Query

IDS = ["327cca6c4d38953196fa6789f615546f03287b25", "38c1bd25ddca2705164677a3f598c46df85afba7"]
LINK = [1, [0, "Sour", ["Taste"], b"enwiki:Sour", "sour taste"]]
PARAGRAPHS = [
    [0, IDS[0].encode(), [[0, "Aftertaste is not "], LINK, [0, "."]]],
    [0, IDS[1].encode(), [[0, "Réseau"]]],
]
DOCS = [Doc(IDS[0], "Aftertaste is not sour taste."), Doc(IDS[1], "Réseau")]
PAGE = [
    0,
    "Aftertaste",
    b"enwiki:Aftertaste",
    [
        [1, [0, b"ff", [[0, "Lead."]]]],
        [
            0,
            "Foods",
            b"Foods",
            [[0, "Artificial sweeteners", b"Artificial%20sweeteners", []], [2, "image", []]],
        ],
        [3, 1, [0, b"ee", [[0, "An item."]]]],
        [0, "Wine", b"Wine", []],
    ],
    [0, [0], [], [], [], [], [], []],
]
QUERIES = [
    Query("enwiki:Aftertaste", "Aftertaste"),
    Query("enwiki:Aftertaste/Foods", "Aftertaste Foods"),
    Query("enwiki:Aftertaste/Foods/Artificial%20sweeteners", "Aftertaste Foods Artificial sweeteners"),
    Query("enwiki:Aftertaste/Wine", "Aftertaste Wine"),
]


def release_15(items: list[object]) -> bytes:
    return b"".join(map(cbor2.dumps, items))


def release_20(kind: int, items: list[object]) -> bytes:
    """An array of a header's two parts and, without a length of its own, the list of items."""
    header = cbor2.dumps(["CAR", [kind], {"release": "v2.0"}])
    return header + b"\x9f" + release_15(items) + b"\xff"


def put(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


@pytest.mark.parametrize("name", ["paragraphs.cbor", "paragraphs.cbor.gz"])
@pytest.mark.parametrize("content", [release_15(PARAGRAPHS), release_20(car.PARAGRAPHS, PARAGRAPHS)])
def test_the_paragraphs_of_both_releases_are_documents(tmp_path, content, name):
    assert list(read_paragraphs(put(tmp_path, name, content))) == DOCS


@pytest.mark.parametrize("content", [release_15([PAGE[:4]]), release_20(car.OUTLINES, [PAGE])])
def test_the_outlines_of_both_releases_are_queries_depth_first(tmp_path, content):
    assert list(read_outlines(put(tmp_path, "test.cbor.outlines", content))) == QUERIES


def test_chunked_strings_files_of_no_items_and_items_larger_than_the_part_in_memory_are_read(tmp_path):
    chunked = b"\x7f" + cbor2.dumps("Rés") + cbor2.dumps("eau") + b"\xff"
    item = b"\x83\x00" + cbor2.dumps(IDS[1].encode()) + b"\x9f\x82\x00" + chunked + b"\xff"
    assert list(read_paragraphs(put(tmp_path, "p.cbor", item))) == DOCS[1:]
    assert list(read_paragraphs(put(tmp_path, "p.cbor", release_20(car.PARAGRAPHS, [])))) == []
    long = [[0, f"{n:040d}".encode(), [[0, f"{n}" * 700_000]]] for n in range(7)]
    docs = list(read_paragraphs(put(tmp_path, "p.cbor", release_20(car.PARAGRAPHS, long))))
    assert docs == [Doc(f"{n:040d}", f"{n}" * 700_000) for n in range(7)]


@pytest.mark.parametrize("content", [release_15(PARAGRAPHS), release_20(car.PARAGRAPHS, PARAGRAPHS)])
def test_a_file_cut_anywhere_is_an_error_or_a_shorter_file(tmp_path, content):
    first = len(release_15(PARAGRAPHS[:1])) if content == release_15(PARAGRAPHS) else None
    for size in range(len(content)):
        path = put(tmp_path, "p.cbor", content[:size])
        if size == first:
            assert list(read_paragraphs(path)) == DOCS[:1]
            continue
        with pytest.raises(FormatError, match=r"a whole CBOR item as item|a list of items after the header"):
            list(read_paragraphs(path))


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (read_paragraphs, release_20(car.OUTLINES, [PAGE]), "a TREC-CAR file of paragraphs, got 'outlines'"),
        (read_paragraphs, release_15([PAGE]), "a paragraph as item 1"),
        (read_paragraphs, release_15([PARAGRAPHS[0], [0, b"x", [[2, "?"]]]]), "a paragraph as item 2"),
        (read_paragraphs, release_15([[0, b"a b", []]]), ".*paragraph id that is not empty and has no blank"),
        (read_paragraphs, release_15(["text"]), "a paragraph as item 1"),
        (read_paragraphs, release_15([7]), "a paragraph as item 1"),
        (read_outlines, release_15(PARAGRAPHS[:1]), "a page as item 1"),
        (read_outlines, release_15([[0, "name", b"id", [[0, "heading"]]]]), "a page as item 1"),
        (read_outlines, release_15(["text"]), "a page as item 1"),
    ],
)
def test_what_is_no_paragraph_or_page_is_named_by_its_number(tmp_path, read, content, message):
    with pytest.raises(FormatError, match=f"expected {message}"):
        list(read(put(tmp_path, "p.cbor", content)))


def test_a_folder_brings_paragraphs_outlines_and_qrels_together(tmp_path):
    put(tmp_path, "dedup.articles-paragraphs.cbor", release_20(car.PARAGRAPHS, PARAGRAPHS))
    put(tmp_path, "test.pages.cbor", release_20(car.PAGES, [PAGE, PAGE]))
    put(tmp_path, "test.pages.cbor-outlines.cbor", release_20(car.OUTLINES, [PAGE]))
    put(tmp_path, "test.pages.cbor-outlines.json", b"{}")
    for depth, level in enumerate(("article", "toplevel", "hierarchical")):
        put(tmp_path, f"test.pages.cbor-{level}.qrels", f"{QUERIES[depth].qid} 0 {IDS[0]} 1\n".encode())
    assert TREC_CAR.recognises(tmp_path)
    collection = TREC_CAR.read(tmp_path, "utf-8")
    assert list(collection.docs()) == DOCS
    assert collection.splits == ("test.pages", "test.pages-article", "test.pages-toplevel")
    assert list(collection.split_queries("test.pages")) == QUERIES
    assert list(collection.split_queries("test.pages-article")) == QUERIES[:1]
    assert list(collection.split_queries("test.pages-toplevel")) == [QUERIES[1], QUERIES[3]]
    for split in collection.splits:
        asked = {query.qid for query in collection.split_queries(split)}
        assert [qrel.qid in asked for qrel in collection.split_qrels(split)] == [True]


def test_the_names_of_release_15_are_understood(tmp_path):
    put(tmp_path, "train.fold0.cbor.paragraphs", release_15(PARAGRAPHS))
    put(tmp_path, "train.fold0.cbor.outlines", release_15([PAGE[:4]]))
    put(tmp_path, "train.fold0.cbor.hierarchical.qrels", f"{QUERIES[2].qid} 0 {IDS[0]} 1\n".encode())
    collection = TREC_CAR.read(tmp_path, "utf-8")
    assert collection.splits == ("train.fold0",)
    assert list(collection.docs()) == DOCS
    assert [qrel.docno for qrel in collection.split_qrels()] == IDS[:1]


def test_a_single_file_is_a_collection_and_others_are_not_taken_for_one(tmp_path):
    path = put(tmp_path, "dedup.articles-paragraphs.cbor.gz", release_20(car.PARAGRAPHS, PARAGRAPHS))
    assert TREC_CAR.recognises(path)
    assert list(TREC_CAR.read(path, "utf-8").docs()) == DOCS
    for content in (b"", b"text", release_15([{"a": 1}]), release_15([["CAR", [9]]])):
        assert not TREC_CAR.recognises(put(tmp_path, "other.cbor", content))


@pytest.mark.data
@pytest.mark.parametrize(("release", "queries", "qrels"), [("1.5", 2125, 5820), ("2.0", 2254, 6192)])
def test_the_real_topics_and_qrels_stand_beside_paragraphs(data, tmp_path, release, queries, qrels):
    name = f"car17v{release}.benchmarkY1test"
    for kind in ("topics", "qrels"):
        real = data / "topics-qrels" / f"{kind}.{name}.txt.gz"
        (tmp_path / real.name).write_bytes(real.read_bytes())
    put(tmp_path, "paragraphs.cbor", release_15(PARAGRAPHS))
    collection = TREC_CAR.read(tmp_path, "utf-8")
    assert collection.splits == (name,)
    asked = list(collection.split_queries())
    judged = list(collection.split_qrels())
    assert len(asked) == queries
    assert len(judged) == qrels
    assert {query.qid for query in asked} == {qrel.qid for qrel in judged}
    assert asked[2].text == (
        "Aftertaste Foods with distinct aftertastes Artificial sweeteners"
        if release == "1.5"
        else "Aftertaste Distinguishing aftertaste and flavor"
    )
