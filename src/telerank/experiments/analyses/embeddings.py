"""Maps of relevant and other pairs before and after a training (Piaf report, figures 14 and 15)."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analysis import (
    Analysis,
    AnalysisResult,
    Unavailable,
)
from telerank.experiments.trained import is_training_run, model_of

DIMENSIONS = (3,)
"""Of the maps, as in the report's figures."""


class EmbeddingsAnalysis(Analysis):
    """Maps of relevant and other pairs before and after a training (Piaf report, figures 14 and 15)."""

    kind: Literal["embeddings"]
    before: str | None = None
    """A re-ranker that the experiment trains: the encoder that its training starts from."""
    after: str | None = None
    """A system ``CANDIDATES >> rerank(MODEL)``: the encoder as it has trained it."""
    pool: str = "negatives"
    """The pool of the split whose pairs are the other class."""
    pairs: int = Field(250, ge=1)
    """Number of pairs of each class, drawn by the seed of the experiment."""
    perplexity: float = Field(30.0, gt=0)
    """Of t-SNE: about the number of neighbours that it considers."""
    needs_systems: ClassVar[bool] = False

    @property
    def system_names(self) -> tuple[str, ...]:
        return (*super().system_names, *filter(None, (self.after,)))

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

        models = _find_models(bench, self)
        collection, split, progress = bench.data.collection, bench.data.split, bench.data.progress
        pool = f"{split}/{self.pool}"
        if pool not in collection.pools:
            raise Unavailable(
                f"{collection.name} has no pool {pool}; it has: {', '.join(collection.pools) or 'none'}"
            )
        source = open_candidates(collection, pool, split)
        drawn = draw_by_class(
            source, relevant=self.pairs, others=self.pairs, seed=bench.seed, progress=progress
        )
        settings = MapSettings(self.perplexity, seed=bench.seed, dimensions=DIMENSIONS)
        embeddings = compare_embeddings(list(models.values()), drawn, settings, progress=progress)
        moments = dict(zip(models, embeddings.values(), strict=True))
        report = EmbeddingsReport(moments, drawn, source.record(bench.seed))
        return AnalysisResult(
            tuple(report.tables()), report.record(), {"embeddings": report.plot()}, tuple(report.remarks)
        )


def _find_models(bench: Bench, spec: EmbeddingsAnalysis) -> dict[str, str]:
    """What the training of the re-ranker starts from, and what it has made, by moment."""
    models = {}
    if spec.before is not None:
        models["before"] = bench.runner.trainer.find_start(spec.before)
    if spec.after is not None:
        system = bench.systems.get(spec.after)
        if system is None or not is_training_run(system.runs[0]):
            raise Unavailable(f"{spec.after} is no system that trains a re-ranker here")
        models["after"] = str(model_of(system.runs[0]))
    return models
