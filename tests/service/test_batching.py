from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from telerank.errors import ModelError
from telerank.service.batching.batcher import Batcher, BatchMetrics
from telerank.service.batching.waiting import TokenizedWork
from telerank.service.errors import BadRequest, Overloaded, Unprocessable, Unready
from telerank.service.settings import Limits


class Lengths:
    """A model of texts that are lengths: its results are their doubles. It waits while ``open`` is not set."""

    def __init__(self, budget: int = 100) -> None:
        self.budget, self.open, self.entered = budget, threading.Event(), threading.Event()
        self.open.set()
        self.batches: list[list[int]] = []
        self.tokenized: list[list[int]] = []

    def tokenize(self, texts: list[int]) -> TokenizedWork[list[int]]:
        self.tokenized.append(texts)
        lengths = np.array(texts, np.int64)
        return TokenizedWork(texts, np.minimum(lengths, 50), lengths > 50, lane=len(texts) % 2)

    def compute(self, parts: Any) -> np.ndarray:
        texts = [content[row] for content, rows in parts for row in rows]
        assert len({len(content) % 2 for content, _ in parts}) == 1  # of one lane
        self.batches.append(texts)
        self.entered.set()
        assert self.open.wait(30)
        if 13 in texts:
            raise ModelError("13 cannot be computed")
        return 2.0 * np.array(texts)


class Drops(BatchMetrics):
    def __init__(self) -> None:
        super().__init__(CollectorRegistry())
        self.reasons: list[str] = []

    def dropped(self, model, reason):  # noqa: ARG002
        self.reasons.append(reason)


def batched(test: Callable[[Batcher[Any], Lengths], Awaitable[None]], **limits: Any) -> list[str]:
    """Run a test with a batcher over a model of lengths; the reasons of what was dropped."""
    model, drops = Lengths(), Drops()

    async def run() -> None:
        with ThreadPoolExecutor(1) as computing:
            batcher = Batcher("lengths", model, computing, Limits().model_copy(update=limits), drops)
            try:
                await asyncio.wait_for(test(batcher, model), 60)
            finally:
                model.open.set()
                await batcher.aclose()

    asyncio.run(run())
    return drops.reasons


def with_batcher(dropped: Sequence[str] = (), **limits: Any) -> Callable[[Any], Callable[[], None]]:
    """Make a test of a coroutine, to which a batcher is given; ``dropped`` says why what was dropped."""

    def decorate(test: Any) -> Callable[[], None]:
        def run() -> None:
            assert batched(test, **limits) == [*dropped]

        run.__name__ = test.__name__
        return run

    return decorate


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(60_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came true")


async def hold(batcher: Batcher[Any], model: Lengths, texts=(1,)) -> asyncio.Task[Any]:
    """Let a request be in a batch that does not end."""
    model.open.clear()
    model.entered.clear()
    held = asyncio.create_task(batcher.submit(list(texts)))
    await until(model.entered.is_set)
    return held


@with_batcher()
async def test_a_batch_has_texts_of_several_requests_of_similar_length(batcher, model):
    held = await hold(batcher, model)
    requests = [[20, 5], [21, 6], [22, 4]]
    waiting = [asyncio.create_task(batcher.submit(texts)) for texts in requests]
    await until(lambda: batcher.waiting == 3)
    model.open.set()
    replies = await asyncio.gather(held, *waiting)
    assert [reply.results.tolist() for reply in replies[1:]] == [[40, 10], [42, 12], [44, 8]]
    assert [set(batch) for batch in model.batches] in (
        [{1}, {20, 21, 22}, {4, 5, 6}],
        [{1}, {20, 21, 22}, {5, 6}, {4}],
    )


@with_batcher()
async def test_a_short_text_is_not_padded_to_a_long_one_where_that_costs_more_than_a_batch(batcher, model):
    await batcher.submit([50, 5, 4])  # budget 100: a batch costs as much as 6 tokens
    assert [sorted(batch) for batch in model.batches] == [[50], [4, 5]]


@with_batcher()
async def test_the_texts_of_the_next_request_are_tokenised_while_a_batch_is_computed(batcher, model):
    held = await hold(batcher, model)
    after = asyncio.create_task(batcher.submit([9]))
    await until(lambda: [9] in model.tokenized)
    assert not held.done()
    model.open.set()
    await asyncio.gather(held, after)


@with_batcher(dropped=["left", "left"])
async def test_what_its_client_has_left_is_not_computed(batcher, model):
    held = await hold(batcher, model)
    left, other = (asyncio.create_task(batcher.submit([size])) for size in (30, 31))
    await until(lambda: batcher.waiting == 2)
    left.cancel()
    model.open.set()
    await asyncio.gather(held, other)
    assert model.batches == [[1], [31]]
    assert left.cancelled()
    assert (batcher.requests, batcher.texts) == (0, 0)
    held = await hold(batcher, model, [50] * 100)
    held.cancel()  # the rest of it is not computed either
    model.open.set()
    assert (await batcher.submit([3])).results.tolist() == [6]
    assert sum(map(len, model.batches)) <= 2 + 2 + 1


@with_batcher(dropped=["late", "late"], seconds=0.3)
async def test_a_request_is_given_up_at_its_deadline(batcher, model):
    held = await hold(batcher, model)
    with pytest.raises(Unready, match="not done within 0"):
        await batcher.submit([30])
    model.open.set()
    with pytest.raises(Unready):
        await held
    assert (await batcher.submit([4])).results.tolist() == [8]
    assert [30] not in model.batches


@pytest.mark.parametrize("limit", [{"queue": 2}, {"queue_texts": 5}])
def test_a_full_queue_says_when_to_try_again(limit):
    async def test(batcher, model):
        held = await hold(batcher, model)
        waiting = asyncio.create_task(batcher.submit([2, 2, 2]))
        await until(lambda: batcher.waiting == 1)
        with pytest.raises(Overloaded, match="2 requests with 4 texts wait") as error:
            await batcher.submit([3, 3])
        assert error.value.retry_after >= 1
        model.open.set()
        await asyncio.gather(held, waiting)
        assert (await batcher.submit([3] * 6)).tokens == 18  # one request alone may be larger

    assert batched(test, **limit) == ["full"]


@with_batcher(dropped=["failed"])
async def test_a_text_that_cannot_be_computed_fails_its_request_alone(batcher, model):
    held = await hold(batcher, model)
    good, bad = (asyncio.create_task(batcher.submit([size, 2])) for size in (12, 13))
    await until(lambda: batcher.waiting == 2)
    model.open.set()
    with pytest.raises(ModelError, match="13 cannot be computed"):
        await bad
    assert (await good).results.tolist() == [24, 4]
    await held


@with_batcher()
async def test_a_short_request_does_not_wait_for_the_end_of_a_long_one(batcher, model):
    long = await hold(batcher, model, [50] * 100)
    short = asyncio.create_task(batcher.submit([9]))
    await until(lambda: batcher.waiting == 2)
    model.open.set()
    await short
    assert not long.done()
    await long


@with_batcher(dropped=["cut"])
async def test_cut_text_is_said_or_refused(batcher, model):
    assert (await batcher.submit([10, 60])).cut.tolist() == [False, True]
    with pytest.raises(Unprocessable, match="text 1 is longer than the model reads"):
        await batcher.submit([10, 60], may_cut=False)
    with pytest.raises(BadRequest):
        await batcher.submit([])


@settings(max_examples=50)
@given(st.lists(st.lists(st.integers(14, 60), min_size=1, max_size=30), min_size=1, max_size=8))
@example([[14 + number % 37 for number in range(300)]])
def test_every_text_is_computed_once_in_its_place_and_no_batch_is_above_its_budget(requests):
    async def test(batcher, model):
        held = await hold(batcher, model)
        replies = [asyncio.create_task(batcher.submit(texts)) for texts in requests]
        await until(lambda: batcher.waiting == len(requests))
        model.open.set()
        await held
        for texts, reply in zip(requests, await asyncio.gather(*replies), strict=True):
            lengths = np.minimum(texts, 50)
            assert reply.results.tolist() == [2 * text for text in texts]
            assert (reply.tokens, reply.cut.tolist()) == (lengths.sum(), [text > 50 for text in texts])
        sizes = [(len(batch), min(50, max(batch))) for batch in model.batches]
        assert all(count == 1 or count * width <= 100 for count, width in sizes)
        assert sum(count for count, _ in sizes) == 1 + sum(map(len, requests))

    batched(test)


@with_batcher(batch_wait=300)
async def test_a_batch_waits_until_it_is_full(batcher, model):
    await asyncio.gather(batcher.submit([50]), batcher.submit([50, 50, 50]))
    assert model.batches == [[50, 50], [50, 50]]


@with_batcher(batch_wait=0.2)
async def test_a_batch_that_is_not_full_waits_for_some_time(batcher, model):
    seconds = (await batcher.submit([1])).seconds
    assert seconds["queue"] + seconds["tokenise"] >= 0.2
