"""The results of trainings that differ in seed, size, held-out fold, or the settings of a grid."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from telerank.show.tables import Table
from telerank.training.reranker.outcome import RerankerOutcome, join_outcomes
from telerank.training.reranker.plan import Variant
from telerank.training.settings import without_unset

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Study:
    """The test of each training."""

    outcomes: Mapping[Variant, RerankerOutcome]

    @property
    def folds(self) -> dict[Variant, RerankerOutcome]:
        """The outcome of each fold of a cross-validation."""
        return {variant: outcome for variant, outcome in self.outcomes.items() if variant.fold is not None}

    @cached_property
    def tested(self) -> dict[Variant, RerankerOutcome]:
        """The outcome of each training, with the folds of a cross-validation joined."""
        parts: dict[Variant, list[RerankerOutcome]] = {}
        for variant, outcome in self.outcomes.items():
            parts.setdefault(replace(variant, fold=None), []).append(outcome)
        return {variant: join_outcomes(outcomes) for variant, outcomes in parts.items()}

    @property
    def measures(self) -> tuple[str, ...]:
        return tuple(next(iter(self.outcomes.values())).measures)

    @property
    def sizes(self) -> list[int]:
        """The numbers of training pairs that were compared, if any."""
        return list(dict.fromkeys(variant.size for variant in self.tested if variant.size is not None))

    def values(self, size: int | None, measure: str) -> list[float]:
        """The measure for each seed, with ``size`` training pairs."""
        return [outcome.measures[measure] for variant, outcome in self.tested.items() if variant.size == size]

    def table(self) -> Table:
        """A row for each training, or for each size; then the mean over seeds."""
        first = next(iter(self.tested.values()))
        rows = [("first stage", *self._cells(first.before))]
        if self.sizes:
            rows += [(f"{size:,} pairs", *self._means(size)) for size in self.sizes]
        else:
            for variant, outcome in (*self.folds.items(), *self.tested.items()):
                rows.append((variant.label, *self._cells(outcome.measures)))
            rows += [(f"mean over {self._repeated}", *self._means(None))] if len(self.tested) > 1 else []
        notes = [f"{first.queries:,} test queries, {first.candidates:,} candidates."]
        if first.without:
            notes.append(f"{first.without:,} of the queries have no candidates, and count 0.")
        if first.cut_queries or first.cut_documents:
            lost = f"the query of {first.cut_queries:,} pairs and the document of {first.cut_documents:,}"
            notes.append(f"Longer than the models read, and cut: {lost}.")
        runs = {(variant.seed, variant.repetition) for variant in self.tested}
        if len(runs) > 1:
            notes.append(f"Means over {len(runs)} {self._repeated} ± their standard deviation.")
        return Table.of(("training", *self.measures), rows, notes=notes)

    @property
    def _repeated(self) -> str:
        is_repeated = any(variant.repetition is not None for variant in self.tested)
        return "repetitions" if is_repeated else "seeds"

    def record(self) -> dict[str, object]:
        """Every value, for JSON."""
        parts = {"trainings": self.tested, "folds": self.folds}
        return {
            name: [
                {**without_unset(asdict(variant), "repetition"), **asdict(outcome)}
                for variant, outcome in part.items()
            ]
            for name, part in parts.items()
        }

    def plot(self) -> Figure:
        """Each measure by the number of training pairs, the mean over seeds (monoBERT, figure 1)."""
        from telerank.show.plots import line_plot

        panels = {
            name: {"re-ranked": [fmean(self.values(size, name)) for size in self.sizes]}
            for name in self.measures
        }
        return line_plot(panels, self.sizes, x_label="training pairs", logarithmic=True)

    def _cells(self, values: Mapping[str, float]) -> list[str]:
        return [f"{values[name]:.4f}" for name in self.measures]

    def _means(self, size: int | None) -> list[str]:
        return [_format_mean(self.values(size, name)) for name in self.measures]


@dataclass(frozen=True)
class Grid:
    """The dev measure, or the dev loss, of each training."""

    measure: str
    values: Mapping[Variant, float]
    lower_is_better: bool = False

    @property
    def ordered(self) -> dict[Variant, list[float]]:
        """The values of each combination, one for each seed; the best mean first."""
        values: dict[Variant, list[float]] = {}
        for variant, value in self.values.items():
            values.setdefault(replace(variant, seed=None), []).append(value)
        sign = 1 if self.lower_is_better else -1
        return dict(sorted(values.items(), key=lambda item: sign * fmean(item[1])))

    @property
    def best(self) -> list[Variant]:
        """The trainings with the best combination."""
        first = next(iter(self.ordered))
        return [variant for variant in self.values if variant.settings == first.settings]

    def table(self) -> Table:
        """A row for each combination, the best first."""
        names = [name for name, _ in self.best[0].settings]
        rows = [
            (*(value.strip('"') for _, value in combination.settings), _format_mean(values))
            for combination, values in self.ordered.items()
        ]
        seeds = len(self.best)
        notes = [f"Means over {seeds} seeds ± their standard deviation."] if seeds > 1 else []
        return Table.of((*names, f"dev {self.measure}"), rows, notes=notes, left=len(names))

    def record(self) -> dict[str, object]:
        """Every value, for JSON."""
        rows = [
            {"settings": {name: json.loads(value) for name, value in combination.settings}, "dev": values}
            for combination, values in self.ordered.items()
        ]
        return {"measure": self.measure, "combinations": rows}


def _format_mean(values: Sequence[float]) -> str:
    """Their mean, with their standard deviation if there are several."""
    return f"{fmean(values):.4f}" + (f" ± {stdev(values):.4f}" if len(values) > 1 else "")
