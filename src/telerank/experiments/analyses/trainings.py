"""The losses of trainings, and grids of trainings (Piaf report, section 6.3, figures 11 and 12)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from telerank.errors import CollectionError
from telerank.evaluation.measures import measure
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analyses.specs import GridSpec, LossesSpec
from telerank.experiments.analysis import AnalysisResult, Unavailable
from telerank.experiments.comparison import plain_name
from telerank.experiments.trained import is_training_run, model_of
from telerank.show.tables import Cell, Table
from telerank.training.log import LossCurves, draw_losses, read_losses
from telerank.training.reranker.plan import combine, set_dotted, short_names, show_setting
from telerank.training.trained import LOG
from telerank.trec import read_run


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
    chosen = ", ".join(f"{name} {show_setting(value)}" for name, value in best.settings.items())
    values = ", ".join(f"{name} {value:.3f}" for name, value in mean.items())
    return AnalysisResult(
        (_best_table(combinations, spec), _values_table(combinations, spec)),
        {"combinations": [each.record() for each in combinations], "test": mean},
        notes=(f"Chosen of {len(combinations)}: {chosen}; on the test {values}.",),
    )


def _train(bench: Bench, spec: GridSpec) -> Iterator[TriedSettings]:
    if spec.system not in bench.systems:
        raise Unavailable(f"it needs {spec.system}")
    combinations = combine(spec.settings)
    for done, settings in enumerate(combinations):
        bench.data.progress("combinations", done, len(combinations))
        changes: dict[str, Any] = {}
        for name, value in settings.items():
            set_dotted(changes, name, value)
        run = bench.runner.rerank_changed(spec.system, changes)[0]
        yield TriedSettings(settings, run, _read_curves(run))


def _read_curves(run: Path) -> LossCurves:
    """The losses of the training that has re-ranked a run; raises CollectionError if there is no dev loss."""
    log = model_of(run).with_name(LOG)
    curves = read_losses(log)
    if not curves.dev:
        raise CollectionError(f"{log}: no dev loss: the training has no section dev")
    return curves


def _best_table(combinations: Sequence[TriedSettings], spec: GridSpec) -> Table:
    rows = [
        [*map(show_setting, each.settings.values()), f"{each.dev_loss:.4f}", f"{each.update:,}"]
        for each in combinations[: spec.shown]
    ]
    caption = spec.title or f"The {len(rows)} of {len(combinations)} combinations with the least dev loss"
    heads = (*short_names(spec.settings), "dev loss", "updates")
    return Table.of(heads, rows, caption=caption, left=len(spec.settings))


def _values_table(combinations: Sequence[TriedSettings], spec: GridSpec) -> Table:
    """For each value of a setting the mean and the least dev loss of its combinations."""
    rows: list[list[str | Cell]] = []
    for short, (name, values) in zip(short_names(spec.settings), spec.settings.items(), strict=True):
        for value in values:
            losses = [each.dev_loss for each in combinations if each.settings[name] == value]
            least = Cell(f"{min(losses):.4f}", strong=min(losses) == combinations[0].dev_loss)
            rows.append([short, show_setting(value), str(len(losses)), f"{fmean(losses):.4f}", least])
    heads = ("setting", "value", "trainings", "mean dev loss", "least")
    return Table.of(heads, rows, caption="What each value is worth", left=2)
