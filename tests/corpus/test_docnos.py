from __future__ import annotations

import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telerank.corpus.docnos import FILES, Docnos, DocnosWriter
from telerank.errors import DocumentError, IndexDamaged

NAMES = st.text(st.characters(exclude_categories=("Zs", "Zl", "Zp", "Cc", "Cs")), min_size=1, max_size=8)


def write_docnos(folder: Path, docnos, **settings) -> Docnos:
    with DocnosWriter(folder, **settings) as writer:
        for docno in docnos:
            writer.add(docno)
    return Docnos(folder)


@settings(deadline=None, max_examples=50)  # the first loads Arrow and compiles
@given(st.lists(NAMES, unique=True, max_size=30))
def test_what_is_written_is_read_back_in_its_order(names):
    with tempfile.TemporaryDirectory() as folder:
        docnos = write_docnos(Path(folder), names)
        assert list(docnos) == names
        assert [docnos.row(name) for name in names] == list(range(len(names)))
        rows = list(range(len(names)))[::-1]
        assert docnos.take(rows) == names[::-1]
        assert [names[row] for row in docnos.order] == sorted(names)
        assert [sorted(names).index(name) for name in names] == docnos.rank.tolist()


def test_rows_are_found_in_every_stretch_between_fences(tmp_path):
    names = [f"D{number:05d}" for number in np.random.default_rng(1).permutation(5000)]
    docnos = write_docnos(tmp_path, names)
    assert all(docnos.row(name) == row for row, name in enumerate(names))
    absent = ["A", "D", "D00000x", "D01024x", "D04999x", "E", "", "D00001\n", "\ud800"]
    assert [name for name in absent if name in docnos] == []


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a\tb", "a\n", "a\u00a0b", "\u2028", "a\0", "\x7f", "\x85", "\ud83d"]
)
def test_a_docno_without_letters_or_with_blanks_is_refused_and_nothing_is_left(tmp_path, name):
    with pytest.raises(DocumentError, match=r"^document 2: its docno"):
        write_docnos(tmp_path, ["fine", name])
    assert list(tmp_path.iterdir()) == []


def test_a_docno_that_comes_twice_is_named_with_both_rows(tmp_path):
    with pytest.raises(DocumentError, match=r"^docno 'b' comes twice: documents 2 and 5$"):
        write_docnos(tmp_path, "abcdb")
    assert list(tmp_path.iterdir()) == []


def test_what_stands_across_the_edges_of_what_is_treated_at_once_is_seen(tmp_path):
    names = [f"{number}" for number in range(119, 89, -1)]
    docnos = write_docnos(tmp_path, names, at_once=3)
    assert list(docnos) == names
    assert [names[row] for row in docnos.order] == sorted(names)
    assert [sorted(names)[rank] for rank in docnos.rank] == names
    with pytest.raises(DocumentError, match="'c' comes twice"):
        write_docnos(tmp_path, "abcdec", at_once=2)


def as_lines(folder: Path, names: list[str]) -> Docnos:
    """The docnos as lines with offsets, as all were written before some took equally many bytes."""
    docnos = write_docnos(folder, names)
    lines = [name.encode() + b"\n" for name in names]
    (folder / FILES[0]).write_bytes(b"".join(lines))
    np.save(folder / FILES[1], np.cumsum([0, *map(len, lines)], dtype=np.int32))
    return Docnos(docnos.folder)


@pytest.mark.parametrize("longest", [3, 40, 120])
def test_docnos_take_equally_many_bytes_where_that_is_not_more_and_read_as_lines_do(tmp_path, longest):
    names = [f"{number}é" for number in range(200)] + ["D" * longest]
    padded = longest + 1 <= 5 + 4  # a line, and its offset
    docnos = write_docnos(tmp_path, names, at_once=64)
    assert (len(np.load(tmp_path / FILES[1])) == 1) == padded
    rows = np.random.default_rng(3).integers(0, len(names), 500)
    for each in (docnos, as_lines(tmp_path, names)):
        assert list(each) == names
        assert [each.row(name) for name in names] == list(range(len(names)))
        for taken in (rows, rows.astype(np.uint32), rows[:1], range(len(names))):
            assert each.take(taken) == [names[row] for row in taken]


@pytest.mark.parametrize("write", [write_docnos, as_lines])
def test_rows_that_are_not_there_are_errors(tmp_path, write):
    docnos = write(tmp_path, ["a", "b"])
    for rows in ([2], [0, -1], [5], np.array([2], np.uint32), [0] * 30000 + [2]):
        with pytest.raises(IndexError, match="of 2 documents"):
            docnos.take(rows)
    for row in (2, -1):
        with pytest.raises(IndexError, match="of 2 documents"):
            docnos[row]
    with pytest.raises(KeyError, match="c"):
        docnos.row("c")


def test_no_docnos_are_docnos_too_and_others_pickle_as_their_path(tmp_path):
    docnos = write_docnos(tmp_path, [])
    assert (len(docnos), list(docnos), docnos.take([]), "a" in docnos) == (0, [], [], False)
    docnos = write_docnos(tmp_path, ["x", "y"])
    assert len(pickle.dumps(docnos)) < 300
    assert list(pickle.loads(pickle.dumps(docnos))) == ["x", "y"]


def test_a_missing_file_and_one_of_another_writing_are_named(tmp_path):
    write_docnos(tmp_path, ["x", "y"])
    whole = {name: (tmp_path / name).read_bytes() for name in FILES}
    for name, content in whole.items():
        (tmp_path / name).unlink()
        with pytest.raises(IndexDamaged, match=name):
            Docnos(tmp_path)
        (tmp_path / name).write_bytes(content)
    write_docnos(tmp_path, ["x", "y", "z"])
    (tmp_path / FILES[0]).write_bytes(whole[FILES[0]])
    with pytest.raises(IndexDamaged, match="do not match"):
        Docnos(tmp_path)


def test_a_writer_that_fails_leaves_what_stood_there_before(tmp_path):
    write_docnos(tmp_path, ["old"])
    with pytest.raises(ZeroDivisionError), DocnosWriter(tmp_path) as writer:
        writer.add(str(writer.add("new") / 0))
    assert list(Docnos(tmp_path)) == ["old"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)
