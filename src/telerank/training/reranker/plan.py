"""The plan of one training of a re-ranker, or of several that are compared: grids, sizes, seeds and folds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import Field, PositiveInt, ValidationError

from telerank.records import describe_error
from telerank.training.reranker.config import RerankerTraining
from telerank.training.settings import Seed, set_dotted

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
