"""How the pieces of a predicted query are chosen: the text form of the setting."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from telerank.errors import ArgumentError

_FORMS = "top-k=10, top-p=0.95, beam, beam=8 or greedy"


@dataclass(frozen=True)
class Sampling:
    """Drawn from the ``value`` likeliest pieces, or from the likeliest that have the share ``value``.

    ``beam`` are the likeliest queries that a beam of the width ``value`` finds (0: as many as queries are
    wanted), ``greedy`` the likeliest piece each time.
    """

    kind: Literal["top-k", "top-p", "beam", "greedy"]
    value: float = 0

    @classmethod
    def parse(cls, text: str) -> Sampling:
        """Read ``top-k=10``, ``top-p=0.95``, ``beam``, ``beam=8`` or ``greedy``.

        Raises
        ------
        ArgumentError
            If it is none of these.
        """
        kind, _, number = text.strip().partition("=")
        try:
            value = float(number) if number else 0.0
        except ValueError:
            value = math.nan
        whole = math.isfinite(value) and value >= 1 and value == int(value)
        if kind == "top-k" and whole:
            return cls("top-k", value)
        if kind == "top-p" and 0 < value <= 1:
            return cls("top-p", value)
        if kind == "beam" and (whole or not number):
            return cls("beam", value)
        if kind == "greedy" and not number:
            return cls("greedy")
        raise ArgumentError(f"sampling: expected {_FORMS}, got {text!r:.60}")

    def check(self, queries: int) -> None:
        """Raise ArgumentError if it cannot give as many queries."""
        if self.kind == "greedy" and queries > 1:
            raise ArgumentError(f"sampling: greedy finds one query for a document, not {queries}")
        if self.kind == "beam" and 0 < self.value < queries:
            raise ArgumentError(f"sampling: a beam of {self.value:g} finds no more, not {queries} queries")

    def __str__(self) -> str:
        return f"{self.kind}={self.value:g}" if self.value else self.kind
