"""What a pipeline of a request may cost: bounds that hold for any query."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from telerank.service.errors import Unprocessable
from telerank.service.settings import Limits
from telerank.stage import Chain, Cut, Retriever, Stage, inner_stages

_RETRIEVERS = 16
_LIGHT = {"telerank.stage", "telerank.fusion.stages", "telerank.sparse.retriever"}
"""The modules of stages that compute without a model; those of others are not imported for nothing."""
_APPROXIMATE = "telerank.dense.approximate"


def check_cost(stage: Stage, limits: Limits) -> None:
    """Check that a pipeline retrieves and scores no more than the limits say.

    Raises
    ------
    Unprocessable
        If it might; the message says how to cut it.
    """
    _Cost(limits).documents(stage, 0)


def check_read(first: Stage, limits: Limits) -> None:
    """Check the same of a pipeline whose documents a reader reads; raises as :func:`check_cost`."""
    cost = _Cost(limits)
    cost.score("read", cost.documents(first, 0))


def uses_models(stage: Stage) -> bool:
    """Whether a stage, or one that it is made of, computes with a model."""
    return type(stage).__module__ not in _LIGHT or any(map(uses_models, _inner(stage)))


@dataclass
class _Cost:
    """Counts what the stages of a pipeline do at most."""

    limits: Limits
    scored: float = field(default=0, init=False)
    retrievers: int = field(default=0, init=False)

    def documents(self, stage: Stage, given: float) -> float:
        """The most documents in a ranking of the stage, if it is given rankings of ``given``."""
        if isinstance(stage, Retriever):
            return self._retrieved(stage)
        if isinstance(stage, Chain):
            for part in stage.stages:
                given = self.documents(part, given)
            return given
        if isinstance(stage, Cut):
            return min(stage.k, self.documents(stage.stage, given))
        if type(stage).__module__ in _LIGHT:
            return sum(self.documents(part, given) for part in _inner(stage)) or given
        return self._scored(stage, given)

    def _scored(self, stage: Stage, given: float) -> float:
        """The same of a stage that scores the texts of its documents with a model."""
        from telerank.reranking.stage import CrossReranker
        from telerank.segments.stage import SegmentReranker, SegmentSum

        if isinstance(stage, CrossReranker):
            self.score("rerank", given)
            return min(given, stage.k or given)
        if isinstance(stage, SegmentSum):
            return self._scored(stage.segments, self.documents(stage.first, given))
        if not isinstance(stage, SegmentReranker):
            raise Unprocessable(f"{stage.text} has no bound that a request must have")
        self.score(stage.text.partition("(")[0], given * (stage.settings.first or math.inf))
        return given

    def score(self, name: str, texts: float) -> None:
        """Count the texts that a model scores."""
        self.scored += texts
        most = self.limits.reranked
        if self.scored > most:
            count = "all" if math.isinf(texts) else f"{texts:,.0f}"
            cut = f"cut the stage before it, such as bm25 % {min(most, 100)}"
            more = (
                ", and name the most segments of a document (first=…)"
                if name not in ("rerank", "read")
                else ""
            )
            raise Unprocessable(
                f"{name} would score {count} texts; a request has at most {most:,}: {cut}{more}"
            )

    def _retrieved(self, stage: Retriever) -> float:
        self.retrievers += 1
        if self.retrievers > _RETRIEVERS:
            raise Unprocessable(f"a pipeline of a request has at most {_RETRIEVERS} first stages")
        depth = stage.depth or math.inf
        if type(stage).__module__ == _APPROXIMATE:
            from telerank.dense.approximate import ApproximateRetriever

            depth = stage.candidates if isinstance(stage, ApproximateRetriever) else depth
        if depth > self.limits.depth:
            count = "all documents" if math.isinf(depth) else f"{depth:,} documents"
            raise Unprocessable(
                f"{stage.text} retrieves {count}; a request has at most {self.limits.depth:,}: "
                f"cut it, such as {stage.text.partition(' %')[0]} % 100"
            )
        return depth


def _inner(stage: Stage) -> list[Stage]:
    values = inner_stages(stage).values()
    return [part for value in values for part in ((value,) if isinstance(value, Stage) else value)]
