"""Rows of exact dense search: drawn vectors as ``telerank encode`` stores them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import lru_cache, partial

import numpy as np

from telerank.dense.encode import VectorWriter
from telerank.dense.manifest import VectorManifest
from telerank.dense.torch_search import DeviceVectors
from telerank.dense.vectors import Encoded, Vectors
from telerank.types import Doc

from .inputs import Inputs
from .measuring import Amount, Probe
from .scoring import Row

MODEL, WIDTH, SHARD = "drawn", 384, 1 << 16
SECONDS = 1.5


def searching_rows(inputs: Inputs) -> Iterator[Row]:
    rows = 20_000 if inputs.small else 1_000_000
    size = f"{rows} of {WIDTH} in float16"
    if inputs.on_gpu:
        yield Row("search", f"{size} / to the device", "vectors", partial(load, inputs, rows))
    for queries, depth in ((1, 100), (64, 10), (64, 1000), (1024, 100)):
        name = f"{size} / {queries} {'queries' if queries > 1 else 'query'} / the best {depth}"
        yield Row("search", name, "queries", partial(search, inputs, rows, queries, depth))


def load(inputs: Inputs, rows: int, probe: Probe) -> Amount:
    vectors = drawn_vectors(inputs, rows)
    DeviceVectors(vectors, str(inputs.device))
    with probe.timing():
        DeviceVectors(vectors, str(inputs.device))
    return Amount(rows)


def search(inputs: Inputs, rows: int, queries: int, depth: int, probe: Probe) -> Amount:
    vectors = drawn_vectors(inputs, rows)
    on_device = device_vectors(inputs, rows)
    chosen = np.sort(np.random.default_rng(2).choice(rows, queries, replace=False))
    noise = np.random.default_rng(3).standard_normal((queries, WIDTH), np.float32) * (0.5 / WIDTH**0.5)
    targets = vectors.take(chosen) + noise
    encoded = Encoded(np.ascontiguousarray(targets, np.float32), MODEL)

    def run(count: int) -> Amount:
        times = max(1, count // queries)
        for _ in range(times):
            on_device.search(encoded, depth)
        return Amount(times * queries, 0.0, 2.0 * times * queries * rows * WIDTH, float(times))

    return probe.measure(run, queries, 1000 * queries, 0.3 if inputs.small else SECONDS)


@lru_cache(1)
def device_vectors(inputs: Inputs, rows: int) -> DeviceVectors:
    return DeviceVectors(drawn_vectors(inputs, rows), str(inputs.device))


@lru_cache(1)
def drawn_vectors(inputs: Inputs, rows: int) -> Vectors:
    """Of length 1, in a spectrum that falls with the root of the dimension's number."""
    draw, began = np.random.default_rng(1), time.perf_counter()
    spectrum = (np.arange(1, WIDTH + 1) ** -0.5).astype(np.float32)
    folder = inputs.folder / "vectors"
    with VectorWriter(folder, VectorManifest(WIDTH, "float16", MODEL, MODEL)) as writer:
        for begin in range(0, rows, SHARD):
            size = min(SHARD, rows - begin)
            block = draw.standard_normal((size, WIDTH), np.float32) * spectrum
            block /= np.linalg.norm(block, axis=1, keepdims=True)
            writer.add([Doc(f"d{begin + row}", "") for row in range(size)], block)
    print(f"  {rows:,} vectors drawn and written in {time.perf_counter() - began:.0f} s", flush=True)
    return Vectors(folder)
