"""Maps of relevant and other pairs before and after a training (Piaf report, figures 14 and 15)."""

from __future__ import annotations

from telerank.experiments.analyses.bench import AnalysisResult, Bench, Unavailable
from telerank.experiments.analyses.specs import EmbeddingsSpec
from telerank.experiments.trained import is_training_run, model_of
from telerank.inspect.drawn_pairs import draw_by_class, open_candidates

DIMENSIONS = (3,)
"""Of the maps, as in the report's figures."""


def analyse_embeddings(bench: Bench, spec: EmbeddingsSpec) -> AnalysisResult:
    """Map the CLS outputs of the same pairs at each moment, and measure how far apart the classes lie.

    The weights after a training are those of its first seed.
    """
    from telerank.inspect.embeddings import EmbeddingsReport, MapSettings, compare_embeddings

    models = _find_models(bench, spec)
    collection, split, progress = bench.data.collection, bench.data.split, bench.data.progress
    pool = f"{split}/{spec.pool}"
    if pool not in collection.pools:
        raise Unavailable(
            f"{collection.name} has no pool {pool}; it has: {', '.join(collection.pools) or 'none'}"
        )
    source = open_candidates(collection, pool, split)
    drawn = draw_by_class(source, relevant=spec.pairs, others=spec.pairs, seed=bench.seed, progress=progress)
    settings = MapSettings(spec.perplexity, seed=bench.seed, dimensions=DIMENSIONS)
    embeddings = compare_embeddings(list(models.values()), drawn, settings, progress=progress)
    moments = dict(zip(models, embeddings.values(), strict=True))
    report = EmbeddingsReport(moments, drawn, source.record(bench.seed))
    return AnalysisResult(
        tuple(report.tables()), report.record(), {"embeddings": report.plot()}, tuple(report.remarks)
    )


def _find_models(bench: Bench, spec: EmbeddingsSpec) -> dict[str, str]:
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
