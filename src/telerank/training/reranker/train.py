"""Train one re-ranker, or several that are compared, as a plan says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Unpack

from telerank.drafts import remove_folder, replace_file
from telerank.errors import ModelError
from telerank.records import read_record
from telerank.show.plots import save_plot
from telerank.show.tables import Table, render_markdown
from telerank.training import checkpoint
from telerank.training.examples.reading import write_counts
from telerank.training.kinds import TrainingKind
from telerank.training.log import read_log
from telerank.training.parallel import join_processes
from telerank.training.reranker.config import RerankerTraining
from telerank.training.reranker.iteration_results import RESULTS, Iterations
from telerank.training.reranker.iterations import train_iterations
from telerank.training.reranker.job import RerankerJob
from telerank.training.reranker.plan import Grid, Study, TrainingPlan, Variant, read_outcome
from telerank.training.reranker.scoring import CutCounts
from telerank.training.reranker.segments import BEHIND
from telerank.training.settings import write_settings
from telerank.training.task import choose_device
from telerank.training.trained import (
    CHECKPOINTS,
    CONFIG,
    ITERATIONS,
    LOG,
    MODEL,
    RESULT,
    RUN,
    TrainedModels,
    read_counts,
)
from telerank.training.training import TrainingOptions, explaining
from telerank.trec import read_run, write_run
from telerank.types import silent

PLOT = "sizes.png"
DEV = "dev.json"
"""The best dev measure, or the lowest dev loss, of a training that is over; a grid chooses by it."""


def train_reranker(
    config: RerankerTraining,
    output: str | Path,
    *,
    shared: Path | None = None,
    **options: Unpack[TrainingOptions],
) -> Path:
    """Train as the configuration says, and measure the test if it has one; return the model's folder.

    ``output/data.json`` counts what was learned from, and how much of it was cut. Features of a frozen
    encoder are stored in ``shared/features``, the texts for triples of ids in ``shared/texts``; ``shared``
    defaults to ``output``.

    Raises
    ------
    ModelError
        As :func:`telerank.training.training.train`; if there are folds and none of them is held out.
    CollectionError
        If the collection lacks what is to be learned from or measured on.
    """
    if config.folds and config.held_out is None:
        raise ModelError("folds: this is one training; say which fold is held_out, or train them all")
    job = RerankerJob.open(config, Path(output), shared or Path(output))
    segments = config.data.segments
    learn = train_iterations if segments and segments.select == "best" else RerankerJob.train
    with explaining(config), join_processes(choose_device(config.device)) as processes:
        model, learned = learn(job, **options)
        counts = learned.describe("pairs learned from")
        processes.first(lambda: write_counts({**read_counts(job.output), **counts}, job.output))
        progress = options.get("progress", silent) if processes.leads else silent
        job.measure(progress, processes=processes)
    return model


def describe_cut(output: Path, test: Path | None = None) -> str:
    """In how many pairs of a training, of its dev and of a test a text was cut; empty if in none.

    Both are folders: ``output`` of the training, ``test`` of what its model re-ranked. Of segments, what is
    behind the last one that was learned from counts, too.

    Raises ModelError if it has no counts, or damaged ones.
    """
    counts = read_counts(output)
    if test is not None and (test / RESULT).exists():
        tested = read_outcome(test)
        cut = CutCounts(tested.candidates, tested.cut_queries, tested.cut_documents, titles=tested.cut_titles)
        counts |= cut.describe("test pairs")
    cuts = {what: count for what, count in counts.items() if what.endswith("cut") or BEHIND in what}
    return ", ".join(f"{count:,} {what}" for what, count in cuts.items() if count)


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
        return _describe(folder, variants)
    if not plan.grid and not plan.is_tested:
        raise ModelError("seeds=…, sizes=… and folds compare trainings by their test: add the section test")
    with explaining(plan), join_processes(choose_device(plan.device)) as processes:
        if not processes.leads:
            options["progress"] = silent
        if plan.grid and plan.dev:
            kept_back = plan.test and plan.test.model_copy(update={"measures": ()})
            untested = plan.model_copy(update={"test": kept_back})
            train_variants(untested, variants, folder, "combinations", **options)
            dev = {own: read_record(folder / own.folder / DEV, float, ModelError) for own in variants}
            grid = Grid(plan.dev.measures, dev, lower_is_better=plan.dev.by_loss)
            variants, options["resume"] = grid.best, True
        if plan.is_tested:
            for fold in {variant.fold for variant in variants} if plan.sizes else ():
                largest = Variant(max(plan.sizes), fold=fold).apply(plan)
                RerankerJob.open(largest, Path(), Path()).check_pairs()
            train_variants(plan, variants, folder, "trainings", **options)
            study = Study({own: read_outcome(folder / own.folder) for own in variants})
        trained = _describe(folder, variants, grid, study)
        processes.first(partial(_write, folder, trained, grid, study))
    return trained


def train_variants(
    plan: TrainingPlan,
    variants: Sequence[Variant],
    output: Path,
    label: str,
    **options: Unpack[TrainingOptions],
) -> None:
    """Train each variant below the folder ``output``, or measure it again if it is over."""
    progress = options.get("progress", silent)
    with join_processes(choose_device(plan.device)) as processes:
        for done, variant in enumerate(variants):
            progress(label, done, len(variants))
            config, folder = variant.apply(plan), output / variant.folder
            is_over = processes.first((folder / RESULT).exists) or processes.first((folder / DEV).exists)
            if options.get("resume") and is_over:
                processes.first(partial(checkpoint.check_same, config, folder))
                if plan.is_tested:
                    processes.first(partial(write_settings, config, folder / CONFIG))
                    job = RerankerJob.open(config, folder, output)
                    job.measure(progress, processes=processes)
            else:
                train_reranker(config, folder, shared=output, **options)
            if plan.grid and plan.dev:
                processes.first(partial(_write_dev, folder, by_loss=plan.dev.by_loss))
            if plan.grid or len(variants) > 1:
                processes.first(partial(drop_checkpoints, folder))


def _write_dev(folder: Path, *, by_loss: bool) -> None:
    """Write the best dev measure, or the lowest dev loss, of a training that is over."""
    values = [record.dev_loss if by_loss else record.dev for record in read_log(folder / LOG)]
    known = [value for value in values if value is not None]
    if not known:
        raise ModelError(f"{folder / LOG}: no dev {'loss' if by_loss else 'measure'}")
    best = min(known) if by_loss else max(known)
    replace_file(folder / DEV, f"{json.dumps(best)}\n".encode())


def drop_checkpoints(folder: Path) -> None:
    """Remove the checkpoints of a training that is over, and those of its iterations."""
    for each in (folder, *(folder / ITERATIONS).glob("*")):
        if (each / CHECKPOINTS).exists():
            remove_folder(each / CHECKPOINTS)


def _describe(
    output: Path, variants: Sequence[Variant], grid: Grid | None = None, study: Study | None = None
) -> TrainedModels:
    folders = {str(variant.folder): output / variant.folder for variant in variants}
    results = [result for result in (grid, study) if result is not None]
    iterations = [
        Iterations.read(folder).table() for folder in folders.values() if (folder / RESULTS).exists()
    ]
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
            parts = [own for own in study.folds if replace(own, fold=None) == whole]
            join_runs([folder / own.folder / RUN for own in parts], folder / whole.folder / RUN)
        if trained.plot:
            save_plot(study.plot(), trained.plot)
    if grid:
        results.append(("grid", grid.table(), trained.values))
    for name, table, record in results:
        replace_file(folder / f"{name}.md", render_markdown(table).encode())
        replace_file(folder / f"{name}.json", f"{json.dumps(record, indent=2)}\n".encode())


def join_runs(folds: Sequence[Path], output: Path) -> None:
    """Write the run of a cross-validation: each query is ranked by the model that left it out."""
    if folds:
        write_run(output, chain.from_iterable(map(read_run, folds)))


KIND = TrainingKind(RerankerTraining, train_reranker, TrainingPlan, train_rerankers)
