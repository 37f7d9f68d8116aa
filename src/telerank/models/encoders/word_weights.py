"""Weights of whole words from those of their pieces: DeepCT, DeepImpact.

A word is a term of an analyzer, with its characters in the text: so weights and counts of an index speak of
the same terms. Its pieces are those that share a character with it. Of words that are the same term in a text
the largest weight counts, as in DeepCT's program.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from telerank.models.encoders.bi_encoder import Side, SideTokenizer, rules_of
from telerank.models.encoders.term_weights import TermWeightSettings, TokenWeigher
from telerank.models.fingerprints import hash_parts
from telerank.models.inference import Batching, Room

TermSpans: TypeAlias = Iterable[tuple[str, int, int]]
"""The terms of a text, each with its characters: from the second to before the third."""
_TOKENS = 4096  # of a batch, padding included


class WordPieces(NamedTuple):
    """A text's tokens, (L,), whether it was cut, and where the pieces of its words are among the tokens.

    ``words`` has the term of each word with the places of the pieces that give its weight, in the order of
    the text. Words behind the cut are not there.
    """

    ids: list[int]
    is_cut: bool
    words: list[tuple[str, range]]
    pieces: range
    """The places of what is not special."""
    starts: npt.NDArray[np.bool_]
    """(L,): which tokens begin a word of the tokenizer's."""
    covered: npt.NDArray[np.bool_]
    """(L,): which tokens are pieces of the words."""


def split_words(
    tokenizer: SideTokenizer, texts: Sequence[str], spans: Sequence[TermSpans], *, only_first: bool
) -> list[WordPieces]:
    """The tokens of texts, and the pieces of their words; the first piece of each, or all."""
    if not texts:
        return []
    cut = {"truncation": True, "max_length": tokenizer.side.max_length}
    encodings: Any = tokenizer.tokenizer(list(texts), **cut).encodings
    return [
        _split(encoding, own, only_first=only_first) for encoding, own in zip(encodings, spans, strict=True)
    ]


def _split(encoding: Any, spans: TermSpans, *, only_first: bool) -> WordPieces:
    numbers = encoding.sequence_ids
    inside = [token for token, number in enumerate(numbers) if number == 0]
    pieces = range(inside[0], inside[-1] + 1) if inside else range(0)
    begins, ends = zip(*(encoding.offsets[token] for token in pieces), strict=True) if inside else ((), ())
    words, covered = [], np.zeros(len(numbers), bool)
    for term, start, end in spans:
        low, high = bisect_right(ends, start), bisect_left(begins, end)
        if low < high:
            first = pieces.start + low
            covered[first : pieces.start + high] = True
            words.append((term, range(first, first + 1 if only_first else pieces.start + high)))
    known = np.array([-1 if word is None else word for word in encoding.word_ids], np.int64)
    starts = (known >= 0) & (known != np.concatenate([[-1], known[:-1]]))
    return WordPieces(list(encoding.ids), bool(encoding.overflowing), words, pieces, starts, covered)


class WeighedWords(NamedTuple):
    """The weights above 0 of the terms of a text; ``is_cut``: it has more tokens than the model reads."""

    weights: Mapping[str, float]
    is_cut: bool


@dataclass(frozen=True, eq=False)
class WordWeigher:
    """A model of weights of words on its device."""

    weigher: TokenWeigher
    tokenizer: SideTokenizer
    settings: TermWeightSettings
    device: torch.device
    room: Room = field(default_factory=Room)
    has_words: ClassVar = True

    @property
    def longest(self) -> int:
        """Most tokens of a document that are read, special ones among them."""
        return self.tokenizer.side.max_length

    @cached_property
    def fingerprint(self) -> str:
        """64 hexadecimal digits that depend on weights, vocabulary and settings."""
        tokenizer = self.tokenizer.tokenizer
        framed = {"rules": rules_of(tokenizer), "framed": tokenizer("a b")["input_ids"]}
        return hash_parts(self.weigher, self.settings.record() | framed)

    def weigh(
        self, texts: Sequence[str], spans: Sequence[TermSpans], *, scaled: bool = True
    ) -> list[WeighedWords]:
        """The weights of the terms of documents, which stand at ``spans``.

        They are whole numbers if the settings say so, unless not ``scaled``.
        """
        split = split_words(self.tokenizer, texts, spans, only_first=self.settings.word == "first")
        weights = self._compute(split)
        return [
            WeighedWords(self._pool(own.words, values, scaled=scaled), own.is_cut)
            for own, values in zip(split, weights, strict=True)
        ]

    def _compute(self, texts: Sequence[WordPieces]) -> list[npt.NDArray[np.float32]]:
        """The weight of each token (L,) of texts."""
        results: list[npt.NDArray[np.float32]] = [np.empty(0, np.float32)] * len(texts)

        def compute(rows: Sequence[int], width: int) -> Tensor:
            batch = self.tokenizer.pad([texts[row].ids for row in rows], width)
            with torch.inference_mode():
                weights = self.weigher(**{name: each.to(self.device) for name, each in batch.items()})
            for row, values in zip(rows, weights.float().cpu().numpy(), strict=True):
                results[row] = values
            return torch.empty(0)

        filled = [row for row, text in enumerate(texts) if text.words]
        lengths = np.array([len(texts[row].ids) for row in filled], np.int64)
        for rows, width in Batching(self.device, self.longest, _TOKENS, self.room).cut(lengths):
            self.room.compute([filled[row] for row in rows], width, compute)
        return results

    def _pool(
        self, words: Sequence[tuple[str, range]], values: npt.NDArray[np.float32], *, scaled: bool
    ) -> dict[str, float]:
        pooled: dict[str, float] = {}
        for term, pieces in words:
            weight = float(values[pieces.start : pieces.stop].max())
            pooled[term] = max(weight, pooled.get(term, 0.0))
        if scaled and self.settings.root:
            pooled = {term: sqrt(weight) for term, weight in pooled.items()}
        if scaled and self.settings.scale:
            pooled = {term: float(round(self.settings.scale * weight)) for term, weight in pooled.items()}
        return {term: weight for term, weight in pooled.items() if weight}


def document_side(tokenizer: Any, settings: TermWeightSettings) -> SideTokenizer:
    """The tokenizer of documents, cut to the length of the settings."""
    return SideTokenizer(tokenizer, Side(settings.document_length))
