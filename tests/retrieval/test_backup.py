"""A backup is a whole state of an index, whoever writes to it; what is restored is checked, and ranks alike."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest

import telerank as tr
from small_vectors import Letters
from telerank.dense.encode import Encoding, encode_documents
from telerank.dense.retriever import build_approximate
from telerank.dense.vectors import Vectors
from telerank.errors import IndexDamaged, IndexFault, IndexLocked
from telerank.pipelines.functions import save_pipeline
from telerank.retrieval.backup import INDEX, backup_index
from telerank.sparse.writer import IndexWriter
from telerank.stored import MANIFEST, compute_checksum

TEXTS = {f"d{n}": f"{'abcdefgh'[n % 8] * (1 + n % 5)} bear {n}" for n in range(40)}
QUERIES = ("a bear", "bbb 7", "c d e bear 12")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """An index of two segments with deletions, vectors, an approximate search, a model, a pipeline, a record."""
    place = tmp_path_factory.mktemp("backup")
    (place / "files").mkdir()
    (place / "files/note.txt").write_text("a note on bears")
    index = tr.index(
        tr.collection(place / "files"), place / "idx", analyzer="english", workers=1, progress=False
    )
    index.add(TEXTS, progress=False)
    index.delete(["d3", "d9"])
    save_pipeline(index, "best", "bm25(k1=0.9, b=0.4)")
    vectors = index.vectors_folder("letters")
    settings = Encoding(shard=16, source=index.sparse.state)
    encode_documents(index.docs.values(), vectors, Letters(), encoding=settings)
    build_approximate(Vectors(vectors), "hnsw(links=4)")
    (place / "mono").mkdir()
    (place / "mono/config.yaml").write_text("x: 1")
    (index.folder / "models").mkdir()
    (index.folder / "models/mono").symlink_to(place / "mono")
    return index.folder


def rankings(folder: Path) -> list[object]:
    index = tr.open(folder)
    dense = index.dense("letters", make_encoder=lambda *_: Letters())
    stages = (tr.pipeline("best", index), dense, dense.approximately("hnsw", 20))
    return [[list(stage.search(query)) for query in QUERIES] for stage in stages]


@pytest.fixture(params=["b", "b.tar"])
def backup(request, tmp_path: Path, folder: Path) -> Path:
    tr.open(folder).backup(tmp_path / request.param, progress=False)
    return tmp_path / request.param


def test_a_restored_index_is_the_one_that_was_backed_up(backup, folder, tmp_path):
    index = tr.restore(backup, tmp_path / "restored", progress=False)
    assert rankings(index.folder) == rankings(folder)
    assert index.info() == tr.open(folder).info()
    assert index.verify(progress=False) > 10
    assert (index.folder / "models/mono/config.yaml").read_text() == "x: 1"
    assert not (index.folder / "models/mono").is_symlink()
    (folder.parent / "files/more.txt").write_text("more")
    assert index.update(folder.parent / "files", vectors=False, progress=False).added == (
        "more.txt",
    )  # it has the record
    (folder.parent / "files/more.txt").unlink()
    if backup.is_dir():
        assert rankings(backup / INDEX) == rankings(folder)
    else:
        with tarfile.open(backup) as packed:  # as others read it
            assert all(member.isreg() for member in packed.getmembers())
            assert packed.getnames()[-1] == MANIFEST


def test_a_backup_is_replaced_and_nothing_else_is(backup, folder, tmp_path):
    before = tr.open(folder).backup(backup, progress=False)
    assert tr.restore(backup, tmp_path / "restored", progress=False).verify(progress=False)
    assert before.source == folder.name
    with pytest.raises(IndexFault, match=r"restored: holds something already: overwrite it"):
        tr.restore(backup, tmp_path / "restored", progress=False)
    with IndexWriter(tmp_path / "restored"), pytest.raises(IndexLocked, match="another writer"):
        tr.restore(backup, tmp_path / "restored", overwrite=True, progress=False)
    again = tr.restore(backup, tmp_path / "restored", overwrite=True, progress=False)
    assert rankings(again.folder) == rankings(folder)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/own.txt").write_text("own")
    (tmp_path / "other.tar").write_bytes(b"own")
    for target in ("other", "other.tar"):
        with pytest.raises(IndexFault, match="holds something else"):
            tr.open(folder).backup(tmp_path / target, progress=False)
        with pytest.raises(IndexFault):
            tr.restore(backup, tmp_path / target, overwrite=True, progress=False)
    for inside in (folder, folder / "b", folder.parent):
        with pytest.raises(IndexFault, match="outside the index"):
            tr.open(folder).backup(inside, progress=False)
    assert (tmp_path / "other/own.txt").read_text() == "own"
    assert {path.name for path in tmp_path.iterdir()} == {backup.name, "restored", "other", "other.tar"}


@pytest.mark.parametrize("name", ["idx.tar.gz", "idx.tgz", "idx.zip", "idx.tar.zst"])
def test_a_name_that_promises_packing_is_refused(name, folder, tmp_path):
    with pytest.raises(IndexFault, match=f"{name}: a backup is a folder, or a file that ends in .tar"):
        tr.open(folder).backup(tmp_path / name)
    assert not (tmp_path / name).exists()


def test_a_damaged_index_is_not_backed_up(folder, tmp_path):
    copy = tr.restore(_backed_up(folder, tmp_path / "b"), tmp_path / "idx", progress=False)
    large = max((copy.folder / "segments").rglob("*.*"), key=lambda path: path.stat().st_size)
    content = bytearray(large.read_bytes())
    content[-1] ^= 1
    large.write_bytes(content)
    with pytest.raises(IndexDamaged, match=large.name):
        backup_index(copy.folder, tmp_path / "c.tar")
    assert not list(tmp_path.glob("c.tar*"))


def test_what_the_system_refuses_is_one_line(folder, tmp_path, monkeypatch):
    with pytest.raises(IndexFault, match=r"nothing: no such backup"):
        tr.restore("nothing", tmp_path / "idx", progress=False)
    (tmp_path / "file").write_text("x")
    with pytest.raises(IndexFault, match=r"not backed up to .*Not a directory"):
        tr.open(folder).backup(tmp_path / "file" / "b", progress=False)
    monkeypatch.setattr("telerank.retrieval.backup._pour", full_disk)
    for target in ("b", "b.tar"):
        with pytest.raises(IndexFault, match=r"not backed up to .*No space left"):
            tr.open(folder).backup(tmp_path / target, progress=False)
    assert {path.name for path in tmp_path.iterdir()} == {"file"}


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _backed_up(folder: Path, backup: Path) -> Path:
    tr.open(folder).backup(backup, progress=False)
    return backup


@pytest.mark.process
def test_a_damaged_backup_is_not_restored(backup, folder, tmp_path):
    """Of a folder each file is damaged, of a tar file bytes all over it, and its end is cut off."""
    if backup.is_dir():
        files = [path for path in backup.rglob("*") if path.is_file()]
        damages = [(path, path.read_bytes(), len(path.read_bytes()) // 2) for path in files]
    else:
        content = backup.read_bytes()
        damages = [(backup, content, at) for at in range(300, len(content) - 3000, len(content) // 20)]
    restored = tmp_path / "restored"
    for path, content, at in damages:
        for wrong in (content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :], content[:at]):
            path.write_bytes(wrong)
            with suppress(IndexFault):  # but for a byte of no meaning, such as the padding of a tar file
                assert rankings(tr.restore(backup, restored, progress=False).folder) == rankings(folder)
                assert wrong != content[:at]
                shutil.rmtree(restored)
            assert not list(tmp_path.glob("restored*"))
        path.write_bytes(content)
    if backup.is_dir():
        (backup / INDEX / "pipelines.json").unlink()
        with pytest.raises(IndexDamaged, match=r"pipelines.json: missing"):
            tr.restore(backup, restored, progress=False)


NAMES = (
    "../out",
    "/etc/telerank-out",
    "index/../../out",
    "out",
    "index",
    "index/a\\..\\b",
    "index//a",
    "C:/x",
)


def _member(
    name: str, content: bytes = b"x", kind: bytes = tarfile.REGTYPE, size: int | None = None
) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(content) if size is None else size
    info.linkname = "/etc/passwd" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
    return info.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


@pytest.mark.parametrize(
    "first",
    [
        *(_member(name) for name in NAMES),
        _member("index/a" * 40),  # a long name
        *(
            _member("index/a", b"", kind)
            for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE)
        ),
        _member("index/a", b"x", tarfile.GNUTYPE_SPARSE),
        _member("index/a", b"path=/etc/x\n", tarfile.XHDTYPE),
        _member("index/a", b"x", size=1 << 50),
        _member("index/a") + _member("index/a"),
        _member("index/a") + _member("index/a/b"),
        _member("index/foreign"),
        _member(MANIFEST, b"[" * 100_000),
        b"\x1f\x8b" + bytes(1000),
        b"",
    ],
)
def test_what_is_foreign_in_a_tar_is_refused(first, folder, tmp_path):
    whole = _backed_up(folder, tmp_path / "b.tar").read_bytes()
    (tmp_path / "bad.tar").write_bytes(first + whole if first else b"")
    with pytest.raises(IndexDamaged, match=r"bad\.tar") as caught:
        tr.restore(tmp_path / "bad.tar", tmp_path / "restored", progress=False)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert {path.name for path in tmp_path.iterdir()} == {"b.tar", "bad.tar"}


def test_what_is_foreign_in_a_folder_is_refused(folder, tmp_path):
    backup = _backed_up(folder, tmp_path / "b")
    (tmp_path / "out").write_text("x")
    record = json.loads((backup / MANIFEST).read_text())
    del record["crc32"]
    linked = backup / INDEX / "pipelines.json"
    content = linked.read_bytes()

    def write(files: dict[str, object]) -> None:
        changed = {**record, "files": files}
        (backup / MANIFEST).write_text(json.dumps({**changed, "crc32": compute_checksum(changed)}))

    def refused(message: str) -> None:
        with pytest.raises(IndexFault, match=message):
            tr.restore(backup, tmp_path / "restored", progress=False)
        assert not list(tmp_path.glob("restored*"))

    stored = {"bytes": 1, "crc32": 2363233923}
    for name in NAMES:
        write({**record["files"], name: stored})
        refused("no backup of telerank")
    write({name: file for name, file in record["files"].items() if name != f"{INDEX}/{MANIFEST}"})
    refused("no index here|holds other things")
    write({**record["files"], f"{INDEX}/own.txt": stored})
    (backup / INDEX / "own.txt").write_text("x")
    refused("holds other things")
    write(record["files"])
    linked.unlink()
    (tmp_path / "linked").write_bytes(content)
    linked.symlink_to(tmp_path / "linked")
    refused("is a link")
    (backup / MANIFEST).write_text("{}")
    refused("damaged")
    (backup / MANIFEST).unlink()
    refused("no backup here")


WRITER = """
import sys
from telerank.sparse.writer import IndexWriter
from telerank.types import Doc
with IndexWriter(sys.argv[1], workers=1) as writer:
    for number in range(1000):
        old = [f"{number}-{n}" for n in range(20)]
        writer.replace(old, (Doc(f"{number + 1}-{n}", f"bear {number + 1}") for n in range(20)))
        if number % 3 == 0:
            writer.merge()
        print(number, flush=True)
"""


@pytest.mark.process
def test_a_backup_while_another_process_writes_is_one_of_its_states(tmp_path):
    folder = tmp_path / "idx"
    tr.index({f"0-{n}": "bear 0" for n in range(20)}, folder, workers=1, progress=False)
    with subprocess.Popen([sys.executable, "-c", WRITER, folder], stdout=subprocess.PIPE) as writer:
        writer.stdout.readline()
        met = set()
        for number in range(12):
            backup = tmp_path / f"b{number % 2}{'.tar' if number % 2 else ''}"
            backup_index(folder, backup)
            index = tr.restore(backup, tmp_path / "restored", overwrite=True, progress=False)
            index.verify(progress=False)
            assert len(index) == 20
            [batch] = {docno.partition("-")[0] for docno in index.docs}
            assert len(index.bm25().search(f"bear {batch}")) == 20
            met.add(batch)
        writer.kill()
    assert len(met) > 3


def test_an_index_that_always_changes_is_given_up_in_one_line(folder, tmp_path, monkeypatch):
    states = iter(range(1000))
    monkeypatch.setattr("telerank.retrieval.backup._is_state", lambda *_: next(states) < 0)
    with pytest.raises(IndexFault, match="has changed during each of 20 copies"):
        backup_index(folder, tmp_path / "b")
    assert not list(tmp_path.iterdir())


def test_vectors_alone_are_backed_up(folder, tmp_path):
    vectors = tr.open(folder).vectors["letters"]
    tr.open(vectors).backup(tmp_path / "v.tar", progress=False)
    restored = tr.restore(tmp_path / "v.tar", tmp_path / "v", progress=False)
    both = [tr.open(each).dense(make_encoder=lambda *_: Letters()) for each in (vectors, restored.folder)]
    assert both[0].search("bear") == both[1].search("bear")
