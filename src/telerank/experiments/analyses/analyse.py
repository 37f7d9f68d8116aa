"""Making the analyses of an experiment: which function makes which kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from telerank.errors import CollectionError
from telerank.experiments.analyses.bench import AnalysisResult, Bench, Unavailable
from telerank.experiments.analyses.by_depth import analyse_consistency, analyse_recall, analyse_reranking
from telerank.experiments.analyses.quality import analyse_quality
from telerank.experiments.analyses.specs import AnalysisSpec, CombinationSpec, select_published
from telerank.experiments.analyses.tuning import analyse_tuning
from telerank.experiments.published import published_matrix
from telerank.fusion.lists import Fusion
from telerank.fusion.matrix import combine_runs


def analyse_combination(bench: Bench, spec: CombinationSpec) -> AnalysisResult:
    """Fuse and measure all ordered pairs of systems (RepBERT, tables 3 and 4)."""
    if len(bench.systems) < 2:
        raise Unavailable(f"a combination needs two systems; available: {', '.join(bench.systems) or 'none'}")
    runs = {name: bench.rankings(name) for name in bench.systems}
    fusion = Fusion(spec.method, keep=bench.depth)
    matrix = combine_runs(runs, bench.judged.qrels, spec.measure, fusion=fusion, progress=bench.data.progress)
    tables = matrix.tables()
    if bench.published:
        tables.append(published_matrix(bench.published, spec.measure))
    cells = [asdict(cell) for cell in matrix.cells]
    record = {"alone": matrix.alone, "combinations": cells, "published": bench.published}
    return AnalysisResult(tuple(tables), record)


_ANALYSES: Mapping[str, Callable[[Bench, Any], AnalysisResult]] = {
    "quality": analyse_quality,
    "recall": analyse_recall,
    "reranking": analyse_reranking,
    "consistency": analyse_consistency,
    "combination": analyse_combination,
    "tuning": analyse_tuning,
}


def analyse(bench: Bench, spec: AnalysisSpec) -> AnalysisResult:
    """Make an analysis of the systems that it names; raises Unavailable if one that it needs is missing."""
    if spec.published:
        bench = replace(bench, published=select_published(spec.published, bench.data.name))
    if spec.systems is not None:
        names = [name for name in dict.fromkeys(spec.system_names) if name in bench.systems]
        bench = replace(bench, systems={name: bench.systems[name] for name in names})
    if spec.kind != "tuning" and not bench.systems:
        raise Unavailable("none of its systems is available")
    return _ANALYSES[spec.kind](bench, spec)


def analyse_all(bench: Bench, specs: Iterable[AnalysisSpec]) -> tuple[AnalysisResult, ...]:
    """Make analyses; the result of one that is unavailable has no table, and a note that says why.

    Raises CollectionError if none is available.
    """
    results, reasons = [], []
    for spec in specs:
        try:
            results.append(analyse(bench, spec))
        except Unavailable as reason:
            reasons.append(f"{spec.title or spec.kind}: {reason}")
            results.append(AnalysisResult((), {}, notes=(f"Not analysed: {reasons[-1]}.",)))
    if reasons and len(reasons) == len(results):
        raise CollectionError(f"no analysis is available here: {'; '.join(reasons)}")
    return tuple(results)
