"""What re-rankers reach on their test, and comparing those that differ in seed, size, fold or settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from telerank.errors import ModelError
from telerank.records import read_record
from telerank.show.plots import line_plot
from telerank.show.tables import Table
from telerank.training.reranker.plan import Variant, show_setting
from telerank.training.trained import RESULT

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class RerankerOutcome:
    """Means over ``queries`` by measure, after and before re-ranking ``candidates`` pairs.

    ``without`` of the queries have no candidates and count as not answered. The query is longer than the
    model reads in ``cut_queries`` of the pairs, the document in ``cut_documents``; of segments,
    the document has text behind those that are read, and ``cut_titles`` have a cut title.
    """

    queries: int
    candidates: int
    without: int
    measures: Mapping[str, float]
    before: Mapping[str, float]
    cut_queries: int = 0
    cut_documents: int = 0
    cut_titles: int = 0


def read_outcome(output: Path) -> RerankerOutcome:
    """The test of the training in a folder. Raises ModelError if the file is damaged."""
    return read_record(output / RESULT, RerankerOutcome, ModelError)


def join_outcomes(outcomes: Sequence[RerankerOutcome]) -> RerankerOutcome:
    """The means over all queries of outcomes that have no query in common."""
    if len(outcomes) == 1:
        return outcomes[0]
    records = [asdict(outcome) for outcome in outcomes]
    queries = sum(outcome.queries for outcome in outcomes)
    joined: dict[str, Any] = {}
    for name, first in records[0].items():
        if isinstance(first, Mapping):
            joined[name] = {
                measure: sum(record[name][measure] * record["queries"] for record in records) / queries
                for measure in first
            }
        else:
            joined[name] = sum(record[name] for record in records)
    return RerankerOutcome(**joined)


def format_mean(values: Sequence[float], digits: int = 4) -> str:
    """Their mean, with their standard deviation if there are several."""
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{fmean(values):.{digits}f}{spread}"


def plot_sizes(panels: Mapping[str, Mapping[str, Sequence[float]]], sizes: Sequence[int]) -> Figure:
    """Measures of systems by the number of training pairs (monoBERT, figure 1)."""
    return line_plot(panels, sizes, x_label="training pairs", logarithmic=True)


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
        first, measures = next(iter(self.tested.values())), self.measures
        repeated = "repetitions" if any(own.repetition is not None for own in self.tested) else "seeds"
        rows: list[tuple[object, ...]] = [("first stage", *map(first.before.get, measures))]
        means: list[tuple[str, int | None]] = [(f"{size:,} pairs", size) for size in self.sizes]
        if not self.sizes:
            for variant, outcome in (*self.folds.items(), *self.tested.items()):
                rows.append((variant.label, *map(outcome.measures.get, measures)))
            means = [(f"mean over {repeated}", None)] if len(self.tested) > 1 else []
        for label, size in means:
            rows.append((label, *(format_mean(self.values(size, name)) for name in measures)))
        notes = [f"{first.queries:,} test queries, {first.candidates:,} candidates."]
        if first.without:
            notes.append(f"{first.without:,} of the queries have no candidates, and count 0.")
        if first.cut_queries or first.cut_documents:
            lost = f"the query of {first.cut_queries:,} pairs and the document of {first.cut_documents:,}"
            notes.append(f"Longer than the models read, and cut: {lost}.")
        runs = {(variant.seed, variant.repetition) for variant in self.tested}
        if len(runs) > 1:
            notes.append(f"Means over {len(runs)} {repeated} ± their standard deviation.")
        return Table.of(("training", *measures), rows, notes=notes, form=".4f")

    def record(self) -> dict[str, object]:
        """Every value, for JSON."""
        parts = {"trainings": self.tested, "folds": self.folds}
        return {
            name: [{**asdict(variant), **asdict(outcome)} for variant, outcome in part.items()]
            for name, part in parts.items()
        }

    def plot(self) -> Figure:
        """Each measure by the number of training pairs, the mean over seeds."""
        panels = {
            name: {"re-ranked": [fmean(self.values(size, name)) for size in self.sizes]}
            for name in self.measures
        }
        return plot_sizes(panels, self.sizes)


@dataclass(frozen=True)
class Grid:
    """The dev measure, or the dev loss, of each training."""

    measure: str
    values: Mapping[Variant, float]
    lower_is_better: bool = False

    @cached_property
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
        names, seeds = list(self.best[0].values), len(self.best)
        rows = [
            (*map(show_setting, combination.values.values()), format_mean(values))
            for combination, values in self.ordered.items()
        ]
        notes = [f"Means over {seeds} seeds ± their standard deviation."] if seeds > 1 else []
        return Table.of((*names, f"dev {self.measure}"), rows, notes=notes, left=len(names))

    def record(self) -> dict[str, object]:
        """Every value, for JSON."""
        rows = [{"settings": chosen.values, "dev": values} for chosen, values in self.ordered.items()]
        return {"measure": self.measure, "combinations": rows}
