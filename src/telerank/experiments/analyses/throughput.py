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
from typing import TYPE_CHECKING

from telerank.experiments.analyses.bench import AnalysisResult, Bench
from telerank.experiments.analyses.specs import ThroughputSpec
from telerank.experiments.published import PAPER
from telerank.experiments.schema import merge
from telerank.show.tables import Cell, Table
from telerank.types import Progress

if TYPE_CHECKING:
    from telerank.training.reranker.config import RerankerTraining

PACE = "batches/s"
"""The column of published values."""
FIRST, LATER = "first epoch", "later epochs"


def analyse_throughput(bench: Bench, spec: ThroughputSpec) -> AnalysisResult:
    """Time the trainings of the models in turns, in rounds that learn from different queries."""
    paces: dict[str, list[float]] = defaultdict(list)
    configs = {
        name: [_shorten(bench, spec, name, number) for number in range(spec.rounds + 1)]
        for name in spec.models
    }
    for number in range(spec.rounds + 1):
        for name in spec.models:
            bench.data.progress(f"timing the training of {name}", number, spec.rounds + 1)
            measured = time_epochs(configs[name][number], bench.data.progress)
            for epochs, pace in measured.items() if number else ():
                paces[f"{name}, {epochs}" if epochs else name].append(pace)
    base = next(iter(paces))
    rows: list[list[str | Cell]] = []
    for row, values in paces.items():
        printed, of_base = (bench.published.get(own, {}).get(PACE) for own in (row, base))
        mean = statistics.fmean(values)
        times = "–" if printed is None or of_base is None else f"{printed / of_base:.2f}"
        spread = f"{min(values):.2f} to {max(values):.2f}"
        paper = "–" if printed is None else f"{printed:.2f}"
        rows.append([row, f"{mean:.2f}", spread, paper, f"{mean / statistics.fmean(paces[base]):.2f}", times])
    columns = ("training", PACE, "rounds", PAPER, f"times {base}", PAPER)
    table = Table.of(columns, rows, caption=spec.title, notes=[_describe(spec)])
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


def _shorten(bench: Bench, spec: ThroughputSpec, name: str, number: int) -> RerankerTraining:
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


def _describe(spec: ThroughputSpec) -> str:
    rounds = f"means of {spec.rounds} rounds by the clock, after one that does not count"
    groups = f"a batch has {spec.batch} groups, each a query with a relevant passage and others"
    return f"{rounds}; {groups}; {spec.queries:,} queries a round"
