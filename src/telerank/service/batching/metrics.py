"""What batches count, in the format of Prometheus."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from prometheus_client import CollectorRegistry, Counter, Histogram

from telerank.service.batching.work import BatchedReply
from telerank.service.metrics import SECONDS

_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 16_384, 65_536)
_MODEL = ("model",)


class BatchMetrics:
    """Numbers of each model: a :class:`~telerank.service.batching.work.BatchObserver`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def seconds(step: str, what: str) -> Histogram:
            return Histogram(f"telerank_{step}_seconds", what, _MODEL, buckets=SECONDS, registry=registry)

        def counts(name: str, what: str) -> Histogram:
            return Histogram(f"telerank_{name}", what, _MODEL, buckets=_COUNTS, registry=registry)

        def count(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"telerank_{name}", what, (*_MODEL, *labels), registry=registry)

        self._queue = seconds("queue", "Time of a request's texts waiting for a thread or a batch.")
        self._tokenise = seconds("tokenise", "Time of tokenising the texts of a request.")
        self._infer = seconds("infer", "Time of the batches that a request's texts were in.")
        self._batch_texts = counts("batch_texts", "Texts of a batch, or pairs of them.")
        self._batch_tokens = counts("batch_tokens", "Tokens of a batch, padding included.")
        self._lengths = counts("text_tokens", "Tokens of a text or a pair, special ones included.")
        self._padding = count("padding_tokens", "Tokens of padding that were computed.")
        self._truncated = count("truncated_texts", "Texts or pairs that were cut.")
        self._dropped = count(
            "dropped_requests",
            "Requests that were not answered: the queue was full, they were late, their client left, "
            "a text may not be cut, or the model failed.",
            "reason",
        )

    def replied(self, model: str, reply: BatchedReply) -> None:
        timings = reply.timings
        for histogram, seconds in (
            (self._queue, timings.queue),
            (self._tokenise, timings.tokenise),
            (self._infer, timings.infer),
        ):
            histogram.labels(model).observe(seconds)
        self._truncated.labels(model).inc(int(reply.cut.sum()))

    def computed(self, model: str, lengths: npt.NDArray[np.int64]) -> None:
        padded = int(lengths.max(initial=0)) * len(lengths)
        self._batch_texts.labels(model).observe(len(lengths))
        self._batch_tokens.labels(model).observe(padded)
        self._padding.labels(model).inc(padded - int(lengths.sum()))
        observed: Any = self._lengths.labels(model)
        for length in lengths.tolist():
            observed.observe(length)

    def dropped(self, model: str, reason: str) -> None:
        self._dropped.labels(model, reason).inc()
