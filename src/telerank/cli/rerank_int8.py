"""What int8 costs: one half of a dev set calibrates it, on the other half it stands beside float32."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from telerank.errors import CollectionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from telerank.corpus.collection import Collection
    from telerank.reranking.scorer import Scorer
    from telerank.reranking.stage import Docs
    from telerank.types import Ranking

_CALIBRATED_ON, _MEASURED_ON = 300, 2000  # pairs at most
MEASURE = "nDCG@10"


@dataclass(frozen=True)
class Sampled:
    """A calibrated scorer, and what it loses: the measure's means, and the rank correlation of scores."""

    scorer: Scorer
    exact: float
    found: float
    correlation: float
    queries: int
    pairs: int

    def told(self) -> str:
        where = f"on {self.queries} dev queries that it was not calibrated on"
        means = f"{MEASURE} {self.found:.4f} instead of {self.exact:.4f} in float32"
        return f"int8: {means}, rank correlation of scores {self.correlation:.4f} ({where})"

    def record(self) -> dict[str, Any]:
        means = {"int8": self.found, "float32": self.exact}
        return {MEASURE: means, "rank correlation": self.correlation, "queries": self.queries}


def sampled(scorer: Scorer, docs: Docs, tried: Sequence[Ranking], opened: Collection, split: str) -> Sampled:
    """The scorer in int8, calibrated on every other query of ``tried``, measured on the others.

    Raises
    ------
    CollectionError
        where fewer than two of the queries are judged.
    """
    from scipy.stats import spearmanr

    from telerank.evaluate.measures import measure
    from telerank.reranking.stage import CrossReranker

    qrels = opened.judged(split)
    judged = [one for one in tried if one.query.qid in qrels]
    if len(judged) < 2:
        raise CollectionError(
            f"{opened.name}: {len(judged)} queries of --dev are judged in {split}, int8 needs 2"
        )
    calibrating, measured = judged[::2], _some(judged[1::2])
    ready = replace(scorer, samples=_pairs(calibrating, docs))
    exact = replace(scorer, precision="float32")
    rankings = [list(CrossReranker(one, docs)(measured)) for one in (ready, exact)]
    asked = {one.query.qid: qrels[one.query.qid] for one in measured}
    means = [measure(found, asked, MEASURE).mean[MEASURE] for found in rankings]
    scores = [_scores(found) for found in rankings]
    correlation = float(spearmanr(scores[0], scores[1]).statistic)
    return Sampled(ready, means[1], means[0], correlation, len(measured), len(scores[0]))


def _some(rankings: Sequence[Ranking]) -> list[Ranking]:
    held = np.cumsum([len(one) for one in rankings])
    return [one for one, so_far in zip(rankings, held, strict=True) if so_far <= max(_MEASURED_ON, held[0])]


def _pairs(rankings: Sequence[Ranking], docs: Docs) -> tuple[tuple[str, str], ...]:
    """Some of each query's candidates, from all ranks."""
    each = max(1, _CALIBRATED_ON // len(rankings))
    return tuple(
        (one.query.text, docs[docno].full_text)
        for one in rankings[:_CALIBRATED_ON]
        for docno in one.docnos[:: max(1, len(one) // each)][:each]
    )


def _scores(rankings: Sequence[Ranking]) -> list[float]:
    """In an order that does not depend on the scores."""
    return [score for one in rankings for _, score in sorted(one, key=lambda found: found[0])]
