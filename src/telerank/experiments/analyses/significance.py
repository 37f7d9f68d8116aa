"""What a comparison with a baseline says: for the notes of tables, for findings, for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from telerank.evaluation.compare import Comparison


def describe_marks(comparison: Comparison, baseline: str) -> str:
    """What the mark in a table means; ``baseline`` is the text for the baseline."""
    (name,) = comparison.baselines
    queries = len(comparison.evaluations[name].qids)
    return (
        f"{comparison.mark(name)} differs from {baseline}: p < {comparison.level:g} in a paired t-test over "
        f"{queries:,} queries, with Holm's correction over the {len(comparison.differences)} tests of this "
        "table. Bold: the best."
    )


def describe_difference(comparison: Comparison, system: str, measure: str) -> str:
    """``significantly above`` the baseline, ``not significantly below`` it."""
    (name,) = comparison.baselines
    verdict = "significantly" if comparison.marks(system, measure) else "not significantly"
    above = comparison.difference(system, name, measure).delta > 0
    return f"{verdict} {'above' if above else 'below'}"


def record_differences(comparison: Comparison) -> list[dict[str, Any]]:
    """The differences, without the queries that changed most."""
    return [
        {key: value for key, value in asdict(difference).items() if key != "changed"}
        for difference in comparison.differences
    ]
