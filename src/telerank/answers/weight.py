"""The weight of a reader beside what ranked its texts."""

from __future__ import annotations

from telerank.errors import ModelError

MU = 0.8
"""The reader's weight over several ranked texts by default; ``benchmarks/answer_defaults.py`` chose it."""


def check_mu(mu: float) -> None:
    """Raise ModelError if mu is not between 0 and 1."""
    if not 0 <= mu <= 1:
        raise ModelError(f"mu must be between 0 and 1, got {mu}")
