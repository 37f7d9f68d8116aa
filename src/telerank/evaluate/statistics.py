"""What the differences of two systems, query by query, say about the systems."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Differences = npt.NDArray[np.float64]  # one value a query

_NOISE = 1e-12  # what rounding leaves of values between 0 and 1 that are the same
_RESAMPLES = 10_000
_AT_ONCE = 4_000_000  # drawn queries held at once by the bootstrap


def settled(differences: Differences) -> Differences:
    """The differences, with those that are rounding alone made 0."""
    return np.where(np.abs(differences) <= _NOISE, 0.0, differences)


def paired_t(differences: Differences) -> float:
    """The two-sided p of Student's t-test that the mean difference is 0.

    1 where every difference is 0, and where a single query can show nothing; 0 where all differences
    are one value other than 0.
    """
    from scipy import stats

    differences = settled(differences)
    if len(differences) < 2 or not differences.any():
        return 1.0
    if _is_constant(differences):
        return 0.0
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def effect_size(differences: Differences) -> float:
    """Cohen's d of paired values: mean / standard deviation of the differences.

    0 where every difference is 0, infinite where all are one other value, NaN for a single query.
    """
    differences = settled(differences)
    if not differences.any():
        return 0.0
    if len(differences) < 2:
        return float("nan")
    mean = float(differences.mean())
    if _is_constant(differences):
        return math.copysign(math.inf, mean)
    return mean / float(differences.std(ddof=1))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of one family of tests, corrected by Holm's step-down method."""
    from statsmodels.stats.multitest import multipletests

    return [float(p) for p in multipletests(p_values, method="holm")[1]] if p_values else []


def bootstrap_intervals(
    rows: Sequence[Differences], *, confidence: float = 0.95, seed: int = 0
) -> list[tuple[float, float]]:
    """Percentile intervals of the mean of each row, from 10,000 samples of the queries with replacement.

    All rows have the same queries and see the same samples.
    """
    if not rows:
        return []
    table = np.stack(rows)  # (R, Q)
    queries = table.shape[1]
    random = np.random.default_rng(seed)
    means = np.empty((_RESAMPLES, len(rows)))
    step = max(1, _AT_ONCE // queries)
    for begin in range(0, _RESAMPLES, step):
        size = min(step, _RESAMPLES - begin)
        drawn = random.integers(queries, size=(size, queries)) + queries * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * queries).reshape(size, queries)
        means[begin : begin + size] = counts @ table.T / queries  # (size, Q) @ (Q, R)
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(means, [tail, 100.0 - tail], axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def _is_constant(differences: Differences) -> bool:
    return bool(np.ptp(differences) <= _NOISE * np.abs(differences).max())
