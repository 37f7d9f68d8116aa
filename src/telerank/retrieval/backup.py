"""Backups of an index: a state of it that is whole, copied while it is written to, and restored.

A backup is a folder, or a ``.tar`` file, that has the files of the index in ``index/``, and last
``manifest.json``, which names each of them with its size and checksum. ``index/`` is an index itself.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import BinaryIO, TypeAlias

from telerank.dense.manifest import VectorManifest, is_vectors
from telerank.drafts import DRAFT, draft_folder, open_draft, remove, sweep
from telerank.errors import IndexDamaged, IndexFault, nearest_beside
from telerank.late_interaction.manifest import TokenManifest, has_tokens
from telerank.sparse.index import (
    FILES,
    LOCK,
    MODELS,
    PIPELINES,
    SEGMENTS,
    TOKENS,
    VECTORS,
    IndexManifest,
    check_contents,
    has_index,
)
from telerank.stored import MANIFEST, Manifest, StoredFile, becoming_writer, verify_files
from telerank.types import Progress, silent

INDEX = "index"
_TRIES = 20  # copies of an index that changes meanwhile
_CHUNK = 1 << 20
_BLOCK = tarfile.BLOCKSIZE
_LARGE = 8 << 30  # bytes of a file whose size an old tar header cannot hold
_MOST_MANIFEST = 1 << 28  # bytes
_COPYING, _RESTORING = "copying", "restoring"


@dataclass(frozen=True)
class BackupManifest(Manifest):
    """The files of a backup; ``source`` is the name of the folder of the index, ``time`` in UTC."""

    source: str
    time: str
    files: Mapping[str, StoredFile] = field(default_factory=dict)
    kind: str = "backup"
    format: int = 1

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files.values())


@dataclass(frozen=True)
class IndexState:
    """The files of an index at one moment, by their names in its folder.

    ``lasting`` files never change under their names, and have checksums; of those that are ``replaced`` it
    has the contents; of ``others`` inode, size and time.
    """

    lasting: Mapping[str, StoredFile]
    replaced: Mapping[str, bytes]
    others: Mapping[str, tuple[int, int, int]]

    @property
    def bytes(self) -> int:
        sizes = [file.bytes for file in self.lasting.values()]
        sizes += [len(content) for content in self.replaced.values()]
        return sum(sizes) + sum(size for _, size, _ in self.others.values())


def read_state(folder: Path) -> IndexState:
    """The files that the manifests of an index name, its models, its pipelines and its record.

    Raises
    ------
    IndexFault
        If there is no index, or no vectors.
    IndexDamaged
        If a manifest cannot be read.
    """
    lasting: dict[str, StoredFile] = {}
    replaced, others = [], []
    if is_vectors(folder):
        vectors = [folder]
    else:
        for entry in IndexManifest.read(folder).segments:
            lasting |= {f"{SEGMENTS}/{entry.name}/{name}": file for name, file in entry.files.items()}
        replaced = [folder / PIPELINES, folder / FILES / MANIFEST, folder / MANIFEST]
        others = list(_list_files(folder / MODELS, set()))
        vectors = sorted(path for path in (folder / VECTORS).glob("*") if path.suffix != DRAFT)
    for each in filter(has_tokens, sorted((folder / TOKENS).glob("*"))):
        inside = f"{each.relative_to(folder).as_posix()}/"
        lasting |= {f"{inside}{name}": file for name, file in TokenManifest.read(each).files.items()}
        replaced.insert(0, each / MANIFEST)
    for each in filter(is_vectors, vectors):
        inside = "" if each == folder else f"{each.relative_to(folder).as_posix()}/"
        lasting |= {f"{inside}{name}": file for name, file in VectorManifest.read(each).files.items()}
        others += sorted(path for path in each.glob("approximate.*") if path.suffix != DRAFT)
        replaced.insert(0, each / MANIFEST)
    stats = {path: path.stat() for path in others if path.is_file()}
    return IndexState(
        lasting,
        {path.relative_to(folder).as_posix(): path.read_bytes() for path in replaced if path.is_file()},
        {
            path.relative_to(folder).as_posix(): (stat.st_ino, stat.st_size, stat.st_mtime_ns)
            for path, stat in stats.items()
        },
    )


def verify_index(folder: Path, progress: Progress = silent) -> int:
    """Compare every lasting file with its checksum; the number of files.

    If a writer replaces files meanwhile, the new ones are read. Raises IndexDamaged naming a damaged file.
    """
    state = read_state(folder)
    while True:
        try:
            verify_files(folder, state.lasting, "verifying", progress)
        except (OSError, IndexDamaged):
            before, state = state, read_state(folder)
            if state == before:
                raise
        else:
            return len(state.lasting)


def _list_files(folder: Path, seen: set[Path]) -> Iterator[Path]:
    """The files of a folder of models, those behind links too; each folder once."""
    if not folder.is_dir() or folder.resolve() in seen:
        return
    seen.add(folder.resolve())
    for path in sorted(folder.iterdir()):
        yield from _list_files(path, seen) if path.is_dir() else (path,)


# Adds a file of a name, with the content of an open one; its size and checksum.
Add: TypeAlias = Callable[[str, BinaryIO], StoredFile]


def backup_index(folder: Path, backup: str | Path, progress: Progress = silent) -> BackupManifest:
    """Copy a whole state of an index; see :meth:`telerank.Index.backup`."""
    target = Path(backup).resolve()
    if target == folder or target.is_relative_to(folder) or folder.is_relative_to(target):
        raise IndexFault(f"{backup}: a backup needs a folder of its own, outside the index")
    if target.suffix in _PACKED:
        raise IndexFault(f"{backup}: a backup is a folder, or a file that ends in .tar, which is not packed")
    _check_target(target)
    making = open_draft(target) if _is_tar(target) else draft_folder(target)
    with _naming(f"{folder}: not backed up to {backup}"), making as draft:
        copier = _FolderCopier(draft) if isinstance(draft, Path) else _TarCopier(draft)
        for _ in range(_TRIES):
            state = read_state(folder)
            try:
                files = copier.copy(folder, state, progress)
            except (OSError, IndexDamaged):
                if _is_state(folder, state):
                    raise
                continue  # a writer has removed the file
            if _is_state(folder, state):
                manifest = BackupManifest(folder.name, datetime.now(UTC).isoformat(timespec="seconds"), files)
                copier.finish(manifest)
                return manifest
        raise IndexFault(f"{folder}: has changed during each of {_TRIES} copies: stop what writes to it")


def restore_index(
    backup: str | Path, folder: str | Path, *, overwrite: bool = False, progress: Progress = silent
) -> BackupManifest:
    """Restore an index from a backup; see :func:`telerank.restore`."""
    source, target = Path(backup), Path(folder).resolve()
    if not source.exists():
        raise IndexFault(f"{backup}: no such backup{nearest_beside(backup)}")
    if (source / SEGMENTS).is_dir():
        raise IndexFault(f"{backup}: is an index, not a backup, which is named first")
    is_there = target.is_file() or (target.is_dir() and any(target.iterdir()))
    if is_there and not overwrite:
        raise IndexFault(f"{folder}: holds something already: overwrite it (overwrite=True)")
    if is_there and not is_vectors(target):
        check_contents(target)
    if target.is_relative_to(source.resolve()):
        raise IndexFault(f"{folder}: is in the backup; an index needs a folder of its own")
    locked = _locked(target) if has_index(target) else nullcontext()
    with _naming(f"{folder}: not restored from {backup}"), locked, draft_folder(target) as draft:
        if source.is_dir():
            manifest = _copy_files(source, draft, progress)
        else:
            manifest = _unpack(source, draft, progress)
        if is_vectors(draft):
            VectorManifest.read(draft)
        else:
            check_contents(draft)
            IndexManifest.read(draft)
        return manifest


_PACKED = {".gz", ".tgz", ".bz2", ".xz", ".zst", ".zip", ".7z"}


def _is_tar(path: Path) -> bool:
    return path.suffix == ".tar"


def _is_state(folder: Path, state: IndexState) -> bool:
    with suppress(OSError, IndexFault):
        return read_state(folder) == state
    return False


@contextmanager
def _naming(failure: str) -> Iterator[None]:
    """Let the errors of the system say what failed: such as a full disk, a file that is not there."""
    try:
        yield
    except OSError as error:
        at = f" ({error.filename})" if error.filename else ""
        raise IndexFault(f"{failure}: {error.strerror or error}{at}") from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Be the only writer of an index that is replaced."""
    from filelock import FileLock

    lock = FileLock(folder / LOCK, timeout=0, thread_local=False)
    with becoming_writer(folder, "another writer is at work on this index", lock.release):
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _check_target(target: Path) -> None:
    """Raise IndexFault if something is there that is no backup."""
    try:
        if target.is_dir() and any(target.iterdir()):
            BackupManifest.read(target)
        elif target.is_file():
            with target.open("rb") as file:
                name, _ = next(_read_headers(file, target), ("", 0))
            _check_name(name, target)
    except IndexFault as error:
        raise IndexFault(f"{target}: holds something else; a backup needs a name of its own") from error


class _FolderCopier:
    """Copies states of an index into a folder; a file that is there from the state before is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._copied: dict[tuple[str, object], StoredFile] = {}

    def copy(self, folder: Path, state: IndexState, progress: Progress) -> dict[str, StoredFile]:
        present = {**state.lasting, **state.others, **state.replaced}
        for key in [key for key in self._copied if present.get(key[0]) != key[1]]:
            remove(self.folder / INDEX / key[0])
            del self._copied[key]

        def add(name: str, content: BinaryIO) -> StoredFile:
            key = name, present[name]
            if key not in self._copied:
                path = self.folder / INDEX / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as file:
                    self._copied[key] = _pour(content, file)
            return self._copied[key]

        return _copy(folder, state, add, progress)

    def finish(self, manifest: BackupManifest) -> None:
        named = {self.folder / name for name in manifest.files}
        named |= {parent for path in named for parent in path.parents}
        sweep(path for path in sorted((self.folder / INDEX).rglob("*")) if path not in named)
        manifest.write(self.folder)


class _TarCopier:
    """Writes states of an index into a tar file, each from its beginning."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def copy(self, folder: Path, state: IndexState, progress: Progress) -> dict[str, StoredFile]:
        self.file.seek(0)
        self.file.truncate()
        return _copy(folder, state, lambda name, content: self._add(f"{INDEX}/{name}", content), progress)

    def finish(self, manifest: BackupManifest) -> None:
        self._add(MANIFEST, BytesIO(manifest.content))
        self.file.write(bytes(2 * _BLOCK))

    def _add(self, name: str, content: BinaryIO) -> StoredFile:
        info = tarfile.TarInfo(name)
        content.seek(0, 2)
        info.size, info.mtime = content.tell(), int(datetime.now(UTC).timestamp())
        content.seek(0)
        is_large = info.size >= _LARGE
        try:
            self.file.write(info.tobuf(tarfile.GNU_FORMAT if is_large else tarfile.USTAR_FORMAT))
        except ValueError as error:
            raise IndexFault(f"{name}: its name is too long for a tar file; back up to a folder") from error
        stored = _pour(content, self.file, info.size)
        self.file.write(bytes(-info.size % _BLOCK))
        return stored


def _copy(folder: Path, state: IndexState, add: Add, progress: Progress) -> dict[str, StoredFile]:
    """Add all files of a state, with the manifest of the index last; their sizes and checksums.

    Raises IndexDamaged if a file is not what was written, OSError if it cannot be read, or the copy cannot
    be written.
    """
    files: dict[str, StoredFile] = {}
    done = 0

    def note(name: str, stored: StoredFile) -> None:
        nonlocal done
        files[f"{INDEX}/{name}"] = stored
        done += stored.bytes
        progress(_COPYING, done, state.bytes)

    for name in (*state.lasting, *state.others):
        if not _is_name(f"{INDEX}/{name}"):
            raise IndexFault(f"{folder / name}: a file of this name cannot be restored; rename it")
        with (folder / name).open("rb") as file:
            stored = add(name, file)
        if stored != state.lasting.get(name, stored):
            raise IndexDamaged(f"{folder / name}: damaged (its checksum differs)")
        note(name, stored)
    for name, content in state.replaced.items():
        note(name, add(name, BytesIO(content)))
    return files


def _pour(source: BinaryIO, target: BinaryIO, size: int | None = None) -> StoredFile:
    """Copy a file's content, or so many bytes of it; their number and checksum.

    Raises IndexDamaged if it is shorter.
    """
    crc32 = done = 0
    while chunk := source.read(_CHUNK if size is None else min(_CHUNK, size - done)):
        target.write(chunk)
        crc32, done = zlib.crc32(chunk, crc32), done + len(chunk)
    if size is not None and done < size:
        raise IndexDamaged(f"{getattr(source, 'name', 'a file')}: damaged (it ends early)")
    return StoredFile(done, crc32)


def _check_name(name: str, source: Path) -> PurePosixPath:
    """The name of a file in the folder of the index, from its name in a backup.

    Raises IndexDamaged if it is no such name.
    """
    if not _is_name(name):
        raise IndexDamaged(f"{source}: no backup of telerank (it has a file {name[:80]!r})")
    return PurePosixPath(name).relative_to(INDEX)


def _is_name(name: str) -> bool:
    """Whether a name is that of a file in the folder of an index, on every system."""
    path = PurePosixPath(name)
    is_safe = "\\" not in name and name.isprintable() and not PureWindowsPath(name).drive
    is_plain = str(path) == name and ".." not in path.parts
    return is_safe and is_plain and len(path.parts) > 1 and path.parts[0] == INDEX


def _copy_files(source: Path, draft: Path, progress: Progress) -> BackupManifest:
    """Copy what the manifest of a backup names; raises IndexDamaged if a file is not as it was written."""
    with suppress(OSError):
        if (source / MANIFEST).stat().st_size > _MOST_MANIFEST:
            raise IndexDamaged(f"{source / MANIFEST}: damaged (it is too large)")
    if not (source / MANIFEST).is_file():
        raise IndexFault(f"{source}: no backup here ({MANIFEST} is missing)")
    manifest, done = BackupManifest.read(source), 0
    for name, stored in manifest.files.items():
        path, target = source / name, draft / _check_name(name, source)
        if any(part.is_symlink() for part in (path, *path.parents[: len(PurePosixPath(name).parts) - 1])):
            raise IndexDamaged(f"{path}: is a link; a backup has none")
        stored.check(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as file, target.open("xb") as copy:
            if _pour(file, copy, stored.bytes) != stored:
                raise IndexDamaged(f"{path}: damaged (its checksum differs)")
        done += stored.bytes
        progress(_RESTORING, done, manifest.bytes)
    return manifest


def _unpack(source: Path, draft: Path, progress: Progress) -> BackupManifest:
    """Unpack a tar file; raises IndexDamaged if it has anything but what its manifest names."""
    files: dict[str, StoredFile] = {}
    manifest = None
    with source.open("rb") as file:
        total = source.stat().st_size
        for name, size in _read_headers(file, source):
            if manifest is not None:
                raise IndexDamaged(f"{source}: damaged ({name[:80]!r} stands behind {MANIFEST})")
            if name == MANIFEST and size <= _MOST_MANIFEST:
                content = BytesIO()
                _pour(file, content, size)
                manifest = BackupManifest.parse(content.getvalue(), source / MANIFEST)
                continue
            target = draft / _check_name(name, source)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as copy:
                    files[name] = _pour(file, copy, size)
            except (FileExistsError, NotADirectoryError) as error:
                raise IndexDamaged(f"{source}: damaged (it has {name[:80]!r} twice)") from error
            progress(_RESTORING, file.tell(), total)
    if manifest is None:
        raise IndexDamaged(f"{source}: damaged, or no backup ({MANIFEST} is missing)")
    _compare(source, files, manifest.files)
    return manifest


def _compare(source: Path, files: Mapping[str, StoredFile], named: Mapping[str, StoredFile]) -> None:
    def differing() -> Iterable[str]:
        yield from (f"{name}: missing" for name in named if name not in files)
        yield from (f"{name}: unknown to {MANIFEST}" for name in files if name not in named)
        yield from (f"{name}: its checksum differs" for name, file in files.items() if named[name] != file)

    for difference in differing():
        raise IndexDamaged(f"{source}: damaged ({difference})")


def _read_headers(file: BinaryIO, source: Path) -> Iterator[tuple[str, int]]:
    """The names and sizes of the files in a tar, whose contents stand between; it is left at each of them.

    Raises IndexDamaged if it is not a tar file of regular files alone; those with names of more than 255
    characters are none.
    """
    while True:
        header = file.read(_BLOCK)
        if header == bytes(_BLOCK):
            return
        try:
            info = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        except (tarfile.HeaderError, ValueError) as error:
            raise IndexDamaged(f"{source}: damaged, or no tar file ({error})") from error
        if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or info.size < 0:
            raise IndexDamaged(f"{source}: no backup of telerank ({info.name[:80]!r} is no regular file)")
        start = file.tell()
        yield info.name, info.size
        file.seek(start + info.size + -info.size % _BLOCK)
