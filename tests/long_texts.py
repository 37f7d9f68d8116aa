"""Long texts of the words that small models know."""

from __future__ import annotations

import random

from small_models import WORDS


def said(count: int, every: int = 0, seed: int = 0) -> str:
    """Words, each ``every``-th of which ends a sentence."""
    draw = random.Random(seed)
    words = (
        draw.choice(WORDS).capitalize() if every and n % every == 0 else draw.choice(WORDS)
        for n in range(count)
    )
    return " ".join(f"{word}." if every and n % every == every - 1 else word for n, word in enumerate(words))
