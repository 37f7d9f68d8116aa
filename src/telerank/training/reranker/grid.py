"""A grid of settings: every combination is trained, and the dev measure chooses the one that is tested."""

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

from pydantic import Field, ValidationError, model_validator

from telerank.errors import ModelError
from telerank.show.tables import Table, render_markdown
from telerank.training import checkpoint
from telerank.training.log import Report, silent_report
from telerank.training.parallel import join_processes
from telerank.training.reranker.config import RerankerTraining
from telerank.training.reranker.study import CHOOSING, Study, Variant, mean_of, run_study, variants
from telerank.training.reranker.train import train_reranker
from telerank.training.settings import describe_error
from telerank.training.training import choose_device
from telerank.types import Progress, silent

TABLE = "grid.md"
RESULT = "grid.json"
_UNLIKE = ("dev", "test", "folds", "held_out")


class GridTraining(RerankerTraining):
    """One training, or one for each combination of the values of ``grid``."""

    grid: Mapping[str, tuple[Any, ...]] = Field(default_factory=dict)
    """Dotted names of settings, as `optimisation.learning_rate`, each with the values to choose from."""

    @property
    def combinations(self) -> list[Variant]:
        """The last setting changes first."""
        values = [[json.dumps(one, default=str) for one in some] for some in self.grid.values()]
        return [Variant(settings=tuple(zip(self.grid, some, strict=True))) for some in product(*values)]

    @model_validator(mode="after")
    def _can_be_chosen_from(self) -> GridTraining:
        if not self.grid:
            return self
        if self.dev is None:
            raise ValueError("grid: the dev measure chooses: add the section dev")
        if self.folds is not None:
            raise ValueError("grid: choose before, then train the folds with what was chosen")
        for name, values in self.grid.items():
            if why := _refused(name, values):
                raise ValueError(f"grid: {why}")
        for one in self.combinations:
            try:
                one.of(self)
            except ValidationError as error:
                raise ValueError(f"grid: {one.label}: {describe_error(error)}") from error
        folders = [one.folder for one in self.combinations]
        if twice := [one for one in folders if folders.count(one) > 1]:
            raise ValueError(f"grid: more than one combination would be called {twice[0]}")
        return self


def _refused(name: str, values: Sized) -> str | None:
    """Why a grid cannot have this setting."""
    if name.split(".", maxsplit=1)[0] in _UNLIKE:
        return f"trainings with another {name} cannot be compared"
    if name in ("model", "model.kind"):
        return f"each {name} has defaults of its own: train each from a file of its own"
    return None if len(values) else f"{name} has no values"


@dataclass(frozen=True)
class Grid:
    """The dev measure of each training; the test of those with the best combination, where there is one."""

    measure: str
    found: Mapping[Variant, float]
    study: Study | None = None

    @property
    def ordered(self) -> dict[Variant, list[float]]:
        """The values of each combination, one for each seed, the best mean first."""
        values: dict[Variant, list[float]] = {}
        for one, value in self.found.items():
            values.setdefault(replace(one, seed=None), []).append(value)
        return dict(sorted(values.items(), key=lambda item: -fmean(item[1])))

    @property
    def best(self) -> list[Variant]:
        """The trainings with the best combination."""
        first = next(iter(self.ordered))
        return [one for one in self.found if one.settings == first.settings]

    def table(self) -> Table:
        """A row for each combination, the best first."""
        names = [name for name, _ in self.best[0].settings]
        rows = [
            (*(value.strip('"') for _, value in one.settings), mean_of(values))
            for one, values in self.ordered.items()
        ]
        seeds = len(self.best)
        notes = [f"Means over {seeds} seeds ± their standard deviation."] if seeds > 1 else []
        return Table.of((*names, f"dev {self.measure}"), rows, notes=notes, left=len(names))

    def record(self) -> dict[str, object]:
        """Every value, for JSON."""
        rows = [
            {"settings": {name: json.loads(value) for name, value in one.settings}, "dev": values}
            for one, values in self.ordered.items()
        ]
        return {"measure": self.measure, "combinations": rows} | (self.study.record() if self.study else {})


def run_grid(
    config: GridTraining,
    output: str | Path,
    *,
    seeds: Sequence[int] = (),
    resume: bool = False,
    report: Report = silent_report,
    progress: Progress = silent,
) -> Grid:
    """Train each combination, with each seed, in a folder of its own; measure the test with the best alone.

    With ``resume``, what is done is not done again. Checkpoints go once a training is over.

    Raises
    ------
    ModelError
        where there is nothing to choose from or by; where combinations were trained already and ``resume`` is
        not set.
    """
    if not config.grid or config.dev is None:
        raise ModelError("grid: settings with values to choose from, and the section dev to choose by")
    folder, found = Path(output), dict[Variant, float]()
    each = variants(config, seeds=seeds)
    asked = [replace(one, settings=some.settings) for some in config.combinations for one in each]
    with join_processes(choose_device(config.device)) as processes:
        if not processes.leads:
            report, progress = silent_report, silent
        for done, variant in enumerate(asked):
            progress("combinations", done, len(asked))
            wanted, own = _unmeasured(variant.of(config)), folder / variant.folder
            if resume and processes.first((own / CHOOSING).exists):
                checkpoint.check_same(wanted, own)
            else:
                train_reranker(wanted, own, shared=folder, resume=resume, report=report, progress=progress)
            found[variant] = processes.first(partial(_end, own))
        grid = Grid(config.dev.measure, found)
        if config.test is not None and config.test.measures:
            study = run_study(config, folder, grid.best, resume=True, progress=progress)
            grid = replace(grid, study=study)
        processes.first(lambda: _write(grid, folder))
    return grid


def _unmeasured(config: RerankerTraining) -> RerankerTraining:
    """The same training, whose test is kept back, but not measured."""
    test = config.test and config.test.model_copy(update={"measures": ()})
    return config.model_copy(update={"test": test})


def _end(output: Path) -> float:
    """The dev measure of the weights that a training has kept; it leaves them and no checkpoints."""
    lines = (output / checkpoint.LOG).read_text(encoding="utf-8").splitlines()
    best = max(line["dev"] for line in map(json.loads, lines) if "dev" in line)
    (output / CHOOSING).write_text(f"{json.dumps(best)}\n", encoding="utf-8")
    shutil.rmtree(output / checkpoint.CHECKPOINTS, ignore_errors=True)
    return float(best)


def _write(grid: Grid, folder: Path) -> None:
    (folder / TABLE).write_text(render_markdown(grid.table()), encoding="utf-8")
    (folder / RESULT).write_text(json.dumps(grid.record(), indent=2) + "\n", encoding="utf-8")
