"""Train one re-ranker, or several that are compared, as a plan says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Unpack

from telerank.drafts import remove_folder, replace_file
from telerank.errors import ModelError
from telerank.records import read_record
from telerank.show.tables import Table, render_markdown
from telerank.training import checkpoint
from telerank.training.faults import explaining
from telerank.training.log import read_log
from telerank.training.parallel import Processes, join_processes
from telerank.training.reranker import outcome
from telerank.training.reranker.config import RerankerTraining
from telerank.training.reranker.plan import TrainingPlan, Variant
from telerank.training.reranker.study import Grid, Study
from telerank.training.reranker.train import RerankerJob, train_reranker
from telerank.training.segments.iterations import ITERATIONS
from telerank.training.segments.report import RESULTS, read_table
from telerank.training.settings import write_settings
from telerank.training.training import TrainingOptions, choose_device
from telerank.trec import read_run, write_run
from telerank.types import Progress, silent

PLOT = "sizes.png"
DEV = "dev.json"
"""The best dev measure, or the lowest dev loss, of a training that is over; a grid chooses by it."""


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
        return {str(own.folder): self.output / own.folder / checkpoint.MODEL for own in self.variants}

    @property
    def plot(self) -> Path | None:
        """The file with the plot of the test by the number of training pairs, if several were compared."""
        several = self.study is not None and len(self.study.sizes) > 1
        return self.output / PLOT if several else None

    def tables(self) -> list[Table]:
        """The grid's dev measures and the tests, if there are any."""
        folders = (self.output / own.folder for own in self.variants)
        iterations = [read_table(folder) for folder in folders if (folder / RESULTS).exists()]
        return [*iterations, *(result.table() for result in (self.grid, self.study) if result is not None)]

    def record(self) -> dict[str, object]:
        """Every value, for JSON."""
        return (self.grid.record() if self.grid else {}) | (self.study.record() if self.study else {})


def train_rerankers(
    plan: TrainingPlan, output: str | Path, **options: Unpack[TrainingOptions]
) -> TrainedRerankers:
    """Train as the plan says: once, or with each fold, seed, size and combination of a grid.

    A single training without a test has ``output`` as its folder. Otherwise each has its own folder below it,
    and they share stored features and texts. Of a grid, only the best combination by the dev measure is
    tested. With ``resume``, finished trainings are not repeated, variants may be added, and a changed test is
    measured with the existing models. The checkpoints of several trainings are removed once they are over.

    Raises
    ------
    ModelError
        If there is nothing to compare the trainings by; if they were trained already and ``resume`` is not
        set.
    CollectionError
        If the collection lacks what is to be learned from or measured on; before the first training, if there
        are fewer pairs than the largest size.
    """
    folder = Path(output)
    if plan.is_single:
        train_reranker(Variant().apply(plan), folder, **options)
        return TrainedRerankers(folder, [Variant()])
    is_tested = plan.test is not None and bool(plan.test.measures)
    if not plan.grid and not is_tested:
        raise ModelError("--seeds, --sizes and folds compare trainings by their test: add the section test")
    with explaining(plan), join_processes(choose_device(plan.device)) as processes:
        if not processes.leads:
            options["progress"] = silent
        variants, grid, study = plan.variants, None, None
        if plan.grid and plan.dev:
            _train_variants(_without_measures(plan), variants, folder, processes, "combinations", **options)
            values = {variant: _read_dev(folder / variant.folder) for variant in variants}
            grid = Grid(plan.dev.measure, values, lower_is_better=plan.dev.by_loss)
            variants, options["resume"] = grid.best, True
        if is_tested:
            _check_sizes(plan, variants)
            _train_variants(plan, variants, folder, processes, "trainings", **options)
            study = Study({own: outcome.read_outcome(folder / own.folder) for own in variants})
        trained = TrainedRerankers(folder, variants, grid, study)
        processes.first(partial(_write, trained))
    return trained


def _train_variants(
    plan: TrainingPlan,
    variants: Sequence[Variant],
    output: Path,
    processes: Processes,
    label: str,
    **options: Unpack[TrainingOptions],
) -> None:
    """Train each variant, or measure it again if it is over."""
    progress = options.get("progress", silent)
    for done, variant in enumerate(variants):
        progress(label, done, len(variants))
        config, folder = variant.apply(plan), output / variant.folder
        if options.get("resume") and processes.first(partial(_is_over, folder)):
            _measure_again(config, folder, output, processes, progress)
        else:
            train_reranker(config, folder, shared=output, **options)
        if plan.grid:
            by_loss = plan.dev is not None and plan.dev.by_loss
            processes.first(partial(_write_dev, folder, by_loss=by_loss))
        if plan.grid or len(variants) > 1:
            processes.first(partial(_drop_checkpoints, folder))


def _without_measures(plan: TrainingPlan) -> TrainingPlan:
    """The same plan; the queries of its test are kept back, but not measured."""
    return plan.model_copy(update={"test": plan.test and plan.test.model_copy(update={"measures": ()})})


def _check_sizes(plan: TrainingPlan, variants: Sequence[Variant]) -> None:
    """Refuse a size that is too large before the smaller ones are trained."""
    if plan.sizes:
        for fold in {variant.fold for variant in variants}:
            RerankerJob.open(Variant(max(plan.sizes), fold=fold).apply(plan), Path(), Path()).check_pairs()


def _is_over(folder: Path) -> bool:
    return any((folder / name).exists() for name in (outcome.RESULT, DEV))


def _measure_again(
    config: RerankerTraining, folder: Path, shared: Path, processes: Processes, progress: Progress
) -> None:
    """Measure a finished training, if its test was not measured or has changed."""
    processes.first(partial(checkpoint.check_same, config, folder))
    if config.test is not None and config.test.measures:
        processes.first(partial(write_settings, config, folder / checkpoint.CONFIG))
        RerankerJob.open(config, folder, shared).measure(progress, processes=processes)


def _write_dev(folder: Path, *, by_loss: bool) -> None:
    """Write the best dev measure, or the lowest dev loss, of a training that is over."""
    records = [record for record in read_log(folder / checkpoint.LOG) if record.is_of_dev]
    values = [record.dev_loss if by_loss else record.dev for record in records]
    known = [value for value in values if value is not None]
    if not known:
        raise ModelError(f"{folder / checkpoint.LOG}: no dev {'loss' if by_loss else 'measure'}")
    best = min(known) if by_loss else max(known)
    replace_file(folder / DEV, f"{json.dumps(best)}\n".encode())


def _drop_checkpoints(folder: Path) -> None:
    for each in (folder, *(folder / ITERATIONS).glob("*")):
        if (each / checkpoint.CHECKPOINTS).exists():
            remove_folder(each / checkpoint.CHECKPOINTS)


def _read_dev(folder: Path) -> float:
    return read_record(folder / DEV, float, ModelError)


def _write(trained: TrainedRerankers) -> None:
    """Write the tables, their values, a plot of sizes, and the run of a cross-validation's queries."""
    folder, study, grid = trained.output, trained.study, trained.grid
    if study:
        for whole in study.tested:
            parts = (variant for variant in study.folds if replace(variant, fold=None) == whole)
            runs = [folder / variant.folder / outcome.RUN for variant in parts]
            if runs:
                write_run(folder / whole.folder / outcome.RUN, chain.from_iterable(map(read_run, runs)))
        _write_result(folder / "table", study.table(), study.record())
        if trained.plot:
            from telerank.show.plots import save_plot

            save_plot(study.plot(), trained.plot)
    if grid:
        _write_result(folder / "grid", grid.table(), trained.record())


def _write_result(path: Path, table: Table, record: Mapping[str, object]) -> None:
    replace_file(path.with_suffix(".md"), render_markdown(table).encode())
    replace_file(path.with_suffix(".json"), f"{json.dumps(record, indent=2)}\n".encode())
