"""What a comparison with a baseline says, and tests of every two systems: for tables, findings, programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np
from pydantic import Field

from telerank.evaluation.compare import Comparison
from telerank.evaluation.measures import Evaluation
from telerank.evaluation.statistics import holm, paired_t, zero_noise
from telerank.experiments.pooled_values import Items
from telerank.records import Section
from telerank.show.tables import Cell, Table


class PairedTests(Section):
    """Paired t-tests of every two systems, as a paper reports them (BeST: p < 0.01, not corrected)."""

    level: float = Field(0.01, gt=0, lt=1)
    """A difference is significant if its p is below."""
    corrected: bool = False
    """Whether p is corrected by Holm's method for the superscripts; a table has both in any case."""


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


@dataclass(frozen=True)
class PairedTest:
    """The difference of two systems by a measure, the p of its t-test, and the same corrected."""

    system: str
    other: str
    measure: str
    delta: float
    p: float
    p_holm: float


@dataclass(frozen=True)
class TestedPairs:
    """The tests of every two systems by each measure; ``p_holm`` is corrected over all of them."""

    systems: tuple[str, ...]
    tests: tuple[PairedTest, ...]
    settings: PairedTests
    queries: int

    def marks(self, system: str, measure: str) -> str:
        """The numbers of the systems, counted from 1, that this one differs from significantly."""
        pairs = [
            {test.system, test.other}
            for test in self.tests
            if test.measure == measure and self._differs(test)
        ]
        numbers = [str(number) for number, other in enumerate(self.systems, 1) if {system, other} in pairs]
        return ("," if len(self.systems) > 9 else "").join(numbers)

    def _differs(self, test: PairedTest) -> bool:
        return (test.p_holm if self.settings.corrected else test.p) < self.settings.level

    def describe_marks(self) -> str:
        """What the superscripts mean."""
        names = ", ".join(f"{number} {name}" for number, name in enumerate(self.systems, 1))
        how = "with Holm's correction" if self.settings.corrected else "not corrected"
        return (
            f"Superscripts are the systems that differ, p < {self.settings.level:g} in a paired t-test over "
            f"{self.queries:,} queries, {how} for {len(self.tests)} tests: {names}. Bold: the best."
        )

    def table(self) -> Table:
        """A row for each test; a p below the level is strong."""

        def cell(p: float) -> Cell:
            return Cell(f"{p:.4f}", strong=p < self.settings.level)

        rows: list[list[str | Cell]] = [
            [test.system, test.other, test.measure, f"{test.delta:+.3f}", cell(test.p), cell(test.p_holm)]
            for test in self.tests
        ]
        columns = ("system", "other", "measure", "difference", "p", "p, Holm")
        return Table.of(columns, rows, caption="Paired t-tests", left=3)

    def record(self) -> list[dict[str, Any]]:
        return [asdict(test) for test in self.tests]


def compare_pairs(
    evaluations: Mapping[str, Evaluation], measures: Sequence[str], settings: PairedTests
) -> TestedPairs:
    """Test the difference of every two systems by each measure over the same queries."""
    tests = []
    for name in measures:
        for other, system in combinations(evaluations, 2):
            row = zero_noise(evaluations[system].values[name] - evaluations[other].values[name])
            p = paired_t(row)
            tests.append(PairedTest(system, other, name, float(row.mean()), p, p))
    corrected = holm([test.p for test in tests])
    final = tuple(replace(test, p_holm=p) for test, p in zip(tests, corrected, strict=True))
    return TestedPairs(tuple(evaluations), final, settings, len(next(iter(evaluations.values())).qids))


def compare_items(items: Items, settings: PairedTests) -> TestedPairs | None:
    """The same tests by the values of each query, of the systems that have those of all queries.

    None if there are fewer than two.
    """
    rows = next(iter(items.values()), {})
    qids = tuple(dict.fromkeys(qid for values in rows.values() for qid in values))
    evaluations = {
        system: Evaluation(
            qids, {name: np.array([fmean(own[system][qid]) for qid in qids]) for name, own in items.items()}
        )
        for system, values in rows.items()
        if values.keys() == {*qids}
    }
    return compare_pairs(evaluations, tuple(items), settings) if len(evaluations) > 1 else None
