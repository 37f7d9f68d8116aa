"""Adding, replacing, deleting and merging: the index stays what its documents say."""

from __future__ import annotations

import resource
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from small import build, contents, docs, reference, retriever, terms_of

from telerank.errors import AnalyzerError, DocumentError, IndexFault, IndexLocked
from telerank.sparse.build import merge_segments
from telerank.sparse.index import SparseIndex
from telerank.sparse.similarities.families import BM25, DFI, DFR, LMDirichlet
from telerank.sparse.writer import IndexWriter, build_index
from telerank.text import Analyzer
from telerank.types import Doc

TEXTS = ["a b c", "a a", "", "b c d", "c", "a b", "d d d", "a", "b a", "e"]
FEW = (BM25(), LMDirichlet(20), DFR("g", "b"), DFI())
QUERIES = ("a", "b c", "d a a", "e")


def rankings(index: SparseIndex) -> list[list[tuple[str, float]]]:
    return [list(retriever(index, model).search(query)) for model in FEW for query in QUERIES]


def test_a_merged_index_has_the_files_of_one_built_afresh(tmp_path):
    frequent = " ".join(["a"] * 300)
    texts = [*TEXTS, frequent, *(f"b w{number}" for number in range(200))]
    with IndexWriter(tmp_path / "merged", Analyzer.parse("none"), workers=1) as writer:
        writer.add([*docs(texts[:5]), Doc("gone", "only here z")])
        writer.add(docs(texts[5:100], 5))
        writer.add([Doc("gone-too", "a b"), *docs(texts[100:], 100)])
        writer.delete(["gone", "gone-too"])
        small = tmp_path / "small" / "segments" / "pieces"
        small.mkdir(parents=True)
        merge_segments(small, SparseIndex(tmp_path / "merged").segments, piece=3)
        writer.merge()
    build(tmp_path / "fresh", texts)
    assert contents(tmp_path / "merged") == contents(tmp_path / "small") == contents(tmp_path / "fresh")


def test_docnos_that_are_there_cannot_be_added_and_others_not_deleted_and_then_nothing_changes(tmp_path):
    before = build(tmp_path / "index", TEXTS)
    with IndexWriter(tmp_path / "index") as writer:
        with pytest.raises(DocumentError, match=r"'d3' is in the index already \(2 of the new ones are\)"):
            writer.add([Doc("x", "a"), Doc("d3", "a"), Doc("d4", "a")])
        with pytest.raises(DocumentError, match=r"no document 'other' in the index \(1 of 2 are not\)"):
            writer.delete(["d1", "other"])
        assert SparseIndex(tmp_path / "index") == before
        assert len(list((tmp_path / "index/segments").iterdir())) == 1
        writer.delete(["d3", "d4", "d3"])
        with pytest.raises(DocumentError, match="'d3'"):
            writer.delete(["d3"])
        writer.add([Doc("d3", "a")])  # deleted ones are not there
    assert len(SparseIndex(tmp_path / "index")) == 9


def test_an_index_whose_documents_are_all_deleted_finds_nothing_and_cannot_be_merged(tmp_path):
    build(tmp_path / "index", TEXTS)
    with IndexWriter(tmp_path / "index") as writer:
        writer.delete(f"d{number}" for number in range(10))
        index = SparseIndex(tmp_path / "index")
        assert len(index) == 0
        assert all(ranking == [] for ranking in rankings(index))
        with pytest.raises(DocumentError, match="every document is deleted"):
            writer.merge()
        assert SparseIndex(tmp_path / "index") == index
        writer.add([Doc("d1", "a")])
        writer.merge()
    fresh = build_index([Doc("d1", "a")], tmp_path / "fresh", analyzer="none", workers=1)
    assert rankings(SparseIndex(tmp_path / "index")) == rankings(fresh)


def test_overwriting_takes_the_place_of_all_that_was_there_and_adding_takes_no_other_analyzer(tmp_path):
    build(tmp_path / "index", ["running", "cats"])
    with IndexWriter(tmp_path / "index") as writer:
        writer.add([Doc("x", "a")])
    index = SparseIndex(tmp_path / "index")
    with pytest.raises(IndexFault, match="holds an index already"):
        build(tmp_path / "index", ["a"])
    again = build_index(
        index.docs.values(), tmp_path / "index", analyzer="english", overwrite=True, workers=1
    )
    assert again.analyzer == Analyzer.parse("english")
    assert len(list((tmp_path / "index/segments").iterdir())) == 1
    said = "was built with the analyzer nfkc"
    with pytest.raises(AnalyzerError, match=said):
        IndexWriter(tmp_path / "index", Analyzer.parse("french"))
    with pytest.raises(AnalyzerError, match=said):
        again.require(Analyzer.parse("standard"))
    with IndexWriter(tmp_path / "index", Analyzer.parse("english")) as writer:
        writer.add([Doc("y", "cats")])
    assert retriever(SparseIndex(tmp_path / "index")).search("run cat").docnos == ("d0", "y", "d1")


def test_a_merge_of_one_whole_segment_and_a_closed_writer_change_nothing(tmp_path):
    before = build(tmp_path / "index", TEXTS)
    with IndexWriter(tmp_path / "index") as writer:
        writer.merge()
        with pytest.raises(IndexLocked, match="another writer is at work on this index"):
            IndexWriter(tmp_path / "index")
        with pytest.raises(IndexLocked):
            build_index(docs(["a"]), tmp_path / "index", overwrite=True)
        closing = threading.Thread(target=writer.close)
        closing.start()
        closing.join()
        IndexWriter(tmp_path / "index").close()
    for change in (lambda: writer.add([Doc("x", "a")]), lambda: writer.delete(["d1"]), writer.merge):
        with pytest.raises(IndexFault, match="this writer is closed"):
            change()
    assert SparseIndex(tmp_path / "index") == before


def test_any_number_of_additions_keeps_the_segments_few(tmp_path):
    """A large segment is not written again with every few small ones."""
    with IndexWriter(tmp_path / "index", Analyzer.parse("none"), workers=1, most_segments=4) as writer:
        writer.add(docs(["a b"] * 20))
        large, most = writer.manifest.segments[0], 0
        for number in range(20, 36):
            writer.add(docs([f"a w{number}"], number))
            most = max(most, len(writer.manifest.segments))
            assert writer.manifest.segments[0] == large
        assert most == 4
    index = SparseIndex(tmp_path / "index")
    assert [doc.docno for doc in index.docs.values()] == [f"d{number}" for number in range(36)]
    assert list(retriever(index).search("a w30")) == reference(terms_of(index), ["a", "w30"], BM25())[0]


def test_an_index_of_as_many_segments_as_there_can_be_is_opened_and_merged_with_few_open_files(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    others = len([*Path("/dev/fd").iterdir()])  # files of indexes that other tests share
    resource.setrlimit(resource.RLIMIT_NOFILE, (others + 1000, hard))
    try:
        with IndexWriter(tmp_path / "index", Analyzer.parse("none"), workers=1) as writer:
            for number in range(32):
                writer.add(docs(["a b"] * 2 ** max(4 - number, 0), 20 * number))
            index = SparseIndex(tmp_path / "index")
            assert len(index.segments) == 32
            writer.add([Doc("last", "a")])
            assert len(writer.manifest.segments) < 32
            writer.merge()
            assert len(SparseIndex(tmp_path / "index")) == len(index) + 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Changes(RuleBasedStateMachine):
    """Any series of changes against a plain list of documents and of what is gone."""

    folder: Path

    @initialize()
    def build(self) -> None:
        self.at = self.folder / f"index-{len(list(self.folder.iterdir()))}"
        self.live: dict[str, str] = {"d0": "a b"}
        self.gone: list[str] = []
        self.writer = IndexWriter(self.at, Analyzer.parse("none"), workers=1)
        self.writer.add([Doc("d0", "a b")])

    texts = st.dictionaries(
        st.sampled_from([f"d{n}" for n in range(12)]),
        st.lists(st.sampled_from("aabc"), max_size=5).map(" ".join),
        min_size=1,
        max_size=5,
    )

    @rule(texts=texts)
    def update(self, texts: Mapping[str, str]) -> None:
        assert self.writer.add([Doc(*pair) for pair in texts.items()], update=True) == len(texts)
        self.gone += [self.live.pop(docno) for docno in texts if docno in self.live]
        self.live |= texts

    @rule(texts=texts)
    def add(self, texts: Mapping[str, str]) -> None:
        if self.live.keys() & texts.keys():
            with pytest.raises(DocumentError):
                self.writer.add([Doc(*pair) for pair in texts.items()])
        else:
            self.update(texts)

    @precondition(lambda self: self.live)
    @rule(which=st.integers(0, 2**20))
    def delete(self, which: int) -> None:
        docnos = [docno for number, docno in enumerate(self.live) if which >> number & 1]
        assert self.writer.delete(docnos) == len(docnos)
        self.gone += [self.live.pop(docno) for docno in docnos]

    @precondition(lambda self: self.live)
    @rule()
    def merge(self) -> None:
        self.writer.merge()
        self.gone = []

    @rule()
    def reopen(self) -> None:
        self.writer.close()
        self.writer = IndexWriter(self.at, workers=1)

    @invariant()
    def ranks_what_is_there(self) -> None:
        index = SparseIndex(self.at)
        assert {doc.docno: doc.text for doc in index.docs.values()} == self.live
        assert len(index) == len(self.live)
        assert {f"d{n}" for n in range(12) if f"d{n}" in index.docs} == self.live.keys()
        gone = {f"gone {number}": text.split() for number, text in enumerate(self.gone)}
        documents = {docno: text.split() for docno, text in self.live.items()} | gone
        for model in FEW:
            expected = reference(documents, ["a", "c", "c"], model, gone)[0]
            assert list(retriever(index, model).search("a c c")) == expected

    def teardown(self) -> None:
        self.writer.close()


def test_any_series_of_changes_leaves_what_its_documents_say(tmp_path):
    class Here(Changes):
        folder = tmp_path

    Here.TestCase.settings = settings(max_examples=8, stateful_step_count=8, deadline=None)
    Here.TestCase().runTest()
