"""First stages (RepBERT): their first n documents, by n (figures 1 and 2, table 2); pairs of them, fused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product, tee
from statistics import fmean, stdev
from typing import Any, Literal, TypeAlias

import numpy as np
from pydantic import Field

from telerank.dense.retriever import DenseRetriever
from telerank.errors import MissingExtra, ModelError, count_noun
from telerank.evaluation.depth import (
    Reranker,
    RerankingByDepth,
    measure_consistency,
    measure_reranking,
    read_candidates,
    rerank_by_scores,
)
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analysis import Analysis, AnalysisResult, Depths, Measure, Unavailable
from telerank.experiments.published import depth_tables, published_matrix
from telerank.expressions import parse_expression
from telerank.fusion.lists import Fusion
from telerank.fusion.matrix import CombinationMatrix, combine_runs
from telerank.show.plots import line_plot
from telerank.show.tables import Table, show_change
from telerank.stage import Stage
from telerank.trec import read_run
from telerank.types import Ranking

# A value for each depth.
Curve: TypeAlias = tuple[float, ...]


class RecallAnalysis(Analysis):
    """Recall by depth."""

    kind: Literal["recall"]
    depths: Depths

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Measure R@n of each system for each depth n (figure 1a)."""
        names = [f"R@{depth}" for depth in self.depths]
        curves = {
            system: [tuple(run.mean[name] for name in names) for run in bench.measure(system, names)]
            for system in bench.systems
        }
        return _make_result(bench, self, curves, self.kind, ("Recall by depth", "R"))


class RerankingAnalysis(Analysis):
    """A measure of the first n documents of each system after re-ranking, by n.

    Attributes
    ----------
    rerankers
        Pipelines by name; the first that is available scores the candidates.
    """

    kind: Literal["reranking"]
    measures: Measure
    depths: Depths
    rerankers: dict[str, str] = Field(min_length=1)

    @property
    def pipeline_names(self) -> tuple[str, ...]:
        return tuple(self.rerankers)

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Re-rank each system by the first re-ranker that is available (table 2 and figure 1b)."""
        absent, failures = list[str](), list[str]()
        for name in self.rerankers:
            try:
                measured = {system: self._measure(bench, system, name) for system in bench.systems}
                break
            except Unavailable as reason:
                absent.append(f"{name}: {reason}")
            except (MissingExtra, ModelError) as reason:  # a model is loaded with the first pair
                failures.append(f"{name}: {reason}")
        else:
            raise Unavailable(f"no re-ranker is available: {'; '.join((*absent, *failures))}")
        curves = {
            system: [by_depth.of(self.measures) for by_depth in by_seed]
            for system, by_seed in measured.items()
        }
        unscored = {system: by_seed[0].unscored for system, by_seed in measured.items()}
        first = next(iter(self.rerankers))
        notes = [f"Not measured: {reason}." for reason in failures]
        notes += [] if name == first else [f"Re-ranked by {name}; the paper's values are of {first}."]
        notes += [
            f"{system}: {count_noun(count, 'candidate')} without a score from {name}, below the others."
            for system, count in unscored.items()
            if count
        ]
        texts = f"{self.measures} of the first n, re-ranked; {name}", f"{self.measures}, re-ranked"
        return _make_result(
            bench, self, curves, self.measures, texts, notes=notes, reranker=name, unscored=unscored
        )

    def _measure(self, bench: Bench, system: str, name: str) -> list[RerankingByDepth]:
        """What a re-ranker makes of a system, for each seed of either."""
        text, runner = self.rerankers[name], bench.runner
        stages = [runner.read_stage(name, text)]  # trains the models of the text
        stages += [
            runner.read_stage(name, text, position)
            for position in range(1, runner.count_seeds(parse_expression(text)))
        ]
        return [
            measure_reranking(
                bench.rankings(system, seed),
                make_reranker(stages[seed % len(stages)]),
                bench.judged.qrels,
                self.measures,
                self.depths,
                progress=bench.data.progress,
            )
            for seed in range(max(len(stages), len(bench.systems[system].runs)))
        ]


class ConsistencyAnalysis(Analysis):
    """The share of each system's first n documents that are candidates of a reference, by n.

    Attributes
    ----------
    references
        Systems; the first that is available is the reference.
    """

    kind: Literal["consistency"]
    depths: Depths
    references: tuple[str, ...] = Field(min_length=1)
    reference_depth: int = Field(1000, ge=1)

    @property
    def system_names(self) -> tuple[str, ...]:
        return (*super().system_names, *self.references)

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Compare each system with the first reference that is available (figure 2)."""
        name = next((name for name in self.references if name in bench.systems), None)
        if name is None:
            raise Unavailable(f"no reference is available: {', '.join(self.references)}")
        if len(bench.systems) < 2:
            raise Unavailable(f"there is no system to compare with the reference {name}")
        runs = bench.systems[name].runs
        references = [read_candidates(read_run(run), self.reference_depth) for run in runs]
        largest = max((len(docnos) for reference in references for docnos in reference.values()), default=0)
        measured = {
            system: [
                measure_consistency(bench.rankings(system, seed), references[seed % len(runs)], self.depths)
                for seed in range(max(len(runs), len(others.runs)))
            ]
            for system, others in bench.systems.items()
            if system != name
        }
        curves = {system: [one.values for one in by_seed] for system, by_seed in measured.items()}
        about = bench.systems[name].about
        notes = [
            f"The reference, {name} ({about}), has at most {count_noun(largest, 'candidate')} per query."
        ]
        notes += [
            f"{system}: the reference lacks {len(first.unknown)} of "
            f"{count_noun(first.queries, 'query')}, counted as 0."
            for system, (first, *_) in measured.items()
            if first.unknown
        ]
        texts = f"Consistency factor with {name}", "consistency factor"
        return _make_result(
            bench, self, curves, self.kind, texts, notes=notes, reference=name, largest=largest
        )


def _make_result(
    bench: Bench,
    spec: RecallAnalysis | RerankingAnalysis | ConsistencyAnalysis,
    curves: Mapping[str, Sequence[Curve]],
    name: str,
    texts: tuple[str, str],
    *,
    notes: Sequence[str] = (),
    **values: Any,
) -> AnalysisResult:
    """Tables and a plot of the curves of each system, one for each seed: their means.

    In JSON they have a ``name``; ``texts`` are the caption and the label of the plot.
    """
    means = {system: tuple(map(fmean, zip(*lines, strict=True))) for system, lines in curves.items()}
    several = {system: lines for system, lines in curves.items() if len(lines) > 1}
    spreads = {system: tuple(map(stdev, zip(*lines, strict=True))) for system, lines in several.items()}
    caption, changes = spec.title or texts[0], spec.kind == "reranking"
    published, depths = bench.published, spec.depths
    tables = depth_tables(means, depths, published, spreads, caption=caption, changes=changes)
    record = {"depths": depths, name: means, **values, "published": published}
    record |= {"by_seed": several} if several else {}
    return AnalysisResult(tables, record, {spec.kind: line_plot({texts[1]: means}, depths)}, tuple(notes))


def make_reranker(stage: Stage) -> Reranker:
    """The re-ranker that gives candidates the scores of a stage, whether or not it ranks them high.

    A dense retriever looks up the vectors of the candidates, a re-ranker scores them. Any other retriever, or
    a run, ranks all that it can, which suits collections of thousands of documents; a candidate that it does
    not rank gets no score.
    """
    if isinstance(stage, DenseRetriever) and stage.approximate is None:
        return rerank_by_scores(lambda ranking: _score_by_vectors(stage, ranking))

    def rerank(rankings: Iterable[Ranking]) -> Iterable[Ranking]:
        candidates, ahead = tee(rankings)
        scored = stage(ahead)
        return rerank_by_scores(lambda _: dict(next(scored)))(candidates)

    return rerank


def _score_by_vectors(stage: DenseRetriever, ranking: Ranking) -> dict[str, float]:
    docnos = {stage.vectors.docnos.row(docno): docno for docno in ranking.docnos}
    rows = np.array(sorted(docnos), np.int64)
    scores = stage.vectors.score_rows(rows, stage.encoder.encode_queries([ranking.query.text]).vectors[0])
    return {docnos[row]: score for row, score in zip(rows.tolist(), scores.tolist(), strict=True)}


class CombinationAnalysis(Analysis):
    """All ordered pairs of systems, fused.

    Attributes
    ----------
    keep
        Documents of a combination that are kept; None: as many as of a ranking (equation 6 of
        RepBERT).
    published_measures
        The measure of the published values, if it is another one, as in a small copy.
    """

    kind: Literal["combination"]
    measures: Measure
    method: Literal["interleave", "linear", "rrf"] = "interleave"
    keep: int | None = Field(None, ge=1)
    published_measures: Measure | None = None

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Fuse and measure all ordered pairs of systems; of systems with several seeds, for each seed."""
        if len(bench.systems) < 2:
            raise Unavailable(
                f"a combination needs two systems; available: {', '.join(bench.systems) or 'none'}"
            )
        fusion = Fusion(self.method, keep=self.keep or bench.depth)
        qrels, progress = bench.judged.qrels, bench.data.progress
        matrices = []
        for seed in range(max(len(runs.runs) for runs in bench.systems.values())):
            runs = {name: bench.rankings(name, seed) for name in bench.systems}
            matrices.append(combine_runs(runs, qrels, self.measures, fusion=fusion, progress=progress))
        first, by_seed = matrices[0], [_values(matrix) for matrix in matrices]
        tables = first.tables() if len(matrices) == 1 else [_mean_table(by_seed, self.measures)]
        tables = [replace(table, caption=self.title or table.caption) for table in tables]
        if bench.published:
            tables.append(published_matrix(bench.published, self.published_measures or self.measures))
        record = {
            "alone": first.alone,
            "combinations": [asdict(cell) for cell in first.cells],
            "published": bench.published,
        }
        return AnalysisResult(tuple(tables), record | ({"by_seed": by_seed} if len(matrices) > 1 else {}))


def _values(matrix: CombinationMatrix) -> dict[str, dict[str, float]]:
    """``values[first][second]``; a run alone is on the diagonal."""
    (measure,) = matrix.measures
    values = {name: {name: matrix.alone[name][measure]} for name in matrix.runs}
    for cell in matrix.cells:
        values[cell.first][cell.second] = cell.mean
    return values


def _mean_table(by_seed: Sequence[Mapping[str, Mapping[str, float]]], measure: str) -> Table:
    """The means over the seeds with their standard deviations, and the changes from the run alone."""
    rows: dict[str, dict[str, str]] = {first: {} for first in by_seed[0]}
    for first, second in product(rows, repeat=2):
        cells = [values[first][second] for values in by_seed]
        alone = fmean(values[first][first] for values in by_seed)
        change = "" if first == second else f" {show_change(fmean(cells), alone)}"
        spread = f" ± {stdev(cells):.3f}" if len(set(cells)) > 1 else ""
        rows[first][f"+ {second}"] = f"{fmean(cells):.3f}{spread}{change}"
    spread = f"± is the standard deviation over {count_noun(len(by_seed), 'seed')}"
    return Table.pivot(
        rows,
        corner="",
        caption=measure,
        notes=[f"In brackets the change from the row's run alone, which is on the diagonal; {spread}."],
    )
