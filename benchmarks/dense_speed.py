# ruff: noqa: E402 — how many threads there are is read when libraries are loaded
"""Exact dense search beside FAISS and numpy, in one run on one core, the engines taking turns.

Vectors are synthetic: clusters in a decaying spectrum, of length 1. With ``--like FOLDER`` they are the
vectors of texts that ``telerank encode`` wrote there, repeated, each copy moved by noise of 0.3 of its size:
the neighbourhoods of a real encoder, not so many distinct texts. What each engine finds is compared with
float64 products of all vectors before any time is believed. Times are those of the processor, so that other
programs on the machine do not count. The machine's read bandwidth is measured in each round, between the
engines: a search that reads float32 cannot take less than reading them once.
"""

from __future__ import annotations

import os

for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{name}_NUM_THREADS"] = "1"

import argparse
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numba
import numpy as np
from results_page import write

from telerank.dense.encode import VectorWriter
from telerank.dense.manifest import VectorManifest
from telerank.dense.search import search
from telerank.dense.vectors import Encoded, Vectors
from telerank.show.tables import Cell, Table, render_markdown
from telerank.types import Doc

MODEL = "synthetic"
CLUSTERS, SHARD, THRESHOLD = 2000, 65_536, 20
NOISE = 0.3
SINGLE, BATCH = "one query", "64 queries"
MEMORY = 200.0  # MB beyond the mapped vectors
TARGETS = {SINGLE: 2.5, BATCH: 1.0}  # times as fast as FAISS
RECALL = 0.9999

Rows = list[np.ndarray]


@dataclass(frozen=True)
class Data:
    """Vectors on the disk, the same in memory as FAISS holds them, queries."""

    stored: Vectors
    flat: object
    mapped: list[np.ndarray]
    queries: np.ndarray


Draw = Callable[[np.random.Generator, int], np.ndarray]


def blocks(rows: int, draw: Draw) -> Iterator[tuple[list[str], np.ndarray]]:
    random = np.random.default_rng(1)
    for begin in range(0, rows, SHARD):
        size = min(SHARD, rows - begin)
        yield [f"d{number}" for number in range(begin, begin + size)], draw(random, size)


def synthetic(random: np.random.Generator, count: int, *, dimension: int) -> np.ndarray:
    """Clusters in a spectrum that falls with the root of the dimension's number."""
    middles = np.random.default_rng(0).standard_normal((CLUSTERS, dimension), np.float32)
    spectrum = (np.arange(1, dimension + 1) ** -0.5).astype(np.float32)
    found = random.standard_normal((count, dimension), np.float32)
    found += 0.5 * middles[random.integers(0, CLUSTERS, count)]
    found *= spectrum
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def moved(random: np.random.Generator, count: int, *, texts: np.ndarray) -> np.ndarray:
    """Vectors of texts, drawn with repetition, each moved by noise of 0.3 of its length."""
    found = texts[random.integers(0, len(texts), count)]
    noise = random.standard_normal(found.shape, np.float32)
    found = found + noise * (NOISE * np.linalg.norm(found, axis=1, keepdims=True) / found.shape[1] ** 0.5)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def drawing(dimension: int, like: Path | None) -> tuple[Draw, int]:
    """What draws vectors, and their dimension."""
    if like is None:
        return partial(synthetic, dimension=dimension), dimension
    real = Vectors(like)
    return partial(moved, texts=real.take(np.arange(len(real)))), real.dimension


def write_vectors(
    folder: Path, blocks: Iterable[tuple[list[str], np.ndarray]], manifest: VectorManifest
) -> Vectors:
    with VectorWriter(folder, manifest) as writer:
        for docnos, vectors in blocks:
            writer.add([Doc(docno, "") for docno in docnos], vectors)
    return Vectors(folder)


def prepared(folder: Path, rows: int, draw: Draw, dimension: int, queries: int) -> Data:
    import faiss

    faiss.omp_set_num_threads(1)
    manifest = VectorManifest(dimension, "float32", MODEL, MODEL)
    began = time.perf_counter()
    stored = write_vectors(folder / "vectors", blocks(rows, draw), manifest)
    print(f"{rows:,} x {dimension} drawn and written in {time.perf_counter() - began:.0f} s", file=sys.stderr)
    flat = faiss.IndexFlatIP(dimension)
    for shard in stored.shards:
        flat.add(shard.vectors)
    asked = draw(np.random.default_rng(2), queries)
    return Data(stored, flat, [shard.vectors for shard in stored.shards], asked)


def telerank(data: Data, queries: np.ndarray, k: int) -> Rows:
    return [found.rows for found in search(data.stored, Encoded(queries, MODEL), k)]


def faiss_flat(data: Data, queries: np.ndarray, k: int) -> Rows:
    """At its best: a low threshold is many times as fast for 64 queries, 2.5 times as slow for one."""
    import faiss

    usual = faiss.cvar.distance_compute_blas_threshold
    faiss.cvar.distance_compute_blas_threshold = usual if len(queries) == 1 else THRESHOLD
    try:
        return list(data.flat.search(queries, k)[1])
    finally:
        faiss.cvar.distance_compute_blas_threshold = usual


def numpy_products(data: Data, queries: np.ndarray, k: int) -> Rows:
    scores = np.concatenate([queries @ part.T for part in data.mapped], axis=1)
    best = np.argpartition(scores, -k, axis=1)[:, -k:]
    order = np.take_along_axis(scores, best, 1).argsort(axis=1)[:, ::-1]
    return list(np.take_along_axis(best, order, 1))


ENGINES: dict[str, Callable[[Data, np.ndarray, int], Rows]] = {
    "telerank": telerank,
    "faiss IndexFlatIP": faiss_flat,
    "numpy": numpy_products,
}


@numba.njit(nogil=True)
def _read(words: np.ndarray) -> np.uint64:
    total = np.uint64(0)
    for i in range(len(words)):
        total |= words[i]
    return total


def bandwidth(data: Data) -> float:
    """GB/s of reading all float32 vectors once."""
    words = [part.reshape(-1).view(np.uint64) for part in data.mapped]
    began = time.process_time()
    for part in words:
        _read(part)
    return sum(part.nbytes for part in words) / (time.process_time() - began) / 1e9


def truths(data: Data, k: int) -> tuple[Rows, np.ndarray]:
    """By float64: the best rows of each query in Ranking's order, and all scores (Q, N)."""
    wide = data.queries.astype(np.float64)
    scores = np.concatenate(
        [
            wide @ part[begin : begin + 8192].astype(np.float64).T
            for part in data.mapped
            for begin in range(0, len(part), 8192)
        ],
        axis=1,
    )
    rank = data.stored.docnos.rank
    found = []
    for one in scores:
        near = np.flatnonzero(one >= np.partition(one, -2 * k)[-2 * k])
        found.append(near[np.lexsort((rank[near], one[near].astype(np.float32)))[::-1]][:k])
    return found, scores


def recalls(data: Data, k: int) -> dict[str, float]:
    """The share of the best k that each engine finds; a row that ties with the last counts as found."""
    best, scores = truths(data, k)
    found = {}
    for name, engine in ENGINES.items():
        there = engine(data, data.queries, k) + engine(data, data.queries[:1], k)
        wanted = [*zip(best, scores, strict=True), (best[0], scores[0])]
        shares = [
            np.mean(one[np.unique(rows)] >= one[exact[-1]]) * len(np.unique(rows)) / k
            for rows, (exact, one) in zip(there, wanted, strict=True)
        ]
        found[name] = float(np.mean(shares))
        if name == "telerank":
            same = sum(np.array_equal(rows, exact) for rows, (exact, _) in zip(there, wanted, strict=True))
            print(
                f"telerank: {same} of {len(there)} lists are those of float64 to the last place",
                file=sys.stderr,
            )
    return found


def timed(data: Data, k: int, rounds: int) -> tuple[dict[tuple[str, str], np.ndarray], np.ndarray]:
    """Milliseconds a query, by engine and number of queries, and GB/s, in each round."""
    times: dict[tuple[str, str], list[float]] = {}
    read = []
    for turn in range(-1, rounds):
        one = data.queries[turn % len(data.queries)][None]
        measured = [bandwidth(data)]
        for what, queries in ((SINGLE, one), (BATCH, data.queries)):
            for name, engine in ENGINES.items():
                began = time.process_time()
                engine(data, queries, k)
                taken = (time.process_time() - began) * 1e3 / len(queries)
                if turn >= 0:
                    times.setdefault((name, what), []).append(taken)
            measured.append(bandwidth(data))
        if turn >= 0:
            read.append(float(np.mean(measured)))
    return {key: np.array(values) for key, values in times.items()}, np.array(read)


def memory(folder: Path, k: int) -> float:
    """MB of anonymous memory that a search of 64 queries adds in a process of its own, at its peak."""
    command = [sys.executable, __file__, "--memory-of", str(folder), "--depth", str(k)]
    return float(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def measure_memory(folder: Path, k: int) -> None:
    with tempfile.TemporaryDirectory() as small:  # loads the kernels
        few = Vectors(folder).shards[0].vectors[:20_000]
        manifest = VectorManifest(few.shape[1], "float32", MODEL, MODEL)
        tiny = write_vectors(Path(small) / "v", [([f"d{n}" for n in range(len(few))], few)], manifest)
        for count in (1, 64):
            search(tiny, Encoded(np.array(few[:count]), MODEL), 10)
        del few, tiny
    before, peak, done = _anonymous(), 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.002):
            peak = max(peak, _anonymous())

    watching = threading.Thread(target=watch)
    watching.start()
    opened = Vectors(folder)
    rows = np.random.default_rng(2).choice(len(opened), 64, replace=False)
    queries = opened.take(np.sort(rows))
    for asked in (queries[:1], queries):
        search(opened, Encoded(queries if len(asked) > 1 else asked, MODEL), k)
    done.set()
    watching.join()
    print(json.dumps(peak - before))


def _anonymous() -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


def report(
    data: Data,
    found: dict[str, float],
    measured: tuple[dict[tuple[str, str], np.ndarray], np.ndarray],
    held: float,
) -> tuple[Table, bool]:
    times, read = measured
    peer = "faiss IndexFlatIP"
    rows, met = [], held < MEMORY
    for (name, what), taken in sorted(
        times.items(), key=lambda one: (one[0][1] != SINGLE, one[0][0] != "telerank")
    ):
        ratio = float(np.median(times[peer, what] / taken))
        right = found[name] >= RECALL
        if name == "telerank":
            met &= right and ratio >= TARGETS[what]
        cells = (f"{np.median(taken):.1f}", f"{taken.min():.1f} to {taken.max():.1f}", f"{found[name]:.5f}")
        rows.append((what, name, *cells, Cell(f"{ratio:.2f}", strong=name == "telerank")))
    size = sum(part.nbytes for part in data.mapped)
    codes = sum(shard.codes.nbytes for shard in data.stored.shards)
    speed = float(np.median(read))
    reading = [f"{part / 1e9:.2f} GB take {part / speed / 1e6:.0f} ms" for part in (size, codes)]
    versions = ", ".join(f"{name} {version(name)}" for name in ("faiss-cpu", "numpy", "numba"))
    span = f"{speed:.1f} GB/s ({read.min():.1f} to {read.max():.1f})"
    where = f"Python {platform.python_version()}, {platform.machine()}, one core, processor time."
    notes = (
        f"Read bandwidth in the same rounds: {span}. Vectors of {reading[0]}, codes of {reading[1]} to read.",
        f"telerank's memory beyond the mapped files, 64 queries at a time: {held:.0f} MB at its peak.",
        f"FAISS at its best: distance_compute_blas_threshold={THRESHOLD} for 64, as it comes for one.",
        f"{versions}, {where}",
    )
    columns = ("at a time", "engine", "ms a query", "from to", "recall", "times as fast as FAISS")
    return Table.of(columns, rows, notes=notes, left=2), met


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dimension", type=int, default=768)
    parser.add_argument("--depth", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--like", type=Path, help="a folder of vectors of texts, which are repeated and moved"
    )
    parser.add_argument("--folder", type=Path, help="where the vectors are written; default: a temporary one")
    parser.add_argument("--write", action="store_true", help="put the table into docs/results/speed.md")
    parser.add_argument("--memory-of", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if given.memory_of:
        measure_memory(given.memory_of, given.depth)
        return
    folder = given.folder or Path(tempfile.mkdtemp())
    try:
        draw, dimension = drawing(given.dimension, given.like)
        data = prepared(folder, given.rows, draw, dimension, 64)
        found = recalls(data, given.depth)
        held = memory(data.stored.folder, given.depth)
        table, met = report(data, found, timed(data, given.depth, given.rounds), held)
    finally:
        shutil.rmtree(folder / "vectors", ignore_errors=True)
    like = f", those of {len(Vectors(given.like)):,} texts repeated and moved" if given.like else ""
    told = f"{given.rows:,} vectors of {dimension} dimensions{like}, the best {given.depth:,}."
    text = (
        f"```sh\npython benchmarks/dense_speed.py{_options(given)}\n```\n\n{told}\n\n{render_markdown(table)}"
    )
    print(text)
    if given.write:
        write("speed", "dense speed of texts" if given.like else "dense speed", text)
    sys.exit(0 if met else "a target is missed")


def _options(given: argparse.Namespace) -> str:
    usual = {"rows": 1_000_000, "dimension": 768, "depth": 1000, "rounds": 7}
    changed = (name for name, value in usual.items() if getattr(given, name) != value)
    return "".join(f" --{name} {getattr(given, name)}" for name in changed) + (
        " --like FOLDER" * bool(given.like)
    )


if __name__ == "__main__":
    main()
