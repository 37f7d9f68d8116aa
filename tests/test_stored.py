from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from zlib import crc32

import pytest

from telerank.drafts import draft_folder, open_draft, replace_file, replace_folder, sweep, sweep_drafts
from telerank.errors import IndexDamaged, IndexFault
from telerank.stored import Manifest, StoredFile, check_files, record_files, verify_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in (("a", b"one"), ("b", b""), ("c", b"x" * 1000)):
        (tmp_path / name).write_bytes(content)
    return tmp_path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_is_recorded_with_its_size_and_checksum(folder):
    files = record_files(folder)
    assert files == {
        "a": StoredFile(3, crc32(b"one")),
        "b": StoredFile(0, 0),
        "c": StoredFile(1000, crc32(b"x" * 1000)),
    }
    calls: list[tuple[str, int, int | None]] = []
    verify_files(folder, files, "verifying", lambda *progress: calls.append(progress))
    assert calls == [("verifying", 3, 1003), ("verifying", 3, 1003), ("verifying", 1003, 1003)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "c: missing"),
        (b"x", r"c: damaged \(1 bytes, 1000 were written\)"),
        (b"y" * 1000, r"c: damaged \(its checksum differs\)"),
    ],
)
def test_a_damaged_file_is_named(folder, content, message):
    files = record_files(folder)
    check_files(folder, files)
    (folder / "c").unlink() if content is None else (folder / "c").write_bytes(content)
    for compare in (check_files, lambda *arguments: verify_files(*arguments, "verifying")):
        with pytest.raises(IndexDamaged, match=message):
            compare(folder, files)


def test_the_checksum_of_a_large_file_is_compared_only_when_all_are_verified(folder):
    for size, compared in ((4 << 20, True), ((4 << 20) + 1, False)):
        (folder / "c").write_bytes(bytes(size))
        files = record_files(folder)
        (folder / "c").write_bytes(b"y" * size)
        with pytest.raises(IndexDamaged, match="c: damaged") if compared else nullcontext():
            check_files(folder, files)
        with pytest.raises(IndexDamaged, match="c: damaged"):
            verify_files(folder, files, "verifying")


@dataclass(frozen=True)
class Shard:
    rows: int
    files: dict[str, StoredFile]


@dataclass(frozen=True)
class Box(Manifest):
    shards: tuple[Shard, ...]
    kind: str = "box"
    format: int = 1


@pytest.fixture
def box(folder: Path) -> Box:
    box = Box((Shard(7, record_files(folder)), Shard(0, {})))
    box.write(folder)
    return box


def test_a_manifest_is_read_as_it_was_written_with_the_checksum_of_its_fields(folder, box):
    assert Box.read(folder) == box
    assert names(folder) == {"a", "b", "c", "manifest.json"}
    record = json.loads((folder / "manifest.json").read_text())
    assert record.pop("crc32") == crc32(json.dumps(asdict(box), sort_keys=True).encode())
    assert record == json.loads(json.dumps(asdict(box)))
    good = (folder / "manifest.json").read_bytes()
    for position in range(0, len(good), 7):
        if good[position] not in b" \n":
            changed = bytes((good[position] ^ 1,))
            (folder / "manifest.json").write_bytes(good[:position] + changed + good[position + 1 :])
            with pytest.raises(IndexDamaged, match=r"manifest\.json: damaged"):
                Box.read(folder)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b"1", b"\xff", b'{"crc32": 0}', b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000],
)
def test_a_manifest_that_is_none_is_damaged(folder, content):
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(IndexDamaged, match=r"manifest\.json: damaged"):
        Box.read(folder)


@pytest.mark.parametrize("name", ["shards", "rows", "files"])
def test_a_manifest_with_values_of_another_type_is_damaged(folder, box, name):
    """Its checksum is right: someone wrote it by hand."""
    others = (None, -1, True, 2**63, 0.5, "1", [], {}, [1], {"a": 1}, {"a": {"bytes": "1", "crc32": 1}})
    for value in others:
        record = json.loads(json.dumps(asdict(box)))
        (record if name == "shards" else record["shards"][0])[name] = value
        text = json.dumps({**record, "crc32": crc32(json.dumps(record, sort_keys=True).encode())})
        (folder / "manifest.json").write_text(text)
        if (name, value) in (("shards", []), ("shards", {}), ("files", {})):
            assert Box.read(folder) != box
            continue
        with pytest.raises(IndexDamaged, match=r"manifest\.json: damaged"):
            Box.read(folder)


def test_a_manifest_of_another_kind_or_format_is_refused(folder, box):
    with pytest.raises(IndexFault, match="expected the kind 'lid', got 'box'"):
        type("Lid", (Box,), {"kind": "lid"}).read(folder)
    with pytest.raises(IndexFault, match="format 1, this version reads format 2"):
        type("Later", (Box,), {"format": 2}).read(folder)


def write_draft(folder: Path, name: str) -> Path:
    draft = folder / f"{name}.writing"
    (draft / "inner").mkdir(parents=True)
    (draft / "inner" / "file").write_text("new")
    return draft


@pytest.mark.parametrize("exchange", [True, False])
def test_a_folder_is_replaced_whatever_was_left_before(tmp_path, exchange):
    for before in ((), ("x",), ("x.old.writing",), ("x", "x.old.writing")):
        for name in before:
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / "old").touch()
        replace_folder(tmp_path / "x", write_draft(tmp_path, "x"), exchange=exchange)
        assert names(tmp_path) == {"x"}
        assert names(tmp_path / "x") == {"inner"}
        shutil.rmtree(tmp_path / "x")


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("killed_at", [1, 2])
def test_a_folder_whose_replacement_was_killed_is_old_or_new(tmp_path, monkeypatch, exchange, killed_at):
    (tmp_path / "x").mkdir()
    draft, moments, rename = write_draft(tmp_path, "x"), iter(range(killed_at - 1)), Path.rename

    def killed(path: Path, target: Path) -> None:
        if next(moments, None) is None:
            raise KeyboardInterrupt
        rename(path, target)

    monkeypatch.setattr(Path, "rename", killed)
    with suppress(KeyboardInterrupt):
        replace_folder(tmp_path / "x", draft, exchange=exchange)
    if exchange:
        assert names(tmp_path / "x") == {"inner"}
    monkeypatch.undo()
    sweep_drafts(tmp_path)
    assert names(tmp_path) == {"x"}
    assert names(tmp_path / "x") == ({"inner"} if exchange else set())


def test_a_file_is_replaced_when_it_is_complete(folder):
    with suppress(KeyboardInterrupt), open_draft(folder / "a") as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert ((folder / "a").read_bytes(), names(folder)) == (b"one", {"a", "b", "c"})
    (folder / "link").symlink_to("a")
    with open_draft(folder / "link") as file:
        file.write(b"two")
    replace_file(folder / "d", b"new")
    assert (folder / "link").is_symlink()
    assert ((folder / "a").read_bytes(), (folder / "d").read_bytes()) == (b"two", b"new")
    assert names(folder) == {"a", "b", "c", "d", "link"}


def test_a_draft_has_one_writer_and_what_a_killed_one_left_is_written_anew(folder):
    (folder / "a.writing").write_bytes(b"left by a killed process")
    (folder / "d.writing" / "left").mkdir(parents=True)
    for open_, path in ((open_draft, folder / "a"), (draft_folder, folder / "d")):
        with open_(path), pytest.raises(OSError, match=f"another process is writing it: '{path}'"):
            open_(path).__enter__()
    assert (folder / "a").read_bytes() == b""
    assert names(folder) == {"a", "b", "c", "d"}
    assert names(folder / "d") == set()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
def test_a_device_is_written_itself_and_a_full_one_is_named(tmp_path):
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(OSError, match=rf"No space left on device: '{tmp_path}/full'"):
        replace_file(tmp_path / "full", b"x")
    replace_file(Path(os.devnull), b"x")
    assert Path(os.devnull).is_char_device()


LIMITED = """
import resource, sys
from pathlib import Path
from telerank.drafts import replace_file
resource.setrlimit(resource.RLIMIT_FSIZE, (5, 5))
replace_file(Path("a"), b"x" * int(sys.argv[1]))
"""


@pytest.mark.skipif(os.name != "posix", reason="limits of the system")
def test_a_file_that_cannot_be_written_is_named_and_removed(folder):
    for length in ("10", "1000000"):
        command = [sys.executable, "-c", LIMITED, length]
        failed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert failed.stderr.splitlines()[-1] == "OSError: [Errno 27] File too large: 'a'"
        assert ((folder / "a").read_bytes(), names(folder)) == (b"one", {"a", "b", "c"})


def test_what_is_not_named_is_removed(folder):
    write_draft(folder, "d")
    sweep(folder.iterdir(), {"a", "other"})
    sweep([folder / "missing"])
    assert names(folder) == {"a"}
