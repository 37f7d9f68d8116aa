"""Changes on disk that are whole or absent.

What replaces a file or a folder is written beside it, flushed to the disk and renamed: ``NAME.writing`` is a
draft of NAME, which its writer locks, so that the next one can use what a killed process has left;
``NAME.old.writing`` is a folder that was replaced. Folders that are made once are kept in the user's cache.
"""

from __future__ import annotations

import ctypes
import errno
import io
import os
import shutil
import sys
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any, BinaryIO

# Ending of the name of what is being written.
DRAFT = ".writing"
_REPLACED = f".old{DRAFT}"


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


def replace_file(path: Path, content: bytes) -> None:
    """Write a file beside its name, flush it and rename it."""
    with open_draft(path) as file:
        file.write(content)


def replace_folder(path: Path, draft: Path, *, exchange: bool = True) -> None:
    """Flush the files of ``draft`` and give it the name ``path``; a folder of that name is removed.

    The two change names in one step, so that there always is an old folder or a new one. On systems and file
    systems that cannot do that (Windows, NFS), and without ``exchange``, there is none for a moment; if the
    process is killed in this moment, :func:`sweep_replaced` puts the old one back.
    """
    for file in (*draft.rglob("*"), draft):
        sync_folder(file) if file.is_dir() else sync_file(file)
    sweep_replaced(path)
    old = path.with_name(path.name + _REPLACED)
    if exchange and path.exists() and _exchange(path, draft):
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
    with suppress(AttributeError, TypeError, OSError):  # no such function, no such library
        system = ctypes.CDLL(None)
        if sys.platform == "darwin":
            return bool(system.renamex_np(*names, 2) == 0)  # RENAME_SWAP
        return bool(system.renameat2(here, names[0], here, names[1], 2) == 0)  # RENAME_EXCHANGE
    return False


def cached_folder(kind: str, key: str, make: Callable[[Path], None]) -> Path:
    """The folder of that key among those of a kind in the user's cache; ``make`` fills it if there is none.

    The cache is ``$XDG_CACHE_HOME/telerank`` (or ``~/.cache``); a key names everything that decides a folder.
    Of several processes the first makes it, and the others wait. If nothing can be written there, each
    process makes its own, which is removed when the process ends. Raises OSError if it cannot be written.
    """
    folder = _kind_folder(kind, key) / key
    if folder.is_dir():
        return folder
    from filelock import FileLock  # what only searches needs no locks

    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            with draft_folder(folder) as draft:
                make(draft)
    return folder


def _kind_folder(kind: str, key: str) -> Path:
    """The folder of a kind: in the user's cache, or in a temporary one if nothing can be written there."""
    with suppress(OSError, RuntimeError):  # there is no home
        kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "telerank" / kind
        kept.mkdir(parents=True, exist_ok=True)
        if (kept / key).is_dir() or os.access(kept, os.W_OK):
            return kept
    return Path(_temporary_folder(kind, gettempdir()).name)


@cache
def _temporary_folder(kind: str, inside: str) -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix=f"telerank-{kind}-", dir=inside)


def share_weights(folder: Path) -> None:
    """Let everybody read the weights in a folder who may read the folder: a service runs as another user.

    safetensors makes files that only their owner can read.
    """
    for file in folder.glob("*.safetensors"):
        file.chmod(folder.stat().st_mode & 0o666)


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
