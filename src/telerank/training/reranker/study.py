"""Several trainings that differ in seed, in what they learn from, in the fold left out, or in settings."""

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
from typing import Any

from telerank.errors import ModelError
from telerank.show.tables import Table, render_markdown
from telerank.training import checkpoint
from telerank.training.log import Report, silent_report
from telerank.training.parallel import join_processes
from telerank.training.reranker.config import RerankerTraining
from telerank.training.reranker.outcome import RESULT as TESTED
from telerank.training.reranker.outcome import RUN, RerankerOutcome, join_outcomes, read_outcome
from telerank.training.reranker.train import check_queries, measure_reranker, train_reranker
from telerank.training.settings import write_settings
from telerank.training.training import choose_device
from telerank.trec import read_run, write_run
from telerank.types import Progress, silent

TABLE = "table.md"
RESULT = "table.json"
_INSTEAD = {
    "optimisation.steps": "optimisation.epochs",
    "optimisation.epochs": "optimisation.steps",
}
CHOOSING = "dev.json"
"""The dev measure of a training that is over; a grid chooses by it."""


@dataclass(frozen=True)
class Variant:
    """One training of a study: what differs, and by that its folder.

    ``settings`` are of a grid: dotted names with their values as JSON.
    """

    size: int | None = None
    seed: int | None = None
    fold: int | None = None
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def folder(self) -> Path:
        names = (*self._short(), ("size", self.size), ("seed", self.seed), ("fold", self.fold))
        return Path(*(f"{name}-{value}" for name, value in names if value is not None))

    @property
    def label(self) -> str:
        """What differs, in words."""
        told = ((name, _shown(value)) for name, value in self.settings)
        names = (*told, ("seed", self.seed), ("fold", self.fold))
        return ", ".join(f"{name} {value}" for name, value in names if value is not None) or "re-ranked"

    def of(self, config: RerankerTraining) -> RerankerTraining:
        """The configuration of this training."""
        record = config.model_dump(exclude={"grid"})
        for name, value in self.settings:
            _set(record, name, json.loads(value))
            if other := _INSTEAD.get(name):
                _set(record, other, None)
        if self.size is not None:
            record["data"]["queries"] = self.size
        if self.seed is not None:
            record["seed"] = self.seed
        if self.fold is not None:
            record["held_out"] = self.fold
        return RerankerTraining.model_validate(record)

    def _short(self) -> list[tuple[str, str]]:
        """The settings as parts of a path: the last word of each name, where no other ends with it."""
        last = [name.rpartition(".")[2] for name, _ in self.settings]
        return [
            (word if last.count(word) == 1 else name, _plain(json.loads(value)))
            for word, (name, value) in zip(last, self.settings, strict=True)
        ]


@dataclass(frozen=True)
class Study:
    """What came out of each training, and, where folds are held out, of all of them together."""

    measures: tuple[str, ...]
    tested: Mapping[Variant, RerankerOutcome]
    folds: Mapping[Variant, RerankerOutcome]

    @property
    def sizes(self) -> list[int]:
        """The numbers of queries learned from, where there are several."""
        return list(dict.fromkeys(one.size for one in self.tested if one.size is not None))

    def values(self, size: int | None, measure: str) -> list[float]:
        """The measure of each seed."""
        return [told.measures[measure] for one, told in self.tested.items() if one.size == size]

    def table(self) -> Table:
        """A row for each training, or for each size; then the mean over seeds."""
        first = next(iter(self.tested.values()))
        rows = [("first stage", *self._cells(first.before))]
        if self.sizes:
            rows += [(f"{size:,} queries", *self._means(size)) for size in self.sizes]
        else:
            rows += [(one.label, *self._cells(told.measures)) for one, told in self.folds.items()]
            rows += [(one.label, *self._cells(told.measures)) for one, told in self.tested.items()]
            rows += [("mean over seeds", *self._means(None))] if len(self.tested) > 1 else []
        notes = [f"{first.queries:,} test queries, {first.candidates:,} candidates."]
        if first.without:
            notes.append(f"{first.without:,} of the queries have no candidates, and count 0.")
        if seeds := len({one.seed for one in self.tested}) - 1:
            notes.append(f"Means over {seeds + 1} seeds ± their standard deviation.")
        return Table.of(("training", *self.measures), rows, notes=notes)

    def record(self) -> dict[str, object]:
        """Every value, for JSON."""
        both = {"trainings": self.tested, "folds": self.folds}
        return {
            name: [{**asdict(one), **asdict(told)} for one, told in some.items()]
            for name, some in both.items()
        }

    def _cells(self, values: Mapping[str, float]) -> list[str]:
        return [f"{values[name]:.4f}" for name in self.measures]

    def _means(self, size: int | None) -> list[str]:
        return [mean_of(self.values(size, name)) for name in self.measures]


def run_study(
    config: RerankerTraining,
    output: str | Path,
    asked: Sequence[Variant],
    *,
    resume: bool = False,
    report: Report = silent_report,
    progress: Progress = silent,
) -> Study:
    """Train the variants that are ``asked`` for, each in a folder of its own, and put their tests together.

    With ``resume``, what is done is not done again, other variants may be added, and another test is measured
    with the models that are there. What trainings share lies in ``output``: stored features, texts. The
    checkpoints of several go once they are tested.

    Raises
    ------
    ModelError
        where the configuration has no test; where variants were trained already and ``resume`` is not set.
    CollectionError
        before the first training, where there are fewer queries than the largest size.
    """
    if config.test is None or not config.test.measures:
        raise ModelError("--seeds, --sizes and folds compare trainings by their test: add the section test")
    folder, found = Path(output), dict[Variant, RerankerOutcome]()
    with join_processes(choose_device(config.device)) as processes:
        if not processes.leads:
            report, progress = silent_report, silent
        _check_sizes(config, asked)
        for done, variant in enumerate(asked):
            progress("trainings", done, len(asked))
            wanted, own = variant.of(config), folder / variant.folder
            if resume and processes.first(partial(_is_over, own)):
                processes.first(partial(_measure_again, wanted, own, folder, progress))
            else:
                train_reranker(wanted, own, shared=folder, resume=resume, report=report, progress=progress)
            found[variant] = read_outcome(own)
            if len(asked) > 1:
                processes.first(partial(shutil.rmtree, own / checkpoint.CHECKPOINTS, ignore_errors=True))
        study = _put_together(found)
        processes.first(lambda: _write(study, folder))
    return study


def variants(
    config: RerankerTraining, *, seeds: Sequence[int] = (), sizes: Sequence[int] = ()
) -> list[Variant]:
    """All that are asked for: every size with every seed and every fold."""
    folds: Sequence[int | None] = (None,)
    if config.folds and config.held_out is None:
        folds = range(config.folds)
    return [
        Variant(size, seed, fold) for size in sizes or (None,) for seed in seeds or (None,) for fold in folds
    ]


def mean_of(values: Sequence[float]) -> str:
    """Their mean, and, where there are several, their standard deviation."""
    return f"{fmean(values):.4f}" + (f" ± {stdev(values):.4f}" if len(values) > 1 else "")


def _check_sizes(config: RerankerTraining, asked: Sequence[Variant]) -> None:
    """Refuse a size that is too large before the smaller ones are trained."""
    most = max((one.size for one in asked if one.size is not None), default=None)
    for fold in {one.fold for one in asked} if most is not None else ():
        check_queries(Variant(most, fold=fold).of(config))


def _is_over(output: Path) -> bool:
    return any((output / name).exists() for name in (TESTED, CHOOSING))


def _measure_again(config: RerankerTraining, output: Path, shared: Path, progress: Progress) -> None:
    """Measure what was trained, where that was not done or by another test."""
    checkpoint.check_same(config, output)
    write_settings(config, output / checkpoint.CONFIG)
    measure_reranker(config, output, shared=shared, progress=progress)


def _set(record: dict[str, Any], name: str, value: Any) -> None:
    """Have a value at a dotted name."""
    first, _, rest = name.partition(".")
    if rest:
        inner = record.get(first)
        record[first] = dict(inner) if isinstance(inner, dict) else {}
        _set(record[first], rest, value)
    else:
        record[first] = value


def _shown(value: str) -> str:
    """A value that stands as JSON, a text without its quotes."""
    read = json.loads(value)
    return read if isinstance(read, str) else value


def _plain(value: Any) -> str:
    """A value as a part of a path."""
    if isinstance(value, list):
        return "-".join(map(_plain, value)) or "none"
    return re.sub(r"[^\w.+-]+", "-", str(value))


def _put_together(found: Mapping[Variant, RerankerOutcome]) -> Study:
    folds: dict[Variant, dict[Variant, RerankerOutcome]] = {}
    for one, told in found.items():
        if one.fold is not None:
            folds.setdefault(replace(one, fold=None), {})[one] = told
    tested = {one: told for one, told in found.items() if one.fold is None}
    tested |= {whole: join_outcomes(list(parts.values())) for whole, parts in folds.items()}
    held_out = {one: told for one, told in found.items() if one.fold is not None}
    return Study(tuple(next(iter(found.values())).measures), tested, held_out)


def _write(study: Study, folder: Path) -> None:
    """The table, its values, and, of a cross-validation, the run of all queries."""
    for whole in study.tested:
        runs = [folder / one.folder / RUN for one in study.folds if replace(one, fold=None) == whole]
        if runs:
            write_run(folder / whole.folder / RUN, chain.from_iterable(map(read_run, runs)))
    (folder / TABLE).write_text(render_markdown(study.table()), encoding="utf-8")
    (folder / RESULT).write_text(json.dumps(study.record(), indent=2) + "\n", encoding="utf-8")
