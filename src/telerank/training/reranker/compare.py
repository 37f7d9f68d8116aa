"""Train one re-ranker, or several that are compared, as a plan says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from telerank.show.tables import Table
from telerank.training.checkpoint import MODEL
from telerank.training.log import Report, silent_report
from telerank.training.reranker.grid import Grid, TrainingPlan, run_grid
from telerank.training.reranker.study import PLOT, Study, Variant, run_study
from telerank.training.reranker.train import DATA, train_reranker
from telerank.types import Progress, silent


@dataclass(frozen=True)
class TrainedRerankers:
    """The trainings below ``output``; ``grid`` and ``study`` are None if there was nothing to compare.

    With a grid, ``variants`` are the trainings with the best combination.
    """

    output: Path
    variants: Sequence[Variant]
    grid: Grid | None = None
    study: Study | None = None

    @property
    def models(self) -> dict[str, Path]:
        """The folders of the models, by the folder of each training below ``output``."""
        return {str(own.folder): self.output / own.folder / MODEL for own in self.variants}

    @property
    def counts(self) -> dict[str, Mapping[str, int]]:
        """How much each training learned from, and how much was left out, by its folder."""
        return {
            str(own.folder): json.loads((self.output / own.folder / DATA).read_text(encoding="utf-8"))
            for own in self.variants
        }

    @property
    def plot(self) -> Path | None:
        """The file with the plot of the test by the number of training queries, if several were compared."""
        several = self.study is not None and len(self.study.sizes) > 1
        return self.output / PLOT if several else None

    def tables(self) -> list[Table]:
        """The grid's dev measures and the tests, if there are any."""
        return [result.table() for result in (self.grid, self.study) if result is not None]

    def record(self) -> dict[str, object]:
        """Every value, for JSON."""
        result = self.grid or self.study  # the record of a grid includes that of its study
        return result.record() if result else {}


def train_rerankers(
    plan: TrainingPlan,
    output: str | Path,
    *,
    resume: bool = False,
    report: Report = silent_report,
    progress: Progress = silent,
) -> TrainedRerankers:
    """Train as the plan says: once, or with each fold, seed, size and combination of a grid.

    A single training without a test has ``output`` as its folder; otherwise see :func:`.study.run_study` and
    :func:`.grid.run_grid`. With ``resume``, finished trainings are not repeated.

    Raises
    ------
    CollectionError
        If the collection lacks what is to be learned from or measured on.
    """
    folder = Path(output)
    if plan.grid:
        grid = run_grid(plan, folder, resume=resume, report=report, progress=progress)
        return TrainedRerankers(folder, grid.best, grid, grid.study)
    if plan.is_single:
        config = Variant().apply(plan)
        train_reranker(config, folder, resume=resume, report=report, progress=progress)
        return TrainedRerankers(folder, [Variant()])
    study = run_study(
        Variant().apply(plan), folder, plan.variants, resume=resume, report=report, progress=progress
    )
    return TrainedRerankers(folder, plan.variants, study=study)
