"""The frozen encoder of a feature store, which encodes pairs into shards whose size is known before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from telerank.batches import batch_by_length
from telerank.errors import ModelError
from telerank.models.inference import batch_width
from telerank.models.pairs.pair import QUERY, Pair, PairFeatures, PairTexts, batch_of
from telerank.models.precision import Precision
from telerank.models.rerankers.transformer_ranker import EncoderRanker
from telerank.reranking.texts import TextPair, TokenizedPairs, tokenize_pairs
from telerank.training.features.shards import PAIR, FeatureManifest, FeatureShard, Halves, shard_bytes
from telerank.training.parallel import ALONE, Processes
from telerank.training.task import evaluating
from telerank.types import Progress, silent

_LARGEST = float(np.finfo(np.float16).max)
_SHARD_BYTES = 64 << 20  # of vectors, in memory while a shard is made
_REPORTED = (
    4096  # pairs between two reports of progress while tokens are counted; counted by a process at a time
)


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
class ShardPairs:
    """The pairs of shard ``number``, the first of which is number ``begin`` of all that are encoded.

    ``sizes`` is (pairs, 3): tokens, query vectors, sentence vectors. ``tokens`` are None where the process
    that encodes the pairs makes them.
    """

    number: int
    begin: int
    pairs: Sequence[TextPair]
    sizes: npt.NDArray[np.int64]
    tokens: TokenizedPairs | None

    @property
    def vectors(self) -> npt.NDArray[np.int64]:
        """Number of vectors of each pair, (pairs,)."""
        return 1 + self.sizes[:, 1] + self.sizes[:, 2]


@dataclass(frozen=True, eq=False)
class Filling:
    """Pairs to encode, and their sizes, as those of :class:`ShardPairs`.

    ``shard`` is the most pairs of a shard. ``tokens`` are None if several processes encode.
    """

    pairs: Sequence[TextPair]
    width: int
    tokens: TokenizedPairs | None
    sizes: npt.NDArray[np.int64]
    shard: int

    @classmethod
    def of(
        cls,
        pairs: Sequence[TextPair],
        encoder: FrozenEncoder,
        manifest: FeatureManifest,
        *,
        shard: int = 2048,
        processes: Processes = ALONE,
        progress: Progress = silent,
    ) -> Filling:
        """Tokenise the pairs and count their tokens, query vectors and sentences.

        Several processes count a share each, keep no tokens, and the first one gets the sizes of its pairs.
        """
        if shard < 1:
            raise ModelError(f"a shard must have at least one pair, got {shard}")
        tokens = encoder.tokens(pairs, progress) if processes.size == 1 else None
        if tokens is not None:
            sizes = [_count_all(tokens, progress)]
        else:

            def count(parts: Sequence[Sequence[TextPair]]) -> list[npt.NDArray[np.int64]]:
                return [_count_all(encoder.tokens(part), silent) for part in parts]

            parts = (pairs[first : first + _REPORTED] for first in range(0, len(pairs), _REPORTED))
            sizes = [own for counted in processes.share_out(count, parts, 1) for own in counted]
        joined = np.concatenate([np.empty((0, 3), np.int64), *sizes])
        if manifest.cls_only:
            joined[:, 1:] = 0
        return cls(pairs, encoder.width, tokens, joined, shard)

    @property
    def vectors(self) -> npt.NDArray[np.int64]:
        """Number of vectors of each pair, (pairs,)."""
        return 1 + self.sizes[:, 1] + self.sizes[:, 2]

    @property
    def bytes(self) -> int:
        """Size of the shards' files."""
        vectors = self.vectors
        return sum(shard_bytes(b - a, int(vectors[a:b].sum()), self.width) for a, b in self.cuts())

    def cuts(self) -> Iterator[tuple[int, int]]:
        """The first pair of each shard and the first of the next."""
        most = _SHARD_BYTES // (2 * self.width)
        ends = np.cumsum(self.vectors)
        begin = 0
        while begin < len(ends):
            before = ends[begin - 1] if begin else 0
            full = int(np.searchsorted(ends, before + most, side="right"))
            end = max(begin + 1, min(full, begin + self.shard))
            yield begin, end
            begin = end

    def shards(self, number: int) -> Iterator[ShardPairs]:
        """The pairs of shard ``number`` and of those that follow, in their order."""
        for begin, end in self.cuts():
            tokens = self.tokens
            if tokens is not None:
                tokens = replace(tokens, pairs=tokens.pairs[begin:end])
            yield ShardPairs(number, begin, self.pairs[begin:end], self.sizes[begin:end], tokens)
            number += 1


@dataclass(frozen=True, eq=False)
class ShardEncoder:
    """Encodes the pairs of a shard, in batches of like lengths of at most ``batch_tokens`` tokens."""

    encoder: FrozenEncoder
    batch_tokens: int
    cls_only: bool

    def encode(self, part: ShardPairs, report: Callable[[int], None]) -> FeatureShard:
        """The shard, without hashes; ``report`` is called with the number of pairs that are encoded."""
        vectors, tokens = part.vectors, part.tokens
        if tokens is None:
            tokens = self.encoder.tokens(part.pairs)
        shard = FeatureShard(
            np.empty((int(vectors.sum()), self.encoder.width), np.float16), np.empty(len(part.pairs), PAIR)
        )
        shard.pairs["query"], shard.pairs["sentences"] = part.sizes[:, 1], part.sizes[:, 2]
        starts, done = np.cumsum(vectors) - vectors, part.begin
        for batch in batch_by_length(part.sizes[:, 0].tolist(), self.batch_tokens):
            rows = np.concatenate(
                [np.arange(n) + at for n, at in zip(vectors[batch], starts[batch], strict=True)]
            )
            shard.vectors[rows], shard.pairs["scale"][batch] = self._encode(part, tokens, batch)
            done += len(batch)
            report(done)
        return shard

    def _encode(
        self, part: ShardPairs, tokens: TokenizedPairs, batch: Sequence[int]
    ) -> tuple[Halves, npt.NDArray[np.float32]]:
        """The vectors of pairs, one pair after another, (V, H), and their scales, (B,)."""
        features = self.encoder.features([tokens[row] for row in batch])
        counts = [features.query_mask.sum(1), features.sentence_mask.sum(1)]
        if not self.cls_only and (torch.stack(counts, 1).cpu().numpy() != part.sizes[batch, 1:]).any():
            raise ModelError("the encoder's features have other tokens or sentences than its pairs")
        halves, scales = halve(features, cls_only=self.cls_only)
        not_finite = np.flatnonzero(~np.isfinite(scales))
        if len(not_finite):
            query, _ = part.pairs[batch[int(not_finite[0])]]
            raise ModelError(f"the encoder's outputs for the query {query!r} are not finite numbers")
        return halves, scales


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


def _count_all(tokens: TokenizedPairs, progress: Progress) -> npt.NDArray[np.int64]:
    """The numbers of :func:`_count` for each pair, (pairs, 3)."""
    sizes = np.empty((len(tokens), 3), np.int64)
    for row in range(len(tokens)):
        sizes[row] = _count(tokens[row])
        if row % _REPORTED == 0:
            progress("counting tokens", row, len(tokens))
    return sizes


def _count(pair: Pair) -> tuple[int, int, int]:
    """Number of tokens, of query tokens and of sentences."""
    sentences = int(pair.sentences.max(initial=-1)) + 1
    return len(pair), int((pair.parts == QUERY).sum()), sentences


def gigabytes(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e7 else f"{size / 1e6:.2f} MB"
