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
    printed_alone = _check_names(spec, options)
    size = "-small" if options.size == SMALL_COPY else ""
    prefix = f"{plain_name(name.replace('/', '-'))}{size}"
    outcomes = []
    chosen = choose_data(spec, options.data, options.only, options.folder)
    for data_name, there in chosen.items():
        there = there.model_copy(update={"systems": {**there.systems, **printed_alone}})
        began, folder = monotonic(), options.folder / f"{prefix}-{plain_name(data_name)}"
        data = open_data(data_name, there, options.data, options.folder, progress)
        runner = SystemRunner(
            there, data, options.models, folder / "runs", options.given, options.skip, several=len(chosen) > 1
        )
        runner.run()
        published = select_published(there.published, data_name)
        bench = Bench(data, runner.systems, runner, published, there.depth, there.seed)
        results = analyse_all(bench, there.analyses)
        seconds, systems, lacking = monotonic() - began, runner.systems, runner.lacking
        outcome = ExperimentOutcome(there, data, options.size, systems, lacking, results, folder, seconds)
        write_report(outcome)
        outcomes.append(outcome)
    pools: dict[str, list[ExperimentOutcome]] = {}
    for outcome in outcomes:
        pools.setdefault(outcome.data.spec.pool or "", []).append(outcome)
    pooled = [
        pool_outcomes(folds, options.folder / f"{prefix}-{plain_name(pool)}", pool)
        for pool, folds in pools.items()
        if pool and len(folds) > 1
    ]
    return [*outcomes, *pooled]


def _check_names(spec: Experiment, options: RunOptions) -> dict[str, str]:
    """The systems, with their texts, that stand in a table by their printed value alone, and are given.

    Raises CollectionError if a system that is given or left out is unknown.
    """
    known = (*spec.systems, *chain.from_iterable(analysis.pipeline_names for analysis in spec.analyses))
    rows = dict.fromkeys(chain.from_iterable(spec.published.values()))
    printed = [row for row in rows if row not in known]
    for system in (*options.given, *options.skip):
        if system not in known and not (system in printed and system in options.given):
            says = f"the experiment has no system {system!r}; it has: {', '.join(known)}"
            if system in options.given and printed:
                says += f"; a run may be given of what the paper prints: {', '.join(printed)}"
            raise CollectionError(says)
    return {row: "given('its run on this data')" for row in printed if row in options.given}
