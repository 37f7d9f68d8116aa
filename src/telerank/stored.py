"""Files that are written once and checked whenever they are opened; each change on disk is whole or absent.

A :class:`StoredFile` records a file's size and checksum, a manifest (``manifest.json``) names the files that
belong to a folder, and whatever replaces something is written beside it, flushed to the disk and renamed:
``NAME.writing`` is a draft of NAME, which its writer locks, so that the next one can use what a killed
process has left; ``NAME.old.writing`` is a folder that was replaced.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import io
import json
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, BinaryIO, ClassVar, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from telerank.errors import IndexDamaged, IndexFault
from telerank.types import Progress, silent

MANIFEST = "manifest.json"
DRAFT = ".writing"
"""Ending of the name of what is being written."""
MANIFEST_DRAFT = MANIFEST + DRAFT
_REPLACED = f".old{DRAFT}"
_SMALL = 4 << 20  # bytes of a file whose checksum is compared whenever it is opened
_CHUNK = 1 << 20
_MOST, _SHOWN = 1 << 63, 60  # of a count; of the characters of a value in a message
Entry = TypeVar("Entry")


@dataclass(frozen=True)
class StoredFile:
    """Size and checksum of a file as it was written."""

    bytes: int
    crc32: int

    @classmethod
    def record(cls, path: Path) -> StoredFile:
        """Flush a finished file to the disk and record it."""
        sync_file(path)
        return cls(path.stat().st_size, compute_crc32(path))

    def check(self, path: Path, *, whole: bool = False) -> None:
        """Compare the size, and the checksum if the file is small (4 MiB or less) or ``whole`` is set.

        Raises
        ------
        IndexDamaged
            If the file is missing or differs.
        """
        if not path.is_file():
            raise IndexDamaged(f"{path}: missing")
        size = path.stat().st_size
        if size != self.bytes:
            raise IndexDamaged(f"{path}: damaged ({size} bytes, {self.bytes} were written)")
        if (whole or size <= _SMALL) and compute_crc32(path) != self.crc32:
            raise IndexDamaged(f"{path}: damaged (its checksum differs)")


StoredFiles = Mapping[str, StoredFile]
"""Files of a folder by name."""


class FolderReader:
    """What was read from a folder: it pickles as the folder, which is opened again.

    Two are equal if their folders are, and ``_contents``, which a class sets if its folder may change.
    """

    folder: Path
    _contents: object = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FolderReader) or type(other) is not type(self):
            return NotImplemented
        return self.folder.resolve() == other.folder.resolve() and self._contents == other._contents

    def __hash__(self) -> int:
        return hash(self.folder.resolve())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.folder)!r})"

    def __reduce__(self) -> tuple[type[Self], tuple[Path]]:
        return type(self), (self.folder,)


def record_files(folder: Path) -> dict[str, StoredFile]:
    """Flush all files of a finished folder, and of folders in it, to the disk and record them."""
    files = {
        path.relative_to(folder).as_posix(): StoredFile.record(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    sync_folder(folder)
    return files


def parse_files(record: Mapping[str, Mapping[str, int]]) -> dict[str, StoredFile]:
    """The files that a manifest's JSON names."""
    return {name: StoredFile(**fields) for name, fields in record.items()}


def parse_entries(entry: Callable[..., Entry], records: Iterable[Mapping[str, Any]]) -> tuple[Entry, ...]:
    """The shards or segments that a manifest's JSON names, each with its ``files``."""
    return tuple(entry(**{**record, "files": parse_files(record["files"])}) for record in records)


def check_files(folder: Path, files: StoredFiles) -> None:
    """Call :meth:`StoredFile.check` for each file."""
    for name, file in files.items():
        file.check(folder / name)


def verify_files(folder: Path, files: StoredFiles, label: str, progress: Progress = silent) -> None:
    """Read every file and compare its checksum.

    Raises
    ------
    IndexDamaged
        If a file is missing or differs.
    """
    done, total = 0, sum(file.bytes for file in files.values())
    for name, file in files.items():
        file.check(folder / name, whole=True)
        done += file.bytes
        progress(label, done, total)


class Manifest:
    """A frozen dataclass that is kept as ``manifest.json``, with the checksum of its fields.

    ``format`` and ``kind``, if it is not None, are fields, too; ``parsers`` make others from their JSON.
    """

    kind: str | None = None
    format: int
    parsers: ClassVar[Mapping[str, Callable[[Any], object]]]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The manifest of a folder.

        Raises
        ------
        IndexFault
            If the manifest is of another kind or format.
        IndexDamaged
            If it cannot be read or its checksum differs.
        """
        path = folder / MANIFEST
        try:
            record: dict[str, Any] = json.loads(path.read_bytes())
            intact = record.pop("crc32") == compute_checksum(record)
            actual = (record.get("kind"), record["format"])
            if intact and actual == (cls.kind, cls.format):
                manifest = cls(
                    **{**record, **{name: parse(record[name]) for name, parse in cls.parsers.items()}}
                )
                _check_types(manifest)
                return manifest
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise IndexDamaged(f"{path}: damaged ({error})") from error
        if not intact:
            raise IndexDamaged(f"{path}: damaged (its checksum differs)")
        if actual[0] != cls.kind:
            raise IndexFault(f"{path}: expected the kind {cls.kind!r}, got {actual[0]!r}")
        raise IndexFault(f"{path}: format {actual[1]}, this version reads format {cls.format}")

    def write(self, folder: Path) -> None:
        """Replace the manifest; the files that it names must be durable."""
        record = asdict(self)  # type: ignore[call-overload]
        text = json.dumps({**record, "crc32": compute_checksum(record)}, indent=1, sort_keys=True)
        replace_file(folder / MANIFEST, text.encode())


@contextmanager
def open_draft(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write that gets the name ``path``, flushed to the disk, when the block ends.

    It is removed if the block raises. A pipe or a device is written itself. Its folder is made if only the
    last one of the path is missing. Raises OSError, which names ``path``, if it cannot be written, or another
    process is writing it.
    """
    with _naming(path):
        path.parent.mkdir(exist_ok=True)
    if is_device(path):
        with io.BufferedWriter(_NamedFile(path, path)) as device:
            yield device
        return
    target = Path(os.path.realpath(path))  # a link stays one
    draft = target.with_name(target.name + DRAFT)
    with _lock_draft(draft, path):
        try:
            with io.BufferedWriter(_NamedFile(draft, path), 1 << 17) as file:
                yield file
                file.flush()
                with _naming(path):
                    os.fsync(file.fileno())
            draft.replace(target)
        except BaseException:
            remove(draft)
            raise
    sync_folder(target.parent)


@contextmanager
def draft_folder(path: Path) -> Iterator[Path]:
    """An empty folder that replaces ``path`` when the block ends, and is removed if the block raises.

    Raises OSError if it cannot be written, or another process is writing it.
    """
    draft = path.with_name(path.name + DRAFT)
    with _naming(path):
        draft.mkdir(parents=True, exist_ok=True)
    with _lock_draft(draft, path):
        try:
            sweep(draft.iterdir())
            yield draft
            replace_folder(path, draft)
        except BaseException:
            remove(draft)
            raise


def is_device(path: Path) -> bool:
    """Whether a path is a pipe or a device, or else a folder: something that no file replaces."""
    return path.exists() and not path.is_file()


class _NamedFile(io.FileIO):
    """A file to write, emptied first; errors of writing it have the ``name`` that its user knows."""

    def __init__(self, path: Path, name: Path) -> None:
        super().__init__(path, "w")
        self._name = name

    def write(self, content: Any) -> int:
        with _naming(self._name):
            return super().write(content)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let the errors of the system name the path that the user knows."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def _lock_draft(draft: Path, path: Path) -> Iterator[None]:
    """Hold the lock of a draft, which is made if there is none; the system takes it from a killed process."""
    if sys.platform == "win32":  # which lets nobody remove or rename an open file
        yield
        return
    import fcntl

    create = 0 if draft.is_dir() else os.O_CREAT
    while True:
        with _naming(path):
            handle = os.open(draft, os.O_RDONLY | os.O_NOFOLLOW | create, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):  # others are those of file systems without locks
                os.close(handle)
                raise OSError(errno.EBUSY, "another process is writing it", str(path)) from error
        if draft.exists() and os.path.samestat(os.fstat(handle), draft.stat()):
            break
        os.close(handle)  # of a draft that its last writer has renamed meanwhile
    try:
        yield
    finally:
        os.close(handle)


def _check_types(record: object) -> None:
    """Raise TypeError if a field of a dataclass has a value of another type; numbers are counts."""
    kinds = get_type_hints(type(record))
    for name in (field.name for field in fields(record)):  # type: ignore[arg-type]
        if not _fits(getattr(record, name), kinds[name]):
            raise TypeError(f"{name}: {str(getattr(record, name))[:_SHOWN]!r}")


def _fits(value: object, kind: Any) -> bool:
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        return any(_fits(value, choice) for choice in arguments)
    if origin is Any:
        return True
    if not isinstance(value, origin) or (isinstance(value, bool) and origin is not bool):
        return False
    if is_dataclass(value):
        _check_types(value)
    if isinstance(value, Mapping):
        return all(_fits(inner, arguments[1]) for inner in value.values())
    if isinstance(value, tuple | list):
        return all(_fits(inner, arguments[0]) for inner in value)
    return not isinstance(value, int) or 0 <= value < _MOST


def replace_file(path: Path, content: bytes) -> None:
    """Write a file beside its name, flush it and rename it."""
    with open_draft(path) as file:
        file.write(content)


def replace_folder(path: Path, draft: Path) -> None:
    """Flush the files of ``draft`` and give it the name ``path``; a folder of that name is removed.

    The two change names in one step, so that there always is an old folder or a new one. On systems and file
    systems that cannot do that (Windows, NFS), there is none for a moment; if the process is killed in this
    moment, :func:`sweep_replaced` puts the old one back.
    """
    for file in (*draft.rglob("*"), draft):
        sync_folder(file) if file.is_dir() else sync_file(file)
    sweep_replaced(path)
    old = path.with_name(path.name + _REPLACED)
    if path.exists() and _exchange(path, draft):
        draft.rename(old)
    else:
        if path.exists():
            path.rename(old)
        draft.rename(path)
    sync_folder(path.parent)
    remove(old)


def _exchange(first: Path, second: Path) -> bool:
    """Let two folders change names in one step; False if the system or the file system cannot do that."""
    names, here = (os.fsencode(first), os.fsencode(second)), -100  # AT_FDCWD
    try:
        system = ctypes.CDLL(None)
        if sys.platform == "darwin":
            status = system.renamex_np(*names, 2)  # RENAME_SWAP
        else:
            status = system.renameat2(here, names[0], here, names[1], 2)  # RENAME_EXCHANGE
    except (AttributeError, TypeError, OSError):  # no such function, no such library
        return False
    return bool(status == 0)


def remove_folder(path: Path) -> None:
    """Remove a folder that is never seen in part: it is renamed first."""
    draft = path.with_name(path.name + DRAFT)
    remove(draft)
    path.rename(draft)
    remove(draft)


def sweep_replaced(path: Path) -> None:
    """Remove the old folder that a killed :func:`replace_folder` left; put it back if there is no new one."""
    old = path.with_name(path.name + _REPLACED)
    if old.exists() and not path.exists():
        old.rename(path)
    remove(old)


def sweep_drafts(folder: Path) -> None:
    """Remove what a killed process was writing with a name ending in ``.writing``.

    A folder that it was replacing gets its name back.
    """
    for old in folder.glob(f"*{_REPLACED}"):
        sweep_replaced(old.with_name(old.name.removesuffix(_REPLACED)))
    sweep(folder.glob(f"*{DRAFT}"))


def sweep(paths: Iterable[Path], keep: Container[str] = ()) -> None:
    """Remove files and folders, except those whose names are in ``keep``."""
    for path in paths:
        if path.name not in keep:
            remove(path)


def remove(path: Path) -> None:
    """Remove a file or folder, if it exists; what cannot be removed, because it is in use, is left."""
    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def sync_file(path: Path) -> None:
    """Flush a file's content to the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, if the system can open folders."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def file_checksum(file: Path) -> str:
    """The SHA-256 of a file's content."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def folder_checksum(folder: Path) -> str:
    """A hash of the names and the contents of the files in a folder."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    listing = json.dumps([[str(file.relative_to(folder)), file_checksum(file)] for file in files])
    return hashlib.sha256(listing.encode()).hexdigest()


def compute_crc32(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            value = zlib.crc32(chunk, value)
    return value


def compute_checksum(record: Mapping[str, Any]) -> int:
    """The crc32 of a JSON record in canonical form."""
    return zlib.crc32(json.dumps(record, sort_keys=True).encode())
