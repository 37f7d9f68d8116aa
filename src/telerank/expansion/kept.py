"""Work that is kept while it is done: bytes are appended to a file, and a record says how many are whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from telerank.drafts import remove, replace_file, sync_file


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
