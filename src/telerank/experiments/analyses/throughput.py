"""Updates a second of fine-tuning, and of training a head on a frozen encoder (BERT-DMN, table 3).

What is timed are the updates of ``telerank train reranker``. A frozen encoder's outputs are computed before
the first update, which counts in the first epoch, and are read from the disk in all later ones.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analysis import (
    Analysis,
    AnalysisResult,
)
from telerank.experiments.published import PAPER
from telerank.experiments.schema import merge
from telerank.show.tables import Table, show_interval
from telerank.types import Progress

if TYPE_CHECKING:
    from telerank.training.reranker.config import RerankerTraining

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
