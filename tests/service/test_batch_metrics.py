"""Batches are counted: times, sizes, lengths, what is cut, what is dropped."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry

from telerank.service.batching.metrics import BatchMetrics
from telerank.service.batching.work import BatchedReply, Timings


def test_the_numbers_of_a_batch_and_of_a_reply():
    registry = CollectorRegistry()
    metrics = BatchMetrics(registry)
    metrics.computed("mono", np.array([10, 4, 10]))
    reply = BatchedReply(np.zeros(3), np.array([10, 4, 10]), np.array([True, False, True]), Timings(1, 2, 3))
    metrics.replied("mono", reply)
    metrics.dropped("mono", "late")

    def value(name, **labels):
        return registry.get_sample_value(f"telerank_{name}", {"model": "mono", **labels})

    assert [value(f"{step}_seconds_sum") for step in ("queue", "tokenise", "infer")] == [1, 2, 3]
    assert (value("batch_texts_sum"), value("batch_tokens_sum"), value("text_tokens_sum")) == (3, 30, 24)
    assert (value("padding_tokens_total"), value("truncated_texts_total")) == (6, 2)
    assert value("dropped_requests_total", reason="late") == 1
