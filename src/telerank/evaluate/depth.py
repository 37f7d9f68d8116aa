"""Measures by depth: what a system would have scored, had it been cut there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from telerank.errors import MeasureError
from telerank.evaluate.measures import measure, parse_measures, split_names
from telerank.types import Progress, Qrels, Ranking, silent


def by_depth(
    rankings: Iterable[Ranking],
    qrels: Qrels,
    measures: Sequence[str] | str,
    depths: Sequence[int],
    *,
    progress: Progress = silent,
) -> dict[str, tuple[float, ...]]:
    """The mean of each measure at each depth: ``by_depth(run, qrels, "R AP", [1, 5])["AP"]`` is AP@1, AP@5.

    Raises
    ------
    MeasureError
        where a name is not a measure's, has a cutoff of its own, or takes none.
    ValueError
        where there is no depth, or as in :func:`~telerank.evaluate.measures.measure`.
    """
    cut = names_at(measures, depths)
    means = measure(
        rankings, qrels, [name for names in cut.values() for name in names], progress=progress
    ).mean
    return {name: tuple(means[one] for one in names) for name, names in cut.items()}


def names_at(measures: Sequence[str] | str, depths: Sequence[int]) -> dict[str, tuple[str, ...]]:
    """The names of each measure at each depth: ``names_at("R", [1, 5])`` is ``{"R": ("R@1", "R@5")}``.

    Raises
    ------
    MeasureError, ValueError
        as :func:`by_depth` does.
    """
    if not depths:
        raise ValueError("no depth is given")
    text = measures if isinstance(measures, str) else " ".join(measures)
    if "@" in text:
        raise MeasureError(f"measures by depth are named without a cutoff, as in R or AP: got {text!r}")
    found = {}
    for name in split_names(text):
        cut = tuple(parse_measures(f"{name}@{depth}")[0] for depth in depths)
        found[cut[0].removesuffix(f"@{depths[0]}")] = cut
    if not found:
        raise MeasureError("no measure is named")
    return found
