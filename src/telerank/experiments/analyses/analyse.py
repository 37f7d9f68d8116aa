"""Making the analyses of an experiment: which function makes which kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module

from telerank.errors import CollectionError, MissingExtra
from telerank.experiments.analyses.bench import AnalysisResult, Bench, Unavailable
from telerank.experiments.analyses.specs import AnalysisSpec, select_published

_ANALYSES = {
    "quality": "quality.analyse_quality",
    "recall": "by_depth.analyse_recall",
    "reranking": "by_depth.analyse_reranking",
    "consistency": "by_depth.analyse_consistency",
    "combination": "combination.analyse_combination",
    "tuning": "tuning.analyse_tuning",
    "ranking-set": "ranking_set.analyse_ranking_set",
    "losses": "trainings.analyse_losses",
    "embeddings": "embeddings.analyse_embeddings",
    "grid": "trainings.analyse_grid",
    "sizes": "sizes.analyse_sizes",
    "statistics": "statistics.analyse_statistics",
    "throughput": "throughput.analyse_throughput",
    "diffusion": "diffusion.analyse_diffusion",
    "positions": "long_documents.positions.analyse_positions",
    "behind-first": "long_documents.behind_first.analyse_behind_first",
    "answers": "telerank.experiments.answers.reading.analyse_answers",
    "answer-sizes": "telerank.experiments.answers.sizes.analyse_answer_sizes",
    "end-to-end": "telerank.experiments.answers.end_to_end.analyse_end_to_end",
    "segments": "long_documents.segments.analyse_segments",
    "iterations": "long_documents.iterations.analyse_iterations",
}
"""The module and the function of each kind; some need torch, and all are loaded when they are first used."""


def analyse(bench: Bench, spec: AnalysisSpec) -> AnalysisResult:
    """Make an analysis of the systems that it names; raises Unavailable if one that it needs is missing."""
    if spec.published:
        bench = replace(bench, published=select_published(spec.published, bench.data.name))
    if spec.systems is not None:
        names = [name for name in dict.fromkeys(spec.system_names) if name in bench.systems]
        bench = replace(bench, systems={name: bench.systems[name] for name in names})
    if spec.needs_systems and not bench.systems:
        raise Unavailable("none of its systems is available")
    module, _, function = _ANALYSES[spec.kind].rpartition(".")
    make: Callable[[Bench, AnalysisSpec], AnalysisResult]
    whole = module if module.startswith("telerank.") else f"{__package__}.{module}"
    make = getattr(import_module(whole), function)
    return make(bench, spec)


def analyse_all(bench: Bench, specs: Iterable[AnalysisSpec]) -> tuple[AnalysisResult, ...]:
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
