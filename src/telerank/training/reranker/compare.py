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
from telerank.training.reranker.outcome import Grid, Study, read_outcome
from telerank.training.reranker.plan import TrainingPlan, Variant
from telerank.training.reranker.train import RerankerJob, job_kind, train_reranker
from telerank.training.settings import write_settings
from telerank.training.trained import CHECKPOINTS, CONFIG, ITERATIONS, LOG, MODEL, RESULT, RUN, TrainedModels
from telerank.training.training import TrainingOptions, choose_device
from telerank.trec import read_run, write_run
from telerank.types import silent

PLOT = "sizes.png"
DEV = "dev.json"
"""The best dev measure, or the lowest dev loss, of a training that is over; a grid chooses by it."""


def train_rerankers(
    plan: TrainingPlan, output: str | Path, **options: Unpack[TrainingOptions]
) -> TrainedModels:
    """Train as the plan says: once, or with each fold, seed, size and combination of a grid.

    A single training without a test has ``output`` as its folder. Otherwise each has its own folder below it,
    and they share stored features and texts. Of a grid, only the best combination by the dev measure is
    tested, and the models are those of this combination. With ``resume``, finished trainings are not
    repeated, variants may be added, and a changed test is measured with the existing models. The checkpoints
    of several trainings are removed once they are over.

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
    variants, grid, study = plan.variants, None, None
    if plan.is_single:
        train_reranker(variants[0].apply(plan), folder, **options)
        return _describe(plan, folder, variants)
    if not plan.grid and not plan.is_tested:
        raise ModelError("--seeds, --sizes and folds compare trainings by their test: add the section test")
    with explaining(plan), join_processes(choose_device(plan.device)) as processes:
        if not processes.leads:
            options["progress"] = silent
        if plan.grid and plan.dev:
            kept_back = plan.test and plan.test.model_copy(update={"measures": ()})
            untested = plan.model_copy(update={"test": kept_back})
            _Trainings(untested, folder, processes, options).train(variants, "combinations")
            dev = {own: read_record(folder / own.folder / DEV, float, ModelError) for own in variants}
            grid = Grid(plan.dev.measure, dev, lower_is_better=plan.dev.by_loss)
            variants, options["resume"] = grid.best, True
        if plan.is_tested:
            for fold in {variant.fold for variant in variants} if plan.sizes else ():
                largest = Variant(max(plan.sizes), fold=fold).apply(plan)
                RerankerJob.open(largest, Path(), Path()).check_pairs()
            _Trainings(plan, folder, processes, options).train(variants, "trainings")
            study = Study({own: read_outcome(folder / own.folder) for own in variants})
        trained = _describe(plan, folder, variants, grid, study)
        processes.first(partial(_write, folder, trained, grid, study))
    return trained


@dataclass(frozen=True)
class _Trainings:
    """Trainings below the folder ``output``."""

    plan: TrainingPlan
    output: Path
    processes: Processes
    options: TrainingOptions

    def train(self, variants: Sequence[Variant], label: str) -> None:
        """Train each variant, or measure it again if it is over."""
        plan, processes, progress = self.plan, self.processes, self.options.get("progress", silent)
        for done, variant in enumerate(variants):
            progress(label, done, len(variants))
            config, folder = variant.apply(plan), self.output / variant.folder
            if self.options.get("resume") and processes.first(partial(_is_over, folder)):
                processes.first(partial(checkpoint.check_same, config, folder))
                if plan.is_tested:
                    processes.first(partial(write_settings, config, folder / CONFIG))
                    job = RerankerJob.open(config, folder, self.output)
                    job.measure(progress, processes=processes)
            else:
                train_reranker(config, folder, shared=self.output, **self.options)
            if plan.grid and plan.dev:
                processes.first(partial(_write_dev, folder, by_loss=plan.dev.by_loss))
            if plan.grid or len(variants) > 1:
                processes.first(partial(_drop_checkpoints, folder))


def _is_over(folder: Path) -> bool:
    return (folder / RESULT).exists() or (folder / DEV).exists()


def _write_dev(folder: Path, *, by_loss: bool) -> None:
    """Write the best dev measure, or the lowest dev loss, of a training that is over."""
    records = read_log(folder / LOG)
    values = [record.dev_loss if by_loss else record.dev for record in records]
    known = [value for value in values if value is not None]
    if not known:
        raise ModelError(f"{folder / LOG}: no dev {'loss' if by_loss else 'measure'}")
    best = min(known) if by_loss else max(known)
    replace_file(folder / DEV, f"{json.dumps(best)}\n".encode())


def _drop_checkpoints(folder: Path) -> None:
    for each in (folder, *(folder / ITERATIONS).glob("*")):
        if (each / CHECKPOINTS).exists():
            remove_folder(each / CHECKPOINTS)


def _describe(
    plan: TrainingPlan,
    output: Path,
    variants: Sequence[Variant],
    grid: Grid | None = None,
    study: Study | None = None,
) -> TrainedModels:
    folders = {str(variant.folder): output / variant.folder for variant in variants}
    results = [result for result in (grid, study) if result is not None]
    iterations = [table for folder in folders.values() for table in job_kind(plan).read_tables(folder)]
    return TrainedModels(
        {name: folder / MODEL for name, folder in folders.items()},
        [*iterations, *(result.table() for result in results)],
        {name: value for result in results for name, value in result.record().items()},
        output / PLOT if study is not None and len(study.sizes) > 1 else None,
    )


def _write(folder: Path, trained: TrainedModels, grid: Grid | None, study: Study | None) -> None:
    """Write the tables, their values, a plot of sizes, and the run of a cross-validation's queries."""
    results: list[tuple[str, Table, Mapping[str, object]]] = []
    if study:
        results.append(("table", study.table(), study.record()))
        for whole in study.tested:
            parts = (variant for variant in study.folds if replace(variant, fold=None) == whole)
            runs = [folder / variant.folder / RUN for variant in parts]
            if runs:
                write_run(folder / whole.folder / RUN, chain.from_iterable(map(read_run, runs)))
        if trained.plot:
            from telerank.show.plots import save_plot

            save_plot(study.plot(), trained.plot)
    if grid:
        results.append(("grid", grid.table(), trained.values))
    for name, table, record in results:
        replace_file(folder / f"{name}.md", render_markdown(table).encode())
        replace_file(folder / f"{name}.json", f"{json.dumps(record, indent=2)}\n".encode())
