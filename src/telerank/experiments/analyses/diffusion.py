"""How similar the outputs of a pair's tokens are, before and after fine-tuning (BERT-DMN, figure 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from telerank.experiments.analyses.bench import AnalysisResult, Bench, Unavailable
from telerank.experiments.analyses.specs import DiffusionSpec

if TYPE_CHECKING:
    from telerank.inspect.diffusion import Diffusion


def analyse_diffusion(bench: Bench, spec: DiffusionSpec) -> AnalysisResult:
    """Measure the same pairs with each of the models."""
    from telerank.inspect.diffusion import DiffusionReport, measure_diffusion
    from telerank.inspect.drawn_pairs import draw_pairs, open_candidates, tokenize_drawn
    from telerank.inspect.token_outputs import move, open_checkpoint
    from telerank.models.rerankers.kinds import Shape

    data, progress = bench.data, bench.data.progress
    folders = {name: bench.runner.find_checkpoint(name) for name in spec.models}
    pool = f"{data.split}/{spec.pool}"
    if pool not in data.collection.pools:
        raise Unavailable(f"{data.collection.name} has no candidate lists {pool}")
    source = open_candidates(data.collection, pool)
    total = sum(len(ranking) for ranking in source.rankings())
    drawn = draw_pairs(source, max(1, round(spec.share * total)), seed=bench.seed, progress=progress)
    measured = {}
    for name, folder in folders.items():
        settings = bench.runner.configure_reranker(name).model
        like = Shape(max_query=settings.max_query, max_length=settings.max_length)
        reranker = move(open_checkpoint(folder, like=like), "auto")
        measured[name] = measure_diffusion(reranker, tokenize_drawn(reranker, drawn), progress=progress)
    report = DiffusionReport(measured, source.record(bench.seed))
    notes = (*report.remarks, *_compare(measured, spec.rising))
    return AnalysisResult(tuple(report.tables()), report.record(), {"diffusion": report.plot()}, notes)


def _compare(measured: Mapping[str, Diffusion], rising: tuple[str, ...]) -> Iterator[str]:
    """Whether the mean of each kind of cosines rises from model to model, as a paper says."""
    kinds = next(iter(measured.values())).spreads if rising else ()
    for kind in kinds:
        means = {name: measured[name].spreads[kind].mean for name in rising}
        holds = all(before < after for before, after in pairwise(means.values()))
        values = ", ".join(f"{name} {mean:.3f}" for name, mean in means.items())
        yield f"{kind}: the paper's order {'holds' if holds else 'does not hold'} ({values})."
