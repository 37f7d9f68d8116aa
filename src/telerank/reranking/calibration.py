"""What int8 costs: half of the judged queries calibrate it, the other half compare it with float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from telerank.documents import Docs, read_doc
from telerank.errors import CollectionError
from telerank.evaluation.measures import measure
from telerank.reranking.scorer import Scorer
from telerank.reranking.stage import CrossReranker
from telerank.types import Qrels, Ranking

MEASURE = "nDCG@10"
_CALIBRATION_PAIRS, _MEASURED_PAIRS = 300, 2000  # at most


@dataclass(frozen=True)
class Calibration:
    """A calibrated scorer, and what it loses on ``queries`` that it was not calibrated on.

    ``float32`` and ``int8`` are means of :data:`MEASURE`; ``correlation`` is the rank correlation of scores.
    """

    scorer: Scorer
    float32: float
    int8: float
    correlation: float
    queries: int

    def __str__(self) -> str:
        means = f"{MEASURE} {self.int8:.4f} instead of {self.float32:.4f} in float32"
        where = f"on {self.queries} dev queries that it was not calibrated on"
        return f"int8: {means}, rank correlation of scores {self.correlation:.4f} ({where})"

    def record(self) -> dict[str, Any]:
        """The loss, for JSON."""
        means = {"int8": self.int8, "float32": self.float32}
        return {MEASURE: means, "rank correlation": self.correlation, "queries": self.queries}


def calibrate(scorer: Scorer, docs: Docs, rankings: Sequence[Ranking], qrels: Qrels) -> Calibration:
    """Calibrate a scorer in int8 on every other judged query of ``rankings``, and measure it on the rest.

    Raises
    ------
    CollectionError
        If fewer than two of the queries are judged.
    """
    judged = [ranking for ranking in rankings if ranking.query.qid in qrels]
    if len(judged) < 2:
        raise CollectionError(f"int8 needs two judged queries, got {len(judged)} among {len(rankings)}")
    # a few candidates of each query, from all ranks
    each = max(1, _CALIBRATION_PAIRS // len(judged[::2]))
    samples = tuple(
        (ranking.query.text, read_doc(docs, docno).full_text)
        for ranking in judged[::2][:_CALIBRATION_PAIRS]
        for docno in ranking.docnos[:: max(1, len(ranking) // each)][:each]
    )
    calibrated = replace(scorer, samples=samples)
    sums = np.cumsum([len(ranking) for ranking in judged[1::2]])
    candidates = judged[1::2][: max(1, int(np.searchsorted(sums, _MEASURED_PAIRS, side="right")))]
    grades = {ranking.query.qid: qrels[ranking.query.qid] for ranking in candidates}
    means, scores = [], []
    for other in (calibrated, replace(scorer, precision="float32")):
        run = list(CrossReranker(other, docs)(candidates))
        means.append(measure(run, grades, MEASURE).mean[MEASURE])
        scores.append([score for ranking in run for _, score in sorted(ranking)])  # by docno
    correlation = float(spearmanr(scores[0], scores[1]).statistic)
    return Calibration(calibrated, means[1], means[0], correlation, len(candidates))
