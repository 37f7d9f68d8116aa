"""An encoder of pairs that is a table of numbers, so that a store can be filled without transformers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from telerank.models.pairs.pair import (
    NEITHER,
    PASSAGE,
    QUERY,
    Pair,
    PairFeatures,
    Passage,
    batch_of,
    pair_features,
)
from telerank.reranking.texts import TokenizedPairs

WIDTH = 8


def stored_pairs(count: int) -> list[tuple[str, str]]:
    """Pairs of five queries with passages of uneven lengths."""
    return [(f"query {n % 5}", f"passage {n}. It has " + "some words. " * (n % 7)) for n in range(count)]


class Letters:
    """A letter is a token; a sentence ends at a full stop. ``[`` begins a pair, ``|`` and ``]`` frame it."""

    pad_id = 0

    def queries(self, texts):
        return [np.array([ord(one) % 997 for one in text], np.int32) for text in texts]

    def passages(self, texts, spans=None):  # noqa: ARG002
        ends = [np.cumsum([0, *(one == "." for one in text)])[:-1].astype(np.int32) for text in texts]
        return [Passage(ids, end) for ids, end in zip(self.queries(texts), ends, strict=True)]

    def pair(self, query, passage):
        sizes = (1, len(query), 1, len(passage.ids), 1)
        ids = np.concatenate([[ord("[")], query, [ord("|")], passage.ids, [ord("]")]]).astype(np.int32)
        parts = np.repeat(np.array((NEITHER, QUERY, NEITHER, PASSAGE, NEITHER), np.int32), sizes)
        sentences = np.full(len(ids), -1, np.int32)
        sentences[parts == PASSAGE] = passage.sentences
        return Pair(ids, np.zeros(len(ids), np.int32), parts, sentences)


@dataclass
class TableEncoder:
    """``outputs`` are those of its letters, with the pair's own number added; ``scale`` multiplies them."""

    fingerprint: str = "0" * 64
    width: int = WIDTH
    scale: float = 1.0
    calls: int = 0
    encoded: int = 0

    def tokens(self, pairs, progress=None):  # noqa: ARG002
        queries, passages = zip(*pairs, strict=True) if pairs else ((), ())
        texts = Letters()
        places = np.repeat(np.arange(len(pairs)), 2).reshape(-1, 2)
        return TokenizedPairs(texts, texts.queries(queries), texts.passages(passages), places)

    def features(self, pairs) -> PairFeatures:
        self.calls += 1
        self.encoded += len(pairs)
        batch = batch_of(pairs, 0)
        table = torch.randn(1000, self.width, generator=torch.Generator().manual_seed(7)) * self.scale
        said = batch.input_ids.sum(1).view(-1, 1, 1) % 13  # as in an encoder, an output depends on all tokens
        return pair_features(table[batch.input_ids] + said, batch)
