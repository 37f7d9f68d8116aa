"""Batches of texts that are filled across requests: admission, deadlines, and the loop that computes them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sized
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from prometheus_client import CollectorRegistry, Counter, Histogram

from telerank.service.batching.waiting import BatchedModel, BatchParts, TokenizedWork, take_batch
from telerank.service.errors import BadRequest, Overloaded, Unprocessable, Unready
from telerank.service.observe import COUNTS, SECONDS
from telerank.service.settings import Limits

if TYPE_CHECKING:
    from telerank.dense.encoder import TorchEncoder
    from telerank.dense.static import StaticEncoder
    from telerank.reranking.scorer import Scorer
    from telerank.service.batching.models import PlainTokenizer

Request = TypeVar("Request", bound=Sized)
Value = TypeVar("Value")
_SMOOTHING = 0.2  # of the measured seconds of a text: the weight of a new batch
_LONGEST_RETRY = 60  # seconds
# why requests are not answered, for the metrics
_REASONS = {TimeoutError: "late", asyncio.CancelledError: "left", Unprocessable: "cut"}


class BatchMetrics:
    """Numbers of each model, in the format of Prometheus; all of it is counted on the event loop."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counts = partial(Histogram, labelnames=("model",), buckets=COUNTS, registry=registry)
        count = partial(Counter, registry=registry)
        self._steps = {
            step: counts(f"telerank_{step}_seconds", what, buckets=SECONDS)
            for step, what in (
                ("queue", "Time of a request's texts waiting for a thread or a batch."),
                ("tokenise", "Time of tokenising the texts of a request."),
                ("infer", "Time of the batches that a request's texts were in."),
            )
        }
        self._batch_texts = counts("telerank_batch_texts", "Texts of a batch, or pairs of them.")
        self._batch_tokens = counts("telerank_batch_tokens", "Tokens of a batch, padding included.")
        self._lengths = counts("telerank_text_tokens", "Tokens of a text or a pair, special ones included.")
        self._padding = count("telerank_padding_tokens", "Tokens of padding that were computed.", ("model",))
        self._truncated = count("telerank_truncated_texts", "Texts or pairs that were cut.", ("model",))
        self._dropped = count(
            "telerank_dropped_requests",
            "Requests that were not answered: the queue was full, they were late, their client left, "
            "a text may not be cut, or the model failed.",
            ("model", "reason"),
        )

    def replied(self, model: str, reply: TokenizedWork[Any]) -> None:
        """Count a request that was answered."""
        for step, seconds in reply.seconds.items():
            self._steps[step].labels(model).observe(seconds)
        self._truncated.labels(model).inc(int(reply.cut.sum()))

    def computed(self, model: str, lengths: npt.NDArray[np.int64]) -> None:
        """Count a batch of texts of these lengths."""
        padded = int(lengths.max(initial=0)) * len(lengths)
        self._batch_texts.labels(model).observe(len(lengths))
        self._batch_tokens.labels(model).observe(padded)
        self._padding.labels(model).inc(padded - int(lengths.sum()))
        observed: Any = self._lengths.labels(model)
        for length in lengths.tolist():
            observed.observe(length)

    def dropped(self, model: str, reason: str) -> None:
        """Count a request without reply: ``full``, ``late``, ``left`` by its client, ``cut``, ``failed``."""
        self._dropped.labels(model, reason).inc()


class Batcher(Generic[Request]):
    """Computes the texts of many requests with one model; used on one event loop.

    ``computing`` is the thread of the models. :meth:`aclose` ends the loop and drops what waits.
    """

    def __init__(
        self,
        name: str,
        model: BatchedModel[Request, Any],
        computing: Executor,
        limits: Limits | None = None,
        metrics: BatchMetrics | None = None,
    ) -> None:
        self.name, self.model, self.limits = name, model, limits or Limits()
        self.metrics = metrics or BatchMetrics(CollectorRegistry())
        self.requests, self.texts = 0, 0
        self._computing = computing
        self._tokenizing = ThreadPoolExecutor(1, thread_name_prefix="tokenising")
        self._waiting: list[TokenizedWork[Any]] = []  # in the order in which they came
        self._changed, self._batches = asyncio.Event(), 0
        self._pace = 0.0  # seconds of a text
        self._loop_task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Requests that are tokenised, and of which texts wait for a batch."""
        return len(self._waiting)

    async def submit(self, request: Request, *, may_cut: bool = True) -> TokenizedWork[Any]:
        """The request with its results.

        If it is cancelled, for example since its client has left, what is not computed yet is dropped.

        Raises
        ------
        BadRequest
            If it has no texts.
        Overloaded
            If too much waits.
        Unprocessable
            If a text is longer than the model reads, and may not be cut.
        Unready
            If it is not done in time.
        """
        count, limits = len(request), self.limits
        if not count:
            raise BadRequest("there are no texts")
        if self.requests >= limits.queue or (self.texts and self.texts + count > limits.queue_texts):
            self.metrics.dropped(self.name, "full")
            half = math.ceil(self.texts * self._pace / 2)  # seconds in which half of it should be computed
            raise Overloaded(
                f"{self.requests:,} requests with {self.texts:,} texts wait: try again",
                retry_after=min(_LONGEST_RETRY, max(1, half)),
            )
        self.requests, self.texts = self.requests + 1, self.texts + count
        try:
            async with asyncio.timeout(limits.seconds):
                reply = await self._answer(request, may_cut)
        except BaseException as error:
            self.metrics.dropped(self.name, _REASONS.get(type(error), "failed"))
            if isinstance(error, TimeoutError):
                raise Unready(f"not done within {limits.seconds:g} seconds") from error
            raise
        finally:
            self.requests, self.texts = self.requests - 1, self.texts - count
        self.metrics.replied(self.name, reply)
        return reply

    async def aclose(self) -> None:
        """End; requests that wait are not answered."""
        if self._loop_task is not None:
            self._loop_task.cancel()
            with suppress(asyncio.CancelledError):
                await self._loop_task
        self._tokenizing.shutdown(wait=False, cancel_futures=True)

    async def _answer(self, request: Request, may_cut: bool) -> TokenizedWork[Any]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        work, seconds = await loop.run_in_executor(self._tokenizing, _timed, self.model.tokenize, request)
        if not may_cut and work.cut.any():
            count, first = int(work.cut.sum()), int(np.flatnonzero(work.cut)[0])
            others = f", and {count - 1} more texts are" if count > 1 else " is"
            raise Unprocessable(f"text {first}{others} longer than the model reads, and truncate is false")
        work.began, work.done = began, loop.create_future()
        self._waiting.append(work)
        self._changed.set()
        if self._loop_task is None:
            self._loop_task = asyncio.create_task(self._compute_batches())
        try:
            await work.done
        finally:
            self._drop(work)
        queue = max(0.0, loop.time() - began - seconds - work.seconds["infer"])
        work.seconds |= {"queue": queue, "tokenise": seconds}
        return work

    def _drop(self, work: TokenizedWork[Any]) -> None:
        """Drop what is left of a request, if anything is."""
        if work in self._waiting:
            self._waiting.remove(work)

    async def _compute_batches(self) -> None:
        while True:
            await self._wait_until_due()
            self._batches += 1
            batch = take_batch(self._waiting, self.model.budget, shortest=self._batches % 2 == 0)
            error = await self._compute(batch)
            if error is None:
                continue
            for part in batch:  # each by itself, so that it fails alone
                error = await self._compute([part]) if len(batch) > 1 else error
                if error is not None:
                    self._drop(part[0])
                    if not part[0].done.done():
                        part[0].done.set_exception(error)

    async def _wait_until_due(self) -> None:
        """Until a batch is full, or its oldest request has waited long enough."""
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            left = None
            if self._waiting:
                left = self._waiting[0].began + self.limits.batch_wait - loop.time()
                if left <= 0 or sum(work.tokens_left for work in self._waiting) >= self.model.budget:
                    return
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()

    async def _compute(self, batch: BatchParts) -> BaseException | None:
        """Compute a batch and give each request its results; the error, if it failed."""
        parts = [(work.content, rows.tolist()) for work, rows in batch]
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._computing, _timed, self.model.compute, parts)
        await asyncio.wait([running])
        if running.exception() is not None:
            return running.exception()
        results, seconds = running.result()
        lengths = np.concatenate([work.lengths[rows] for work, rows in batch])
        pace = seconds / len(lengths)
        self._pace = (1 - _SMOOTHING) * self._pace + _SMOOTHING * pace if self._pace else pace
        self.metrics.computed(self.name, lengths)
        start = 0
        for work, rows in batch:
            work.fill(rows, results[start : start + len(rows)], seconds)
            start += len(rows)
        return None


def _timed(function: Callable[[Any], Value], argument: Any) -> tuple[Value, float]:
    began = perf_counter()
    value = function(argument)
    return value, perf_counter() - began


class Batchers:
    """Batchers by model; all compute in one thread, ``computing``, batch after batch."""

    def __init__(self, computing: Executor, limits: Limits, metrics: BatchMetrics | None = None) -> None:
        self._settings = computing, limits, metrics
        self._batchers: dict[object, Batcher[Any]] = {}
        self._tokenizers: dict[object, PlainTokenizer] = {}

    def of(self, name: str, model: Scorer | TorchEncoder | StaticEncoder) -> Batcher[Any]:
        """The batcher of a re-ranker or an encoder; ``name`` is for metrics."""
        from telerank.service.batching.models import batch_model

        if model not in self._batchers:
            self._batchers[model] = Batcher(name, batch_model(model), *self._settings)
        return self._batchers[model]

    def tokenizer_of(self, model: Scorer | TorchEncoder | StaticEncoder) -> PlainTokenizer:
        """A tokenizer of a model, apart from its batches; raises ModelError if it has none."""
        from telerank.service.batching.models import PlainTokenizer

        if model not in self._tokenizers:
            self._tokenizers[model] = PlainTokenizer(model)
        return self._tokenizers[model]

    async def aclose(self) -> None:
        """End all; requests that wait are not answered."""
        for batcher in self._batchers.values():
            await batcher.aclose()
