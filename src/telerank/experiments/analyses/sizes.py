"""Quality by the number of pairs that a re-ranker learns from (monoBERT, figure 1)."""

from __future__ import annotations

from statistics import fmean

from telerank.evaluation.measures import measure
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analyses.specs import SizesSpec
from telerank.experiments.analysis import AnalysisResult
from telerank.experiments.comparison import read_rankings
from telerank.experiments.published import PAPER
from telerank.experiments.schema import merge
from telerank.show.tables import Table, show_value
from telerank.training.reranker.plan import format_mean, plot_sizes


def analyse_sizes(bench: Bench, spec: SizesSpec) -> AnalysisResult:
    """Train the model of a system with each number of pairs and each seed, and measure what it re-ranks."""
    values = {pairs: _measure_size(bench, spec, pairs) for pairs in spec.pairs}
    means = [fmean(by_seed) for by_seed in values.values()]
    printed = bench.published.get(spec.system, {})
    rows = []
    for pairs, by_seed in values.items():
        row = [f"{pairs:,}", format_mean(by_seed, digits=3), show_value(printed.get(str(pairs)))]
        rows.append(row if printed else row[:2])
    rows += [
        [f"{int(pairs):,}", show_value(None), show_value(value)]
        for pairs, value in printed.items()
        if int(pairs) not in values
    ]
    heads = ("training pairs", f"{spec.measure}, {spec.system}", *([PAPER] if printed else []))
    table = Table.of(heads, rows, caption=spec.title or "Training size against quality")
    plot = plot_sizes({spec.measure: {spec.system: means}}, spec.pairs)
    record = {"pairs": spec.pairs, spec.measure: means, "by_seed": values, "published": bench.published}
    return AnalysisResult((table,), record, {"sizes": plot})


def _measure_size(bench: Bench, spec: SizesSpec, pairs: int) -> list[float]:
    """The measure for each seed."""
    runs = bench.runner.rerank_changed(spec.system, merge(spec.changes, {"data": {"pairs": pairs}}))
    lists = (read_rankings(run, bench.judged.queries) for run in runs)
    return [measure(rankings, bench.judged.qrels, spec.measure).mean[spec.measure] for rankings in lists]
