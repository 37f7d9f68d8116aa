"""Measures by depth: the means of a run cut at several depths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from telerank.errors import MeasureError
from telerank.evaluation.measures import measure, parse_measures, split_names
from telerank.types import Progress, Qrels, Ranking, silent


def measure_by_depth(
    rankings: Iterable[Ranking],
    qrels: Qrels,
    measures: Sequence[str] | str,
    depths: Sequence[int],
    *,
    progress: Progress = silent,
) -> dict[str, tuple[float, ...]]:
    """Compute the mean of each measure at each depth.

    ``measure_by_depth(run, qrels, "R AP", [1, 5])["AP"]`` holds AP@1 and AP@5.
    """
    expanded = expand_measures(measures, depths)
    names = [name for cut in expanded.values() for name in cut]
    means = measure(rankings, qrels, names, progress=progress).mean
    return {family: tuple(means[name] for name in cut) for family, cut in expanded.items()}


def expand_measures(measures: Sequence[str] | str, depths: Sequence[int]) -> dict[str, tuple[str, ...]]:
    """Name each measure at each depth: ``expand_measures("R", [1, 5])`` is ``{"R": ("R@1", "R@5")}``.

    Raises MeasureError for a name with a cutoff, or of a measure that takes none, ValueError without depths.
    """
    if not depths:
        raise ValueError("no depth is given")
    text = measures if isinstance(measures, str) else " ".join(measures)
    if "@" in text:
        raise MeasureError(f"measures by depth take no cutoff: expected names such as R or AP, got {text!r}")
    expanded = {}
    for name in split_names(text):
        cut = tuple(parse_measures(f"{name}@{depth}")[0] for depth in depths)
        expanded[cut[0].removesuffix(f"@{depths[0]}")] = cut
    if not expanded:
        raise MeasureError("no measure is given")
    return expanded
