"""Small re-rankers on real encoders, and pairs of uneven lengths for them."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from small_models import WORDS, small_encoder
from telerank.models.pairs.pair import PairTokenizer, Passage
from telerank.models.rerankers.kinds import Shape
from telerank.models.rerankers.reranker import Reranker, fresh_reranker


def small_reranker(folder: Path, kind: str = "monobert", architecture: str = "bert", **shape) -> Reranker:
    start = small_encoder(folder / f"{kind}-{architecture}", architecture)
    lengths = {"max_query": 8, "max_length": 48} | shape
    return fresh_reranker(start, Shape(kind, **lengths), seed=1)


def with_passages(reranker: Reranker, read) -> Reranker:
    """The same, but ``read(texts, passages)`` gives its passages, of the ``passages`` that it would read."""

    class Read(PairTokenizer):
        def passages(self, texts, spans=None):
            return read(texts, super().passages(texts, spans))

    shape = reranker.shape
    texts = Read(reranker.texts.tokenizer, max_query=shape.max_query, max_length=shape.max_length)
    return Reranker(reranker.model, texts, shape)


def with_a_shared_token(reranker: Reranker) -> Reranker:
    """The same, but a token spans the first two sentences of each passage: it counts as the first one's."""
    return with_passages(
        reranker,
        lambda _, passages: [Passage(each.ids, np.maximum(each.sentences - 1, 0)) for each in passages],
    )


def pairs(count: int, *, longest: int = 40, seed: int = 0) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    return [
        (words(draw, draw.randint(1, 6)), words(draw, draw.randint(0, longest), every=7))
        for _ in range(count)
    ]


def words(draw: random.Random, count: int, every: int = 0) -> str:
    drawn = (draw.choice(WORDS) for _ in range(count))
    return " ".join(f"{word}." if every and n % every == every - 1 else word for n, word in enumerate(drawn))
