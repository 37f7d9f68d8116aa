"""A bench over a collection small enough to check by hand, on which settings and analyzers make a difference."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from telerank.corpus.collection import Collection
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.comparison import JudgedQueries
from telerank.experiments.data import ExperimentData
from telerank.experiments.schema import DataSpec
from telerank.experiments.systems import SystemRuns
from telerank.pipelines.functions import pipeline
from telerank.stage import Stage
from telerank.trec import write_run
from telerank.types import Doc, Query
from telerank.verbs.experiment import run_experiment

WORDS = [f"word{i}" for i in range(100)]
RNG = random.Random(1)
DOCS = [Doc(f"d{i:02}", " ".join(RNG.choices(WORDS, k=RNG.randint(4, 30)))) for i in range(40)]
SMALL_GRIDS = ["lm_jelinek_mercer", "dfi"]  # 13 and 3 settings


def judged(count: int = 30) -> JudgedQueries:
    """Each query repeats some words of its document, half of them in capitals."""
    rng = random.Random(2)
    queries, qrels = [], {}
    for i in range(count):
        doc = rng.choice(DOCS)
        words = rng.sample(doc.text.split(), 3) + rng.choices(WORDS, k=1)
        queries.append(Query(f"q{i:02}", " ".join(rng.choice((word, word.upper())) for word in words)))
        qrels[f"q{i:02}"] = {doc.docno: 1}
    return JudgedQueries(tuple(queries), qrels)


def make_bench(folder: Path, *, count: int = 30, dev: int | None = None, depth: int = 1000) -> Bench:
    """A bench without systems; with ``dev`` so many of the queries choose."""
    choosing, measuring = judged(count).deal(dev) if dev else (None, judged(count))
    spec = DataSpec(about="random words", analyzer="standard")
    words = Collection("words", "none", lambda: iter(DOCS))
    data = ExperimentData("words", spec, "words", words, folder, measuring, choosing)
    return Bench(data, {}, PipelineReader(data), depth=depth)


class PipelineReader:
    """Stands for the runner of an experiment without systems and models: it reads pipelines over the index."""

    def __init__(self, data: ExperimentData) -> None:
        self.data = data

    def read_stage(self, name: str, text: str, position: int = 0) -> Stage:  # noqa: ARG002
        return pipeline(text, self.data.index())

    def count_seeds(self, text: str) -> int:  # noqa: ARG002
        return 1


def write_systems(
    bench: Bench, folder: Path, texts: Mapping[str, str | Sequence[str]], *, stages: bool = True
) -> dict[str, SystemRuns]:
    """The systems of pipeline texts; several texts are the runs of one system by its seeds."""
    systems = {}
    for name, text in texts.items():
        runs = []
        pipelines = [
            bench.runner.read_stage(name, part) for part in ([text] if isinstance(text, str) else text)
        ]
        for seed, stage in enumerate(pipelines):
            runs.append(folder / f"{len(systems)}-{seed}.run")
            write_run(runs[-1], stage.run(bench.judged.queries))
        stage: Stage | None = pipelines[0] if stages else None
        systems[name] = SystemRuns(name, "words", tuple(runs), stage)
    return systems


def cells(table) -> dict[str, list[str]]:
    """The texts of a table's rows by their first."""
    return {row[0].text: [cell.text.strip() for cell in row[1:]] for row in table.rows}


def run_record(record: Mapping, folder: Path, name: str = "table", **options):
    """Write the file of an experiment into a folder, and run it; by default its output goes there, too."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(dict(record), sort_keys=False), encoding="utf-8")
    return run_experiment(file, **{"output": folder, **options})


def saved_results(outcome) -> list[dict]:
    """The values of each analysis, as they are in the file of results."""
    return json.loads((outcome.folder / "results.json").read_text(encoding="utf-8"))["results"]
