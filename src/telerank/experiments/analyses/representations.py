"""Tokens and pairs before and after a training: how similar, how far apart (BERT-DMN, Piaf report)."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analysis import Analysis, AnalysisResult, Unavailable
from telerank.experiments.trained import is_training_run, model_of


class DiffusionAnalysis(Analysis):
    """Cosines of the outputs of a pair's tokens, of several re-rankers (BERT-DMN, figure 3).

    Attributes
    ----------
    models
        Re-rankers of the experiment; one with a frozen encoder need not be trained.
    pool
        The pool of the split, of all of its queries, from which pairs are drawn by the experiment's
        seed.
    share
        The share of the pairs that is drawn.
    rising
        The models in the order in which a paper says that their cosines rise; the results compare.
    """

    kind: Literal["diffusion"]
    models: Annotated[tuple[str, ...], Field(min_length=1)]
    pool: str
    share: float = Field(0.1, gt=0, le=1)
    rising: tuple[str, ...] = ()

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Measure the same pairs with each of the models."""
        from telerank.inspect.diffusion import DiffusionReport, measure_diffusion
        from telerank.inspect.drawn_pairs import (
            draw_pairs,
            move,
            open_candidates,
            open_checkpoint,
            tokenize_drawn,
        )
        from telerank.models.rerankers.kinds import Shape

        data, progress = bench.data, bench.data.progress
        folders = {name: bench.runner.find_checkpoint(name) for name in self.models}
        pool = f"{data.split}/{self.pool}"
        if pool not in data.collection.pools:
            raise Unavailable(f"{data.collection.name} has no candidate lists {pool}")
        source = open_candidates(data.collection, pool)
        drawn = draw_pairs(
            source,
            max(1, round(self.share * sum(len(ranking) for ranking in source.rankings()))),
            seed=bench.seed,
            progress=progress,
        )
        measured = {}
        for name, folder in folders.items():
            settings = bench.runner.configure_reranker(name).model
            like = Shape(max_query=settings.max_query, max_length=settings.max_length)
            reranker = move(open_checkpoint(folder, like=like), "auto")
            measured[name] = measure_diffusion(reranker, tokenize_drawn(reranker, drawn), progress=progress)
        report = DiffusionReport(measured, source.record(bench.seed))
        notes = list(report.remarks)
        for kind in next(iter(measured.values())).spreads if self.rising else ():
            means = {name: measured[name].spreads[kind].mean for name in self.rising}
            holds = all(before < after for before, after in pairwise(means.values()))
            values = ", ".join(f"{name} {mean:.3f}" for name, mean in means.items())
            notes.append(f"{kind}: the paper's order {'holds' if holds else 'does not hold'} ({values}).")
        return AnalysisResult(
            tuple(report.tables()), report.record(), {"diffusion": report.plot()}, tuple(notes)
        )


# Of the maps, as in the report's figures.
DIMENSIONS = (3,)


class EmbeddingsAnalysis(Analysis):
    """Maps of relevant and other pairs before and after a training (Piaf report, figures 14 and 15).

    Attributes
    ----------
    before
        A re-ranker that the experiment trains: the encoder that its training starts from.
    after
        A system ``CANDIDATES >> rerank(MODEL)``: the encoder as it has trained it.
    pool
        The pool of the split whose pairs are the other class.
    pairs
        Number of pairs of each class, drawn by the seed of the experiment.
    perplexity
        Of t-SNE: about the number of neighbours that it considers.
    """

    kind: Literal["embeddings"]
    before: str | None = None
    after: str | None = None
    pool: str = "negatives"
    pairs: int = Field(250, ge=1)
    perplexity: float = Field(30.0, gt=0)
    needs_systems: ClassVar[bool] = False

    named_by: ClassVar[tuple[str, ...]] = ("after",)

    @model_validator(mode="after")
    def _has_a_moment(self) -> Self:
        if self.before is None and self.after is None:
            raise ValueError("expected before, after or both, got none")
        return self

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Map the CLS outputs of the same pairs at each moment, and measure how far apart the classes lie.

        The weights after a training are those of its first seed.
        """
        from telerank.inspect.drawn_pairs import draw_by_class, open_candidates
        from telerank.inspect.embeddings import EmbeddingsReport, MapSettings, compare_embeddings

        models = {}
        if self.before is not None:
            models["before"] = bench.runner.trainer.find_start(self.before)
        if self.after is not None:
            system = bench.systems.get(self.after)
            if system is None or not is_training_run(system.runs[0]):
                raise Unavailable(f"{self.after} is no system that trains a re-ranker here")
            models["after"] = str(model_of(system.runs[0]))
        collection, progress = bench.data.collection, bench.data.progress
        pool = f"{bench.data.split}/{self.pool}"
        if pool not in collection.pools:
            known = ", ".join(collection.pools) or "none"
            raise Unavailable(f"{collection.name} has no pool {pool}; it has: {known}")
        source = open_candidates(collection, pool, bench.data.split)
        drawn = draw_by_class(
            source, relevant=self.pairs, others=self.pairs, seed=bench.seed, progress=progress
        )
        embeddings = compare_embeddings(
            list(models.values()),
            drawn,
            MapSettings(self.perplexity, seed=bench.seed, dimensions=DIMENSIONS),
            progress=progress,
        )
        report = EmbeddingsReport(
            dict(zip(models, embeddings.values(), strict=True)), drawn, source.record(bench.seed)
        )
        return AnalysisResult(
            tuple(report.tables()), report.record(), {"embeddings": report.plot()}, tuple(report.remarks)
        )
