"""The models that a pipeline names: where they are looked for, and what is opened of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telerank.errors import CollectionError
from telerank.retrieval.index import Index, locate_model
from telerank.stage import Stage

if TYPE_CHECKING:
    from telerank.answers.scorer import SpanReader
    from telerank.documents import Docs
    from telerank.reranking.scorer import Scorer


@dataclass(frozen=True)
class Models:
    """Opens models for stages over an index.

    They are looked for by name in ``sources``, with the index, in the folders of ``TELERANK_MODELS``, as a
    path, and on the hub.
    """

    index: Index | None = None
    sources: Mapping[str, str | Path] = field(default_factory=dict)

    def locate(self, model: str) -> str:
        """The path of a model, or the name itself, which is then one on the hub."""
        return locate_model(model, models=self.sources, index=self.index.folder if self.index else None)

    def open_docs(self, function: str) -> Docs:
        """The documents that a function of pipelines reads; raises CollectionError without an index."""
        return self._need(function, ", whose documents it reads,").docs

    def open_vectors(self, model: str | None, approximate: str | None, candidates: int) -> Stage:
        """The retriever over the vectors of a model; None: the only ones of the index."""
        index = self._need("dense")
        return index.dense(model, approximate=approximate, candidates=candidates, models=self.sources)

    def open_reranker(self, model: str, **settings: Any) -> Scorer:
        from telerank.reranking.scorer import Scorer

        return Scorer(self.locate(model), **settings)

    def open_reader(self, model: str, **settings: Any) -> SpanReader:
        from telerank.answers.scorer import SpanReader

        return SpanReader(self.locate(model), **settings)

    def _need(self, function: str, what_for: str = "") -> Index:
        if self.index is None:
            raise CollectionError(f"{function} needs an index{what_for or ','} and there is none here")
        return self.index
