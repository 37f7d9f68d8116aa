"""Re-ranking over HTTP beside infinity-emb 0.0.78: both serve one model, in one run, taking turns.

infinity-emb needs transformers 4, so it has an environment of its own: --environment names it, and it is made
if it is not there. Requests are queries of the MS MARCO slice in TELERANK_DATA with their BM25 lists, sent by
--users clients at a time over loopback. Scores are compared before any time is believed: a service that gives
others than the model fails. Servers that do not have the turn have no requests.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import torch
from results_page import write
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from telerank.models.loading import locate, quiet
from telerank.reranking.scorer import Scorer
from telerank.show.tables import Cell, Table, render_markdown

PEER = "infinity-emb"
REQUIRED = ("infinity-emb[server,torch]==0.0.78", "transformers<5", "torch==2.13.0")
NAME = "cross-encoder"
LARGEST = 1e-4  # deviation of a score from the model's, in standard deviations of the scores
TARGET = 2.0  # times the peer's pairs a second
WAIT = 300  # seconds until a server is ready

Request = tuple[str, list[str]]
"""A query and its passages."""


@dataclass
class Engine:
    """A server by its name: its command, and what was measured of it."""

    name: str
    command: list[str]
    port: int
    route: str = "/rerank"
    pid: int = 0
    rates: list[float] = field(default_factory=list)
    """Pairs a second, of each round."""
    busy: list[float] = field(default_factory=list)
    """Pairs a second of processor time, of each round."""
    seconds: list[float] = field(default_factory=list)
    scores: list[np.ndarray] = field(default_factory=list)

    @property
    def processor_time(self) -> float:
        """Seconds of the server's processes so far."""
        first = psutil.Process(self.pid)
        times = [process.cpu_times() for process in (first, *first.children(recursive=True))]
        return sum(one.user + one.system for one in times)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def real_requests(folder: Path, count: int, depth: int) -> list[Request]:
    """Dev queries with the first documents of their BM25 lists, drawn by a fixed seed."""
    with gzip.open(folder / "collection.tsv.gz", "rt", encoding="utf-8") as lines:
        passages = dict(line.rstrip("\n").split("\t", 1) for line in lines)
    with (folder / "queries.dev.small.tsv").open(encoding="utf-8") as lines:
        queries = dict(line.rstrip("\n").split("\t", 1) for line in lines)
    listed: dict[str, list[str]] = {}
    with gzip.open(folder / "top20.dev.tsv.gz", "rt", encoding="utf-8") as lines:
        for qid, docno, *_ in map(str.split, lines):
            listed.setdefault(qid, []).append(passages[docno])
    drawn = random.Random(0).sample(sorted(listed), min(count, len(listed)))
    return [(queries[qid], listed[qid][:depth]) for qid in drawn]


def save_model(folder: Path) -> Path:
    """MiniLM under a classification layer drawn at random, as the hub has cross-encoders."""
    made: Any = AutoModelForSequenceClassification
    torch.manual_seed(0)
    with quiet():
        made.from_pretrained(locate("minilm"), num_labels=1).save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(locate("minilm"))
    tokenizer.model_max_length = 512
    tokenizer.save_pretrained(folder)
    return folder


def environment(folder: Path) -> Path:
    """The Python of the peer's environment."""
    python, done = folder / "bin" / "python", folder / ".installed"
    if not done.exists() or done.read_text(encoding="utf-8") != " ".join(REQUIRED):
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIRED], check=True)
        done.write_text(" ".join(REQUIRED), encoding="utf-8")
    return python


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def engines_of(model: Path, python: Path, backends: list[str]) -> list[Engine]:
    engines = []
    for backend in backends:
        port = free_port()
        options = ["--reranker", f"{NAME}={model}", "--backend", backend, "--precision", "float32"]
        command = [sys.executable, "-m", "telerank", "serve", *options, "--port", str(port)]
        engines.append(Engine(f"telerank {backend}", command, port))
    port = free_port()
    options = ["--model-id", str(model), "--served-model-name", NAME, "--engine", "torch", "--device", "cpu"]
    options += ["--dtype", "float32", "--port", str(port), "--host", "127.0.0.1"]
    engines.append(Engine(PEER, [str(python.parent / "infinity_emb"), "v2", *options], port))
    return engines


@contextmanager
def running(engine: Engine) -> Iterator[None]:
    """The server of an engine, ready, ended at the end."""
    variables = {**os.environ, "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}
    variables |= {"INFINITY_ANONYMOUS_USAGE_STATS": "0", "TOKENIZERS_PARALLELISM": "true"}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(engine.command, env=variables, stdout=log, stderr=subprocess.STDOUT)
        engine.pid = process.pid
        try:
            end = time.monotonic() + WAIT
            while not is_ready(engine):
                if process.poll() is not None or time.monotonic() > end:
                    log.seek(0)
                    sys.exit(f"{engine.name} did not start:\n{log.read().decode(errors='replace')[-4000:]}")
                time.sleep(0.5)
            yield
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def is_ready(engine: Engine) -> bool:
    try:
        return httpx.get(f"{engine.address}/health", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


async def load(engine: Engine, requests: list[Request], users: int) -> tuple[list[np.ndarray], list[float]]:
    """The scores of each request, and its seconds; ``users`` are under way at a time."""
    scores: list[Any] = [None] * len(requests)
    seconds = [0.0] * len(requests)
    waiting = iter(range(len(requests)))
    limits = httpx.Limits(max_connections=users)
    async with httpx.AsyncClient(base_url=engine.address, timeout=600, limits=limits) as client:

        async def user() -> None:
            for number in waiting:
                query, texts = requests[number]
                body = {"model": NAME, "query": query, "documents": texts, "raw_scores": True}
                began = time.perf_counter()
                reply = await client.post(engine.route, json=body)
                seconds[number] = time.perf_counter() - began
                results = reply.raise_for_status().json()["results"]
                by_index = {found["index"]: found["relevance_score"] for found in results}
                scores[number] = np.array([by_index[index] for index in range(len(texts))])

        await asyncio.gather(*(user() for _ in range(users)))
    return scores, seconds


def measure(engines: list[Engine], requests: list[Request], users: int, rounds: int) -> None:
    """Let the engines take turns; the first round, which compiles and warms, does not count."""
    pairs = sum(len(texts) for _, texts in requests)
    for number in range(rounds + 1):
        for engine in engines:
            began, used = time.perf_counter(), engine.processor_time
            engine.scores, seconds = asyncio.run(load(engine, requests, users))
            if number:
                engine.rates.append(pairs / (time.perf_counter() - began))
                engine.busy.append(pairs / max(engine.processor_time - used, 0.01))
                engine.seconds += seconds
                print(f"{engine.name}: {engine.rates[-1]:.1f} pairs a second", file=sys.stderr, flush=True)


def report(engines: list[Engine], exact: np.ndarray, notes: tuple[str, ...]) -> tuple[Table, list[str]]:
    """The table, and what fails."""
    peer = next(engine for engine in engines if engine.name == PEER)
    rows, failed = [], []
    for engine in engines:
        deviation = float(np.abs(np.concatenate(engine.scores) - exact).max() / exact.std())
        ratio = float(np.median(np.array(engine.rates) / np.array(peer.rates)))
        if deviation > LARGEST:
            failed.append(f"{engine.name} gives other scores than the model: {deviation:.1g}")
        times = np.percentile(engine.seconds, (50, 99)) * 1000
        rates = f"{min(engine.rates):.1f} to {max(engine.rates):.1f}"
        rows.append(
            (
                engine.name,
                f"{np.median(engine.rates):.1f}",
                rates,
                Cell(f"{ratio:.2f}", strong=engine is not peer),
                f"{np.median(engine.busy):.1f}",
                f"{times[0]:.0f}",
                f"{times[1]:.0f}",
                f"{deviation:.1g}",
            )
        )
    best = max(np.median(np.array(engine.rates) / np.array(peer.rates)) for engine in engines)
    if best < TARGET:
        failed.append(f"the best is {best:.2f} times as fast as {PEER}, not {TARGET}")
    columns = (
        "service",
        "pairs a second",
        "from to",
        f"times {PEER}",
        "a processor second",
        "median ms",
        "p99 ms",
        "deviation",
    )
    return Table.of(columns, rows, notes=notes, left=1), failed


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--environment", type=Path, default=Path("build/infinity"))
    parser.add_argument("--backends", nargs="+", default=["torch", "openvino"])
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--depth", type=int, default=20, help="passages of a request")
    parser.add_argument("--users", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the table into docs/results/serving.md")
    given = parser.parse_args()
    if "TELERANK_DATA" not in os.environ:
        sys.exit("TELERANK_DATA is not set: no real pairs here")
    requests = real_requests(Path(os.environ["TELERANK_DATA"]) / "msmarco-slice", given.requests, given.depth)
    python = environment(given.environment)
    with tempfile.TemporaryDirectory() as folder:
        model = save_model(Path(folder) / NAME)
        pairs = [(query, text) for query, texts in requests for text in texts]
        exact = Scorer(model, backend="torch", precision="float32", device="cpu").score(pairs)
        engines = engines_of(model, python, given.backends)
        with ExitStack() as stack:
            for engine in engines:
                stack.enter_context(running(engine))
            measure(engines, requests, given.users, given.rounds)
    notes = (
        f"{len(requests)} requests of {given.depth} passages, {given.users} at once, {given.rounds} rounds.",
        "MiniLM-L6 under a classification layer drawn at random, float32, on the processor; wall clock.",
        "Deviation: the largest of a score from the model's own, in standard deviations of the scores.",
    )
    table, failed = report(engines, exact, notes)
    usual: dict[str, Any] = vars(parser.parse_args([]))
    changed = {
        key: one for key, one in vars(given).items() if key in ("requests", "depth", "users", "rounds")
    }
    options = "".join(f" --{key} {one}" for key, one in changed.items() if one != usual[key])
    text = f"`python benchmarks/serve_peers.py{options}`\n\n{render_markdown(table)}"
    print(text)
    if given.write:
        write("serving", "serve peers", text)
    sys.exit("\n".join(failed) if failed else 0)


if __name__ == "__main__":
    main()
