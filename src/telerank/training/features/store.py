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
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import filelock
import numpy as np
import numpy.typing as npt

from telerank.errors import IndexFault, IndexLocked, ModelError
from telerank.models.pairs.pair import PairFeatures
from telerank.reranking.texts import TextPair
from telerank.stored import MANIFEST
from telerank.training.features import shards
from telerank.training.features.filling import Filling, FrozenEncoder, ShardEncoder, ShardPairs, gigabytes
from telerank.training.features.shards import PAIR, FeatureContents, FeatureManifest, FeatureShardEntry, Rows
from telerank.training.parallel import ALONE, Processes
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
        processes: Processes = ALONE,
        progress: Progress = silent,
    ) -> int:
        """Compute and store the features of the pairs that are missing; return how many there were.

        Several processes compute and write a share of the shards of the first one's pairs, and all of them
        have the features then; the others return 0. The files are those that one process writes.

        ``batch_tokens`` bounds a batch: tokens of its longest pair times its pairs. ``shard`` is the number
        of pairs after which a shard is written: the most that a crash can lose. The label of ``progress``
        has the size of all features.

        Raises ModelError if the encoder is not the store's, or gives a number that is not finite; IndexLocked
        if another process fills the store; IndexFault if the disk cannot hold what is missing.
        """
        self.manifest.require(encoder.fingerprint, encoder.width, self.folder)
        if processes.first(lambda: not self.missing(pairs)):
            missing: list[TextPair] = []
        else:
            with ExitStack() as stack:
                missing = processes.alone(lambda: self._begin(stack, pairs), [])
                filling = Filling.of(
                    missing, encoder, self.manifest, shard=shard, processes=processes, progress=progress
                )
                processes.alone(lambda: self._require_room(filling), None)
                own = ShardEncoder(encoder, batch_tokens, self.manifest.cls_only)
                self._write(filling, own, processes, progress)
        shard_count = processes.first(lambda: len(self.manifest.shards))
        processes.each(lambda: self._catch_up(shard_count))
        return len(missing)

    def __len__(self) -> int:
        return len(self._contents)

    def _begin(self, stack: ExitStack, pairs: Sequence[TextPair]) -> list[TextPair]:
        """Lock the store until the stack is closed; the pairs that are missing then."""
        stack.enter_context(self._filling())
        return self.missing(pairs)

    def _write(
        self, filling: Filling, encoder: ShardEncoder, processes: Processes, progress: Progress
    ) -> None:
        """Write the shards, of which each process has a share, and name those of each round."""
        label, total = f"encoding pairs ({gigabytes(filling.bytes)})", len(filling.pairs)
        progress(label, 0, total)

        def write(parts: Sequence[ShardPairs]) -> list[FeatureShardEntry]:
            entries = []
            for part in parts:
                new = encoder.encode(part, lambda done: progress(label, done, total))
                new.pairs["key"] = keys(part.pairs)
                with self._disk():
                    entries.append(shards.write_shard(self.folder, part.number, new))
            return entries

        def name(entries: Sequence[FeatureShardEntry]) -> None:
            with self._disk():
                self.manifest = shards.name_shards(self.folder, self.manifest, entries)

        for entries in processes.share_out(write, filling.shards(len(self.manifest.shards)), 1):
            processes.alone(partial(name, entries), None)

    def _catch_up(self, shard_count: int) -> None:
        if shard_count != len(self.manifest.shards):
            self.reload()

    @contextmanager
    def _disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._fault(error) from error

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
            raise self._fault(error) from error

    def _fault(self, error: OSError) -> IndexFault:
        return IndexFault(f"{self.folder}: cannot be written to: {error}")

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
