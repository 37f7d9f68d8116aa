from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.feather
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telerank.corpus.docstore import FILES, TEXTS, Docstore, DocstoreWriter
from telerank.corpus.formats import open_collection
from telerank.errors import DocumentError, IndexDamaged
from telerank.types import Doc, Mark

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


def stored(folder: Path, docs) -> Docstore:
    with DocstoreWriter(folder) as writer:
        for row, doc in enumerate(docs):
            assert writer.add(doc) == row
    return Docstore(folder)


MARKS = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), TEXT), max_size=3)


@settings(deadline=None, max_examples=50)  # the first loads Arrow
@given(st.lists(st.tuples(TEXT, TEXT, TEXT, TEXT, MARKS), max_size=9))
def test_texts_files_and_marks_come_back_character_for_character(texts):
    docs = [
        Doc(f"d{row}", text, title, url, file, tuple(Mark(*mark) for mark in marks) if file else ())
        for row, (text, title, url, file, marks) in enumerate(texts)
    ]
    with tempfile.TemporaryDirectory() as folder:
        store = stored(Path(folder), docs)
        assert list(store) == docs
        assert [store.get_row(row) for row in range(len(store))] == docs
        assert [store[doc.docno] for doc in docs] == docs


def test_odd_characters_are_kept(tmp_path):
    odd = (
        "",
        "\0",
        "a\0b\0",
        "\ufeffmark",
        "line\r\nend\n",
        "\u2028",
        "\U0001f600",
        "e\u0301",
        "\ufffd",
        "\uffff",
    )
    docs = [Doc(f"d{row}", text, text, text) for row, text in enumerate(odd)]
    assert list(stored(tmp_path, docs)) == docs


def test_documents_of_a_megabyte_and_empty_ones_stand_side_by_side(tmp_path):
    """More characters than are held before they are written."""
    docs = [Doc(f"d{i}", "" if i % 3 else f"{i}é" * 500_000) for i in range(16)] + [Doc("last", "")]
    store = stored(tmp_path, docs)
    assert all(store[doc.docno] == doc for doc in docs)
    assert list(store) == docs


@pytest.mark.parametrize("part", ["text", "title", "url", "file"])
def test_half_of_a_surrogate_pair_is_refused_by_document_and_place(tmp_path, part):
    broken = {"text": "fine", part: "smile \ud83d"}
    expected = rf"document 'bad': its {part} contains a lone surrogate \(U\+D83D at character 7\).*repair it"
    with pytest.raises(DocumentError, match=expected):
        stored(tmp_path, [Doc("good", "fine"), Doc("bad", **broken), Doc("more", "fine")])
    assert list(tmp_path.iterdir()) == []


def test_a_store_written_before_there_were_files_is_read(tmp_path):
    docs = [Doc("a", "one", "t", "u"), Doc("b", "two")]
    stored(tmp_path, docs)
    table = pyarrow.feather.read_table(tmp_path / TEXTS).select(["text", "title", "url"])
    schema = pyarrow.schema([field.with_nullable(False) for field in table.schema])
    with pyarrow.ipc.new_file(str(tmp_path / TEXTS), schema) as file:
        file.write_table(table.cast(schema))
    assert list(Docstore(tmp_path)) == docs
    assert Docstore(tmp_path)["a"].locate() is None


def test_docnos_are_checked(tmp_path):
    with pytest.raises(DocumentError, match="document 1: its docno 'a b'"):
        stored(tmp_path, [Doc("a b", "")])
    with pytest.raises(DocumentError, match="'a' comes twice: documents 1 and 2"):
        stored(tmp_path, [Doc("a", "x"), Doc("a", "y")])
    assert list(tmp_path.iterdir()) == []


def test_a_document_that_is_not_there_is_an_error(tmp_path):
    store = stored(tmp_path, [Doc("a", "x")])
    assert "a" in store
    assert "b" not in store
    with pytest.raises(KeyError, match="b"):
        store["b"]
    for row in (1, -1):
        with pytest.raises(IndexError):
            store.get_row(row)


def test_a_store_pickles_as_its_path_and_may_be_empty(tmp_path):
    assert list(stored(tmp_path, [])) == []
    docs = [Doc("a", "x" * 10_000)]
    store = stored(tmp_path, docs)
    assert len(pickle.dumps(store)) < 300
    assert list(pickle.loads(pickle.dumps(store))) == docs


def test_threads_may_read_at_once(tmp_path):
    docs = [Doc(f"d{i}", f"text {i} " * 50) for i in range(2000)]
    store = stored(tmp_path, docs)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(store.__getitem__, (doc.docno for doc in docs))) == docs


def test_files_that_are_missing_cut_or_of_another_store_are_named(tmp_path):
    docs = [Doc("a", "x" * 1000)]
    stored(tmp_path / "two", [*docs, Doc("b", "y")])
    for name in FILES:
        stored(tmp_path / "x", docs)
        (tmp_path / "x" / name).unlink()
        with pytest.raises(IndexDamaged, match=name):
            Docstore(tmp_path / "x")
    stored(tmp_path / "x", docs)
    whole = (tmp_path / "x" / TEXTS).read_bytes()
    cut = [(whole[:size], TEXTS) for size in (0, 7, len(whole) // 2, len(whole) - 1)]
    for content, said in (*cut, ((tmp_path / "two" / TEXTS).read_bytes(), "2 texts but 1 docnos")):
        (tmp_path / "x" / TEXTS).write_bytes(content)
        with pytest.raises(IndexDamaged, match=said):
            Docstore(tmp_path / "x")


def test_a_failing_writer_leaves_the_store_that_was_there(tmp_path):
    docs = [Doc("old", "text")]
    stored(tmp_path, docs)
    with pytest.raises(DocumentError):
        stored(tmp_path, [Doc("new", "text"), Doc("", "")])
    assert list(Docstore(tmp_path)) == docs
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)


def test_the_texts_are_a_file_that_arrow_reads(tmp_path):
    stored(tmp_path, [Doc("a", "x", "t", "u"), Doc("c", "z", file="c.pdf", marks=(Mark(0, 1, "é"),))])
    table = pyarrow.feather.read_table(tmp_path / TEXTS)
    assert table.to_pylist() == [
        {"text": "x", "title": "t", "url": "u", "file": "", "marks": ""},
        {"text": "z", "title": "", "url": "", "file": "c.pdf", "marks": '[[0, 1, "é"]]'},
    ]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no peak of a process's own memory here")
def test_memory_does_not_grow_with_the_texts(tmp_path):
    """120 MB of texts: what is held is one batch of them, whatever was written before.

    Of ``getrusage`` a process that begins has the peak of the one that started it.
    """
    program = f"""
from pathlib import Path
from telerank.corpus.docstore import DocstoreWriter
from telerank.types import Doc
peak = lambda: int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
with DocstoreWriter({str(tmp_path)!r}) as writer:
    for i in range(40_000):
        writer.add(Doc(str(i), f"{{i}} " + "word " * 600))
        if i == 10_000:
            early = peak()
assert peak() - early < 20, (early, peak())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.data
def test_a_real_collection_comes_back_by_iteration_by_row_and_by_docno(tmp_path, data):
    docs = list(open_collection(data / "vaswani").docs())
    store = stored(tmp_path, docs)
    assert len(store) == 11_429
    assert list(store) == docs
    for row in (0, 9, 11_428):
        assert store.get_row(row) == store[docs[row].docno] == docs[row]
