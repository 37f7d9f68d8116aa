"""Plan several trainings; train a grid of settings, and test the best by the dev measure."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import Field, NonNegativeInt, PositiveInt, ValidationError, model_validator

from telerank.errors import ModelError
from telerank.show.tables import Table, render_markdown
from telerank.training import checkpoint
from telerank.training.log import Report, silent_report
from telerank.training.parallel import join_processes
from telerank.training.reranker.config import RerankerTraining
from telerank.training.reranker.study import DEV, Study, Variant, format_mean, list_variants, run_study
from telerank.training.reranker.train import train_reranker
from telerank.training.settings import SettingsSource, describe_error, read_mapping, validate_settings
from telerank.training.training import choose_device
from telerank.types import Progress, silent

TABLE = "grid.md"
RESULT = "grid.json"
_INCOMPARABLE = ("dev", "test", "folds", "held_out")


class TrainingPlan(RerankerTraining):
    """The settings of one training, or of several that are compared."""

    grid: Mapping[str, tuple[Any, ...]] = Field(default_factory=dict)
    """Dotted names of settings, as `optimisation.learning_rate`, each with the values to choose from. Every
    combination is trained, and the dev measure chooses the one that is tested."""
    seeds: tuple[NonNegativeInt, ...] = ()
    """Train with each of these seeds; the table has the mean and the spread of the test."""
    sizes: tuple[PositiveInt, ...] = ()
    """Train with each of these numbers of training queries; the table and a plot show the test by size."""

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
        """The trainings without a grid: every size with every seed and every fold."""
        return list_variants(self, seeds=self.seeds, sizes=self.sizes)

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


@dataclass(frozen=True)
class Grid:
    """The dev measure of each training, and the test of those with the best combination, if there is one."""

    measure: str
    values: Mapping[Variant, float]
    study: Study | None = None

    @property
    def ordered(self) -> dict[Variant, list[float]]:
        """The values of each combination, one for each seed; the best mean first."""
        values: dict[Variant, list[float]] = {}
        for variant, value in self.values.items():
            values.setdefault(replace(variant, seed=None), []).append(value)
        return dict(sorted(values.items(), key=lambda item: -fmean(item[1])))

    @property
    def best(self) -> list[Variant]:
        """The trainings with the best combination."""
        first = next(iter(self.ordered))
        return [variant for variant in self.values if variant.settings == first.settings]

    def table(self) -> Table:
        """A row for each combination, the best first."""
        names = [name for name, _ in self.best[0].settings]
        rows = [
            (*(value.strip('"') for _, value in combination.settings), format_mean(values))
            for combination, values in self.ordered.items()
        ]
        seeds = len(self.best)
        notes = [f"Means over {seeds} seeds ± their standard deviation."] if seeds > 1 else []
        return Table.of((*names, f"dev {self.measure}"), rows, notes=notes, left=len(names))

    def record(self) -> dict[str, object]:
        """Every value, for JSON, with the record of :attr:`study`."""
        rows = [
            {"settings": {name: json.loads(value) for name, value in combination.settings}, "dev": values}
            for combination, values in self.ordered.items()
        ]
        return {"measure": self.measure, "combinations": rows} | (self.study.record() if self.study else {})


def run_grid(
    plan: TrainingPlan,
    output: str | Path,
    *,
    resume: bool = False,
    report: Report = silent_report,
    progress: Progress = silent,
) -> Grid:
    """Train each combination, with each seed, in a folder of its own; test only the best.

    With ``resume``, finished trainings are not repeated. The checkpoints of a finished training are removed.
    Raises ModelError if the plan has no grid or no dev set; if combinations were trained already and
    ``resume`` is not set.
    """
    if not plan.grid or plan.dev is None:
        raise ModelError("grid: settings with values to choose from, and the section dev to choose by")
    folder, values = Path(output), dict[Variant, float]()
    variants = [
        replace(variant, settings=combination.settings)
        for combination in plan.combinations
        for variant in plan.variants
    ]
    with join_processes(choose_device(plan.device)) as processes:
        if not processes.leads:
            report, progress = silent_report, silent
        for done, variant in enumerate(variants):
            progress("combinations", done, len(variants))
            config, own = _without_measures(variant.apply(plan)), folder / variant.folder
            if resume and processes.first((own / DEV).exists):
                checkpoint.check_same(config, own)
            else:
                train_reranker(config, own, shared=folder, resume=resume, report=report, progress=progress)
            values[variant] = processes.first(partial(_finish, own))
        grid = Grid(plan.dev.measure, values)
        if plan.test is not None and plan.test.measures:
            study = run_study(plan, folder, grid.best, resume=True, progress=progress)
            grid = replace(grid, study=study)
        processes.first(lambda: _write(grid, folder))
    return grid


def _without_measures(config: RerankerTraining) -> RerankerTraining:
    """The same training; the queries of its test are kept back, but not measured."""
    test = config.test and config.test.model_copy(update={"measures": ()})
    return config.model_copy(update={"test": test})


def _finish(output: Path) -> float:
    """Write the best dev measure of a finished training, and remove its checkpoints."""
    lines = (output / checkpoint.LOG).read_text(encoding="utf-8").splitlines()
    best = max(line["dev"] for line in map(json.loads, lines) if "dev" in line)
    (output / DEV).write_text(f"{json.dumps(best)}\n", encoding="utf-8")
    shutil.rmtree(output / checkpoint.CHECKPOINTS, ignore_errors=True)
    return float(best)


def _write(grid: Grid, folder: Path) -> None:
    (folder / TABLE).write_text(render_markdown(grid.table()), encoding="utf-8")
    (folder / RESULT).write_text(json.dumps(grid.record(), indent=2) + "\n", encoding="utf-8")
