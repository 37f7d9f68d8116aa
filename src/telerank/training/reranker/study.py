"""Compare trainings that differ in seed, number of queries, held-out fold, or the settings of a grid."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from telerank.errors import ModelError
from telerank.show.tables import Table, render_markdown
from telerank.training import checkpoint
from telerank.training.log import Report, silent_report
from telerank.training.parallel import join_processes
from telerank.training.reranker.config import RerankerTraining
from telerank.training.reranker.outcome import RESULT as TEST_RESULT
from telerank.training.reranker.outcome import RUN, RerankerOutcome, join_outcomes, read_outcome
from telerank.training.reranker.train import check_queries, measure_reranker, train_reranker
from telerank.training.settings import write_settings
from telerank.training.training import choose_device
from telerank.trec import read_run, write_run
from telerank.types import Progress, silent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE, RESULT, PLOT = "table.md", "table.json", "sizes.png"
DEV = "dev.json"
"""The best dev measure of a training that is over; a grid chooses by it."""
_ALTERNATIVES = {"optimisation.steps": "optimisation.epochs", "optimisation.epochs": "optimisation.steps"}
_PLAN = {"grid", "seeds", "sizes"}  # settings of a plan that are not a single training's


@dataclass(frozen=True)
class Variant:
    """One of several trainings: how it differs, which also names its folder.

    ``settings`` are those of a grid: dotted names, each with its value as JSON.
    """

    size: int | None = None
    seed: int | None = None
    fold: int | None = None
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def folder(self) -> Path:
        """The folder below the output of all trainings."""
        names = (*self._short_names(), ("size", self.size), ("seed", self.seed), ("fold", self.fold))
        return Path(*(f"{name}-{value}" for name, value in names if value is not None))

    @property
    def label(self) -> str:
        """The differences in words."""
        settings = ((name, _show_value(value)) for name, value in self.settings)
        names = (*settings, ("seed", self.seed), ("fold", self.fold))
        return ", ".join(f"{name} {value}" for name, value in names if value is not None) or "re-ranked"

    def apply(self, config: RerankerTraining) -> RerankerTraining:
        """The configuration of this training."""
        record = config.model_dump(exclude=_PLAN)
        for name, value in self.settings:
            _set(record, name, json.loads(value))
            if other := _ALTERNATIVES.get(name):
                _set(record, other, None)
        if self.size is not None:
            record["data"]["queries"] = self.size
        if self.seed is not None:
            record["seed"] = self.seed
        if self.fold is not None:
            record["held_out"] = self.fold
        return RerankerTraining.model_validate(record)

    def _short_names(self) -> list[tuple[str, str]]:
        """The settings as parts of a path; a name is its last word, unless two names end with it."""
        last = [name.rpartition(".")[2] for name, _ in self.settings]
        return [
            (word if last.count(word) == 1 else name, _path_part(json.loads(value)))
            for word, (name, value) in zip(last, self.settings, strict=True)
        ]


@dataclass(frozen=True)
class Study:
    """The outcome of each training, and, of a cross-validation, of all folds together.

    ``tested`` has the trainings, with the folds of a cross-validation joined; ``folds`` has each fold.
    """

    measures: tuple[str, ...]
    tested: Mapping[Variant, RerankerOutcome]
    folds: Mapping[Variant, RerankerOutcome]

    @property
    def sizes(self) -> list[int]:
        """The numbers of training queries that were compared, if any."""
        return list(dict.fromkeys(variant.size for variant in self.tested if variant.size is not None))

    def values(self, size: int | None, measure: str) -> list[float]:
        """The measure for each seed, with ``size`` training queries."""
        return [outcome.measures[measure] for variant, outcome in self.tested.items() if variant.size == size]

    def table(self) -> Table:
        """A row for each training, or for each size; then the mean over seeds."""
        first = next(iter(self.tested.values()))
        rows = [("first stage", *self._cells(first.before))]
        if self.sizes:
            rows += [(f"{size:,} queries", *self._means(size)) for size in self.sizes]
        else:
            for variant, outcome in (*self.folds.items(), *self.tested.items()):
                rows.append((variant.label, *self._cells(outcome.measures)))
            rows += [("mean over seeds", *self._means(None))] if len(self.tested) > 1 else []
        notes = [f"{first.queries:,} test queries, {first.candidates:,} candidates."]
        if first.without:
            notes.append(f"{first.without:,} of the queries have no candidates, and count 0.")
        if seeds := len({variant.seed for variant in self.tested}) - 1:
            notes.append(f"Means over {seeds + 1} seeds ± their standard deviation.")
        return Table.of(("training", *self.measures), rows, notes=notes)

    def record(self) -> dict[str, object]:
        """Every value, for JSON."""
        parts = {"trainings": self.tested, "folds": self.folds}
        return {
            name: [{**asdict(variant), **asdict(outcome)} for variant, outcome in part.items()]
            for name, part in parts.items()
        }

    def plot(self) -> Figure:
        """Each measure by the number of training queries, the mean over seeds."""
        from telerank.show.plots import line_plot

        panels = {
            name: {"re-ranked": [fmean(self.values(size, name)) for size in self.sizes]}
            for name in self.measures
        }
        return line_plot(panels, self.sizes, x_label="training queries")

    def _cells(self, values: Mapping[str, float]) -> list[str]:
        return [f"{values[name]:.4f}" for name in self.measures]

    def _means(self, size: int | None) -> list[str]:
        return [format_mean(self.values(size, name)) for name in self.measures]


def run_study(
    config: RerankerTraining,
    output: str | Path,
    variants: Sequence[Variant],
    *,
    resume: bool = False,
    report: Report = silent_report,
    progress: Progress = silent,
) -> Study:
    """Train the variants, each in a folder of its own, and compare their tests.

    With ``resume``, finished trainings are not repeated, variants may be added, and a changed test is
    measured with the existing models. Stored features and texts are shared, in ``output``. The checkpoints of
    several trainings are removed once they are tested.

    Raises
    ------
    ModelError
        If the configuration has no test; if variants were trained already and ``resume`` is not set.
    CollectionError
        Before the first training, if there are fewer queries than the largest size.
    """
    if config.test is None or not config.test.measures:
        raise ModelError("--seeds, --sizes and folds compare trainings by their test: add the section test")
    folder, outcomes = Path(output), dict[Variant, RerankerOutcome]()
    with join_processes(choose_device(config.device)) as processes:
        if not processes.leads:
            report, progress = silent_report, silent
        _check_sizes(config, variants)
        for done, variant in enumerate(variants):
            progress("trainings", done, len(variants))
            own_config, own = variant.apply(config), folder / variant.folder
            if resume and processes.first(partial(_is_over, own)):
                processes.first(partial(_measure_again, own_config, own, folder, progress))
            else:
                train_reranker(
                    own_config, own, shared=folder, resume=resume, report=report, progress=progress
                )
            outcomes[variant] = read_outcome(own)
            if len(variants) > 1:
                processes.first(partial(shutil.rmtree, own / checkpoint.CHECKPOINTS, ignore_errors=True))
        study = _join_folds(outcomes)
        processes.first(lambda: _write(study, folder))
    return study


def list_variants(
    config: RerankerTraining, *, seeds: Sequence[int] = (), sizes: Sequence[int] = ()
) -> list[Variant]:
    """Every size with every seed and every fold."""
    folds: Sequence[int | None] = (None,)
    if config.folds and config.held_out is None:
        folds = range(config.folds)
    return [
        Variant(size, seed, fold) for size in sizes or (None,) for seed in seeds or (None,) for fold in folds
    ]


def format_mean(values: Sequence[float]) -> str:
    """Their mean, with their standard deviation if there are several."""
    return f"{fmean(values):.4f}" + (f" ± {stdev(values):.4f}" if len(values) > 1 else "")


def _check_sizes(config: RerankerTraining, variants: Sequence[Variant]) -> None:
    """Refuse a size that is too large before the smaller ones are trained."""
    largest = max((variant.size for variant in variants if variant.size is not None), default=None)
    for fold in {variant.fold for variant in variants} if largest is not None else ():
        check_queries(Variant(largest, fold=fold).apply(config))


def _is_over(output: Path) -> bool:
    return any((output / name).exists() for name in (TEST_RESULT, DEV))


def _measure_again(config: RerankerTraining, output: Path, shared: Path, progress: Progress) -> None:
    """Measure a finished training, if its test was not measured or has changed."""
    checkpoint.check_same(config, output)
    write_settings(config, output / checkpoint.CONFIG)
    measure_reranker(config, output, shared=shared, progress=progress)


def _set(record: dict[str, Any], name: str, value: Any) -> None:
    """Set the value at a dotted name."""
    first, _, rest = name.partition(".")
    if rest:
        inner = record.get(first)
        record[first] = dict(inner) if isinstance(inner, dict) else {}
        _set(record[first], rest, value)
    else:
        record[first] = value


def _show_value(value: str) -> str:
    """A value given as JSON; a text without its quotes."""
    parsed = json.loads(value)
    return parsed if isinstance(parsed, str) else value


def _path_part(value: Any) -> str:
    """A value as part of a path."""
    if isinstance(value, list):
        return "-".join(map(_path_part, value)) or "none"
    return re.sub(r"[^\w.+-]+", "-", str(value))


def _join_folds(outcomes: Mapping[Variant, RerankerOutcome]) -> Study:
    folds: dict[Variant, dict[Variant, RerankerOutcome]] = {}
    for variant, outcome in outcomes.items():
        if variant.fold is not None:
            folds.setdefault(replace(variant, fold=None), {})[variant] = outcome
    tested = {variant: outcome for variant, outcome in outcomes.items() if variant.fold is None}
    tested |= {whole: join_outcomes(list(parts.values())) for whole, parts in folds.items()}
    held_out = {variant: outcome for variant, outcome in outcomes.items() if variant.fold is not None}
    return Study(tuple(next(iter(outcomes.values())).measures), tested, held_out)


def _write(study: Study, folder: Path) -> None:
    """Write the table, its values, a plot of sizes, and the run of a cross-validation's queries."""
    for whole in study.tested:
        parts = (variant for variant in study.folds if replace(variant, fold=None) == whole)
        runs = [folder / variant.folder / RUN for variant in parts]
        if runs:
            write_run(folder / whole.folder / RUN, chain.from_iterable(map(read_run, runs)))
    (folder / TABLE).write_text(render_markdown(study.table()), encoding="utf-8")
    (folder / RESULT).write_text(json.dumps(study.record(), indent=2) + "\n", encoding="utf-8")
    if len(study.sizes) > 1:
        from telerank.show.plots import save_plot

        save_plot(study.plot(), folder / PLOT)
