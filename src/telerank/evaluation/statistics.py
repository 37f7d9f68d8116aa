"""Statistics of the differences of two systems per query: tests, effect sizes, intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Differences = npt.NDArray[np.float64]  # (queries,)

_NOISE = 1e-12  # differences up to this are rounding errors of values in [0, 1]
_RESAMPLES = 10_000
_AT_ONCE = 4_000_000  # drawn queries in memory at once


def zero_noise(differences: Differences) -> Differences:
    """Set differences that are rounding errors to 0."""
    return np.where(np.abs(differences) <= _NOISE, 0.0, differences)


def paired_t(differences: Differences) -> float:
    """The two-sided p of Student's paired t-test.

    1 if every difference is 0 or there is only one query; 0 if all differences are the same value
    other than 0.
    """
    from scipy import stats

    differences = zero_noise(differences)
    if len(differences) < 2 or not differences.any():
        return 1.0
    if _is_constant(differences):
        return 0.0
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def effect_size(differences: Differences) -> float:
    """Cohen's d of paired values: mean / standard deviation of the differences.

    0 if every difference is 0, infinite if all are the same other value, NaN for a single query.
    """
    differences = zero_noise(differences)
    if not differences.any():
        return 0.0
    if len(differences) < 2:
        return float("nan")
    mean = float(differences.mean())
    if _is_constant(differences):
        return math.copysign(math.inf, mean)
    return mean / float(differences.std(ddof=1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct the p-values of one family of tests by Holm's step-down method."""
    values = np.array(p_values, np.float64)
    order = np.argsort(values, kind="stable")
    remaining = np.arange(len(values), 0, -1)  # tests that are left when it is the turn of each
    corrected = np.empty_like(values)
    corrected[order] = np.minimum(np.maximum.accumulate(values[order] * remaining), 1.0)
    return [float(p) for p in corrected]


def bootstrap_intervals(
    rows: Sequence[npt.NDArray[Any]],
    counts: npt.NDArray[Any] | None = None,
    *,
    confidence: float = 0.95,
    seed: int = 0,
) -> list[tuple[float, float]]:
    """Percentile intervals of the mean of each row, from 10,000 bootstrap samples of the queries.

    All rows are over the same queries and use the same samples. With ``counts`` the rows are sums over that
    number of values of each query, and the mean is over the values.
    """
    if not rows:
        return []
    table = np.stack(rows)  # (R, Q)
    queries = table.shape[1]
    sizes = np.ones(queries) if counts is None else counts
    random = np.random.default_rng(seed)
    means = np.empty((_RESAMPLES, len(rows)))
    step = max(1, _AT_ONCE // queries)
    for begin in range(0, _RESAMPLES, step):
        size = min(step, _RESAMPLES - begin)
        drawn = random.integers(queries, size=(size, queries)) + queries * np.arange(size)[:, None]
        times = np.bincount(drawn.ravel(), minlength=size * queries).reshape(size, queries)
        means[begin : begin + size] = times @ table.T / (times @ sizes)[:, None]  # (size, Q) @ (Q, R)
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(means, [tail, 100.0 - tail], axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def _is_constant(differences: Differences) -> bool:
    return bool(np.ptp(differences) <= _NOISE * np.abs(differences).max())
