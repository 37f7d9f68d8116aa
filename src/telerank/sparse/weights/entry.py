"""What the manifest of an index says of its weights of terms."""

from __future__ import annotations

from dataclasses import dataclass

from telerank.errors import IndexFault, ModelError


@dataclass(frozen=True)
class WeightsEntry:
    """Weights of terms beside the counts: those of a ``model`` with a ``fingerprint``, or of files.

    ``files`` is the checksum of those that the index was built with. Weights are whole numbers of steps,
    which are 2^-``bits``; None: not yet known, since no document has one.
    """

    model: str = ""
    fingerprint: str = ""
    files: str = ""
    bits: int | None = None

    @property
    def step(self) -> float:
        return float(2.0 ** -(self.bits or 0))

    @property
    def description(self) -> str:
        """Where they come from, and how they are rounded."""
        if self.bits is None:
            return f"of {self.model or 'files'}, none so far"
        steps = f"in steps of 1/{1 << self.bits:,}" if self.bits else "whole numbers"
        return f"of {self.model or 'files'}, {steps}"

    def check(self, other: WeightsEntry, where: object) -> None:
        """Raise IndexFault if others are of another model, or not of files as these."""
        if self.fingerprint != other.fingerprint:
            before, given = (
                f"those of {entry.model} ({entry.fingerprint[:12]})" if entry.model else "in files"
                for entry in (self, other)
            )
            raise IndexFault(f"{where}: its weights of terms are {before}, not {given}")


def require_counts(entry: WeightsEntry | None, model: object, where: object) -> None:
    """Raise ModelError if an index has no weights for a ``model`` that reads them as counts.

    They have to be whole numbers.
    """
    if entry is None:
        how = "index it again with --weights FILE or --weights-model MODEL"
        raise ModelError(f"{where}: {model!r}: the index has no weights of terms: {how}")
    if entry.bits:
        kind = f"its weights are {entry.description}, and counts are whole numbers"
        raise ModelError(f"{where}: {model!r}: {kind}: impact searches such weights")
