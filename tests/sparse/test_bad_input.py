"""Whatever documents and queries hold: a clear error, or the right answer."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import MODELS, build, docs, reference, retriever, terms_of

from telerank.errors import AnalyzerError, DocumentError
from telerank.sparse.index import SparseIndex
from telerank.sparse.similarities.families import BM25
from telerank.sparse.writer import IndexWriter, build_index
from telerank.text import PRESETS, Analyzer
from telerank.types import Doc, Query


@pytest.fixture
def there(tmp_path) -> SparseIndex:
    return build(tmp_path / "index", ["a b", "b"])


def unchanged(index: SparseIndex) -> bool:
    """The index is what it was, and nothing lies beside it."""
    now = SparseIndex(index.folder)
    return now == index and len(list((index.folder / "segments").iterdir())) == len(now.segments)


def test_sources_that_end_or_begin_with_nothing_are_errors_that_leave_the_index_as_it_was(there, tmp_path):
    with pytest.raises(DocumentError, match="there is no document to index"):
        build_index([], tmp_path / "new")
    with pytest.raises(AnalyzerError, match="klingon"):
        build_index(docs(["a"]), tmp_path / "new", analyzer="klingon")
    assert not list((tmp_path / "new").glob("*.json"))
    with pytest.raises(DocumentError, match="there is no document to index"):
        build_index(iter(()), there.folder, overwrite=True)

    def failing():
        yield Doc("x", "a")
        raise OSError("the network is gone")

    with IndexWriter(there.folder, workers=1) as writer:
        with pytest.raises(DocumentError, match="there is no document"):
            writer.add([])
        with pytest.raises(Exception, match="the network is gone"):
            writer.add(failing())
        assert unchanged(there)
        writer.add([Doc("x", "a")])  # and the writer goes on
    assert len(SparseIndex(there.folder)) == 3


@pytest.mark.parametrize(("apart", "workers"), [(1, 1), (900, 1), (100, 2)])
def test_a_docno_that_comes_twice_is_named_with_both_places(there, apart, workers):
    documents = docs(["a b c " * 5] * 1000)
    documents[50 + apart] = Doc("d50", "again")
    writer = IndexWriter(there.folder, overwrite=True, workers=workers, stretch=2000)
    said = f"'d50' comes twice: documents 51 and {51 + apart}"
    with writer, pytest.raises(DocumentError, match=said):
        writer.add(documents)
    assert unchanged(there)


def test_a_docno_that_no_run_file_could_hold_is_refused(there):
    said = r"document 2: its docno (is empty|'.*' contains '.*': a docno has)"
    with IndexWriter(there.folder, workers=1) as writer:
        for docno in ("", " ", *(f"a{char}b" for char in " \t\n\r\0\u00a0\u2028\x85\ud800\x7f")):
            with pytest.raises(DocumentError, match=said):
                writer.add([Doc("x", "a"), Doc(docno, "a")])
            with pytest.raises(DocumentError, match="no document"):
                writer.delete([docno])
    assert unchanged(there)


def test_docnos_may_hold_all_other_characters_and_break_ties_in_the_order_of_strings(tmp_path):
    docnos = ["d1", "d10", "d1-", "D1", "é", "e\u0301", "文書", "\uffff", "😀", "a" * 100_000, *"%'\"\\"]
    index = build_index([Doc(docno, "same") for docno in docnos], tmp_path / "index", workers=1)
    assert list(retriever(index).search("same").docnos) == sorted(docnos, reverse=True)
    assert list((retriever(index) % 1).search("same").docnos) == [max(docnos)]
    assert all(index.docs[docno].docno == docno for docno in docnos)


def test_documents_without_terms_count_for_nothing_and_queries_without_them_find_nothing(tmp_path):
    texts = ["", " \n\t", "... !?", "the of", "cat", "\0\0"]
    index = build_index(docs(texts), tmp_path / "i", analyzer="english", workers=1)
    assert (index.statistics.documents, index.statistics.tokens, len(index)) == (1, 1, 6)
    nothing = build(tmp_path / "nothing", ["", " "])
    for model in MODELS:
        assert set(retriever(index, model).search("cat the ...").docnos) == {"d4"}
        assert retriever(index, model).explain(Query("q", "cat"), "d0").value == 0
        for query in ("", " ", "\n\t\0", "?!...", "the of and", "\ud800", "\ufeff"):
            assert len(retriever(index, model).search(Query("query", query))) == 0
            assert retriever(index, model).explain(Query("q", query), "d4").value == 0
        assert retriever(nothing, model).search("a b").docnos == ()
    with IndexWriter(tmp_path / "nothing", workers=1) as writer:
        writer.delete(["d0"])
        writer.merge()
        writer.add([Doc("d2", "a")])
    assert retriever(SparseIndex(tmp_path / "nothing")).search("a").docnos == ("d2",)


@pytest.mark.parametrize("analyzer", PRESETS)
def test_documents_of_a_million_characters_are_indexed_whole(tmp_path, analyzer):
    words = [f"{a}{b}{c}x" for a in string.ascii_lowercase for b in string.ascii_lowercase for c in "aeiou"]
    long, without_blank = " ".join(words * 60) + " zzlast", "abcdefghij" * 100_000
    assert len(long) > 1_000_000
    texts = [long, "short", long[:1000], without_blank]
    index = build_index(docs(texts), tmp_path / "index", analyzer=analyzer, workers=1)
    assert [doc.text for doc in index.docs.values()] == texts
    assert index.segments[0].lengths[0] == 60 * len(words) + 1
    assert retriever(index).search("zzlast").docnos == ("d0",)
    assert retriever(index).search(without_blank).docnos == ("d3",)
    expected = reference(terms_of(index), index.analyzer("aaax zzex short"), BM25())[0]
    assert list(retriever(index).search("aaax zzex short")) == expected


def test_queries_of_a_million_characters_are_answered(tmp_path):
    words = [f"w{number}" for number in range(5000)]
    index = build(tmp_path / "index", [" ".join(words), "w1 w2 w3", "w3"])
    query = " ".join(words * 40)
    assert len(query) > 1_000_000
    for model in MODELS[:19:9]:
        expected, _ = reference(terms_of(index), query.split(), model)
        assert list(retriever(index, model).search(Query("query", query))) == expected


@pytest.mark.parametrize(("analyzer", "workers"), [("none", 1), ("french", 2)])
def test_a_lone_surrogate_in_a_document_is_an_error_that_names_the_document(there, analyzer, workers):
    documents = [*docs(["a b c " * 5] * 50), Doc("spoilt", "half of \ud83d an emoji"), Doc("x", "a")]
    said = r"'spoilt': its text contains a lone surrogate \(U\+D83D at character 9"
    options = {"overwrite": True, "workers": workers, "stretch": 100}
    writer = IndexWriter(there.folder, Analyzer.parse(analyzer), **options)
    with writer, pytest.raises(DocumentError, match=said):
        writer.add(documents)
    assert unchanged(there)


def test_a_lone_surrogate_or_a_nul_in_a_query_matches_what_stands_beside_it(tmp_path):
    texts = ["cat", "dog \0 mouse\0rat", "\ufffd"]
    index = build_index(docs(texts), tmp_path / "index", workers=1)
    assert retriever(index).search("\udc00cat\ud800").docnos == ("d0",)
    assert retriever(index).search("mouse\0").docnos == ("d1",)
    assert index.docs["d1"].text == texts[1]
    assert retriever(build(tmp_path / "none", texts)).search("\ud800").docnos == ("d2",)


@settings(max_examples=40)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), min_size=1, max_size=6),
    st.text(st.characters(), max_size=20),
    st.sampled_from(list(PRESETS)),
)
def test_any_text_is_kept_as_it_is_and_found_by_its_terms(tmp_path_factory, texts, query, analyzer):
    folder = tmp_path_factory.mktemp("any") / "index"
    index = build_index(docs(texts), folder, analyzer=analyzer, workers=1)
    assert [doc.text for doc in index.docs.values()] == texts
    documents = terms_of(index)
    for text in (query, texts[0]):
        assert (
            list(retriever(index).search(Query("query", text)))
            == reference(documents, index.analyzer(text), BM25())[0]
        )
