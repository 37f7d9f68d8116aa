"""What is computed of the vectors of a shard, kept until the shard is written: a kill loses half a minute.

``unfinished.NNNN.bin`` has float32 vectors in the order in which they are computed, the longest texts first;
``unfinished.NNNN.json``, which is replaced after it was written, says how many there are, and what decides
them. Batches are those of an uninterrupted run, and so are the bytes of the shard.
"""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from telerank.dense.kinds import Floats
from telerank.dense.segments import compute_digests
from telerank.drafts import remove, replace_file, sync_file
from telerank.types import Doc

_EVERY = 30.0  # seconds between two calls of ``save``


class UnfinishedShard:
    """The ``vectors`` (m, D) of a shard of documents that are on disk, and :meth:`save` for the next ones.

    What was computed of other documents, or with other ``settings`` of the model, is dropped.
    """

    def __init__(
        self,
        folder: Path,
        number: int,
        docs: Sequence[Doc],
        settings: Iterable[object],
        dimension: int,
    ) -> None:
        self._file = folder / f"unfinished.{number:04d}.bin"
        self._record = self._file.with_suffix(".json")
        digest = hashlib.sha256(compute_digests(docs).tobytes())
        digest.update(json.dumps([dimension, *settings], sort_keys=True, default=str).encode())
        self._key = digest.hexdigest()
        self._bytes = self._crc32 = 0
        self.vectors: Floats = np.empty((0, dimension), np.float32)
        with suppress(OSError, ValueError, KeyError, TypeError):  # of a damaged file nothing is taken
            self._read(dimension)
        self._saved = time.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether what was computed since should be saved now."""
        return time.monotonic() - self._saved >= _EVERY

    def save(self, vectors: Floats) -> None:
        """Write further vectors (n, D), and flush them to the disk."""
        content = np.ascontiguousarray(vectors, np.float32).tobytes()
        with self._file.open("r+b" if self._bytes else "wb") as file:
            file.seek(self._bytes)
            file.truncate()  # a killed process may have written more
            file.write(content)
        sync_file(self._file)
        self._bytes += len(content)
        self._crc32 = zlib.crc32(content, self._crc32)
        record = {"key": self._key, "bytes": self._bytes, "crc32": self._crc32}
        replace_file(self._record, json.dumps(record).encode())
        self._saved = time.monotonic()

    def remove(self) -> None:
        """Remove the files of a shard that is written."""
        remove(self._record)
        remove(self._file)

    def _read(self, dimension: int) -> None:
        record = json.loads(self._record.read_bytes())
        if record["key"] != self._key:
            return
        content = self._file.read_bytes()[: int(record["bytes"])]
        if zlib.crc32(content) == record["crc32"]:
            self.vectors = np.frombuffer(content, np.float32).reshape(-1, dimension)
            self._bytes, self._crc32 = len(content), int(record["crc32"])


def is_unfinished(path: Path) -> bool:
    """Whether a file is one of an unfinished shard."""
    return path.name.startswith("unfinished.")
