"""What a client must get; used in the environments of the clients, which have no telerank."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

EXPECTED = json.loads(os.environ["TELERANK_EXPECTED"])
"""``address``, ``key``, names of models (``reranker``, ``encoder``), ``query``, ``texts``; of each text
``relevance`` and ``vectors``, and the ``query_vector``."""
ADDRESS, KEY, QUERY, TEXTS = (EXPECTED[name] for name in ("address", "key", "query", "texts"))
RERANKER, ENCODER = EXPECTED["reranker"], EXPECTED["encoder"]
BEST = sorted(range(len(TEXTS)), key=lambda index: -EXPECTED["relevance"][index])


def check_ranking(found: Sequence[tuple[int, float]], top: int | None = None) -> None:
    """Positions of texts with scores, the best first."""
    assert [index for index, _ in found] == BEST[:top], found
    for index, score in found:
        assert abs(score - EXPECTED["relevance"][index]) < 2e-6, (index, score)


def check_vectors(found: Sequence[Sequence[float]], expected: Sequence[Sequence[float]]) -> None:
    assert len(found) == len(expected)
    for vector, right in zip(found, expected, strict=True):
        assert max(abs(a - b) for a, b in zip(vector, right, strict=True)) < 2e-6
