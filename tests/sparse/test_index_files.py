"""Opening an index: what is damaged is named, what is something else is left alone, what changes is followed."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from small import build, docs, retriever

from telerank.errors import AnalyzerError, DocumentError, IndexDamaged, IndexFault
from telerank.sparse import index as opening
from telerank.sparse.index import IndexManifest, SparseIndex
from telerank.sparse.segment import Segment
from telerank.sparse.writer import IndexWriter, build_index
from telerank.text import Analyzer
from telerank.types import Doc

TEXTS = ["a b c", "b " * 300, "", "c d e", "a"]


@pytest.fixture(scope="session")
def whole(tmp_path_factory) -> Path:
    """An index that has each kind of file."""
    folder = tmp_path_factory.mktemp("whole") / "index"
    build(folder, TEXTS)
    with IndexWriter(folder) as writer:
        writer.delete(["d4"])
    return folder


@pytest.fixture
def copy(whole, tmp_path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "index"))


def parts(folder: Path) -> list[Path]:
    [segment] = (folder / "segments").iterdir()
    return sorted(segment.iterdir())


def flipped(good: bytes, offset: int, bit: int = 0) -> bytes:
    return good[:offset] + bytes([good[offset] ^ 1 << bit]) + good[offset + 1 :]


def test_every_kind_of_file_is_there_and_verified(whole):
    names = (
        "deleted.2.npy docnos.bin docnos.offsets.npy docnos.order.npy docnos.rank.npy docs.arrow lengths.npy "
        "occurrences.npy offsets.npy postings.npy starts.npy terms.bin terms.starts.npy"
    )
    assert [path.name for path in parts(whole)] == names.split()
    calls = []
    SparseIndex(whole).verify(lambda *call: calls.append(call))
    assert calls[-1][1:] == (sum(path.stat().st_size for path in parts(whole)),) * 2


def test_a_damaged_file_is_named_on_opening(copy):
    for path in parts(copy):
        good = path.read_bytes()
        path.unlink()
        with pytest.raises(IndexDamaged, match=f"^{path}: missing"):
            SparseIndex(copy)
        for damaged, said in (
            (flipped(good, 0), "its checksum differs"),
            (flipped(good, len(good) // 2, 7), "its checksum differs"),
            (flipped(good, len(good) - 1, 3), "its checksum differs"),
            (good[:-1], "were written"),
            (good[:0], "were written"),
            (good + b"\0", "were written"),
        ):
            path.write_bytes(damaged)
            with pytest.raises(IndexDamaged, match=rf"^{path}: damaged \(.*{said}\)"):
                SparseIndex(copy)
        path.write_bytes(good)
    SparseIndex(copy)


def test_damage_in_a_large_file_is_named_at_the_latest_by_verify(tmp_path):
    """The end of the Arrow file, which opening reads, among the offsets."""
    random = Random(1)
    build(tmp_path / "index", [random.randbytes(3 << 20).hex()])
    [path] = (path for path in parts(tmp_path / "index") if path.name == "docs.arrow")
    good = path.read_bytes()
    size = len(good)
    for offset in (*random.sample(range(size - 400, size), 40), *random.sample(range(size), 5), 0):
        path.write_bytes(flipped(good, offset, random.randrange(8)))
        with pytest.raises(IndexDamaged, match=r"docs\.arrow: damaged"):
            SparseIndex(tmp_path / "index").verify()
    path.write_bytes(good)
    SparseIndex(tmp_path / "index").verify()


def test_what_is_damaged_can_only_be_overwritten(copy):
    (copy / "manifest.json").write_bytes(b"{}")
    for opened in (SparseIndex, IndexWriter):
        with pytest.raises(IndexDamaged, match=r"manifest\.json: damaged"):
            opened(copy)
    before = parts(copy)
    with pytest.raises(Exception, match="there is no document"):
        build_index([], copy, overwrite=True)
    assert set(before) < set((copy / "segments").rglob("*"))  # not swept before something takes its place
    assert len(build_index(docs(["new"]), copy, overwrite=True, workers=1)) == 1
    assert len(list((copy / "segments").iterdir())) == 1


def test_where_there_is_no_index_it_says_so(tmp_path):
    (tmp_path / "file").write_text("text")
    (tmp_path / "folder").mkdir()
    for name in ("nowhere", "file", "folder"):
        for opened in (SparseIndex, IndexWriter):
            with pytest.raises(IndexFault, match=rf"{name}: (no index here|is a file, not a folder)"):
                opened(tmp_path / name)
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(IndexFault, match="file: is a file, not a folder"):
        build(tmp_path / "file", ["a"])


def test_a_folder_that_holds_other_things_is_left_alone(tmp_path):
    said = r"holds other things \((notes.txt|segments)\)|holds an index already|manifest\.json: damaged"
    others = ("notes.txt", "segments/mine.txt", "segments/0123456789ab/postings.npy", "manifest.json")
    for number, other in enumerate(others):
        kept = tmp_path / f"folder{number}" / other
        kept.parent.mkdir(parents=True)
        kept.write_text('{"name": "an extension of a browser"}')
        for overwrite in (False, True):
            with pytest.raises(IndexFault, match=said):
                build_index(docs(["a"]), tmp_path / f"folder{number}", overwrite=overwrite)
        assert [path for path in (tmp_path / f"folder{number}").rglob("*") if path.is_file()] == [kept]
        assert kept.read_text() == '{"name": "an extension of a browser"}'


def test_an_index_may_be_moved_without_its_lock_and_stray_files_among_its_segments_are_swept(copy, tmp_path):
    (copy / "write.lock").unlink()
    moved = copy.rename(tmp_path / "moved")
    [segment] = IndexManifest.read(moved).segments
    (moved / "segments/.DS_Store").write_text("")
    (moved / "segments/0123456789ab").mkdir()
    (moved / "segments" / segment.name / "runs").mkdir()
    (moved / "segments" / segment.name / "deleted.1.npy").write_text("")
    with IndexWriter(moved) as writer:
        names = sorted(path.name for path in (moved / "segments").rglob("*"))
        assert names == sorted([segment.name, *segment.files])
        writer.add([Doc("x", "a")])
    assert len(SparseIndex(moved)) == 5


@pytest.fixture
def read_only(copy, tmp_path):
    """An index that even an administrator cannot write to."""
    if os.geteuid():
        copy.chmod(0o555)
        yield copy
        copy.chmod(0o755)
        return
    folder = tmp_path / "read only"
    folder.mkdir()
    if subprocess.run(["mount", "--bind", copy, folder], capture_output=True, check=False).returncode:
        pytest.skip("no folder may be made read-only here")
    subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_folder_that_cannot_be_written_to_can_be_read_and_is_a_clear_error_to_writers(read_only):
    index = SparseIndex(read_only)
    assert retriever(index).search("a").docnos == ("d0",)
    with pytest.raises(IndexFault, match=f"{read_only}: cannot be written to: .*(Read-only|Permission)"):
        IndexWriter(read_only)
    with pytest.raises(IndexFault, match="cannot be written to"):
        build_index(docs(["a"]), read_only / "new")


def test_readers_keep_what_they_have_opened_whatever_writers_do(copy):
    index = SparseIndex(copy)
    before = list(retriever(index).search("a b c d"))
    with IndexWriter(copy, workers=1) as writer:
        writer.merge()
        writer.add([Doc("d9", "a")])
    build_index([Doc("other", "a")], copy, overwrite=True, workers=1)
    assert list(retriever(index).search("a b c d")) == before
    assert index.docs["d0"] == Doc("d0", "a b c")
    assert len(list(index.docs)) == len(index) == 4
    assert [doc.docno for doc in SparseIndex(copy).docs.values()] == ["other"]


@pytest.mark.parametrize("seam", ["check_files", "Segment"])
def test_an_index_that_is_replaced_while_it_is_opened_is_opened_as_it_then_is(copy, monkeypatch, seam):
    """The files that the manifest named are swept away between its reading and theirs."""
    real, calls = getattr(opening, seam), []

    def replaced_meanwhile(*arguments: object, **named: object) -> object:
        calls.append(arguments)
        if len(calls) <= 2:
            monkeypatch.setattr(opening, seam, real)
            build_index([Doc(f"new{len(calls)}", "a")], copy, overwrite=True, workers=1)
            monkeypatch.setattr(opening, seam, replaced_meanwhile)
        return real(*arguments, **named)

    monkeypatch.setattr(opening, seam, replaced_meanwhile)
    assert [doc.docno for doc in SparseIndex(copy).docs.values()] == ["new2"]
    assert len(calls) == 3


def test_an_index_is_equal_to_the_same_generation_of_the_same_folder(copy, whole):
    index = SparseIndex(copy)
    assert index == SparseIndex(str(copy))
    assert hash(index) == hash(SparseIndex(copy))
    assert index != SparseIndex(whole)
    assert index != copy
    assert repr(index) == f"SparseIndex({str(copy)!r})"
    with IndexWriter(copy) as writer:
        writer.delete(["d0"])
    assert index != SparseIndex(copy)
    assert pickle.loads(pickle.dumps(index)) == SparseIndex(copy)


def test_sizes_that_do_not_agree_are_not_searched(copy):
    """Where damage is not looked for, and no header shows it."""
    [segment] = IndexManifest.read(copy).segments
    folder = copy / "segments" / segment.name
    for name in ("starts.npy", "lengths.npy", "offsets.npy", "occurrences.npy", "deleted.2.npy"):
        good = (folder / name).read_bytes()
        shape = good[good.index(b"(") : good.index(b")") + 1]
        short = good.replace(shape, b"(1,)".ljust(len(shape)))
        (folder / name).write_bytes(short)
        with pytest.raises(IndexDamaged, match=f"{segment.name}: its files do not belong together"):
            Segment(folder, "deleted.2.npy")
        (folder / name).write_bytes(good)
    Segment(folder, "deleted.2.npy")


def test_an_index_whose_analyzer_made_other_terms_is_refused(copy):
    """Another release of PyStemmer has the same name and is not the same."""
    replace(IndexManifest.read(copy), fingerprint="0123456789abcdef").write(copy)
    said = r"was built where whitespace made other terms \(.*PyStemmer \d"
    for opened in (SparseIndex, IndexWriter):
        with pytest.raises(AnalyzerError, match=said):
            opened(copy)
    assert len(build_index(docs(["new"]), copy, analyzer="none", overwrite=True, workers=1)) == 1


def test_a_writer_that_overwrites_does_so_once_and_has_nothing_to_change_before(copy):
    with IndexWriter(copy, overwrite=True, workers=1) as writer:
        for change in (lambda: writer.delete(["d0"]), writer.merge):
            with pytest.raises(IndexFault, match="there are no documents yet"):
                change()
        with pytest.raises(DocumentError, match="there is no document"):
            writer.add([])
        writer.add([Doc("d0", "a"), Doc("d1", "a")])
        writer.add([Doc("d2", "a")])
        writer.delete(["d0"])
        writer.merge()
    assert [doc.docno for doc in SparseIndex(copy).docs.values()] == ["d1", "d2"]
    assert SparseIndex(copy).analyzer == Analyzer.parse("none")


def test_an_index_that_was_replaced_after_it_was_opened_is_verified_as_it_now_is(copy):
    index = SparseIndex(copy)
    build_index([Doc("other", "a")], copy, overwrite=True, workers=1)
    index.verify()
    [postings] = (path for path in parts(copy) if path.name == "postings.npy")
    postings.write_bytes(postings.read_bytes()[:-1])
    with pytest.raises(IndexDamaged, match=r"postings\.npy: damaged"):
        index.verify()
