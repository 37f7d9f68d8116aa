"""The parts of the benchmark: each measures one thing of a running service, and says what fails."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from serve_load.client import Measured, Users, post, repeat
from serve_load.hostile import KINDS, misbehave
from serve_load.inputs import RERANKER, check_generation, generations
from serve_load.server import Server
from telerank.show.tables import Cell, Table
from telerank.types import Doc

RATIO = 3.0  # p99 of searches to p50
GROWTH = 50.0  # bytes of a search that may stay in memory
TAKEN_UP = 60.0  # seconds until a swap is seen
WARM = 200  # requests before those that count, at most


@dataclass
class Part:
    """A table, and the lines of what fails."""

    table: Table
    failed: list[str] = field(default_factory=list)


def search_requests(queries: Sequence[str]) -> list[bytes]:
    """A search for every query: pages of ten with their texts, every second one highlighted."""
    return [
        post("/v1/search", {"query": query, "highlight": number % 2 == 0, "page": 1 + number % 3 // 2})
        for number, query in enumerate(queries)
    ]


def measure_load(
    server: Server, requests: Sequence[tuple[str, list[bytes], int]], users: int, *, judged: bool
) -> Part:
    """Each kind of requests by itself: its name, the requests, and how many of them."""
    rows, failed = [], []
    for name, own, count in requests:
        asyncio.run(Users(server.port, users).ask_all(repeat(own, min(WARM, 1 + count // 10))))
        used = server.processor_time
        measured = asyncio.run(Users(server.port, users).ask_all(repeat(own, count)))
        used = server.processor_time - used
        p50, p95, p99, most = (measured.percentile(share) for share in (50, 95, 99, 100))
        rows.append(
            (
                name,
                f"{count:,}",
                f"{measured.rate:,.1f}",
                *(f"{value:,.1f}" for value in (p50, p95, p99, most)),
                Cell(f"{p99 / p50:.2f}", strong=name == "search"),
                str(measured.errors),
                statuses_of(measured.statuses),
                f"{1000 * used / count:.2f}",
                f"{measured.client_seconds / (measured.client_seconds + used):.0%}",
            )
        )
        failed += describe_errors(name, measured)
        if judged and name == "search" and p99 > RATIO * p50:
            failed.append(f"search: p99 is {p99 / p50:.2f} times p50, not at most {RATIO:g}")
    columns = (
        f"{users} users",
        "requests",
        "a second",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "max ms",
        "p99 to p50",
        "errors",
        "statuses",
        "processor ms of the server",
        "client's share",
    )
    return Part(Table.of(columns, rows, left=1), failed)


def load_requests(
    queries: Sequence[str], texts: Sequence[str], counts: dict[str, int], reader: str | None
) -> list[tuple[str, list[bytes], int]]:
    """The kinds of requests; answers if there is a reader."""
    reranked = f"bm25 % 20 >> rerank('{RERANKER}') % 10"
    kinds = [
        ("search", search_requests(queries), counts["search"]),
        (
            "search, re-ranking 20",
            [post("/v1/search", {"query": query, "pipeline": reranked}) for query in queries],
            counts["models"],
        ),
        (
            "/rerank of 20 texts",
            [
                post(
                    "/rerank", {"query": query, "documents": [texts[(n + i) % len(texts)] for i in range(20)]}
                )
                for n, query in enumerate(queries)
            ],
            counts["models"],
        ),
    ]
    if reader is not None:
        answers = [post("/v1/answer", {"query": query, "reader": reader, "depth": 5}) for query in queries]
        kinds.append(("answer, reading 5", answers, counts["models"]))
    return kinds


def filter_requests(queries: Sequence[str], count: int) -> list[tuple[str, list[bytes], int]]:
    """Searches within filters of the columns of :func:`~serve_load.inputs.columns_of`, and with facets."""
    facets, every = ["kind", "topics", "day:year"], range(len(queries))
    kinds, topics = (
        [f'kind == "kind {1 + n % 5}"' for n in every],
        [f'"topic {n % 10}" in topics' for n in every],
    )
    bodies: dict[str, list[dict[str, object]]] = {
        "search": [{} for _ in every],
        "with a filter, 1 in 5 pass": [{"filter": kinds[n]} for n in every],
        "with three tests, 1 in 50 pass": [
            {"filter": f"{kinds[n]} and {topics[n]} and day >= 2012-01-01"} for n in every
        ],
        "with three facets": [{"facets": facets} for _ in every],
        "with a filter and three facets": [
            {"filter": f"day >= {2000 + n % 25}-01-01", "facets": facets} for n in every
        ],
        "in the simple syntax, with a filter": [{"syntax": "simple", "filter": topics[n]} for n in every],
    }
    requests = []
    for name, own in bodies.items():
        pairs = zip(queries, own, strict=True)
        requests.append(
            (name, [post("/v1/search", {"query": query, **body}) for query, body in pairs], count)
        )
    return requests


def measure_swaps(
    server: Server, docs: Sequence[Doc], swaps: int, users: int, index: Callable[[list[Doc]], None]
) -> Part:
    """Searches while the index is replaced again and again; every reply is checked whole."""
    return asyncio.run(_measure_swaps(server, docs, swaps, users, index))


async def _measure_swaps(
    server: Server, docs: Sequence[Doc], swaps: int, users: int, index: Callable[[list[Doc]], None]
) -> Part:
    bodies = [{"query": " ".join(doc.text.split()[:8]), "highlight": True} for doc in docs]
    requests = [post("/v1/search", body) for body in bodies]
    requests[1::3] = [
        post("/v1/search", {**body, "pipeline": "rrf(bm25 % 50, dfi % 50)"}) for body in bodies[1::3]
    ]
    seen: Counter[int] = Counter()
    taken_up: defaultdict[int, asyncio.Event] = defaultdict(asyncio.Event)

    def check(body: bytes) -> str:
        wrong = check_generation(body)
        generation = int(body.partition(b'"generation":')[2].split(b",", 1)[0])
        seen[generation] += 1
        taken_up[generation].set()
        return wrong

    load = Users(server.port, users, check)
    running = asyncio.create_task(load.ask_all(repeat(requests)))
    made = generations(docs)
    next(made)  # is served already
    began = time.perf_counter()
    for number in range(2, swaps + 2):
        await asyncio.to_thread(index, next(made))
        await _wait_for(taken_up[number])
    seconds = time.perf_counter() - began
    load.is_stopping = True
    measured = await running
    missed = [number for number in range(1, swaps + 2) if not seen[number]]
    row = (
        str(swaps),
        f"{seconds / swaps:.2f}",
        f"{len(measured.times):,}",
        Cell(str(measured.statuses.total() - measured.statuses[200]), strong=True),
        Cell(str(measured.wrong.total()), strong=True),
        f"{len(seen)} of {swaps + 1}",
        *(f"{measured.percentile(share):,.1f}" for share in (50, 99, 100)),
    )
    columns = ("swaps", "seconds of each", "searches", "failed", "old and new mixed", "generations seen")
    failed = describe_errors("swaps", measured)
    if missed:
        failed.append(f"swaps: generations that no reply was of: {missed}")
    return Part(Table.of((*columns, "p50 ms", "p99 ms", "max ms"), [row], left=0), failed)


async def _wait_for(event: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(TAKEN_UP):
            await event.wait()


def measure_memory(
    server: Server, queries: Sequence[str], marks: Sequence[int], users: int, *, judged: bool
) -> Part:
    """The resident memory after so many searches."""
    requests = search_requests(queries)
    sizes, done, rates = [], 0, []
    failed: list[str] = []
    for mark in marks:
        own = requests[done % len(requests) :] + requests[: done % len(requests)]
        measured = asyncio.run(Users(server.port, users).ask_all(repeat(own, mark - done)))
        failed += describe_errors("memory", measured)
        done = mark
        sizes.append(server.memory)
        rates.append(measured.rate)
    half = [number for number, mark in enumerate(marks) if mark >= marks[-1] // 10]
    slope = (
        float(np.polyfit([marks[n] for n in half], [1e6 * sizes[n] for n in half], 1)[0])
        if len(half) > 1
        else 0.0
    )
    if judged and slope > GROWTH:
        failed.append(f"memory: {slope:.0f} bytes of a search stay, not at most {GROWTH:g}")
    rows = [
        (f"{mark:,}", f"{size:.1f}", f"{rate:,.1f}")
        for mark, size, rate in zip(marks, sizes, rates, strict=True)
    ]
    note = f"From {marks[half[0]]:,} searches on it grows by {slope:.1f} bytes a search."
    return Part(Table.of(("searches", "resident MB", "a second"), rows, notes=(note,), left=0), failed)


def measure_hostile(server: Server, queries: Sequence[str], seconds: float, users: int) -> Part:
    """Clients that misbehave beside users who search."""
    return asyncio.run(_measure_hostile(server, queries, seconds, users))


async def _measure_hostile(server: Server, queries: Sequence[str], seconds: float, users: int) -> Part:
    load = Users(server.port, users)
    running = asyncio.create_task(load.ask_all(repeat(search_requests(queries))))
    seen = await misbehave(server.port, seconds, clients=16)
    load.is_stopping = True
    measured = await running
    names = {0: "closed", -1: "client left"}
    rows = [
        (
            kind.name,
            str(seen.statuses[kind.name].total()),
            ", ".join(
                f"{names.get(status, status)}: {count}"
                for status, count in sorted(seen.statuses[kind.name].items())
            ),
        )
        for kind in KINDS
    ]
    rate = f"{seen.count:,} of them, {seen.count / seen.seconds:.0f} a second"
    beside = f"{len(measured.times):,} searches, {measured.errors} errors"
    times = f"p50 {measured.percentile(50):.1f} ms, p99 {measured.percentile(99):.1f} ms"
    notes = (f"{rate}, beside {users} users who searched: {beside}, {times}.",)
    failed = [f"undocumented: {line}: {count} times" for line, count in Counter(seen.undocumented).items()]
    return Part(
        Table.of(("client", "times", "statuses"), rows, notes=notes, left=1),
        failed + describe_errors("beside them", measured),
    )


def statuses_of(statuses: Counter[int]) -> str:
    return ", ".join(f"{status or 'none'}: {count:,}" for status, count in sorted(statuses.items()))


def describe_errors(name: str, measured: Measured) -> list[str]:
    """A line, if any request failed."""
    if not measured.errors:
        return []
    reasons = "; ".join(list(measured.wrong)[:3])
    return [f"{name}: {measured.errors} errors, statuses {statuses_of(measured.statuses)}; {reasons}"]
