"""Systems beside baselines: differences, and which of them to believe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from telerank.evaluate.measures import Evaluation, parse_measures
from telerank.evaluate.statistics import (
    Differences,
    bootstrap_intervals,
    effect_size,
    holm,
    paired_t,
    settled,
)

_CHANGED = 10  # queries that changed most
_MARKS = "†‡§¶"


@dataclass(frozen=True)
class Difference:
    """One system against one baseline by one measure.

    ``delta`` is the difference of the means and ``percent`` the same in percent of the baseline's
    (NaN where that is 0). ``p`` is of a paired t-test, ``p_holm`` the same corrected over all systems
    and measures that are compared with this baseline. ``effect`` is Cohen's d of the paired
    differences; ``low`` and ``high`` bound the bootstrap's confidence interval of ``delta``.
    ``changed`` are the ten queries that changed most, with their differences, the largest first.
    """

    system: str
    baseline: str
    measure: str
    mean: float
    baseline_mean: float
    delta: float
    percent: float
    p: float
    p_holm: float
    effect: float
    low: float
    high: float
    wins: int
    ties: int
    losses: int
    changed: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Comparison:
    """Evaluations of the same queries, and the differences of each system from each baseline.

    A difference whose corrected p is below ``level`` is called significant.
    """

    evaluations: Mapping[str, Evaluation]
    baselines: tuple[str, ...]
    measures: tuple[str, ...]
    differences: tuple[Difference, ...]
    level: float
    confidence: float

    def difference(self, system: str, baseline: str, measure: str) -> Difference:
        asked = (system, baseline, measure)
        for one in self.differences:
            if (one.system, one.baseline, one.measure) == asked:
                return one
        raise KeyError(asked)

    def mark(self, baseline: str) -> str:
        """The sign that stands for a significant difference from this baseline."""
        place = self.baselines.index(baseline)
        return _MARKS[place] if place < len(_MARKS) else f"[{place + 1}]"

    def marks(self, system: str, measure: str) -> str:
        """The signs of the baselines from which this system differs significantly."""
        return "".join(
            self.mark(one.baseline)
            for one in self.differences
            if one.system == system and one.measure == measure and one.p_holm < self.level
        )


def compare(
    evaluations: Mapping[str, Evaluation],
    baselines: Sequence[str],
    *,
    measures: Sequence[str] | None = None,
    level: float = 0.05,
    confidence: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compare each system with each baseline by each measure (all that were measured, unless named).

    The family of tests that Holm's correction is made over is, for each baseline, every other system
    by every measure. A baseline is itself compared with the other baselines.

    Raises
    ------
    ValueError
        where there is no system, a baseline or measure was not evaluated, or the queries differ.
    """
    if not evaluations:
        raise ValueError("there is no system to compare")
    names = parse_measures(measures) if measures else _shared_measures(evaluations)
    _check(evaluations, baselines, names)
    pairs = [
        (system, baseline, name)
        for baseline in baselines
        for system in evaluations
        if system != baseline
        for name in names
    ]
    rows = [
        settled(evaluations[system].values[name] - evaluations[baseline].values[name])
        for system, baseline, name in pairs
    ]
    p_values = [paired_t(row) for row in rows]
    corrected: list[float] = []
    for baseline in baselines:  # one family after another, in the order of the pairs
        corrected += holm([p for p, pair in zip(p_values, pairs, strict=True) if pair[1] == baseline])
    intervals = bootstrap_intervals(rows, confidence=confidence, seed=seed)
    differences = tuple(
        _difference(evaluations, pair, row, p, interval)
        for pair, row, p, interval in zip(
            pairs, rows, zip(p_values, corrected, strict=True), intervals, strict=True
        )
    )
    return Comparison(evaluations, tuple(baselines), names, differences, level, confidence)


def _shared_measures(evaluations: Mapping[str, Evaluation]) -> tuple[str, ...]:
    first, *rest = evaluations.values()
    return tuple(name for name in first.measures if all(name in other.values for other in rest))


def _check(evaluations: Mapping[str, Evaluation], baselines: Sequence[str], measures: Sequence[str]) -> None:
    if len(set(baselines)) < len(baselines):
        raise ValueError(f"a baseline is named twice: {', '.join(baselines)}")
    for baseline in baselines:
        if baseline not in evaluations:
            raise ValueError(f"the baseline {baseline!r} is none of the systems: {', '.join(evaluations)}")
    first = next(iter(evaluations))
    for system, evaluation in evaluations.items():
        if evaluation.qids != evaluations[first].qids:
            raise ValueError(f"{system!r} and {first!r} were measured on different queries")
        lacking = [name for name in measures if name not in evaluation.values]
        if lacking:
            raise ValueError(f"{system!r} was not measured by {', '.join(lacking)}")


def _difference(
    evaluations: Mapping[str, Evaluation],
    pair: tuple[str, str, str],
    row: Differences,
    p_values: tuple[float, float],
    interval: tuple[float, float],
) -> Difference:
    system, baseline, name = pair
    mean = float(evaluations[system].values[name].mean())
    base = float(evaluations[baseline].values[name].mean())
    delta = float(row.mean())
    order = np.argsort(-np.abs(row), kind="stable")[:_CHANGED]
    qids = evaluations[system].qids
    return Difference(
        system=system,
        baseline=baseline,
        measure=name,
        mean=mean,
        baseline_mean=base,
        delta=delta,
        percent=100.0 * delta / base if base else float("nan"),
        p=p_values[0],
        p_holm=p_values[1],
        effect=effect_size(row),
        low=interval[0],
        high=interval[1],
        wins=int((row > 0).sum()),
        ties=int((row == 0).sum()),
        losses=int((row < 0).sum()),
        changed=tuple((qids[i], float(row[i])) for i in order if row[i]),
    )
