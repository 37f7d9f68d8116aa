"""Small re-rankers on real encoders, and pairs of uneven lengths for them."""

from __future__ import annotations

import random
from pathlib import Path

from small_models import WORDS, small_encoder
from telerank.models.reranker import Reranker, Shape, fresh_reranker


def small_reranker(folder: Path, kind: str = "monobert", architecture: str = "bert", **shape) -> Reranker:
    made = small_encoder(folder / f"{kind}-{architecture}", architecture)
    lengths = {"max_query": 8, "max_length": 48} | shape
    return fresh_reranker(made, Shape(kind, **lengths), seed=1)


def pairs(count: int, *, longest: int = 40, seed: int = 0) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    return [
        (words(draw, draw.randint(1, 6)), words(draw, draw.randint(0, longest), every=7))
        for _ in range(count)
    ]


def words(draw: random.Random, count: int, every: int = 0) -> str:
    said = [draw.choice(WORDS) for _ in range(count)]
    return " ".join(
        f"{word}." if every and place % every == every - 1 else word for place, word in enumerate(said)
    )
