"""Lengths of texts in tokens: their quantiles, their histograms, and the bins of a cross-encoder's inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate, count, pairwise
from pathlib import Path
from typing import Any, TypeAlias

from telerank.errors import FormatError, MissingExtra
from telerank.show.tables import Table

# The number of tokens of a text.
Counting: TypeAlias = Callable[[str], int]

# The quantiles of lengths that are shown, by name.
QUANTILES = {"min": 0.0, "5 %": 0.05, "median": 0.5, "95 %": 0.95, "99 %": 0.99, "max": 1.0}

# Number of tokens that a cross-encoder adds: [CLS] question [SEP] document [SEP].
SPECIALS = 3
# Edges of the report's table 4: each is excluded from the bin below it, except the last.
EDGES = (112, 212, 312, 412, 512)
_BAR = 40  # cells of the longest bar
_EIGHTHS: tuple[str, ...] = ("", *"▏▎▍▌▋▊▉")


@dataclass(frozen=True, eq=False)
class Lengths:
    """Number of texts by length in tokens, lengths ascending."""

    counts: Mapping[int, int]

    @classmethod
    def of(cls, lengths: Iterable[int]) -> Lengths:
        return cls(dict(sorted(Counter(lengths).items())))

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def mean(self) -> float:
        return sum(length * count for length, count in self.counts.items()) / (self.total or 1)

    def quantile(self, q: float) -> int:
        """The least length such that at least the share ``q`` of the texts is no longer; 0 without texts."""
        reached = zip(self.counts, accumulate(self.counts.values()), strict=True)
        return next((length for length, below in reached if below >= q * self.total), 0)

    def quantiles(self) -> dict[str, int]:
        """The :data:`QUANTILES` by name."""
        return {name: self.quantile(q) for name, q in QUANTILES.items()}

    def record(self) -> dict[str, Any]:
        """Count, mean, quantiles and histogram, ready for JSON."""
        return {
            "count": self.total,
            "mean": self.mean,
            "quantiles": self.quantiles(),
            "histogram": {str(length): count for length, count in self.counts.items()},
        }

    def bins(self, most: int = 20) -> list[tuple[int, int, int]]:
        """At most ``most`` bins of equal, round width: ``(low, high, count)``, ``high`` excluded.

        They range from the shortest to the 99th percentile; the last bin has all longer texts.
        """
        if not self.total:
            return []
        widths = (unit * 10**power for power in count() for unit in (1, 2, 5))
        low, high, longest = min(self.counts), self.quantile(0.99), max(self.counts)
        width = next(width for width in widths if high // width - low // width + 1 < most)
        edges = [*range(low // width * width, (high // width + 1) * width + 1, width)]
        edges += [longest + 1] if longest >= edges[-1] else []
        return [
            (low, high, sum(count for length, count in self.counts.items() if low <= length < high))
            for low, high in pairwise(edges)
        ]

    def table(self, what: str) -> Table:
        """The :meth:`bins` with a bar in eighths of a cell, at least one for a count above 0."""
        bins = self.bins()
        longest = max(texts for _, _, texts in bins)
        rows = []
        for low, high, texts in bins:
            eighths = round(8 * _BAR * texts / longest) or (texts > 0)
            bar = "█" * (eighths // 8) + _EIGHTHS[eighths % 8]
            rows.append([f"{low:,}" if high == low + 1 else f"{low:,}–{high - 1:,}", bar, f"{texts:,}"])
        return Table.of(("tokens", "", what), rows, caption=f"lengths of {what}", left=2)


@dataclass(frozen=True, slots=True)
class InputBin:
    """A column of table 4; ``cumulative`` is from 0 to 1."""

    name: str
    count: int
    cumulative: float


def bin_inputs(inputs: Lengths) -> list[InputBin]:
    """The bins of table 4: ``[0,112[ … [412,512] +512``; models cut inputs longer than the last edge."""
    *halves, last = pairwise((0, *EDGES))
    names = [*(f"[{low},{high}[" for low, high in halves), f"[{last[0]},{last[1]}]", f"+{last[1]}"]
    longest = [*(high - 1 for _, high in halves), last[1]]
    below = [sum(n for length, n in inputs.counts.items() if length <= most) for most in longest]
    return [
        InputBin(name, high - low, high / (inputs.total or 1))
        for name, (low, high) in zip(names, pairwise((0, *below, inputs.total)), strict=True)
    ]


def token_counter(analyzer: str = "standard", tokenizer: str | Path | None = None) -> Counting:
    """A function that counts the terms of an analyzer, or the tokens of a ``tokenizer.json``.

    Raises AnalyzerError or FormatError if it cannot be read, MissingExtra without the package ``tokenizers``.
    """
    if tokenizer is None:
        from telerank.text import Analyzer

        chain = Analyzer.parse(analyzer)
        return lambda text: len(chain(text))
    pieces = load_tokenizer(Path(tokenizer))
    return lambda text: len(pieces.encode(text, add_special_tokens=False))


def load_tokenizer(path: Path) -> Any:
    """The tokenizer of a ``tokenizer.json``.

    Raises FormatError if it cannot be read, MissingExtra without the package ``tokenizers``.
    """
    try:
        library = import_module("tokenizers")
    except ImportError as error:
        raise MissingExtra("tokenizers", "neural") from error
    try:
        return library.Tokenizer.from_str(path.read_text("utf-8"))
    except Exception as error:  # the library raises nothing narrower
        raise FormatError(path, None, f"a tokenizer.json ({error})") from error
