"""An index that follows a folder of files: updated when they have changed, and then rested."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telerank.corpus.readers.files.folder import FileRecord, warn_unread
from telerank.corpus.readers.files.text import file_kind
from telerank.errors import ArgumentError, IndexFault, MissingExtra, TelerankError, UnreadFiles, UpdateFailed
from telerank.sparse.index import FILES
from telerank.stored import becoming_writer
from telerank.types import ProgressSetting

if TYPE_CHECKING:
    from telerank.retrieval.folder_update import FolderChanges
    from telerank.retrieval.index import Index

_LOCK = "watch.lock"
_TICK = 0.5  # seconds between two looks at the time, at most
_LONGEST = 600.0  # seconds that files which never rest are waited for
_RETRY = 10.0  # seconds after an update that failed


def watch_folder(
    index: Index,
    folder: Path,
    *,
    wait: float,
    poll: float | None = None,
    workers: int | None = None,
    progress: ProgressSetting = None,
) -> Iterator[FolderChanges]:
    """Update an index whenever files of its folder change; see :meth:`telerank.Index.watch`."""
    for name, seconds in (("wait", wait), ("poll", poll)):
        if seconds is not None and not 0 < seconds < _LONGEST:
            raise ArgumentError(f"{name}: expected seconds above 0 and below {_LONGEST:g}, got {seconds!r}")
    try:
        import watchfiles  # noqa: F401 — before anything is locked
    except ImportError as error:
        raise MissingExtra("watchfiles", "watch") from error
    return _follow(index, folder, wait, poll, {"workers": workers, "progress": progress})


def _follow(
    index: Index, folder: Path, wait: float, poll: float | None, settings: Mapping[str, Any]
) -> Iterator[FolderChanges]:
    failure: str | None = None  # of the last update; None: there was none
    known: Mapping[str, FileRecord] = {}
    with _only_watcher(index.folder):
        while True:
            try:
                for _ in _settled_changes(folder, index.folder, wait, poll):
                    with warnings.catch_warnings():  # of files that cannot be read, whenever they could not
                        warnings.simplefilter("ignore", UnreadFiles)
                        changes = index.update(folder, **settings)
                    files = changes.files
                    warn_unread({name: file for name, file in files.items() if known.get(name) != file})
                    known = files
                    if failure is None or failure or changes.affected:
                        yield changes
                    failure = ""
            except (TelerankError, OSError) as error:
                if failure is None:
                    raise
                if failure != str(error):
                    failure = str(error)
                    warnings.warn(
                        f"{index.folder}: not updated, tried again every {_RETRY:g} seconds: {failure}",
                        UpdateFailed,
                        stacklevel=2,
                    )
                time.sleep(_RETRY)


@contextmanager
def _only_watcher(index: Path) -> Iterator[None]:
    """Hold the lock of those who watch for an index; an index that is not of a folder has none."""
    if not (index / FILES).is_dir():
        yield
        return
    from filelock import FileLock

    lock = FileLock(index / FILES / _LOCK, timeout=0, thread_local=False)
    with becoming_writer(index, "another process watches a folder for this index", lock.release):
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _settled_changes(folder: Path, index: Path, wait: float, poll: float | None) -> Iterator[None]:
    """Now, and whenever files have changed and then not for ``wait`` seconds, or for the longest time.

    Changes that come while the caller works are kept for it.

    Raises IndexFault if the system cannot watch the folder.
    """
    from watchfiles import watch

    wait = wait if poll is None else max(wait, 2 * poll)  # a change is seen once in so many seconds
    tick = min(wait / 2, _TICK)
    first = latest = -_LONGEST  # times of the first and the latest change that was not reported
    is_changed = True
    looks = watch(
        folder,
        watch_filter=None,
        debounce=max(round(1000 * tick), 1),
        rust_timeout=max(round(1000 * tick), 1),
        yield_on_timeout=True,
        force_polling=None if poll is None else True,
        poll_delay_ms=300 if poll is None else max(round(1000 * poll), 1),
        ignore_permission_denied=True,
    )
    while True:
        try:
            changes = next(looks)
        except (FileNotFoundError, NotADirectoryError):
            raise
        except (OSError, RuntimeError) as error:
            hint = "look at it once in a while (poll=10)"
            raise IndexFault(f"{folder}: cannot be watched ({error}): {hint}") from error
        now = time.monotonic()
        if any(_may_matter(Path(path), folder, index) for _, path in changes):
            first, latest, is_changed = now if not is_changed else first, now, True
        if is_changed and (now - latest >= wait or now - first >= _LONGEST):
            is_changed = False
            yield


def _may_matter(path: Path, folder: Path, index: Path) -> bool:
    """Whether a change of a path may change documents: of a file that is read, or a folder."""
    names = path.relative_to(folder).parts if path.is_relative_to(folder) else path.parts
    if any(name.startswith(".") for name in names) or path.is_relative_to(index):
        return False
    return bool(file_kind(path)) or not path.is_file()
