"""The plan of one training of a re-ranker, or of several that are compared."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import (
    Field,
    PositiveInt,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from telerank.records import describe_error
from telerank.training.reranker.config import RerankerTraining
from telerank.training.settings import Seed, SettingsSource, read_mapping, validate_settings, without_unset

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
    def folder(self) -> Path:
        """Its folder below the output; a setting is named by its last word, unless two end with it."""
        last = [name.rpartition(".")[2] for name, _ in self.settings]
        settings = (
            (word if last.count(word) == 1 else name, _path_part(json.loads(value)))
            for word, (name, value) in zip(last, self.settings, strict=True)
        )
        names = (*settings, ("size", self.size), *self._numbers)
        return Path(*(f"{name}-{value}" for name, value in names if value is not None))

    @property
    def label(self) -> str:
        """The differences in words."""
        values = ((name, value, json.loads(value)) for name, value in self.settings)
        settings = ((name, parsed if isinstance(parsed, str) else value) for name, value, parsed in values)
        names = (*settings, *self._numbers)
        return ", ".join(f"{name} {value}" for name, value in names if value is not None) or "re-ranked"

    @property
    def _numbers(self) -> tuple[tuple[str, int | None], ...]:
        return ("repetition", self.repetition), ("seed", self.seed), ("fold", self.fold)

    def apply(self, plan: TrainingPlan) -> RerankerTraining:
        """The configuration of this training."""
        record = plan.model_dump(exclude={"grid", "seeds", "sizes", "repetitions"})
        for name, value in self.settings:
            _set(record, name, json.loads(value))
            if other := _ALTERNATIVES.get(name):
                _set(record, other, None)
        seed = self.seed
        if self.repetition is not None:
            seed = (plan.seed if seed is None else seed) + self.repetition
        numbers = {"data.pairs": self.size, "seed": seed, "held_out": self.fold}
        numbers["repetition"] = self.repetition
        for name, number in numbers.items():
            if number is not None:
                _set(record, name, number)
        return RerankerTraining.model_validate(record)


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

    @model_serializer(mode="wrap")
    def _without_unset(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_unset(dump(self), "repetition", "repetitions")

    @property
    def is_single(self) -> bool:
        """Whether this is one training without a test, so that there is nothing to compare."""
        several = (self.grid, self.seeds, self.sizes, self.folds is not None)
        return not any(several) and self.test is None

    @property
    def combinations(self) -> list[Variant]:
        """Every combination of the grid's values; the last setting changes first."""
        values = [[json.dumps(value, default=str) for value in choices] for choices in self.grid.values()]
        return [Variant(settings=tuple(zip(self.grid, chosen, strict=True))) for chosen in product(*values)]

    @property
    def variants(self) -> list[Variant]:
        """The trainings: every combination with every size, repetition, seed and fold."""
        folds = range(self.folds) if self.folds and self.held_out is None else (None,)
        repeated = range(self.repetitions) if self.repetitions else (None,)
        choices = product(self.combinations, self.sizes or (None,), repeated, self.seeds or (None,), folds)
        return [
            Variant(size, seed, fold, chosen.settings, number) for chosen, size, number, seed, fold in choices
        ]

    @model_validator(mode="after")
    def _repeats_folds(self) -> TrainingPlan:
        if self.repetitions and (self.folds is None or self.repetition is not None):
            raise ValueError("repetitions are of a cross-validation: set folds, and no repetition")
        return self

    @model_validator(mode="after")
    def _different_numbers(self) -> TrainingPlan:
        for name, values in (("seeds", self.seeds), ("sizes", self.sizes)):
            if len(set(values)) < len(values):
                raise ValueError(f"{name}: expected different numbers, got {', '.join(map(str, values))}")
        return self

    @model_validator(mode="after")
    def _grid_can_be_compared(self) -> TrainingPlan:
        if not self.grid:
            return self
        if self.sizes:
            raise ValueError("sizes: a grid chooses first; then train what was chosen with these sizes")
        if self.dev is None:
            raise ValueError("grid: the dev measure chooses: add the section dev")
        if self.folds is not None:
            raise ValueError("grid: choose before, then train the folds with what was chosen")
        for name, values in self.grid.items():
            if problem := _problem(name, values):
                raise ValueError(f"grid: {problem}")
        for combination in self.combinations:
            try:
                combination.apply(self)
            except ValidationError as error:
                raise ValueError(f"grid: {combination.label}: {describe_error(error)}") from error
        folders = [combination.folder for combination in self.combinations]
        if twice := [folder for folder in folders if folders.count(folder) > 1]:
            raise ValueError(f"grid: more than one combination would be called {twice[0]}")
        return self


def read_plan(path: SettingsSource, **changes: Sequence[int]) -> TrainingPlan:
    """The plan of a YAML file or a mapping, with ``seeds`` or ``sizes`` instead of the file's.

    Raises
    ------
    FormatError
        If the file is not YAML, has an unknown key, or an invalid value.
    """
    return validate_settings({**read_mapping(path), **changes}, TrainingPlan, path)


def _problem(name: str, values: Sized) -> str | None:
    """Why a grid cannot have this setting, if it cannot."""
    if name.split(".", maxsplit=1)[0] in _INCOMPARABLE:
        return f"trainings with another {name} cannot be compared"
    if name in ("model", "model.kind"):
        return f"each {name} has defaults of its own: train each from a file of its own"
    return None if len(values) else f"{name} has no values"


def _set(record: dict[str, Any], name: str, value: Any) -> None:
    """Set the value at a dotted name."""
    *sections, last = name.split(".")
    for section in sections:
        if not isinstance(record.get(section), dict):
            record[section] = {}
        record = record[section]
    record[last] = value


def _path_part(value: Any) -> str:
    """A value as part of a path."""
    if isinstance(value, list):
        return "-".join(map(_path_part, value)) or "none"
    return re.sub(r"[^\w.+-]+", "-", str(value))
