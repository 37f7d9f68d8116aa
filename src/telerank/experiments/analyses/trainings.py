"""Analyses that train models: their losses, grids of settings, numbers of pairs, updates a second."""

from __future__ import annotations

import math
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from telerank.errors import CollectionError
from telerank.evaluation.measures import measure
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analysis import Analysis, AnalysisResult, Measure, Measures, Unavailable
from telerank.experiments.comparison import plain_name, read_rankings
from telerank.experiments.published import PAPER
from telerank.experiments.schema import merge
from telerank.experiments.trained import is_training_run, model_of
from telerank.show.tables import Cell, Table, show_interval, show_value
from telerank.training.log import LossCurves, draw_losses, read_losses
from telerank.training.reranker.plan import (
    combine,
    format_mean,
    plot_sizes,
    set_dotted,
    short_names,
    show_setting,
)
from telerank.training.trained import LOG
from telerank.trec import read_run
from telerank.types import Progress

if TYPE_CHECKING:
    from telerank.training.reranker.config import RerankerTraining


class LossesSpec(Analysis):
    """Training and dev loss by update of the re-rankers that systems train (Piaf report, figures 11, 12)."""

    kind: Literal["losses"]

    def analyse(self, bench: Bench) -> AnalysisResult:
        from telerank.experiments.analyses.trainings import analyse_losses

        return analyse_losses(bench, self)


class _OfSystem(Analysis):
    system: str
    """``CANDIDATES >> rerank(MODEL)``, whose model is trained again with other settings."""

    @property
    def system_names(self) -> tuple[str, ...]:
        return (*super().system_names, self.system)


class GridSpec(_OfSystem):
    """Trainings of one model under every combination of settings, compared by their dev losses."""

    kind: Literal["grid"]
    settings: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = Field(min_length=1)
    """Dotted names of settings of the training, each with its values."""
    measures: Measures
    """Of the test of the combination with the least dev loss."""
    shown: int = Field(10, ge=1)
    """Number of combinations in the table; the values of all are in the results."""

    def analyse(self, bench: Bench) -> AnalysisResult:
        from telerank.experiments.analyses.trainings import analyse_grid

        return analyse_grid(bench, self)


class SizesSpec(_OfSystem):
    """A measure of a re-ranker by the number of pairs that it learns from (monoBERT, figure 1)."""

    kind: Literal["sizes"]
    measure: Measure
    pairs: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    """Numbers of pairs to learn from."""
    changes: dict[str, Any] = Field(default_factory=dict)
    """Settings of the trainings that differ from the model's."""

    def analyse(self, bench: Bench) -> AnalysisResult:
        from telerank.experiments.analyses.trainings import analyse_sizes

        return analyse_sizes(bench, self)


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


def analyse_sizes(bench: Bench, spec: SizesSpec) -> AnalysisResult:
    """Train the model of a system with each number of pairs and each seed, and measure what it re-ranks."""
    values = {pairs: _measure_size(bench, spec, pairs) for pairs in spec.pairs}
    means = [fmean(by_seed) for by_seed in values.values()]
    printed = bench.published.get(spec.system, {})
    rows = []
    for pairs, by_seed in values.items():
        row = [f"{pairs:,}", format_mean(by_seed, digits=3), show_value(printed.get(str(pairs)))]
        rows.append(row if printed else row[:2])
    rows += [
        [f"{int(pairs):,}", show_value(None), show_value(value)]
        for pairs, value in printed.items()
        if int(pairs) not in values
    ]
    heads = ("training pairs", f"{spec.measure}, {spec.system}", *([PAPER] if printed else []))
    table = Table.of(heads, rows, caption=spec.title or "Training size against quality")
    plot = plot_sizes({spec.measure: {spec.system: means}}, spec.pairs)
    record = {"pairs": spec.pairs, spec.measure: means, "by_seed": values, "published": bench.published}
    return AnalysisResult((table,), record, {"sizes": plot})


def _measure_size(bench: Bench, spec: SizesSpec, pairs: int) -> list[float]:
    """The measure for each seed."""
    runs = bench.runner.rerank_changed(spec.system, merge(spec.changes, {"data": {"pairs": pairs}}))
    lists = (read_rankings(run, bench.judged.queries) for run in runs)
    return [measure(rankings, bench.judged.qrels, spec.measure).mean[spec.measure] for rankings in lists]


PACE = "batches/s"
"""The column of published values."""
FIRST, LATER = "first epoch", "later epochs"


class ThroughputAnalysis(Analysis):
    """Updates a second of trainings, with a frozen encoder in the first and in later epochs (table 3)."""

    kind: Literal["throughput"]
    models: Annotated[tuple[str, ...], Field(min_length=1)]
    """Re-rankers that the experiment can train; the pace of the others is compared with the first one's."""
    batch: int = Field(16, ge=1)
    """Groups in a batch."""
    queries: int = Field(100, ge=1)
    """Number of queries that a round learns from, drawn by its number."""
    epochs: int = Field(3, ge=2)
    """Epochs of a round with a frozen encoder; a round of any other has one."""
    rounds: int = Field(3, ge=1)
    """Number of rounds that count, in each of which the models take turns; one before them does not count."""
    needs_systems: ClassVar[bool] = False

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Time the trainings of the models in turns, in rounds that learn from different queries."""
        paces: dict[str, list[float]] = defaultdict(list)
        configs = {
            name: [_shorten(bench, self, name, number) for number in range(self.rounds + 1)]
            for name in self.models
        }
        for number in range(self.rounds + 1):
            for name in self.models:
                bench.data.progress(f"timing the training of {name}", number, self.rounds + 1)
                measured = time_epochs(configs[name][number], bench.data.progress)
                for epochs, pace in measured.items() if number else ():
                    paces[f"{name}, {epochs}" if epochs else name].append(pace)
        base = next(iter(paces))
        rows = []
        for row, values in paces.items():
            printed, of_base = (bench.published.get(own, {}).get(PACE) for own in (row, base))
            mean = statistics.fmean(values)
            times = None if printed is None or of_base is None else printed / of_base
            interval = show_interval(min(values), max(values), ".2f")
            rows.append((row, mean, interval, printed, mean / statistics.fmean(paces[base]), times))
        columns = ("training", PACE, "rounds", PAPER, f"times {base}", PAPER)
        rounds = f"means of {self.rounds} rounds by the clock, after one that does not count"
        groups = f"a batch has {self.batch} groups, each a query with a relevant passage and others"
        notes = [f"{rounds}; {groups}; {self.queries:,} queries a round"]
        table = Table.of(columns, rows, caption=self.title, notes=notes, form=".2f")
        return AnalysisResult((table,), {"batches_per_second": dict(paces), "published": bench.published})


def time_epochs(config: RerankerTraining, progress: Progress) -> dict[str, float]:
    """Batches a second of a training: of the first and of the later epochs, or of its only epoch (``""``)."""
    import torch

    from telerank.training.loop import Loop
    from telerank.training.parallel import Processes
    from telerank.training.reranker.train import RerankerJob
    from telerank.training.task import TrainingDevice
    from telerank.training.training import choose_device, choose_precision, count_updates

    device = choose_device(config.device)
    hardware = TrainingDevice(device, choose_precision(config.precision, device), Processes())
    seconds: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(config.seed)
        task = RerankerJob.open(config, Path(folder), Path(folder)).make_task(None, hardware, progress)
        loop = Loop(config, Path(folder), count_updates(config, lambda: task.examples), None, task, hardware)
        while loop.position.step < loop.steps:
            began = perf_counter()
            loop.update(progress)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            seconds.append(perf_counter() - began)
            loop.position.step += 1
        first = math.ceil(task.examples / config.optimisation.batch)
    if first == len(seconds):
        return {"": first / sum(seconds)}
    return {FIRST: first / sum(seconds[:first]), LATER: (len(seconds) - first) / sum(seconds[first:])}


def _shorten(bench: Bench, spec: ThroughputAnalysis, name: str, number: int) -> RerankerTraining:
    """The settings of a round: a training's own, but for its length, and without dev and test."""
    config = bench.runner.configure_reranker(name)
    changes = {
        "data": {"queries": spec.queries, "seed": number},
        "optimisation": {
            "steps": None,
            "epochs": spec.epochs if config.model.frozen else 1,
            "batch": spec.batch,
            "accumulation": 1,
            "warm_up": 0,
        },
        "dev": None,
        "test": None,
    }
    return type(config).model_validate(merge(config.model_dump(mode="json"), changes))
