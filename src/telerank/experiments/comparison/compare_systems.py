"""Measuring several systems on the judged queries of a collection."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from telerank.errors import CollectionError
from telerank.evaluation.compare import compare_evaluations
from telerank.evaluation.measures import MeasureNames, measure, parse_measures
from telerank.experiments.comparison.result import ExperimentResult, SystemRun
from telerank.experiments.comparison.shared_run import SystemTimes, run_systems
from telerank.experiments.judged_queries import JudgedQueries
from telerank.pipelines.run_files import ListedRankings
from telerank.stage import Stage, walk_stages
from telerank.trec import read_run, write_run
from telerank.types import Progress, Query, Ranking, silent

System: TypeAlias = Stage | Iterable[Ranking]
"""A pipeline, or a run in memory."""


def compare_systems(
    systems: Mapping[str, System],
    judged: JudgedQueries,
    measures: MeasureNames,
    *,
    baselines: Sequence[str] = (),
    folder: str | Path | None = None,
    progress: Progress = silent,
) -> ExperimentResult:
    """Run the systems over the queries, measure them, and compare them with the baselines.

    Stages that systems share are run once. With ``folder`` the runs are kept there, and a run that is there
    is read instead, if everything that it depends on is the same. An unknown measure raises MeasureError; an
    unknown baseline, or no system, CollectionError.
    """
    names = parse_measures(measures)
    if not systems:
        raise CollectionError("an experiment needs at least one system")
    for baseline in baselines:
        if baseline not in systems:
            raise CollectionError(f"the baseline {baseline!r} is none of the systems: {', '.join(systems)}")
    kept = None if folder is None else _KeptRuns(Path(folder), judged.queries)
    runs, times = _run(systems, judged.queries, kept, progress)
    evaluations = {name: measure(runs[name], judged.qrels, names, progress=progress) for name in systems}
    comparison = compare_evaluations(evaluations, list(baselines))
    return ExperimentResult(comparison, {name: SystemRun(tuple(runs[name])) for name in systems}, times)


def _run(
    systems: Mapping[str, System], queries: Sequence[Query], kept: _KeptRuns | None, progress: Progress
) -> tuple[dict[str, list[Ranking]], SystemTimes]:
    runs, seconds = {}, {}
    stages: dict[str, Stage] = {}
    for name, system in systems.items():
        if not isinstance(system, Stage):
            runs[name], seconds[name] = _align(system, queries), 0.0
        elif kept and (run := kept.read(name, system)) is not None:
            runs[name], seconds[name] = run
        else:
            stages[name] = system
    rankings, times = run_systems(stages, queries, progress=progress)
    if kept:
        for name, stage in stages.items():
            kept.write(name, stage, rankings[name], times.seconds[name])
    return runs | rankings, SystemTimes({**seconds, **times.seconds}, len(queries))


def _align(run: Iterable[Ranking], queries: Sequence[Query]) -> list[Ranking]:
    """The rankings of a run with the texts of their queries, in the order of the queries."""
    return list(ListedRankings.of("a run", run).run(queries))


@dataclass(frozen=True)
class _KeptRuns:
    """Runs in a folder; beside each, as JSON, what it depends on."""

    folder: Path
    queries: Sequence[Query]

    def read(self, name: str, stage: Stage) -> tuple[list[Ranking], float] | None:
        """The run of a system and the seconds that it took, if it was made by the same stage."""
        file = self._file(name)
        try:
            saved = json.loads(Path(f"{file}.json").read_text(encoding="utf-8"))
            if saved["stage"] != self._identity(stage):
                return None
            return _align(read_run(file), self.queries), float(saved["seconds"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def write(self, name: str, stage: Stage, rankings: Iterable[Ranking], seconds: float) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        record = {"stage": self._identity(stage), "seconds": seconds}
        write_run(self._file(name), rankings, record=lambda: record)

    def _identity(self, stage: Stage) -> list[object]:
        """The stage as a text, the content of what it reads (indexes, models, files), the queries."""
        sources = [part.sources for part in walk_stages(stage)]
        text = json.dumps([stage.text, sources], ensure_ascii=False, default=repr)
        return [text, [[query.qid, query.text] for query in self.queries]]

    def _file(self, name: str) -> Path:
        return self.folder / f"{plain_name(name)}.run.gz"


def plain_name(name: str) -> str:
    """A name as the name of a file; different names stay different."""
    plain = re.sub(r"[^\w.+-]+", "_", name).strip("_") or "_"
    return plain if plain == name else f"{plain}-{zlib.crc32(name.encode()):08x}"


def read_rankings(file: Path, queries: Sequence[Query]) -> Iterator[Ranking]:
    """The rankings of a run file for some queries, with their texts, in the order of the file."""
    known = {query.qid: query for query in queries}
    for ranking in read_run(file):
        if ranking.query.qid in known:
            yield Ranking.presorted(known[ranking.query.qid], ranking.docnos, ranking.scores)
