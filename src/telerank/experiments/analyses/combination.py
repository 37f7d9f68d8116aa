"""Fusions of all ordered pairs of systems (RepBERT, tables 3 and 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from telerank.experiments.analyses.bench import AnalysisResult, Bench, Unavailable
from telerank.experiments.analyses.specs import CombinationSpec
from telerank.experiments.published import published_matrix
from telerank.fuse.matrix import combine
from telerank.fuse.methods import make_fusion
from telerank.fuse.report import matrix_table
from telerank.types import Ranking


def analyse_combination(bench: Bench, spec: CombinationSpec) -> AnalysisResult:
    """Fuse and measure each pair.

    Raises
    ------
    Unavailable
        If fewer than two systems are available.
    """
    if len(bench.systems) < 2:
        raise Unavailable(f"a combination needs two systems; available: {', '.join(bench.systems) or 'none'}")
    fuse = make_fusion(spec.method, (0.5, 0.5))

    def fuse_and_cut(rankings: Sequence[Ranking]) -> Ranking:
        return fuse(rankings).cut(bench.depth)

    runs = {name: bench.rankings(name) for name in bench.systems}
    matrix = combine(runs, bench.qrels, spec.measure, fusion=fuse_and_cut, progress=bench.progress)
    tables = [matrix_table(matrix, spec.measure)]
    if bench.published:
        tables.append(published_matrix(bench.published, spec.measure))
    cells = [asdict(cell) for cell in matrix.cells]
    record = {"alone": matrix.alone, "combinations": cells, "published": bench.published}
    return AnalysisResult(tuple(tables), record)
