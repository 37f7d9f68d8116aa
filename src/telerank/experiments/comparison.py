"""Systems side by side, as ``telerank.experiment`` measures them; a stage that several share is run once."""

from __future__ import annotations

import dataclasses
import json
import random
import re
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from telerank.corpus.collection import Collection
from telerank.errors import CollectionError, count_noun, known_names
from telerank.evaluation.compare import Comparison, compare_evaluations, comparison_table
from telerank.evaluation.measures import Evaluation, MeasureNames, measure, parse_measures
from telerank.pipelines.run_files import ListedRankings
from telerank.show.report import Report
from telerank.show.tables import Table
from telerank.stage import Chain, Stage, inner_stages, walk_stages
from telerank.trec import read_run, write_run
from telerank.types import Progress, Qrels, Query, Ranking, silent

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class JudgedQueries:
    """Queries with their judgments; every query of ``qrels`` counts in a mean."""

    queries: tuple[Query, ...]
    qrels: Qrels

    @classmethod
    def of(cls, collection: Collection, split: str | None = None) -> JudgedQueries:
        """The judged queries of a split; raises CollectionError if there are none."""
        qrels = collection.judged(split)
        queries = tuple(query for query in collection.split_queries(split) if query.qid in qrels)
        if not queries:
            raise CollectionError(
                f"{collection.name}: no query of split {collection.resolve_split(split)} is judged"
            )
        return cls(queries, {query.qid: qrels[query.qid] for query in queries})

    def deal(
        self, dev: int, measuring: int | None = None, seed: int = 0
    ) -> tuple[JudgedQueries, JudgedQueries]:
        """``dev`` queries that choose, and ``measuring`` others (None: all others), drawn by ``seed``.

        The order of the queries does not matter to the draw, and stays in both parts.
        """
        deck = sorted(query.qid for query in self.queries)
        count = len(deck) - dev if measuring is None else measuring
        if dev < 2 or count < 1 or dev + count > len(deck):
            rest = "the others" if measuring is None else measuring
            raise CollectionError(
                f"{count_noun(len(deck), 'judged query')} cannot be dealt into {dev} that choose "
                f"and {rest} that measure"
            )
        random.Random(seed).shuffle(deck)
        return self.select(deck[:dev]), self.select(deck[dev : dev + count])

    def select(self, qids: Iterable[str]) -> JudgedQueries:
        """Those of the queries that have these qids."""
        kept = set(qids)
        queries = tuple(query for query in self.queries if query.qid in kept)
        return JudgedQueries(queries, {query.qid: self.qrels[query.qid] for query in queries})


_BATCH = 256  # queries whose rankings are held at a time

# A pipeline, or a run in memory.
System: TypeAlias = Stage | Iterable[Ranking]
# A stage and the stages of the chain before it: together they decide its rankings.
Node: TypeAlias = tuple[tuple[Stage, ...], Stage]


class SystemRun(tuple[Ranking, ...]):
    """The rankings of one system, in the order of the queries."""

    __slots__ = ()

    def save(self, path: str | Path) -> None:
        """Write them as a TREC run file; ``.gz`` packs it."""
        write_run(path, self)


@dataclass(frozen=True, eq=False)
class ExperimentResult(Report):
    """Measures of several systems on the same queries, and which differences are significant.

    ``milliseconds`` are the wall time per query of the stages of each system, queries being answered in
    batches; those of a stage that systems share count for each. ``notes`` are further remarks.
    """

    comparison: Comparison
    runs: Mapping[str, SystemRun]
    milliseconds: Mapping[str, float]
    title: str = ""
    notes: tuple[str, ...] = ()

    @property
    def remarks(self) -> list[str]:
        """What counts 0 or does not count, and judged documents that an index lacks."""
        return [*self.notes, *self.comparison.remarks]

    @property
    def evaluations(self) -> Mapping[str, Evaluation]:
        """The values of each system, query by query."""
        return self.comparison.evaluations

    def run(self, system: str) -> SystemRun:
        """The rankings of a system; raises CollectionError if there is no such system."""
        if system not in self.runs:
            raise CollectionError(f"no system {system!r}; {known_names(self.runs, str(system))}")
        return self.runs[system]

    def tables(self) -> list[Table]:
        """A row for each system: means with the marks of significant differences, milliseconds per query."""
        means = comparison_table(self.comparison)
        rows = [
            (*row, self.milliseconds[name]) for row, name in zip(means.rows, self.evaluations, strict=True)
        ]
        how = "ms/query: wall time, queries in batches; a stage that systems share counts for each."
        files = (
            f"{name}: {line}"
            for name, evaluation in self.evaluations.items()
            for line in evaluation.relevant.describe_files()
        )
        caption, notes = self.title or means.caption, (*means.notes, how, *self.notes, *files)
        return [Table.of((*means.columns, "ms/query"), rows, caption=caption, notes=notes, form=".2f")]

    def record(self) -> dict[str, Any]:
        """Every value, for JSON."""
        return {
            "title": self.title,
            "baselines": list(self.comparison.baselines),
            "systems": {
                name: {
                    "mean": evaluation.mean,
                    "milliseconds_per_query": self.milliseconds[name],
                    "per_query": {measure: evaluation.of(measure) for measure in evaluation.measures},
                }
                for name, evaluation in self.evaluations.items()
            },
            "differences": [asdict(difference) for difference in self.comparison.differences],
        }

    def to_pandas(self) -> pd.DataFrame:
        """A row for each system and query, a column for each measure; needs pandas."""
        return self.comparison.to_pandas()

    def __repr__(self) -> str:
        return f"ExperimentResult({', '.join(self.evaluations)}: {', '.join(self.comparison.measures)})"


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
    runs, seconds, stages = dict[str, list[Ranking]](), dict[str, float](), dict[str, Stage]()
    for name, system in systems.items():
        if not isinstance(system, Stage):
            runs[name], seconds[name] = _align(system, judged.queries), 0.0
        elif kept and (run := kept.read(name, system)) is not None:
            runs[name], seconds[name] = run
        else:
            stages[name] = system
    rankings, times = run_systems(stages, judged.queries, progress=progress)
    for name, stage in stages.items():
        if kept:
            kept.write(name, stage, rankings[name], times[name])
    runs, seconds = runs | rankings, {**seconds, **times}
    comparison = compare_evaluations(
        {name: measure(runs[name], judged.qrels, names, progress=progress) for name in systems},
        list(baselines),
    )
    return ExperimentResult(
        comparison,
        {name: SystemRun(runs[name]) for name in systems},
        {name: 1000.0 * seconds[name] / max(1, len(judged.queries)) for name in systems},
    )


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
        text = json.dumps(
            [stage.text, [part.sources for part in walk_stages(stage)]], ensure_ascii=False, default=repr
        )
        return [text, [[query.qid, query.text] for query in self.queries]]

    def _file(self, name: str) -> Path:
        return self.folder / f"{plain_name(name)}.run.gz"


def run_systems(
    systems: Mapping[str, Stage], queries: Sequence[Query], *, progress: Progress = silent
) -> tuple[dict[str, list[Ranking]], dict[str, float]]:
    """The rankings of every system in the order of the queries, and the seconds that its stages took.

    A stage that stands behind the same stages in several systems is run once for all of them, and so is a
    stage inside of a sum or a fusion; its seconds count for each system.
    """
    seconds: defaultdict[Node, float] = defaultdict(float)
    nodes: dict[str, set[Node]] = {name: set() for name in systems}
    rankings: dict[str, list[Ranking]] = {name: [] for name in systems}
    stream = iter(queries)
    while batch := list(islice(stream, _BATCH)):
        shared = _Batch([Ranking(query) for query in batch], seconds)
        for name, stage in systems.items():
            rankings[name] += shared.run(stage, (), nodes[name])
            progress(f"running {name}", len(rankings[name]), len(queries))
    return rankings, {name: sum(seconds[node] for node in nodes[name]) for name in systems}


@dataclass
class _Batch:
    """Rankings of a batch of queries by node; ``seconds`` is added to."""

    bare: list[Ranking]
    seconds: defaultdict[Node, float]
    known: dict[Node, list[Ranking]] = field(default_factory=dict)

    def run(self, stage: Stage, before: tuple[Stage, ...], nodes: set[Node]) -> list[Ranking]:
        """The rankings of ``stage`` behind the stages ``before``; the nodes that took part are added."""
        if isinstance(stage, Chain):
            for part in stage.stages:
                rankings = self.run(part, before, nodes)
                before = (*before, part)
            return rankings
        node, runnable = (before, stage), stage
        # what overrides ``after`` gives what it is fed to each of the stages that it is made of
        if type(stage).after is not Stage.after and dataclasses.is_dataclass(stage):
            answers = {
                name: ListedRankings.of("a stage", self.run(inner, before, nodes))
                if isinstance(inner, Stage)
                else tuple(ListedRankings.of("a stage", self.run(part, before, nodes)) for part in inner)
                for name, inner in inner_stages(stage).items()
            }
            runnable = dataclasses.replace(stage, **answers)
        nodes.add(node)
        if node not in self.known:
            rankings = self.known[before[:-1], before[-1]] if before else self.bare
            began = time.perf_counter()
            self.known[node] = list(runnable(rankings))
            self.seconds[node] += time.perf_counter() - began
        return self.known[node]


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
