"""The retriever over an index's weights of terms, with what gives weights to queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from telerank.errors import ArgumentError
from telerank.retrieval.model_sources import locate_model
from telerank.sparse.index import SparseIndex
from telerank.sparse.weights.encoder import TermEncoder
from telerank.sparse.weights.retriever import (
    CountedTerms,
    ImpactRetriever,
    ModelWeights,
    QueryVectors,
    QueryWeights,
    WeightTable,
    require_weights,
)


def open_impact(
    index: SparseIndex,
    folder: Path,
    sources: Mapping[str, str | Path | None],
    models: Mapping[str, str | Path] | None = None,
    open_encoder: Callable[[str], TermEncoder] | None = None,
) -> ImpactRetriever:
    """The retriever whose queries get weights from one of ``sources``: model, queries, table; or from none.

    Models are looked for among ``models``, and with the index; ``open_encoder`` opens one otherwise. Raises
    as :meth:`telerank.Index.impact`.
    """
    entry = require_weights(index)
    given = {name: str(value) for name, value in sources.items() if value is not None}
    if len(given) > 1:
        raise ArgumentError(f"impact: give one of model, queries and table, not {' and '.join(given)}")
    weights: QueryWeights = CountedTerms()
    if "queries" in given:
        weights = QueryVectors(given["queries"])
        weights.vectors  # noqa: B018 — of a wrong file it is told now
    elif "table" in given:
        weights = WeightTable(given["table"])
        weights.weights  # noqa: B018
    elif name := given.get("model") or entry.model:
        if open_encoder is not None:
            encoder = open_encoder(name)
        else:
            encoder = TermEncoder(locate_model(name, models=models, index=folder))
        weights = ModelWeights(encoder, given.get("model", ""))
    return ImpactRetriever(index, weights)
