"""Files that are written once and checked whenever they are opened.

A :class:`StoredFile` records a file's size and checksum, and a manifest (``manifest.json``) names the files
that belong to a folder; :mod:`telerank.drafts` replaces them.
"""

from __future__ import annotations

import hashlib
import json
import platform
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, is_dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Lock
from types import UnionType
from typing import IO, Any, ClassVar, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from telerank.drafts import DRAFT, replace_file, sync_file, sync_folder
from telerank.errors import IndexDamaged, IndexFault, IndexLocked
from telerank.types import Progress, silent

MANIFEST = "manifest.json"
MANIFEST_DRAFT = MANIFEST + DRAFT
_SMALL = 4 << 20  # bytes of a file whose checksum is compared whenever it is opened
_CHUNK = 1 << 20
_MOST, _SHOWN = 1 << 63, 60  # of a count; of the characters of a value in a message
_PACKAGES = ("telerank", "numpy", "numba", "ir-measures", "scipy", "PyStemmer")
_OF_EXTRAS = ("torch", "transformers", "faiss-cpu", "openvino", "onnxruntime")
T = TypeVar("T")
_LOCK = Lock()


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


# Files of a folder by name.
StoredFiles = Mapping[str, StoredFile]


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

    Its fields are texts, counts, and records, tuples and mappings of them: their types say how JSON is read.
    ``format`` and ``kind``, if it is not None (an index), are fields, too. Formats in ``readable`` are read
    besides the one that is written.
    """

    kind: str | None = None
    readable: ClassVar[tuple[int, ...]] = ()
    format: int

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
            content = path.read_bytes()
        except OSError as error:
            raise IndexDamaged(f"{path}: damaged ({error})") from error
        return cls.parse(content, path)

    @classmethod
    def parse(cls, content: bytes, path: Path) -> Self:
        """The manifest of a file's content; raises as :meth:`read`, and names ``path``."""
        try:
            record: dict[str, Any] = json.loads(content)
            intact = record.pop("crc32") == compute_checksum(record)
            actual = (record.get("kind"), record["format"])
            if intact and actual[0] == cls.kind and actual[1] in (cls.format, *cls.readable):
                manifest: Self = _build(MANIFEST, cls, record)
                return manifest
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise IndexDamaged(f"{path}: damaged ({error})") from error
        if not intact:
            raise IndexDamaged(f"{path}: damaged (its checksum differs)")
        if actual[0] != cls.kind:
            expected = f"the kind {cls.kind!r}" if cls.kind else "an index"
            kind = repr(actual[0]) if actual[0] else "an index"
            raise IndexFault(f"{path}: expected {expected}, got {kind}")
        raise IndexFault(f"{path}: format {actual[1]}, this version reads format {cls.format}")

    @classmethod
    def open(cls, folder: Path, open_parts: Callable[[Self], T]) -> tuple[Self, T]:
        """The manifest and what ``open_parts`` opens of it, again if a writer replaces them meanwhile.

        Raises as :meth:`read`, and what ``open_parts`` raises of a manifest that stays.
        """
        while True:
            manifest = cls.read(folder)
            try:
                parts = open_parts(manifest)
            except Exception:  # damaged bytes may raise anything
                if cls.read(folder) == manifest:
                    raise
            else:
                if cls.read(folder) == manifest:
                    return manifest, parts

    def write(self, folder: Path) -> None:
        """Replace the manifest; the files that it names must be durable."""
        replace_file(folder / MANIFEST, self.content)

    @property
    def content(self) -> bytes:
        """The content of the file."""
        record = asdict(self)  # type: ignore[call-overload]
        text = json.dumps({**record, "crc32": compute_checksum(record)}, indent=1, sort_keys=True)
        return text.encode()


_field_kinds = cache(get_type_hints)


def _build(name: str, kind: Any, value: Any) -> Any:
    """The value of a field from its JSON; raises TypeError, or another error, if it is not of that type."""
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin is Any:
        return value
    if origin in (Union, UnionType):
        origin = type(value) if type(value) in arguments else arguments[0]
    if is_dataclass(origin):
        record: Any = origin
        kinds = _field_kinds(record)
        return record(**{field: _build(field, kinds[field], inner) for field, inner in value.items()})
    if origin is tuple:
        return tuple(_build(name, arguments[0], inner) for inner in value)
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST
    if not isinstance(value, origin) or (isinstance(value, int) and not (is_count or origin is bool)):
        raise TypeError(f"{name}: {str(value)[:_SHOWN]!r}")
    if isinstance(value, Mapping):
        return {key: _build(name, arguments[1], inner) for key, inner in value.items()}
    return value


@contextmanager
def becoming_writer(folder: Path, busy: str, release: Callable[[], None]) -> Iterator[None]:
    """Take the lock of a folder and prepare it in the block; if that fails, ``release`` is called.

    Raises IndexLocked, whose message is ``busy``, if another process has the lock, IndexFault if the folder
    cannot be written to.
    """
    from filelock import Timeout  # what only searches needs no locks

    try:
        yield
    except BaseException as error:
        release()
        if isinstance(error, Timeout):
            raise IndexLocked(f"{folder}: {busy}") from None
        if isinstance(error, OSError):
            raise IndexFault(f"{folder}: cannot be written to: {error}") from error
        raise


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


def load_npy(file: Path | IO[bytes], mmap_mode: Literal["r", "r+"] | None = None) -> Any:
    """``np.load``, one thread at a time.

    numpy parses the header as Python, and CPython 3.11 may raise SystemError if two threads parse at once.
    Raises ValueError if the file holds no array.
    """
    try:
        with _LOCK:
            array = np.load(file, mmap_mode=mmap_mode)
    except (EOFError, OverflowError, BadZipFile) as error:
        raise ValueError(str(error)) from error
    if not isinstance(array, np.ndarray):
        raise ValueError("several arrays")  # noqa: TRY004 — of a .npz file
    return array


def map_npy(
    path: Path, kind: npt.DTypeLike, shape: tuple[int, ...] | None = None, *, mapped: bool = True
) -> npt.NDArray[Any]:
    """The array in a file, memory-mapped; without ``mapped`` it is loaded.

    Raises
    ------
    IndexDamaged
        If it cannot be read, or has another type or shape (None: any).
    """
    try:
        array = load_npy(path, mmap_mode="r" if mapped else None)
    except (ValueError, OSError) as error:
        raise IndexDamaged(f"{path}: damaged ({error})") from error
    if array.dtype != kind or shape not in (None, array.shape):
        expected = f"{np.dtype(kind)} {shape or ''}".rstrip()
        raise IndexDamaged(f"{path}: damaged ({array.dtype} {array.shape}, not {expected})")
    return np.asarray(array)


def versions() -> dict[str, str]:
    """Of Python, and of the packages that rankings and figures depend on, as far as they are installed."""
    numbers = {"python": platform.python_version()}
    for name in (*_PACKAGES, *_OF_EXTRAS):
        with suppress(PackageNotFoundError):
            numbers[name] = version(name)
    return numbers
