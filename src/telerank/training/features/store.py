"""The features of a frozen encoder on disk, made once for every head and every training on it.

======  ===========================================================
``B``   pairs of a batch
``N``   tokens of the longest query
``S``   sentences of the passage that has most
``H``   width of the encoder's outputs
======  ===========================================================

A pair is known by a hash of its texts, the folder by the encoder's fingerprint: features of another text or
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
from telerank.stored import MANIFEST, verify_files
from telerank.training.features import shards
from telerank.training.features.contents import Contents, Rows
from telerank.training.features.filling import Filling, gigabytes
from telerank.training.features.frozen_encoder import PairEncoder
from telerank.training.features.shards import PAIR, FeatureManifest
from telerank.types import Progress, silent


class FeatureStore:
    """The features that were there when the store was opened, and those that it was filled with since.

    It pickles as its folder, and opens again as that is then. Make it with :meth:`open`.
    """

    def __init__(self, folder: Path, manifest: FeatureManifest) -> None:
        self.folder, self.manifest = folder, manifest
        self._contents = Contents.read(folder, manifest)

    @classmethod
    def open(
        cls, folder: str | Path, fingerprint: str, width: int, *, cls_only: bool = False
    ) -> FeatureStore:
        """The store of one encoder's features in a folder for those of many; empty where there is none yet.

        ``fingerprint`` is the identity of all that decides a feature, ``width`` is ``H``. ``cls_only`` keeps
        the first token's output alone, some ten times less, for heads that read nothing else: a store of its
        own, whose batches have no query and no sentences. Where a store of everything is there, such heads
        share that.

        Raises
        ------
        ModelError
            where the fingerprint is not of at least 32 hexadecimal digits, or is not the store's.
        IndexDamaged
            naming the file that is missing or is not what was written.
        """
        if len(fingerprint) < 32 or set(fingerprint) - set("0123456789abcdef"):
            raise ModelError(f"a fingerprint has at least 32 hexadecimal digits, got {fingerprint!r}")
        whole = Path(folder).resolve() / fingerprint[:32]
        alone = cls_only and not (whole / MANIFEST).exists()
        place = whole.with_name(f"{whole.name}-cls") if alone else whole
        return cls(place, _begun(place, FeatureManifest(fingerprint, width, alone)))

    @property
    def width(self) -> int:
        """``H``."""
        return self.manifest.width

    @property
    def bytes(self) -> int:
        """What its files take."""
        return sum(file.bytes for file in self.manifest.files.values())

    def missing(self, pairs: Sequence[TextPair]) -> list[TextPair]:
        """The pairs that are not there, each once, in their order."""
        found = self._contents.find(keys(pairs))
        return list(dict.fromkeys(pair for pair, row in zip(pairs, found.tolist(), strict=True) if row < 0))

    def rows(self, pairs: Sequence[TextPair]) -> Rows:
        """The number of each pair in this store, for :meth:`batch`.

        Raises
        ------
        IndexFault
            where a pair is not there.
        """
        found = self._contents.find(keys(pairs))
        if (found < 0).any():
            first = pairs[int((found < 0).argmax())][0]
            many = f"{int((found < 0).sum()):,} of {len(pairs):,} pairs have no features here"
            raise IndexFault(f"{self.folder}: {many}, the first of them for the query {first!r}")
        return found

    def batch(self, rows: npt.ArrayLike) -> PairFeatures:
        """The features of pairs, in float32; numbers are taken from :meth:`rows`."""
        return self._contents.batch(np.asarray(rows, np.int64))

    def estimate(
        self, pairs: Sequence[TextPair], encoder: PairEncoder, *, progress: Progress = silent
    ) -> int:
        """How many bytes :meth:`fill` would add for these pairs: their tokens are counted."""
        return Filling.of(self.missing(pairs), encoder, self.manifest, progress=progress).bytes

    def fill(
        self,
        pairs: Sequence[TextPair],
        encoder: PairEncoder,
        *,
        batch_tokens: int = 4096,
        shard: int = 2048,
        progress: Progress = silent,
    ) -> int:
        """Make the features of the pairs that are missing; how many there were.

        ``batch_tokens`` bounds a batch: tokens of its longest pair times its pairs. Every ``shard`` pairs are
        put to disk, so that whatever kills the filling, the next one goes on from there. ``progress`` is told
        how large all will be before anything is encoded.

        Raises
        ------
        ModelError
            where the encoder is another than the store's, or makes a number that is not finite.
        IndexLocked
            where another process fills the store.
        IndexFault
            where the disk cannot hold what is missing.
        """
        self.manifest.require(encoder.fingerprint, encoder.width, self.folder)
        if not self.missing(pairs):
            return 0
        with self._filling():
            wanted = self.missing(pairs)
            filling = Filling.of(wanted, encoder, self.manifest, shard=shard, progress=progress)
            self._require_room(filling)
            done = 0
            for made in filling.shards(batch_tokens, progress):
                made.pairs["key"] = keys(wanted[done : done + len(made.pairs)])
                self.manifest = shards.add_shard(self.folder, self.manifest, made)
                done += len(made.pairs)
            return len(wanted)

    def verify(self, progress: Progress = silent) -> None:
        """Read every file and compare its checksum; raises IndexDamaged, naming the file."""
        verify_files(self.folder, self.manifest.files, "verifying features", progress)

    def __len__(self) -> int:
        return len(self._contents)

    def __repr__(self) -> str:
        return f"FeatureStore({str(self.folder)!r}: {len(self):,} pairs)"

    def __reduce__(self) -> tuple[object, ...]:
        told = self.manifest
        return _opened, (self.folder.parent, told.fingerprint, told.width, told.cls_only)

    @contextmanager
    def _filling(self) -> Iterator[None]:
        """Held by one process at a time, from what the last of them left."""
        lock = filelock.FileLock(self.folder / "lock", timeout=0, thread_local=False)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with lock:
                self.manifest = _begun(self.folder, self.manifest)
                shards.sweep_shards(self.folder, self.manifest)
                self._contents = Contents.read(self.folder, self.manifest)
                try:
                    yield
                finally:
                    self._contents = Contents.read(self.folder, self.manifest)
        except filelock.Timeout:
            raise IndexLocked(f"{self.folder}: another process fills it") from None
        except OSError as error:
            raise IndexFault(f"{self.folder}: cannot be written to: {error}") from error

    def _require_room(self, filling: Filling) -> None:
        free = shutil.disk_usage(self.folder).free
        if filling.bytes > free:
            wanted = f"the features of {len(filling.wanted):,} pairs take {gigabytes(filling.bytes)}"
            raise IndexFault(f"{self.folder}: {wanted}, and the disk has {gigabytes(free)} left")


def keys(pairs: Sequence[TextPair]) -> npt.NDArray[np.void]:
    """The hashes of pairs, by which a store knows them."""
    joined = b"".join(_key(query, passage) for query, passage in pairs)
    return np.frombuffer(joined, PAIR["key"])


def _key(query: str, passage: str) -> bytes:
    first, second = (text.encode("utf-8", "surrogatepass") for text in (query, passage))
    # the length tells where the query ends
    return hashlib.blake2b(len(first).to_bytes(8, "little") + first + second, digest_size=16).digest()


def _begun(folder: Path, manifest: FeatureManifest) -> FeatureManifest:
    """What is there already of the same encoder, or a manifest of nothing."""
    if not (folder / MANIFEST).exists():
        return replace(manifest, shards=())
    there = FeatureManifest.read(folder)
    there.require(manifest.fingerprint, manifest.width, folder)
    return there


def _opened(folder: Path, fingerprint: str, width: int, cls_only: bool) -> FeatureStore:
    return FeatureStore.open(folder, fingerprint, width, cls_only=cls_only)
