"""The features of a frozen encoder on disk, computed once for every head and every training.

======  ===========================================================
``B``   pairs of a batch
``N``   tokens of the longest query
``S``   sentences of the passage with the most
``H``   width of the encoder's outputs
======  ===========================================================

A hash of its texts identifies a pair, the encoder's fingerprint the folder: features of another text or
another encoder are never read.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import filelock
import numpy as np
import numpy.typing as npt

from telerank.errors import IndexFault, IndexLocked, ModelError
from telerank.models.pairs.features import PairFeatures
from telerank.reranking.texts import TextPair
from telerank.stored import MANIFEST
from telerank.training.features import shards
from telerank.training.features.contents import FeatureContents, Rows
from telerank.training.features.filling import Filling, FrozenEncoder, gigabytes
from telerank.training.features.shards import PAIR, FeatureManifest
from telerank.types import Progress, silent


class FeatureStore:
    """The store of an encoder's features in a folder of stores; it may be empty.

    It has the features that were there when it was opened or reloaded, and those added since. ``fingerprint``
    identifies everything that decides a feature, ``width`` is ``H``. With ``cls_only`` the store has only the
    first token's output, about a tenth of the size, for heads that read nothing else; its batches have no
    query and no sentences. If there is a complete store, it is used instead.

    Raises ModelError if the fingerprint has fewer than 32 hexadecimal digits, or is not the store's;
    IndexDamaged if a file is missing or differs.
    """

    def __init__(self, folder: str | Path, fingerprint: str, width: int, *, cls_only: bool = False) -> None:
        if len(fingerprint) < 32 or set(fingerprint) - set("0123456789abcdef"):
            raise ModelError(f"a fingerprint has at least 32 hexadecimal digits, got {fingerprint!r}")
        whole = Path(folder).resolve() / fingerprint[:32]
        alone = cls_only and not (whole / MANIFEST).exists()
        self.folder = whole.with_name(f"{whole.name}-cls") if alone else whole
        self.manifest = FeatureManifest(fingerprint, width, alone)
        self.reload()

    def reload(self) -> None:
        """Read what other processes have added."""
        own = self.manifest
        exists = (self.folder / MANIFEST).exists()
        self.manifest = FeatureManifest.read(self.folder) if exists else replace(own, shards=())
        self.manifest.require(own.fingerprint, own.width, self.folder)
        self._contents = FeatureContents.read(self.folder, self.manifest)

    @property
    def bytes(self) -> int:
        """Size of its files."""
        return sum(file.bytes for file in self.manifest.files.values())

    def missing(self, pairs: Sequence[TextPair]) -> list[TextPair]:
        """The pairs that are not in the store, each once, in their order."""
        rows = self._contents.find(keys(pairs))
        return list(dict.fromkeys(pair for pair, row in zip(pairs, rows.tolist(), strict=True) if row < 0))

    def rows(self, pairs: Sequence[TextPair]) -> Rows:
        """The row of each pair in this store, (B,), for :meth:`batch`.

        Raises IndexFault if a pair is not in the store.
        """
        rows = self._contents.find(keys(pairs))
        if (rows < 0).any():
            first = pairs[int((rows < 0).argmax())][0]
            missing = f"{int((rows < 0).sum()):,} of {len(pairs):,} pairs have no features here"
            raise IndexFault(f"{self.folder}: {missing}, the first of them for the query {first!r}")
        return rows

    def batch(self, rows: npt.ArrayLike) -> PairFeatures:
        """The features of pairs, given by :meth:`rows`, in float32."""
        return self._contents.batch(np.asarray(rows, np.int64))

    def estimate(
        self, pairs: Sequence[TextPair], encoder: FrozenEncoder, *, progress: Progress = silent
    ) -> int:
        """How many bytes :meth:`fill` would add for these pairs; this counts their tokens."""
        return Filling.of(self.missing(pairs), encoder, self.manifest, progress=progress).bytes

    def fill(
        self,
        pairs: Sequence[TextPair],
        encoder: FrozenEncoder,
        *,
        batch_tokens: int = 4096,
        shard: int = 2048,
        progress: Progress = silent,
    ) -> int:
        """Compute and store the features of the pairs that are missing; return how many there were.

        ``batch_tokens`` bounds a batch: tokens of its longest pair times its pairs. ``shard`` is the number
        of pairs after which a shard is written: the most that a crash can lose. The label of ``progress``
        has the size of all features.

        Raises ModelError if the encoder is not the store's, or gives a number that is not finite; IndexLocked
        if another process fills the store; IndexFault if the disk cannot hold what is missing.
        """
        self.manifest.require(encoder.fingerprint, encoder.width, self.folder)
        if not self.missing(pairs):
            return 0
        with self._filling():
            missing = self.missing(pairs)
            filling = Filling.of(missing, encoder, self.manifest, shard=shard, progress=progress)
            self._require_room(filling)
            done = 0
            for new in filling.shards(batch_tokens, progress):
                new.pairs["key"] = keys(missing[done : done + len(new.pairs)])
                self.manifest = shards.add_shard(self.folder, self.manifest, new)
                done += len(new.pairs)
            return len(missing)

    def __len__(self) -> int:
        return len(self._contents)

    @contextmanager
    def _filling(self) -> Iterator[None]:
        """Lock the store, and read what other processes have added."""
        lock = filelock.FileLock(self.folder / "lock", timeout=0, thread_local=False)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with lock:
                self.reload()
                shards.sweep_shards(self.folder, self.manifest)
                try:
                    yield
                finally:
                    self._contents = FeatureContents.read(self.folder, self.manifest)
        except filelock.Timeout:
            raise IndexLocked(f"{self.folder}: another process fills it") from None
        except OSError as error:
            raise IndexFault(f"{self.folder}: cannot be written to: {error}") from error

    def _require_room(self, filling: Filling) -> None:
        free = shutil.disk_usage(self.folder).free
        if filling.bytes > free:
            needed = f"the features of {len(filling.pairs):,} pairs take {gigabytes(filling.bytes)}"
            raise IndexFault(f"{self.folder}: {needed}, and the disk has {gigabytes(free)} left")


def keys(pairs: Sequence[TextPair]) -> npt.NDArray[np.void]:
    """The hashes of pairs that identify them in a store, (B,)."""
    joined = b"".join(_key(query, passage) for query, passage in pairs)
    return np.frombuffer(joined, PAIR["key"])


def _key(query: str, passage: str) -> bytes:
    first, second = (text.encode("utf-8", "surrogatepass") for text in (query, passage))
    # the length marks where the query ends
    return hashlib.blake2b(len(first).to_bytes(8, "little") + first + second, digest_size=16).digest()
