"""The losses of trainings, and grids of trainings (Piaf report, section 6.3, figures 11 and 12)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from telerank.errors import CollectionError
from telerank.evaluation.measures import measure
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analyses.specs import GridSpec, LossesSpec
from telerank.experiments.analysis import AnalysisResult, Unavailable
from telerank.experiments.comparison import plain_name
from telerank.experiments.schema import merge
from telerank.experiments.trained import is_training_run, model_of
from telerank.show.tables import Cell, Table
from telerank.trec import read_run

if TYPE_CHECKING:
    from telerank.training.loss_plot import LossCurves


@dataclass(frozen=True)
class TriedSettings:
    """Settings by their dotted names, the run of what they trained, and its losses."""

    settings: Mapping[str, Any]
    run: Path
    curves: LossCurves

    @property
    def dev_loss(self) -> float:
        """The least dev loss."""
        return min(self.curves.dev)

    @property
    def update(self) -> int:
        """The number of updates before the least dev loss."""
        return self.curves.updates[self.curves.dev.index(self.dev_loss)]

    def record(self) -> dict[str, Any]:
        """Every value, for JSON."""
        return {"settings": dict(self.settings), "dev_loss": self.dev_loss, "update": self.update}


def analyse_losses(bench: Bench, spec: LossesSpec) -> AnalysisResult:
    """Show the training and the dev loss of each re-ranker that a system trains, of its first seed."""
    from telerank.training.loss_plot import draw_losses

    trained = {name: system.runs[0] for name, system in bench.systems.items()}
    curves = {name: _read_curves(run) for name, run in trained.items() if is_training_run(run)}
    if not curves:
        raise Unavailable("none of its systems trains a re-ranker here")
    rows = []
    for name, losses in curves.items():
        best = losses.dev.index(min(losses.dev))
        rows += [
            [name, moment, f"{losses.updates[at]:,}", f"{losses.training[at]:.4f}", f"{losses.dev[at]:.4f}"]
            for moment, at in (("first", 0), ("least dev loss", best), ("last", -1))
        ]
    heads = ("system", "", "update", "training loss", "dev loss")
    note = "The training loss is the mean since the dev loss before, with dropout; the dev loss is without."
    table = Table.of(heads, rows, caption=spec.title or "Losses", notes=[note], left=2)
    plots = {f"losses-{plain_name(name)}": draw_losses(losses) for name, losses in curves.items()}
    return AnalysisResult((table,), {name: losses._asdict() for name, losses in curves.items()}, plots)


def analyse_grid(bench: Bench, spec: GridSpec) -> AnalysisResult:
    """Train each combination with the first seed, and measure the test of the one with the least dev loss."""
    combinations = sorted(_train(bench, spec), key=lambda each: each.dev_loss)
    best = combinations[0]
    mean = measure(read_run(best.run), bench.judged.qrels, spec.measures).mean
    chosen = ", ".join(f"{name} {_text(value)}" for name, value in best.settings.items())
    values = ", ".join(f"{name} {value:.3f}" for name, value in mean.items())
    return AnalysisResult(
        (_best_table(combinations, spec), _values_table(combinations, spec)),
        {"combinations": [each.record() for each in combinations], "test": mean},
        notes=(f"Chosen of {len(combinations)}: {chosen}; on the test {values}.",),
    )


def _train(bench: Bench, spec: GridSpec) -> Iterator[TriedSettings]:
    if spec.system not in bench.systems:
        raise Unavailable(f"it needs {spec.system}")
    choices = list(product(*spec.settings.values()))
    for done, values in enumerate(choices):
        bench.data.progress("combinations", done, len(choices))
        settings = dict(zip(spec.settings, values, strict=True))
        changes = reduce(merge, (_nest(name, value) for name, value in settings.items()))
        run = bench.runner.rerank_changed(spec.system, changes)[0]
        yield TriedSettings(settings, run, _read_curves(run))


def _nest(name: str, value: Any) -> dict[str, Any]:
    """``{"a": {"b": value}}`` for the name ``a.b``."""
    *sections, last = name.split(".")
    return reduce(lambda inner, section: {section: inner}, reversed(sections), {last: value})


def _read_curves(run: Path) -> LossCurves:
    """The losses of the training that has re-ranked a run; raises CollectionError if there is no dev loss."""
    from telerank.training.checkpoint import LOG
    from telerank.training.loss_plot import read_losses

    log = model_of(run).with_name(LOG)
    curves = read_losses(log)
    if not curves.dev:
        raise CollectionError(f"{log}: no dev loss: the training has no section dev")
    return curves


def _best_table(combinations: Sequence[TriedSettings], spec: GridSpec) -> Table:
    rows = [
        [*map(_text, each.settings.values()), f"{each.dev_loss:.4f}", f"{each.update:,}"]
        for each in combinations[: spec.shown]
    ]
    caption = spec.title or f"The {len(rows)} of {len(combinations)} combinations with the least dev loss"
    return Table.of((*_short(spec), "dev loss", "updates"), rows, caption=caption, left=len(spec.settings))


def _values_table(combinations: Sequence[TriedSettings], spec: GridSpec) -> Table:
    """For each value of a setting the mean and the least dev loss of its combinations."""
    rows: list[list[str | Cell]] = []
    for short, (name, values) in zip(_short(spec), spec.settings.items(), strict=True):
        for value in values:
            losses = [each.dev_loss for each in combinations if each.settings[name] == value]
            least = Cell(f"{min(losses):.4f}", strong=min(losses) == combinations[0].dev_loss)
            rows.append([short, _text(value), str(len(losses)), f"{fmean(losses):.4f}", least])
    heads = ("setting", "value", "trainings", "mean dev loss", "least")
    return Table.of(heads, rows, caption="What each value is worth", left=2)


def _short(spec: GridSpec) -> list[str]:
    return [name.rpartition(".")[2] for name in spec.settings]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
