"""Fusions of all ordered pairs of systems (RepBERT, tables 3 and 4)."""

from __future__ import annotations

from dataclasses import asdict

from telerank.experiments.analyses.bench import AnalysisResult, Bench, Unavailable
from telerank.experiments.analyses.specs import CombinationSpec
from telerank.experiments.published import published_matrix
from telerank.fusion.lists import Fusion
from telerank.fusion.matrix import combine_runs


def analyse_combination(bench: Bench, spec: CombinationSpec) -> AnalysisResult:
    """Fuse and measure each pair."""
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
