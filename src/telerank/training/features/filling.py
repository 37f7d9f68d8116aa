"""Pairs to shards of features: how large they will be, then what they hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from telerank.batches import batch_by_length
from telerank.errors import ModelError
from telerank.models.pairs.features import PairFeatures
from telerank.models.pairs.pair import QUERY, Pair
from telerank.reranking.texts import TextPair, TokenizedPairs
from telerank.training.features.frozen_encoder import PairEncoder
from telerank.training.features.shards import PAIR, FeatureManifest, FeatureShard, Halves, shard_bytes
from telerank.types import Progress, silent

_LARGEST = float(np.finfo(np.float16).max)
_SHARD_BYTES = 64 << 20  # of vectors, in memory while a shard is made
_TOLD = 4096  # pairs between two words on how far counting is


@dataclass(frozen=True, eq=False)
class Filling:
    """Pairs that are to be encoded, with what is known of them before.

    ``sizes`` is (pairs, 3): tokens, vectors of the query, of sentences. ``shard`` is the most pairs of one.
    """

    wanted: Sequence[TextPair]
    encoder: PairEncoder
    tokens: TokenizedPairs
    sizes: npt.NDArray[np.int64]
    cls_only: bool
    shard: int

    @classmethod
    def of(
        cls,
        wanted: Sequence[TextPair],
        encoder: PairEncoder,
        manifest: FeatureManifest,
        *,
        shard: int = 2048,
        progress: Progress = silent,
    ) -> Filling:
        """Tokenise and count."""
        if shard < 1:
            raise ModelError(f"a shard must have at least one pair, got {shard}")
        tokens = encoder.tokens(wanted, progress)
        sizes = np.empty((len(tokens), 3), np.int64)
        for place in range(len(tokens)):
            sizes[place] = _sizes(tokens[place])
            if place % _TOLD == 0:
                progress("counting tokens", place, len(tokens))
        if manifest.cls_only:
            sizes[:, 1:] = 0
        return cls(wanted, encoder, tokens, sizes, manifest.cls_only, shard)

    @property
    def vectors(self) -> npt.NDArray[np.int64]:
        """How many vectors each pair has."""
        return 1 + self.sizes[:, 1] + self.sizes[:, 2]

    @property
    def bytes(self) -> int:
        """What the files of the shards will take."""
        width, vectors = self.encoder.width, self.vectors
        return sum(shard_bytes(b - a, int(vectors[a:b].sum()), width) for a, b in self.cuts())

    def cuts(self) -> Iterator[tuple[int, int]]:
        """The first pair of each shard and the first of the next."""
        most = _SHARD_BYTES // (2 * self.encoder.width)
        ends = np.cumsum(self.vectors)
        begin = 0
        while begin < len(ends):
            before = ends[begin - 1] if begin else 0
            full = int(np.searchsorted(ends, before + most, side="right"))
            end = max(begin + 1, min(full, begin + self.shard))
            yield begin, end
            begin = end

    def shards(self, batch_tokens: int, progress: Progress = silent) -> Iterator[FeatureShard]:
        """The shards in the order of the pairs, in batches of like lengths within each; without hashes."""
        told = f"encoding pairs ({gigabytes(self.bytes)})"
        progress(told, 0, len(self.wanted))
        for begin, end in self.cuts():
            vectors, sizes = self.vectors[begin:end], self.sizes[begin:end]
            made = FeatureShard(
                np.empty((int(vectors.sum()), self.encoder.width), np.float16), np.empty(end - begin, PAIR)
            )
            made.pairs["query"], made.pairs["sentences"] = sizes[:, 1], sizes[:, 2]
            starts, done = np.cumsum(vectors) - vectors, begin
            for batch in batch_by_length(sizes[:, 0].tolist(), batch_tokens):
                places = np.concatenate(
                    [np.arange(n) + at for n, at in zip(vectors[batch], starts[batch], strict=True)]
                )
                made.vectors[places], made.pairs["scale"][batch] = self._encoded(
                    [begin + one for one in batch]
                )
                done += len(batch)
                progress(told, done, len(self.wanted))
            yield made

    def _encoded(self, batch: Sequence[int]) -> tuple[Halves, npt.NDArray[np.float32]]:
        """The vectors of pairs, one pair after another, (V, H), and their scales, (B,)."""
        features = self.encoder.features([self.tokens[place] for place in batch])
        found = [features.query_mask.sum(1), features.sentence_mask.sum(1)]
        if not self.cls_only and (torch.stack(found, 1).cpu().numpy() != self.sizes[batch, 1:]).any():
            raise ModelError("the encoder's features have other tokens or sentences than its pairs")
        halves, scales = halved(features, cls_only=self.cls_only)
        strange = np.flatnonzero(~np.isfinite(scales))
        if len(strange):
            query, _ = self.wanted[batch[int(strange[0])]]
            raise ModelError(f"the encoder's outputs for the query {query!r} are not finite numbers")
        return halves, scales


def halved(features: PairFeatures, *, cls_only: bool = False) -> tuple[Halves, npt.NDArray[np.float32]]:
    """The vectors of each pair as float16, pair after pair, (V, H), and what to multiply them by, (B,).

    A scale is a power of two: 1 where float16 holds all numbers of the pair, not finite where one is not.
    """
    cls = features.cls.unsqueeze(1)  # (B, 1, H)
    stands = torch.ones_like(cls[:, :, 0], dtype=torch.bool)  # (B, 1)
    every = cls if cls_only else torch.cat([cls, features.query, features.sentences], 1)
    mask = stands if cls_only else torch.cat([stands, features.query_mask, features.sentence_mask], 1)
    largest = every.abs().amax((1, 2))  # (B,)
    scales = torch.exp2(torch.ceil(torch.log2(largest / _LARGEST))).clamp(min=1)
    halves = (every / scales.view(-1, 1, 1)).half()[mask]
    return halves.cpu().numpy(), scales.float().cpu().numpy()


def _sizes(pair: Pair) -> tuple[int, int, int]:
    sentences = int(pair.sentences.max(initial=-1)) + 1
    return len(pair), int((pair.parts == QUERY).sum()), sentences


def gigabytes(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e7 else f"{size / 1e6:.2f} MB"
