"""How similar the outputs of a pair's tokens are, before and after fine-tuning (BERT-DMN, figure 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analysis import (
    Analysis,
    AnalysisResult,
    Unavailable,
)

if TYPE_CHECKING:
    from telerank.inspect.diffusion import Diffusion


class DiffusionAnalysis(Analysis):
    """Cosines of the outputs of a pair's tokens, of several re-rankers (BERT-DMN, figure 3)."""

    kind: Literal["diffusion"]
    models: Annotated[tuple[str, ...], Field(min_length=1)]
    """Re-rankers of the experiment; one with a frozen encoder need not be trained."""
    pool: str
    """The pool of the split, of all of its queries, from which pairs are drawn by the experiment's seed."""
    share: float = Field(0.1, gt=0, le=1)
    """The share of the pairs that is drawn."""
    rising: tuple[str, ...] = ()
    """The models in the order in which a paper says that their cosines rise; the results compare."""

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Measure the same pairs with each of the models."""
        from telerank.inspect.diffusion import DiffusionReport, measure_diffusion
        from telerank.inspect.drawn_pairs import draw_pairs, open_candidates, tokenize_drawn
        from telerank.inspect.token_outputs import move, open_checkpoint
        from telerank.models.rerankers.kinds import Shape

        data, progress = bench.data, bench.data.progress
        folders = {name: bench.runner.find_checkpoint(name) for name in self.models}
        pool = f"{data.split}/{self.pool}"
        if pool not in data.collection.pools:
            raise Unavailable(f"{data.collection.name} has no candidate lists {pool}")
        source = open_candidates(data.collection, pool)
        total = sum(len(ranking) for ranking in source.rankings())
        drawn = draw_pairs(source, max(1, round(self.share * total)), seed=bench.seed, progress=progress)
        measured = {}
        for name, folder in folders.items():
            settings = bench.runner.configure_reranker(name).model
            like = Shape(max_query=settings.max_query, max_length=settings.max_length)
            reranker = move(open_checkpoint(folder, like=like), "auto")
            measured[name] = measure_diffusion(reranker, tokenize_drawn(reranker, drawn), progress=progress)
        report = DiffusionReport(measured, source.record(bench.seed))
        notes = (*report.remarks, *_compare(measured, self.rising))
        return AnalysisResult(tuple(report.tables()), report.record(), {"diffusion": report.plot()}, notes)


def _compare(measured: Mapping[str, Diffusion], rising: tuple[str, ...]) -> Iterator[str]:
    """Whether the mean of each kind of cosines rises from model to model, as a paper says."""
    kinds = next(iter(measured.values())).spreads if rising else ()
    for kind in kinds:
        means = {name: measured[name].spreads[kind].mean for name in rising}
        holds = all(before < after for before, after in pairwise(means.values()))
        values = ", ".join(f"{name} {mean:.3f}" for name, mean in means.items())
        yield f"{kind}: the paper's order {'holds' if holds else 'does not hold'} ({values})."
