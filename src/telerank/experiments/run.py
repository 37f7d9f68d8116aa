"""Running the experiment of a file: data, systems, analyses, results in files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from time import monotonic

from telerank.errors import CollectionError
from telerank.experiments.analyses.bench import Bench, analyse_all
from telerank.experiments.analysis import select_published
from telerank.experiments.comparison import plain_name
from telerank.experiments.data import Sources, choose_data, open_data
from telerank.experiments.report import ExperimentOutcome, PooledOutcome, pool_outcomes, write_report
from telerank.experiments.schema import Experiment
from telerank.experiments.systems import SystemRunner
from telerank.types import Progress, silent

FULL_SIZE, SMALL_COPY = "full size", "small copy"


@dataclass(frozen=True)
class RunOptions:
    """Where an experiment finds things, and where its results go.

    ``only`` names some of its data; ``given`` are runs or folders of models for systems by name, ``skip`` are
    systems to leave out. ``size`` is ``full size`` or ``small copy`` of a file that has both.
    """

    folder: Path = Path("telerank-experiments")
    data: Sources = field(default_factory=Sources)
    models: Sources = field(default_factory=Sources)
    only: tuple[str, ...] = ()
    given: Mapping[str, str] = field(default_factory=dict)
    skip: tuple[str, ...] = ()
    size: str = ""


def run_experiment(
    spec: Experiment, name: str, options: RunOptions, *, progress: Progress = silent
) -> list[ExperimentOutcome | PooledOutcome]:
    """Run an experiment on each of its data that is chosen, and write the results.

    Data of one pool are pooled after that, in ``NAME-POOL``.

    Results go into ``NAME-DATA`` in the folder of the options: ``tables.md``, ``report.html``, plots,
    ``results.json`` and the resolved ``experiment.yaml``. Indexes, vectors and trained models stay in the
    folder ``DATA`` beside it, where the next experiment finds them.

    Raises
    ------
    CollectionError
        If no data is here, a name is unknown, or a system that an analysis needs is not available.
    TelerankError
        As indexing, encoding, training and reading do.
    """
    known = (*spec.systems, *chain.from_iterable(analysis.pipeline_names for analysis in spec.analyses))
    for system in (*options.given, *options.skip):
        if system not in known:
            raise CollectionError(f"the experiment has no system {system!r}; it has: {', '.join(known)}")
    chosen = choose_data(spec, options.data, options.only, options.folder)
    size = "-small" if options.size == SMALL_COPY else ""
    prefix = f"{plain_name(name.replace('/', '-'))}{size}"
    outcomes = [
        _run_on(data, spec, options.folder / f"{prefix}-{plain_name(data)}", options, progress)
        for data in chosen
    ]
    pooled = []
    for pool in dict.fromkeys(filter(None, (outcome.data.spec.pool for outcome in outcomes))):
        folds = [outcome for outcome in outcomes if outcome.data.spec.pool == pool]
        if len(folds) > 1:
            pooled.append(pool_outcomes(folds, options.folder / f"{prefix}-{plain_name(pool)}", pool))
    return [*outcomes, *pooled]


def _run_on(
    data_name: str, spec: Experiment, folder: Path, options: RunOptions, progress: Progress
) -> ExperimentOutcome:
    began = monotonic()
    spec = spec.on(data_name)
    data = open_data(data_name, spec, options.data, options.folder, progress)
    runner = SystemRunner(spec, data, options.models, folder / "runs", options.given, options.skip)
    lacking = runner.run()
    published = select_published(spec.published, data.name)
    bench = Bench(data, runner.systems, runner, published, spec.depth, spec.seed)
    results = analyse_all(bench, spec.analyses)
    seconds = monotonic() - began
    outcome = ExperimentOutcome(spec, data, options.size, runner.systems, lacking, results, folder, seconds)
    write_report(outcome)
    return outcome
