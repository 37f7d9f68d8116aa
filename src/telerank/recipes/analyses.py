"""The analyses of a recipe: what is measured of its systems, as tables, plots and records."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telerank.errors import CollectionError, MissingExtra
from telerank.evaluate.consistency import Reference, measure_consistency
from telerank.evaluate.latency import Latency, time_stage
from telerank.evaluate.measures import Evaluation, measure
from telerank.evaluate.reranking import Reranker, measure_reranking, rerank_by_run
from telerank.experiments.provenance import load
from telerank.fuse.matrix import combine_runs
from telerank.fuse.methods import Fusion
from telerank.fuse.report import matrix_table
from telerank.recipes import schema
from telerank.recipes.beside import Measured, depths_tables, published_matrix, quality_table
from telerank.recipes.candidates import scoring
from telerank.recipes.made import Made, Unavailable
from telerank.recipes.systems import Workshop
from telerank.show.tables import Table
from telerank.trec import read_run
from telerank.types import Progress, Qrels, Query, Ranking

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Bench:
    """What an analysis is made on."""

    recipe: schema.Recipe
    workshop: Workshop
    qrels: Qrels
    made: Mapping[str, Made]
    progress: Progress

    @property
    def queries(self) -> Sequence[Query]:
        return self.workshop.queries

    def lists(self, name: str) -> Iterator[Ranking]:
        """A system's run: of the judged queries, with their texts, at the recipe's depth."""
        return self.lists_of(self.made[name].run)

    def lists_of(self, run: Path) -> Iterator[Ranking]:
        """A run file's lists in the same way."""
        queries = {query.qid: query for query in self.queries}  # a run file holds no texts
        for one in read_run(run):
            if one.query.qid in queries:
                found = Ranking.presorted(queries[one.query.qid], one.docnos, one.scores)
                yield found.cut(self.recipe.depth)


@dataclass(frozen=True)
class Result:
    """Tables to read, plots by name, every figure for programs, and what must be said of them."""

    tables: tuple[Table, ...]
    record: Mapping[str, Any]
    plots: Mapping[str, Figure] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def analyse(bench: Bench) -> Result:
    """The analysis of the bench's recipe.

    Raises
    ------
    CollectionError
        where no system, reference or re-ranker that it needs can be had.
    """
    if not bench.made:
        raise CollectionError("none of the recipe's systems can be had here")
    match bench.recipe.analysis:
        case schema.Quality() as spec:
            return _quality(bench, spec)
        case schema.Recall() as spec:
            return _recall(bench, spec)
        case schema.Reranking() as spec:
            return _reranking(bench, spec)
        case schema.Consistency() as spec:
            return _consistency(bench, spec)
        case schema.Combination() as spec:
            return _combination(bench, spec)


def _quality(bench: Bench, spec: schema.Quality) -> Result:
    names = spec.measures
    means, times, spread, by_seed = {}, {}, {}, {}
    for name, made in bench.made.items():
        of_seeds = [_evaluated_run(bench, run, names).mean for run in made.runs]
        means[name] = {one: statistics.fmean(values[one] for values in of_seeds) for one in names}
        if len(of_seeds) > 1:
            spread[name] = {one: statistics.stdev(values[one] for values in of_seeds) for one in names}
            by_seed[name] = of_seeds
        if made.stage is not None:
            sample, seed = spec.latency_queries, bench.recipe.seed
            times[name] = time_stage(
                made.stage, bench.queries, sample=sample, seed=seed, progress=bench.progress
            )
    measured = Measured(means, spread, times)
    table = quality_table(measured, spec.published, names, systems=tuple(bench.recipe.systems))
    record = {
        "means": means,
        "standard_deviation": spread,
        "by_seed": by_seed,
        "latency_ms": {name: asdict(one) for name, one in times.items()},
        "published": spec.published,
    }
    several = ("± is the standard deviation over the seeds of a training.",) if spread else ()
    return Result((table,), record, notes=(*several, *_timed(times)))


def _timed(times: Mapping[str, Latency]) -> tuple[str, ...]:
    if not times:
        return ()
    queries = next(iter(times.values())).queries
    now = load()
    busy = "" if now is None else f"; {now:.1f} processes wanted a core"
    return (f"ms/query: wall time, one query at a time, mean of {queries} queries{busy}.",)


def _recall(bench: Bench, spec: schema.Recall) -> Result:
    from telerank.show.plots import line_plot

    names = [f"R@{depth}" for depth in spec.depths]
    curves = {}
    for name in bench.made:
        mean = _evaluated(bench, name, names).mean
        curves[name] = tuple(mean[one] for one in names)
    tables = depths_tables(curves, spec.depths, spec.published, caption="Recall by depth")
    record = {"depths": spec.depths, "recall": curves, "published": spec.published}
    return Result(tables, record, {"recall": line_plot({"R": curves}, spec.depths)})


def _reranking(bench: Bench, spec: schema.Reranking) -> Result:
    from telerank.show.plots import line_plot

    measured = spec.measure
    by, reranker = _reranker(bench, spec)
    curves, unscored = {}, {}
    for name in bench.made:
        found = measure_reranking(
            bench.lists(name), reranker, bench.qrels, measured, spec.depths, progress=bench.progress
        )
        curves[name], unscored[name] = found.of(measured), found.unscored
    caption = f"{measured} of the first n, re-ranked; {by}"
    tables = depths_tables(curves, spec.depths, spec.published, caption=caption, changes=True)
    paper = next(iter(spec.rerankers))
    notes = [] if by == paper else [f"Re-ranked by {by}; the paper's values are of {paper}."]
    notes += [
        f"{name}: {count:,} candidates have no score from {by}: they stay below the others."
        for name, count in unscored.items()
        if count
    ]
    record = {"depths": spec.depths, "reranker": by, measured: curves, "unscored": unscored}
    record |= {"published": spec.published}
    plot = line_plot({f"{measured}, re-ranked": curves}, spec.depths)
    return Result(tables, record, {"reranking": plot}, tuple(notes))


def _reranker(bench: Bench, spec: schema.Reranking) -> tuple[str, Reranker]:
    """The first re-ranker that can be had, and its name."""
    reasons = []
    for name, system in spec.rerankers.items():
        try:
            chosen = bench.workshop.chosen(name, system)
            if chosen.run is not None:
                return name, rerank_by_run(read_run(chosen.run))
            return name, scoring(bench.workshop.stage(chosen))
        except (Unavailable, MissingExtra) as reason:
            reasons.append(f"{name}: {reason}")
    raise CollectionError(f"no re-ranker can be had here: {'; '.join(reasons)}")


def _consistency(bench: Bench, spec: schema.Consistency) -> Result:
    from telerank.show.plots import line_plot

    chosen = next((name for name in spec.references if name in bench.made), None)
    if chosen is None:
        raise CollectionError(f"none of the references can be had here: {', '.join(spec.references)}")
    if len(bench.made) < 2:
        raise CollectionError(f"nothing is here to compare with the reference {chosen}")
    reference = Reference.of(read_run(bench.made[chosen].run), spec.reference_depth)
    largest = max(map(len, reference.candidates.values()), default=0)
    found = {
        name: measure_consistency(bench.lists(name), reference, spec.depths)
        for name in bench.made
        if name != chosen
    }
    curves = {name: one.values for name, one in found.items()}
    tables = depths_tables(curves, spec.depths, spec.published, caption=f"Consistency factor with {chosen}")
    notes = [
        f"The reference, {chosen} ({bench.made[chosen].how}), has at most {largest:,} candidates a query."
    ]
    notes += [
        f"{name}: the reference lacks {len(one.unknown)} of {one.queries} queries: they count 0."
        for name, one in found.items()
        if one.unknown
    ]
    record = {"depths": spec.depths, "reference": chosen, "largest": largest, "consistency": curves}
    record |= {"published": spec.published}
    plots = {"consistency": line_plot({"consistency factor": curves}, spec.depths)}
    return Result(tables, record, plots, tuple(notes))


def _combination(bench: Bench, spec: schema.Combination) -> Result:
    fusion = Fusion(spec.method, keep=bench.recipe.depth)
    if len(bench.made) < 2:
        raise CollectionError(f"a combination is of two systems; here is only {', '.join(bench.made)}")
    runs = {name: bench.lists(name) for name in bench.made}
    matrix = combine_runs(runs, bench.qrels, spec.measure, fusion=fusion, progress=bench.progress)
    tables = [matrix_table(matrix, spec.measure)]
    if spec.published:
        tables.append(published_matrix(spec.published, spec.measure))
    cells = [asdict(one) for one in matrix.cells]
    record = {"alone": matrix.alone, "combinations": cells, "published": spec.published}
    return Result(tuple(tables), record)


def _evaluated(bench: Bench, name: str, names: Sequence[str]) -> Evaluation:
    return _evaluated_run(bench, bench.made[name].run, names)


def _evaluated_run(bench: Bench, run: Path, names: Sequence[str]) -> Evaluation:
    return measure(bench.lists_of(run), bench.qrels, names, progress=bench.progress)
