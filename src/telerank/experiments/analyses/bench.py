"""What an analysis reads, and making the analyses of an experiment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from telerank.errors import CollectionError, MissingExtra
from telerank.evaluation.measures import Evaluation, measure
from telerank.experiments.analysis import Analysis, AnalysisResult, Published, Unavailable, select_published
from telerank.experiments.comparison import JudgedQueries, read_rankings
from telerank.experiments.data import ExperimentData
from telerank.experiments.systems import SystemRunner, SystemRuns
from telerank.types import Qrels, Ranking


@dataclass(frozen=True)
class Bench:
    """What an analysis reads: the data, the runs of the systems, and their ``runner``.

    The runner reads pipelines over the systems and models of the experiment, and trains models. Rankings are
    cut to ``depth``.
    """

    data: ExperimentData
    systems: Mapping[str, SystemRuns]
    runner: SystemRunner
    published: Published = field(default_factory=dict)
    depth: int = 1000
    seed: int = 0

    @property
    def judged(self) -> JudgedQueries:
        """The queries that measure."""
        return self.data.judged

    def rankings(self, name: str, seed: int = 0) -> Iterator[Ranking]:
        """The rankings of a system for the measuring queries, with their texts, cut to ``depth``.

        ``seed`` is the number of the training, for a system that has several runs.
        """
        run = self.systems[name].run(seed)
        return (ranking.cut(self.depth) for ranking in read_rankings(run, self.judged.queries))

    def measure(self, name: str, measures: Sequence[str], qrels: Qrels | None = None) -> list[Evaluation]:
        """The evaluation of a system's run of each seed, by default over all queries that measure."""
        judged, progress = self.judged.qrels if qrels is None else qrels, self.data.progress
        seeds = range(len(self.systems[name].runs))
        return [measure(self.rankings(name, seed), judged, measures, progress=progress) for seed in seeds]


def analyse(bench: Bench, spec: Analysis) -> AnalysisResult:
    """Make an analysis of the systems that it names; raises Unavailable if one that it needs is missing."""
    if spec.published:
        bench = replace(bench, published=select_published(spec.published, bench.data.name))
    if spec.systems is not None:
        named = dict.fromkeys(spec.system_names)
        bench = replace(bench, systems={name: bench.systems[name] for name in named if name in bench.systems})
    if spec.needs_systems and not bench.systems:
        raise Unavailable("none of its systems is available")
    return spec.analyse(bench)


def analyse_all(bench: Bench, specs: Iterable[Analysis]) -> tuple[AnalysisResult, ...]:
    """Make analyses; the result of one that is unavailable has no table, and a note that says why.

    Raises CollectionError if none is available.
    """
    results, reasons = [], []
    for spec in specs:
        try:
            results.append(analyse(bench, spec))
        except (Unavailable, MissingExtra) as reason:
            reasons.append(f"{spec.title or spec.kind}: {reason}")
            results.append(AnalysisResult((), {}, notes=(f"Not analysed: {reasons[-1]}.",)))
    if reasons and len(reasons) == len(results):
        raise CollectionError(f"no analysis is available here: {'; '.join(reasons)}")
    return tuple(results)
