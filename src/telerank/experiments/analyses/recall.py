"""Recall of each system by depth (RepBERT, figure 1a)."""

from __future__ import annotations

from telerank.evaluation.measures import measure
from telerank.experiments.analyses.bench import AnalysisResult, Bench
from telerank.experiments.analyses.specs import RecallSpec
from telerank.experiments.published import depth_tables


def analyse_recall(bench: Bench, spec: RecallSpec) -> AnalysisResult:
    """Measure R@n of each system for each depth n."""
    from telerank.show.plots import line_plot

    names = [f"R@{depth}" for depth in spec.depths]
    curves = {}
    for system in bench.systems:
        mean = measure(bench.rankings(system), bench.qrels, names, progress=bench.progress).mean
        curves[system] = tuple(mean[name] for name in names)
    caption = spec.title or "Recall by depth"
    tables = depth_tables(curves, spec.depths, bench.published, caption=caption)
    record = {"depths": spec.depths, "recall": curves, "published": bench.published}
    return AnalysisResult(tables, record, {"recall": line_plot({"R": curves}, spec.depths)})
