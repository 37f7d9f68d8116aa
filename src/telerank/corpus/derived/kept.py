"""Work on all documents of a collection that is kept while it is done, so that it can be gone on with.

What is done lies in ``OUT.unfinished`` beside the output. Bytes are appended to a file there by windows of
documents, and a record says how many are whole: a killed process loses the last window.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import filelock

from telerank.drafts import remove, replace_file, sync_file
from telerank.errors import ModelError
from telerank.types import Doc


class DocSource(NamedTuple):
    """The documents of a collection or an index: its ``name``, their number if it is known, the stream."""

    name: str
    size: int | None
    open: Callable[[], Iterator[Doc]]


@contextmanager
def keeping(output: Path) -> Iterator[Path]:
    """The folder for what is done of an output, which one process has.

    Raises
    ------
    ModelError
        If another process writes this output.
    """
    scratch = output.with_name(f"{output.name}.unfinished")
    scratch.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(scratch / ".lock", timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout as error:
        raise ModelError(f"{output}: another process is writing it") from error
    try:
        yield scratch
    finally:
        lock.release()


class KeptFile:
    """A file that grows by :meth:`append`; what a killed process wrote and did not record is dropped.

    ``items`` were written, ``counts`` summed up, and ``digest`` identifies what they were made from. With
    another ``key`` than that of the record the file begins anew.
    """

    def __init__(self, path: Path, key: str) -> None:
        self.path, self._record, self._key = path, path.with_suffix(".json"), key
        self._bytes, self.items, self.digest = 0, 0, ""
        self.counts: dict[str, int] = {}
        with suppress(OSError, ValueError, KeyError, TypeError):  # of a damaged record nothing is taken
            record = json.loads(self._record.read_bytes())
            size = int(record["bytes"])
            if record["key"] == key and self.path.stat().st_size >= size:
                self._bytes, self.items, self.digest = size, int(record["items"]), str(record["digest"])
                self.counts = {str(name): int(count) for name, count in record["counts"].items()}

    def append(
        self, content: bytes, items: int, digest: str, counts: Mapping[str, int] | None = None
    ) -> None:
        """Write further items, and flush them to the disk."""
        with self.path.open("r+b" if self._bytes else "wb") as file:
            file.seek(self._bytes)
            file.truncate()
            file.write(content)
        sync_file(self.path)
        self._bytes, self.items, self.digest = self._bytes + len(content), self.items + items, digest
        for name, count in (counts or {}).items():
            self.counts[name] = self.counts.get(name, 0) + count
        record = {"key": self._key, "items": self.items, "bytes": self._bytes, "digest": digest}
        replace_file(self._record, json.dumps({**record, "counts": self.counts}).encode())

    def clear(self) -> None:
        """Begin anew."""
        remove(self._record)
        self._bytes, self.items, self.digest, self.counts = 0, 0, "", {}

    def read(self) -> bytes:
        """All that was written."""
        return self.path.read_bytes()[: self._bytes] if self._bytes else b""


def continue_lines(
    source: DocSource,
    lines: KeptFile,
    window: int,
    make: Callable[[list[Doc]], tuple[bytes, Mapping[str, int]]],
    report: Callable[[], None],
) -> None:
    """Append what ``make`` makes of further documents, ``window`` at a time: their lines, and counts.

    The documents whose lines are kept are not made again, if they are the same; else all are.
    """
    digest, stream = sha256(), source.open()
    for doc in islice(stream, lines.items):
        add_to_digest(digest, doc)
    if lines.items and digest.hexdigest() != lines.digest:
        lines.clear()
        digest, stream = sha256(), source.open()
    while docs := list(islice(stream, window)):
        content, counts = make(docs)
        for doc in docs:
            add_to_digest(digest, doc)
        lines.append(content, len(docs), digest.hexdigest(), counts)
        report()


def add_to_digest(digest: Any, doc: Doc) -> None:
    """Let a hash know of a document."""
    for text in (doc.docno, doc.title, doc.text):
        content = text.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "big") + content)
