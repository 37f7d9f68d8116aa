"""The features of a frozen encoder on disk, computed once for every head and every training.

======  ===========================================================
``B``   pairs of a batch
``N``   tokens of the longest query
``S``   sentences of the passage with the most
``H``   width of the encoder's outputs
``V``   vectors: a pair's first token, its query's tokens, its sentences
======  ===========================================================

A hash of its texts identifies a pair, the encoder's fingerprint the folder: features of another text or
another encoder are never read.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import filelock
import numpy as np
import numpy.typing as npt
import torch

from telerank.batches import batch_by_length
from telerank.drafts import sweep
from telerank.errors import IndexFault, IndexLocked, ModelError
from telerank.models.inference import batch_width
from telerank.models.pairs.pair import QUERY, Pair, PairFeatures, PairTexts, batch_of
from telerank.models.precision import Precision
from telerank.models.rerankers.transformer_ranker import EncoderRanker
from telerank.reranking.texts import TextPair, TokenizedPairs, tokenize_pairs
from telerank.stored import MANIFEST, MANIFEST_DRAFT
from telerank.training.features.shards import (
    PAIR,
    FeatureContents,
    FeatureManifest,
    FeatureShard,
    FeatureShardEntry,
    Halves,
    Rows,
    shard_bytes,
    write_shard,
)
from telerank.training.parallel import ALONE, Processes
from telerank.training.task import evaluating
from telerank.types import Progress, silent

_LARGEST = float(np.finfo(np.float16).max)
_SHARD_BYTES = 64 << 20  # of vectors, in memory while a shard is made
SHARD = 2048
"""Pairs after which a shard is written."""
_COUNTED = 4096  # pairs whose tokens a process counts at a time, and reports


@dataclass(frozen=True, eq=False)
class FrozenEncoder:
    """The encoder of a feature store; ``fingerprint`` identifies everything that decides a feature.

    Sentences are split by the rules of ``language``, even for a head that does not read them, so that a store
    serves every head. ``precision`` makes the context in which the encoder runs.
    """

    model: EncoderRanker
    texts: PairTexts
    fingerprint: str
    language: str = "en"
    precision: Precision = nullcontext

    @property
    def width(self) -> int:
        return self.model.width

    def tokens(self, pairs: Sequence[TextPair], progress: Progress = silent) -> TokenizedPairs:
        return tokenize_pairs(self.texts, pairs, self.language, progress)

    def features(self, pairs: Sequence[Pair]) -> PairFeatures:
        """The features of a batch, without dropout, in float32; the same in every mode of the model."""
        device = next(self.model.parameters()).device
        width = batch_width(pairs, device, self.texts.max_length)
        batch = batch_of(pairs, self.texts.pad_id, width).to(device)
        with evaluating(self.model.encoder), self.precision():
            return self.model.features(batch)


@dataclass(frozen=True, eq=False)
class MissingPairs:
    """Pairs to encode; ``sizes`` is (pairs, 3): tokens, query vectors, sentence vectors.

    ``tokens`` are None if the process that encodes the pairs makes them.
    """

    pairs: Sequence[TextPair]
    sizes: npt.NDArray[np.int64]
    tokens: TokenizedPairs | None
    width: int

    @property
    def vectors(self) -> npt.NDArray[np.int64]:
        """Number of vectors of each pair, (pairs,)."""
        return 1 + self.sizes[:, 1] + self.sizes[:, 2]

    def shards(self, most: int) -> Iterator[tuple[int, MissingPairs]]:
        """The number of the first pair of each shard, and its pairs, at most ``most``."""
        ends, begin = np.cumsum(self.vectors), 0
        while begin < len(ends):
            before = ends[begin - 1] if begin else 0
            full = int(np.searchsorted(ends, before + _SHARD_BYTES // (2 * self.width), side="right"))
            part = slice(begin, max(begin + 1, min(full, begin + most)))
            tokens = self.tokens
            if tokens is not None:
                tokens = replace(tokens, pairs=tokens.pairs[part])
            yield begin, replace(self, pairs=self.pairs[part], sizes=self.sizes[part], tokens=tokens)
            begin = part.stop

    def count_bytes(self, most: int) -> int:
        """Size of the shards' files."""
        sizes = ((len(part.pairs), int(part.vectors.sum())) for _, part in self.shards(most))
        return sum(shard_bytes(pairs, vectors, self.width) for pairs, vectors in sizes)


def encode_shard(
    encoder: FrozenEncoder,
    part: MissingPairs,
    batch_tokens: int,
    report: Callable[[int], None],
    *,
    begin: int = 0,
    cls_only: bool,
) -> FeatureShard:
    """A shard of pairs; they are encoded in batches of like lengths of at most ``batch_tokens`` tokens.

    ``report`` is called with the number of pairs that are encoded, ``begin`` of which were before.
    """
    vectors = part.vectors
    tokens = encoder.tokens(part.pairs) if part.tokens is None else part.tokens
    shard = FeatureShard(
        np.empty((int(vectors.sum()), encoder.width), np.float16), np.empty(len(part.pairs), PAIR)
    )
    shard.pairs["key"] = keys(part.pairs)
    shard.pairs["query"], shard.pairs["sentences"] = part.sizes[:, 1], part.sizes[:, 2]
    starts, done = np.cumsum(vectors) - vectors, begin
    for batch in batch_by_length(part.sizes[:, 0], batch_tokens):
        features = encoder.features([tokens[row] for row in batch])
        counts = torch.stack([features.query_mask.sum(1), features.sentence_mask.sum(1)], 1)
        if not cls_only and (counts.cpu().numpy() != part.sizes[batch, 1:]).any():
            raise ModelError("the encoder's features have other tokens or sentences than its pairs")
        halves, scales = halve(features, cls_only=cls_only)
        not_finite = np.flatnonzero(~np.isfinite(scales))
        if len(not_finite):
            query, _ = part.pairs[batch[int(not_finite[0])]]
            raise ModelError(f"the encoder's outputs for the query {query!r} are not finite numbers")
        rows = [np.arange(n) + at for n, at in zip(vectors[batch], starts[batch], strict=True)]
        shard.vectors[np.concatenate(rows)], shard.pairs["scale"][batch] = halves, scales
        done += len(batch)
        report(done)
    return shard


def halve(features: PairFeatures, *, cls_only: bool = False) -> tuple[Halves, npt.NDArray[np.float32]]:
    """The vectors of each pair as float16, pair after pair, (V, H), and their scales, (B,).

    A scale is a power of two: 1 if float16 holds all numbers of the pair; not finite if one of them is not.
    """
    cls = features.cls.unsqueeze(1)  # (B, 1, H)
    always = torch.ones_like(cls[:, :, 0], dtype=torch.bool)  # (B, 1)
    every = cls if cls_only else torch.cat([cls, features.query, features.sentences], 1)
    mask = always if cls_only else torch.cat([always, features.query_mask, features.sentence_mask], 1)
    largest = every.abs().amax((1, 2))  # (B,)
    scales = torch.exp2(torch.ceil(torch.log2(largest / _LARGEST))).clamp(min=1)
    halves = (every / scales.view(-1, 1, 1)).half()[mask]
    return halves.cpu().numpy(), scales.float().cpu().numpy()


def count_sizes(tokens: TokenizedPairs, progress: Progress = silent) -> npt.NDArray[np.int64]:
    """The numbers of tokens, of query tokens and of sentences of each pair, (pairs, 3)."""
    sizes = np.empty((len(tokens), 3), np.int64)
    for row in range(len(tokens)):
        pair = tokens[row]
        sizes[row] = len(pair), (pair.parts == QUERY).sum(), pair.sentences.max(initial=-1) + 1
        if row % _COUNTED == 0:
            progress("counting tokens", row, len(tokens))
    return sizes


def gigabytes(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e7 else f"{size / 1e6:.2f} MB"


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

    def __len__(self) -> int:
        return len(self._contents)

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

    def estimate(self, pairs: Sequence[TextPair], encoder: FrozenEncoder) -> int:
        """How many bytes :meth:`fill` would add for these pairs; this counts their tokens."""
        return self._count(self.missing(pairs), encoder, ALONE, silent).count_bytes(SHARD)

    def fill(
        self,
        pairs: Sequence[TextPair],
        encoder: FrozenEncoder,
        *,
        batch_tokens: int = 4096,
        shard: int = SHARD,
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
        if shard < 1:
            raise ModelError(f"a shard must have at least one pair, got {shard}")
        if processes.first(lambda: not self.missing(pairs)):
            missing: list[TextPair] = []
        else:
            with ExitStack() as stack:
                missing = processes.alone(lambda: self._begin(stack, pairs), [])
                filling = self._count(missing, encoder, processes, progress)
                size = processes.alone(lambda: self._require_room(filling, shard), 0)
                label, total = f"encoding pairs ({gigabytes(size)})", len(missing)
                progress(label, 0, total)
                write = partial(self._write, encoder, batch_tokens, lambda done: progress(label, done, total))
                first = len(self.manifest.shards)
                parts = ((first + n, *part) for n, part in enumerate(filling.shards(shard)))
                for entries in processes.share_out(write, parts, 1):
                    processes.alone(partial(self._name, entries), None)
        shard_count = processes.first(lambda: len(self.manifest.shards))
        processes.each(lambda: None if shard_count == len(self.manifest.shards) else self.reload())
        return len(missing)

    def _begin(self, stack: ExitStack, pairs: Sequence[TextPair]) -> list[TextPair]:
        """Lock the store until the stack is closed; the pairs that are missing then."""
        stack.enter_context(self._filling())
        return self.missing(pairs)

    def _count(
        self, pairs: Sequence[TextPair], encoder: FrozenEncoder, processes: Processes, progress: Progress
    ) -> MissingPairs:
        """Tokenise the pairs and count their tokens, query vectors and sentences.

        Several processes count a share each, keep no tokens, and the first one gets the sizes of its pairs.
        """
        tokens = encoder.tokens(pairs, progress) if processes.size == 1 else None
        if tokens is not None:
            sizes = [count_sizes(tokens, progress)]
        else:

            def count(parts: Sequence[Sequence[TextPair]]) -> list[npt.NDArray[np.int64]]:
                return [count_sizes(encoder.tokens(part)) for part in parts]

            parts = (pairs[first : first + _COUNTED] for first in range(0, len(pairs), _COUNTED))
            sizes = [own for counted in processes.share_out(count, parts, 1) for own in counted]
        joined = np.concatenate([np.empty((0, 3), np.int64), *sizes])
        if self.manifest.cls_only:
            joined[:, 1:] = 0
        return MissingPairs(pairs, joined, tokens, encoder.width)

    def _write(
        self,
        encoder: FrozenEncoder,
        batch_tokens: int,
        report: Callable[[int], None],
        parts: Sequence[tuple[int, int, MissingPairs]],
    ) -> list[FeatureShardEntry]:
        """Encode and write shards, given by their numbers, the numbers of their first pairs, and pairs."""
        entries = []
        for number, begin, part in parts:
            cls_only = self.manifest.cls_only
            shard = encode_shard(encoder, part, batch_tokens, report, begin=begin, cls_only=cls_only)
            with self._disk():
                entries.append(write_shard(self.folder, number, shard))
        return entries

    def _name(self, entries: Sequence[FeatureShardEntry]) -> None:
        """Replace the manifest by one that names the next shards, too."""
        with self._disk():
            self.manifest = replace(self.manifest, shards=(*self.manifest.shards, *entries))
            self.manifest.write(self.folder)

    @contextmanager
    def _disk(self) -> Iterator[None]:
        try:
            yield
        except filelock.Timeout:
            raise IndexLocked(f"{self.folder}: another process fills it") from None
        except OSError as error:
            raise IndexFault(f"{self.folder}: cannot be written to: {error}") from error

    @contextmanager
    def _filling(self) -> Iterator[None]:
        """Lock the store, read what other processes have added, and remove what a killed one was writing."""
        lock = filelock.FileLock(self.folder / "lock", timeout=0, thread_local=False)
        with self._disk():
            self.folder.mkdir(parents=True, exist_ok=True)
            with lock:
                self.reload()
                arrays = (*self.folder.glob("vectors.*.npy"), *self.folder.glob("pairs.*.npy"))
                sweep((*arrays, self.folder / MANIFEST_DRAFT), self.manifest.files)
                try:
                    yield
                finally:
                    self._contents = FeatureContents.read(self.folder, self.manifest)

    def _require_room(self, filling: MissingPairs, shard: int) -> int:
        """The size of the features. Raises IndexFault if the disk cannot hold them."""
        size, free = filling.count_bytes(shard), shutil.disk_usage(self.folder).free
        if size > free:
            needed = f"the features of {len(filling.pairs):,} pairs take {gigabytes(size)}"
            raise IndexFault(f"{self.folder}: {needed}, and the disk has {gigabytes(free)} left")
        return size


def keys(pairs: Sequence[TextPair]) -> npt.NDArray[np.void]:
    """The hashes of pairs that identify them in a store, (B,)."""
    hashes = []
    for query, passage in pairs:
        first, second = (text.encode("utf-8", "surrogatepass") for text in (query, passage))
        # the length marks where the query ends
        text = len(first).to_bytes(8, "little") + first + second
        hashes.append(hashlib.blake2b(text, digest_size=16).digest())
    return np.frombuffer(b"".join(hashes), PAIR["key"])
