"""int8 is calibrated on some judged queries and measured on others."""

from __future__ import annotations

import numpy as np
import pytest

from small_rerankers import pairs, small_reranker
from telerank.errors import CollectionError
from telerank.reranking.calibration import calibrate
from telerank.reranking.scorer import Scorer
from telerank.types import Query, Ranking

TEXTS = {f"d{number}": passage for number, (_, passage) in enumerate(pairs(20))}
RUN = [Ranking.ranked(Query(f"{n}", f"q{n} q2"), list(TEXTS)[n : n + 6], np.arange(6)) for n in range(8)]


def test_the_loss_is_measured_on_queries_that_did_not_calibrate(tmp_path):
    pytest.importorskip("openvino")
    pytest.importorskip("nncf")
    scorer = Scorer(small_reranker(tmp_path), "openvino", "int8", threads=1)
    qrels = {f"{n}": {f"d{n + 1}": 1} for n in range(7)}
    found = calibrate(scorer, TEXTS, RUN, qrels)
    assert {query for query, _ in found.scorer.samples} == {"q0 q2", "q2 q2", "q4 q2", "q6 q2"}
    assert found.queries == 3  # 1, 3 and 5; 7 is not judged
    assert found.correlation > 0.9
    assert found.record()["nDCG@10"] == {"int8": found.int8, "float32": found.float32}
    assert str(found).startswith(f"int8: nDCG@10 {found.int8:.4f} instead of {found.float32:.4f} in float32")


def test_one_judged_query_is_not_enough(tmp_path):
    with pytest.raises(CollectionError, match="int8 needs two judged queries, got 1 among 8"):
        calibrate(Scorer(small_reranker(tmp_path)), TEXTS, RUN, {"3": {"d4": 1}})
