"""Trainings of re-rankers that are compared, by grids, sizes, seeds and folds; and what they reach."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from pydantic import Field, PositiveInt, ValidationError

from telerank.errors import ModelError
from telerank.records import describe_error, read_record
from telerank.show.plots import line_plot
from telerank.show.tables import Table
from telerank.training.reranker.config import RerankerTraining
from telerank.training.settings import Seed, set_dotted
from telerank.training.trained import RESULT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INCOMPARABLE = ("dev", "test", "folds", "held_out", "repetition")
_ALTERNATIVES = {"optimisation.steps": "optimisation.epochs", "optimisation.epochs": "optimisation.steps"}


@dataclass(frozen=True)
class Variant:
    """One of several trainings: how it differs, which also names its folder.

    ``settings`` are those of a grid: dotted names, each with its value as JSON.
    """

    size: int | None = None
    seed: int | None = None
    fold: int | None = None
    settings: tuple[tuple[str, str], ...] = ()
    repetition: int | None = None

    @property
    def values(self) -> dict[str, Any]:
        """The values of the grid's settings, by their dotted names."""
        return {name: json.loads(value) for name, value in self.settings}

    @property
    def folder(self) -> Path:
        """Its folder below the output; a setting is named by its last word, unless two end with it."""
        last = short_names(self.values)
        settings = (
            (word if last.count(word) == 1 else name, _path_part(value))
            for word, (name, value) in zip(last, self.values.items(), strict=True)
        )
        names = (*settings, ("size", self.size), *self._numbers)
        return Path(*(f"{name}-{value}" for name, value in names if value is not None))

    @property
    def label(self) -> str:
        """The differences in words."""
        settings = ((name, show_setting(value)) for name, value in self.values.items())
        names = (*settings, *self._numbers)
        return ", ".join(f"{name} {value}" for name, value in names if value is not None) or "re-ranked"

    @property
    def _numbers(self) -> tuple[tuple[str, int | None], ...]:
        return ("repetition", self.repetition), ("seed", self.seed), ("fold", self.fold)

    @property
    def changes(self) -> dict[str, Any]:
        """The settings of a training that differ, by dotted names; of steps and epochs the other is null."""
        numbers = {"data.pairs": self.size, "seed": self.seed, "held_out": self.fold}
        numbers["repetition"] = self.repetition
        others = {_ALTERNATIVES[name]: None for name in self.values if name in _ALTERNATIVES}
        return self.values | others | {name: own for name, own in numbers.items() if own is not None}

    def apply(self, plan: RerankerTraining) -> RerankerTraining:
        """The settings of this training; a repetition has a seed of its own."""
        changes = self.changes
        if self.repetition is not None:
            changes["seed"] = changes.get("seed", plan.seed) + self.repetition
        record = plan.model_dump(exclude={"grid", "seeds", "sizes", "repetitions"})
        return RerankerTraining.model_validate(set_dotted(record, changes))


class TrainingPlan(RerankerTraining):
    """The settings of one training, or of several that are compared."""

    grid: Mapping[str, tuple[Any, ...]] = Field(default_factory=dict)
    """Dotted names of settings, as `optimisation.learning_rate`, each with the values to choose from. Every
    combination is trained, and the dev measure chooses the one that is tested."""
    seeds: tuple[Seed, ...] = ()
    """Train with each of these seeds; the table has the mean and the spread of the test."""
    sizes: tuple[PositiveInt, ...] = ()
    """Train with each of these numbers of pairs, `data.pairs`; the table and a plot show the test by size."""

    repetitions: PositiveInt | None = None
    """Repeat the cross-validation this many times, each with folds of its own and another seed, counted up
    from `seed` (BeST on Robust04: five times five folds); the table has the values of all."""

    @property
    def is_single(self) -> bool:
        """Whether this is one training without a test, so that there is nothing to compare."""
        return not (self.grid or self.seeds or self.sizes or self.folds is not None or self.test)

    @property
    def is_tested(self) -> bool:
        """Whether the test measures anything."""
        return self.test is not None and bool(self.test.measures)

    @property
    def combinations(self) -> list[Variant]:
        """Every combination of the grid's values; the last setting changes first."""
        return combine(self.grid)

    @property
    def variants(self) -> list[Variant]:
        """The trainings: every combination with every size, repetition, seed and fold."""
        folds = range(self.folds) if self.folds and self.held_out is None else (None,)
        repeated = range(self.repetitions) if self.repetitions else (None,)
        choices = product(self.combinations, self.sizes or (None,), repeated, self.seeds or (None,), folds)
        return [
            Variant(size, seed, fold, chosen.settings, number) for chosen, size, number, seed, fold in choices
        ]

    def problems(self) -> Iterator[tuple[object, str]]:
        yield from super().problems()
        single = self.repetitions and (self.folds is None or self.repetition is not None)
        yield single, "repetitions are of a cross-validation: set folds, and no repetition"
        for name, values in (("seeds", self.seeds), ("sizes", self.sizes)):
            twice = len(set(values)) < len(values)
            yield twice, f"{name}: expected different numbers, got {', '.join(map(str, values))}"
        if not self.grid:
            return
        yield self.sizes, "sizes: a grid chooses first; then train what was chosen with these sizes"
        yield self.dev is None, "grid: the dev measure chooses: add the section dev"
        folded = self.folds is not None
        yield folded, "grid: choose before, then train the folds with what was chosen"
        for name, values in self.grid.items():
            other = name.split(".", maxsplit=1)[0] in _INCOMPARABLE
            yield other, f"grid: trainings with another {name} cannot be compared"
            reason = f"each {name} has defaults of its own"
            yield name in ("model", "model.kind"), f"grid: {reason}: train each from a file of its own"
            yield not values, f"grid: {name} has no values"
        for combination in self.combinations:
            try:
                combination.apply(self)
            except ValidationError as error:
                yield True, f"grid: {combination.label}: {describe_error(error)}"
        folders = [combination.folder for combination in self.combinations]
        alike = [folder for folder in folders if folders.count(folder) > 1]
        yield alike, f"grid: more than one combination would be called {alike[0] if alike else ''}"


def combine(grid: Mapping[str, Sequence[Any]]) -> list[Variant]:
    """Every combination of the settings' values; the last setting changes first."""
    written = [[json.dumps(value, default=str) for value in values] for values in grid.values()]
    return [Variant(settings=tuple(zip(grid, chosen, strict=True))) for chosen in product(*written)]


def short_names(names: Iterable[str]) -> list[str]:
    """The last words of dotted names."""
    return [name.rpartition(".")[2] for name in names]


def show_setting(value: Any) -> str:
    """The value of a setting as a table shows it."""
    return value if isinstance(value, str) else json.dumps(value)


def _path_part(value: Any) -> str:
    """A value as part of a path."""
    if isinstance(value, list):
        return "-".join(map(_path_part, value)) or "none"
    return re.sub(r"[^\w.+-]+", "-", str(value))


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
