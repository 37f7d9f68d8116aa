"""Analyses that train models: their losses, grids of settings, numbers of pairs, updates a second."""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from telerank.errors import CollectionError, count_noun
from telerank.evaluation.measures import measure
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analysis import Analysis, AnalysisResult, Measure, Measures, Unavailable
from telerank.experiments.comparison import plain_name, read_rankings
from telerank.experiments.published import PAPER
from telerank.experiments.schema import merge
from telerank.experiments.trained import is_training_run, model_of
from telerank.show.tables import Cell, Table, show_interval
from telerank.training.log import LossCurves, draw_losses, read_losses
from telerank.training.settings import set_dotted
from telerank.training.trained import LOG
from telerank.trec import read_run
from telerank.types import Progress

if TYPE_CHECKING:
    from telerank.training.reranker.config import RerankerTraining
    from telerank.training.reranker.plan import Variant

PACE = "batches/s"
"""The column of published values of updates a second."""


class LossesAnalysis(Analysis):
    """Training and dev loss by update of the re-rankers that systems train (Piaf report, figures 11, 12)."""

    kind: Literal["losses"]

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Show the training and the dev loss of each re-ranker that a system trains, of its first seed."""
        trained = {name: system.runs[0] for name, system in bench.systems.items()}
        curves = {name: _read_curves(run) for name, run in trained.items() if is_training_run(run)}
        if not curves:
            raise Unavailable("none of its systems trains a re-ranker here")
        rows = []
        for name, losses in curves.items():
            best = losses.dev.index(min(losses.dev))
            for moment, at in (("first", 0), ("least dev loss", best), ("last", -1)):
                rows.append((name, moment, losses.updates[at], losses.training[at], losses.dev[at]))
        heads = ("system", "", "update", "training loss", "dev loss")
        note = (
            "The training loss is the mean since the dev loss before, with dropout; the dev loss is without."
        )
        table = Table.of(heads, rows, caption=self.title or "Losses", notes=[note], left=2, form=".4f")
        plots = {f"losses-{plain_name(name)}": draw_losses(losses) for name, losses in curves.items()}
        return AnalysisResult((table,), {name: losses._asdict() for name, losses in curves.items()}, plots)


def _read_curves(run: Path) -> LossCurves:
    """The losses of the training that has re-ranked a run; raises CollectionError if there is no dev loss."""
    log = model_of(run).with_name(LOG)
    curves = read_losses(log)
    if not curves.dev:
        raise CollectionError(f"{log}: no dev loss: the training has no section dev")
    return curves


class _OfSystem(Analysis):
    """``system`` is ``CANDIDATES >> rerank(MODEL)``, whose model is trained again with other settings."""

    system: str

    named_by: ClassVar[tuple[str, ...]] = ("system",)


class TriedSettings(NamedTuple):
    """How a training differs, its least dev loss, the updates before it, and the run of the model."""

    variant: Variant
    dev_loss: float
    update: int
    run: Path


class GridAnalysis(_OfSystem):
    """Trainings of one model under every combination of settings, compared by their dev losses.

    ``settings`` are dotted names of settings of the training, each with its values; ``measures`` are of the
    test of the combination with the least dev loss. ``shown`` combinations are in the table; the values of
    all are in the results.
    """

    kind: Literal["grid"]
    settings: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = Field(min_length=1)
    measures: Measures
    shown: int = Field(10, ge=1)

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Train each combination with the first seed; measure the test of that with the least dev loss."""
        from telerank.training.reranker.plan import combine, show_setting

        if self.system not in bench.systems:
            raise Unavailable(f"it needs {self.system}")
        combinations, tried = combine(self.settings), []
        for done, variant in enumerate(combinations):
            bench.data.progress("combinations", done, len(combinations))
            run = bench.runner.rerank_changed(self.system, set_dotted({}, variant.changes))[0]
            curves = _read_curves(run)
            least = min(curves.dev)
            tried.append(TriedSettings(variant, least, curves.updates[curves.dev.index(least)], run))
        tried.sort(key=lambda each: each.dev_loss)
        mean = measure(read_run(tried[0].run), bench.judged.qrels, self.measures).mean
        chosen = ", ".join(f"{name} {show_setting(value)}" for name, value in tried[0].variant.values.items())
        values = ", ".join(f"{name} {value:.3f}" for name, value in mean.items())
        record = [
            {"settings": each.variant.values, "dev_loss": each.dev_loss, "update": each.update}
            for each in tried
        ]
        return AnalysisResult(
            (self._best_table(tried), self._values_table(tried)),
            {"combinations": record, "test": mean},
            notes=(f"Chosen of {len(tried)}: {chosen}; on the test {values}.",),
        )

    def _best_table(self, tried: list[TriedSettings]) -> Table:
        from telerank.training.reranker.plan import short_names, show_setting

        rows = [
            (*map(show_setting, each.variant.values.values()), each.dev_loss, each.update)
            for each in tried[: self.shown]
        ]
        caption = self.title or f"The {len(rows)} of {len(tried)} combinations with the least dev loss"
        heads = (*short_names(self.settings), "dev loss", "updates")
        return Table.of(heads, rows, caption=caption, left=len(self.settings), form=".4f")

    def _values_table(self, tried: list[TriedSettings]) -> Table:
        """For each value of a setting the mean and the least dev loss of its combinations."""
        from telerank.training.reranker.plan import short_names, show_setting

        rows = []
        for short, (name, values) in zip(short_names(self.settings), self.settings.items(), strict=True):
            for value in values:
                losses = [each.dev_loss for each in tried if each.variant.values[name] == value]
                least = Cell(f"{min(losses):.4f}", strong=min(losses) == tried[0].dev_loss)
                rows.append((short, show_setting(value), len(losses), fmean(losses), least))
        heads = ("setting", "value", "trainings", "mean dev loss", "least")
        return Table.of(heads, rows, caption="What each value is worth", left=2, form=".4f")


class SizesAnalysis(_OfSystem):
    """A measure of a re-ranker by the number of pairs that it learns from (monoBERT, figure 1).

    ``pairs`` are the numbers of pairs; ``changes`` are settings that differ from the model's training.
    """

    kind: Literal["sizes"]
    measures: Measure
    pairs: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    changes: dict[str, Any] = Field(default_factory=dict)

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Train the model of the system with each number of pairs and each seed; measure what it re-ranks."""
        from telerank.training.reranker.plan import format_mean, plot_sizes

        values: dict[int, list[float]] = {}
        for pairs in self.pairs:
            runs = bench.runner.rerank_changed(self.system, merge(self.changes, {"data": {"pairs": pairs}}))
            lists = (read_rankings(run, bench.judged.queries) for run in runs)
            values[pairs] = [
                measure(rankings, bench.judged.qrels, self.measures).mean[self.measures] for rankings in lists
            ]
        means = [fmean(by_seed) for by_seed in values.values()]
        printed = bench.published.get(self.system, {})
        rows: list[tuple[object, ...]] = [
            (pairs, format_mean(by_seed, digits=3), *([printed.get(str(pairs))] if printed else []))
            for pairs, by_seed in values.items()
        ]
        rows += [(int(pairs), None, value) for pairs, value in printed.items() if int(pairs) not in values]
        heads = ("training pairs", f"{self.measures}, {self.system}", *([PAPER] if printed else []))
        table = Table.of(heads, rows, caption=self.title or "Training size against quality")
        plot = plot_sizes({self.measures: {self.system: means}}, self.pairs)
        record = {"pairs": self.pairs, self.measures: means, "by_seed": values, "published": bench.published}
        return AnalysisResult((table,), record, {"sizes": plot})


class ThroughputAnalysis(Analysis):
    """Updates a second of trainings, with a frozen encoder in the first and in later epochs (table 3).

    What is timed are the updates of ``telerank train reranker``. A frozen encoder's outputs are computed
    before the first update, which counts in the first epoch, and are read from the disk in all later ones.

    ``models`` are re-rankers that the experiment can train; the pace of the others is compared with the first
    one's. A ``batch`` has so many groups. A round learns from ``queries`` drawn by its number, for ``epochs``
    with a frozen encoder and for one with any other. In each of the ``rounds`` that count the models take
    turns; one before them does not count.
    """

    kind: Literal["throughput"]
    models: Annotated[tuple[str, ...], Field(min_length=1)]
    batch: int = Field(16, ge=1)
    queries: int = Field(100, ge=1)
    epochs: int = Field(3, ge=2)
    rounds: int = Field(3, ge=1)
    needs_systems: ClassVar[bool] = False

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Time the trainings of the models in turns, in rounds that learn from different queries."""
        paces: dict[str, list[float]] = defaultdict(list)
        configs = {
            name: [self._shorten(bench.runner.configure_reranker(name), n) for n in range(self.rounds + 1)]
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
            printed, of_base = (bench.published.get(name, {}).get(PACE) for name in (row, base))
            times = None if printed is None or of_base is None else printed / of_base
            interval = show_interval(min(values), max(values), ".2f")
            rows.append((row, fmean(values), interval, printed, fmean(values) / fmean(paces[base]), times))
        columns = ("training", PACE, "rounds", PAPER, f"times {base}", PAPER)
        rounds = f"means of {self.rounds} rounds by the clock, after one that does not count"
        groups = f"a batch has {self.batch} groups, each a query with a relevant passage and others"
        notes = [f"{rounds}; {groups}; {count_noun(self.queries, 'query')} a round"]
        table = Table.of(columns, rows, caption=self.title, notes=notes, form=".2f")
        return AnalysisResult((table,), {"batches_per_second": dict(paces), "published": bench.published})

    def _shorten(self, config: RerankerTraining, number: int) -> RerankerTraining:
        """The settings of a round: a training's own, but for its length, and without dev and test."""
        changes = {
            "data": {"queries": self.queries, "seed": number},
            "optimisation": {
                "steps": None,
                "epochs": self.epochs if config.model.frozen else 1,
                "batch": self.batch,
                "accumulation": 1,
                "warm_up": 0,
            },
            "dev": None,
            "test": None,
        }
        return type(config).model_validate(merge(config.model_dump(mode="json"), changes))


def time_epochs(config: RerankerTraining, progress: Progress) -> dict[str, float]:
    """Batches a second of a training: of the first and of the later epochs, or of its only epoch (``""``)."""
    import torch

    from telerank.training.loop import Loop
    from telerank.training.optimisation import count_updates
    from telerank.training.parallel import Processes
    from telerank.training.reranker.job import RerankerJob
    from telerank.training.task import TrainingDevice, choose_device, choose_precision

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
    later = (len(seconds) - first) / sum(seconds[first:])
    return {"first epoch": first / sum(seconds[:first]), "later epochs": later}
