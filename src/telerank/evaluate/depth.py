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
    if not depths:
        raise ValueError("no depth is given")
    cut = {name: _at_depths(name, depths) for name in families(measures)}
    means = measure(
        rankings, qrels, [name for names in cut.values() for name in names], progress=progress
    ).mean
    return {name: tuple(means[one] for one in names) for name, names in cut.items()}


def families(measures: Sequence[str] | str) -> tuple[str, ...]:
    """Names of measures that have no cutoff yet, as :func:`by_depth` takes them: ``R``, ``AP(rel=2)``.

    Raises
    ------
    MeasureError
        where a name has a cutoff, or is not one of a measure that takes a cutoff.
    """
    text = measures if isinstance(measures, str) else " ".join(measures)
    if "@" in text:
        raise MeasureError(f"measures by depth are named without a cutoff, as in R or AP: got {text!r}")
    # a family is checked with a cutoff, which some cannot do without
    return tuple(
        name.removesuffix("@1") for name in parse_measures([f"{name}@1" for name in split_names(text)])
    )


def _at_depths(name: str, depths: Sequence[int]) -> tuple[str, ...]:
    return tuple(parse_measures(f"{name}@{depth}")[0] for depth in depths)
