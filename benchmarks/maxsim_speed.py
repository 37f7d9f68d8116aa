# ruff: noqa: E402 — how many threads there are is read when libraries are loaded
"""MaxSim of a query and its candidates beside PyLate, maxsim-cpu and numpy, in one run on one core, in turns.

``python benchmarks/maxsim_speed.py [--candidates 1000] [--tokens 120] [--write]``

Vectors of tokens are synthetic: each document's lie around a middle of its own, in a decaying spectrum, and
have length 1; a query's tokens lie near tokens of some document. The candidates of each query are drawn from
eight times as many documents, so that they are read from memory. telerank reads a byte a dimension where they
lie, the others float32, which are gathered for each query before. Before times are believed the scores of
each are compared with float64 sums of what it reads. Peers that are not installed are left out (``pip install
--no-deps pylate maxsim-cpu``); of PyLate the function that scores its re-rankings is timed.
"""

from __future__ import annotations

import os

for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON"):
    os.environ[f"{name}_NUM_THREADS"] = "1"

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

import numpy as np
from peers.engine import Found
from peers.interleave import interleaved
from results_page import write

from telerank.dense.kernel import quantise
from telerank.late_interaction.kernel import score_tokens
from telerank.show.tables import Table, render_markdown

Score = Callable[[int], np.ndarray]  # the number of a query -> its candidates' scores


@dataclass(frozen=True)
class Texts:
    """Vectors of tokens: documents (N, T, D) float32, queries (Q, 32, D), and candidates (Q, n)."""

    documents: np.ndarray
    queries: np.ndarray
    candidates: np.ndarray

    def gather(self) -> list[np.ndarray]:
        """The candidates' vectors of each query, (n, T, D)."""
        return [self.documents[rows] for rows in self.candidates]


def draw(options: argparse.Namespace) -> Texts:
    random = np.random.default_rng(0)
    documents, width = 8 * options.candidates, options.dimension
    spectrum = (np.arange(1, width + 1) ** -0.5).astype(np.float32)
    vectors = random.standard_normal((documents, options.tokens, width), np.float32)
    vectors += random.standard_normal((documents, 1, width), np.float32)
    vectors *= spectrum
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    meant = random.integers(0, documents, options.queries)
    near = vectors[meant][:, random.integers(0, options.tokens, options.query_tokens)]
    noise = random.standard_normal(near.shape, np.float32) * spectrum
    asked = near + noise * (0.7 / np.linalg.norm(noise, axis=-1, keepdims=True))
    asked /= np.linalg.norm(asked, axis=-1, keepdims=True)
    chosen = [
        np.sort(random.choice(documents, options.candidates, replace=False)) for _ in range(options.queries)
    ]
    return Texts(vectors, asked, np.array(chosen))


def telerank(texts: Texts) -> Score:
    tokens, width = texts.documents.shape[1:]
    flat = texts.documents.reshape(-1, width)
    codes, bounds = np.empty((len(flat), width), np.int8), np.empty((len(flat), 4), np.float32)
    quantise(flat, codes, bounds)
    starts = texts.candidates * tokens

    def score(query: int) -> np.ndarray:
        spans = np.stack([starts[query], starts[query] + tokens], axis=1)
        return score_tokens(texts.queries[query], codes, bounds, spans)

    for query in range(len(texts.queries)):
        rows = (starts[query][:, None] + np.arange(tokens)).reshape(-1)
        stored = codes[rows].astype(np.float64) * bounds[rows, :1].astype(np.float64)
        compare("telerank", score(query), exact(texts.queries[query], stored, tokens), 1e-12)
    return score


def numpy_blas(texts: Texts) -> Score:
    gathered = texts.gather()
    return lambda query: (gathered[query] @ texts.queries[query].T).max(1).sum(1)


def pylate(texts: Texts) -> Score:
    import torch
    from pylate.scores import colbert_scores

    torch.set_num_threads(1)
    gathered, queries = [torch.from_numpy(each) for each in texts.gather()], torch.from_numpy(texts.queries)

    def score(query: int) -> np.ndarray:
        with torch.inference_mode():
            found = colbert_scores(queries[query : query + 1], gathered[query])
        return found[0].numpy()

    return score


def maxsim_cpu(texts: Texts) -> Score:
    from maxsim_cpu import maxsim_scores

    gathered = texts.gather()
    return lambda query: maxsim_scores(texts.queries[query], gathered[query])


def exact(query: np.ndarray, rows: np.ndarray, tokens: int) -> np.ndarray:
    """The scores in float64 of documents of ``tokens`` rows."""
    products = rows.astype(np.float64) @ query.astype(np.float64).T
    return products.reshape(-1, tokens, len(query)).max(1).sum(1)


def compare(name: str, found: np.ndarray, expected: np.ndarray, bound: float) -> None:
    error = float(np.abs(found - expected).max() / np.abs(expected).max())
    if not error <= bound:
        raise SystemExit(f"{name} differs from the sums in float64 by {error:.1e}: no time of it is believed")


def checked(name: str, score: Score, texts: Texts) -> Score:
    tokens, width = texts.documents.shape[1:]
    for query in range(len(texts.queries)):
        rows = texts.documents[texts.candidates[query]].reshape(-1, width)
        compare(name, score(query), exact(texts.queries[query], rows, tokens), 1e-5)
    return score


def take_times(score: Score, queries: int) -> Found:
    times = np.empty(queries, np.int64)
    for query in range(queries):
        begun = time.process_time_ns()
        score(query)
        times[query] = time.process_time_ns() - begun
    return Found(times, (), ())


def open_engines(texts: Texts) -> Mapping[str, Score]:
    engines = {"telerank": telerank(texts)}
    for name, module, make in (
        ("numpy", "numpy", numpy_blas),
        ("PyLate", "pylate", pylate),
        ("maxsim-cpu", "maxsim_cpu", maxsim_cpu),
    ):
        if find_spec(module) is None:
            print(f"{name} is not installed", file=sys.stderr)
            continue
        engines[name] = checked(name, make(texts), texts)
    return engines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[2])
    parser.add_argument("--candidates", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=120)
    parser.add_argument("--query-tokens", type=int, default=32)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--queries", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", action="store_true", help="put the table into docs/results/speed.md")
    options = parser.parse_args(arguments)
    texts = draw(options)
    engines = open_engines(texts)
    searches = {name: partial(take_times, score, options.queries) for name, score in engines.items()}
    times = interleaved(searches, warm_up=1, rounds=options.rounds)
    ours = times["telerank"].median
    rows = [
        [name, f"{each.median:.2f}", f"{each.p99:.2f}", f"{each.median / ours:.1f}"]
        for name, each in times.items()
    ]
    table = render_markdown(Table.of(["engine", "p50 ms", "p99 ms", "to telerank"], rows))
    about = (
        f"{options.candidates:,} candidates of {options.tokens} tokens, {options.query_tokens} tokens of a "
        f"query, {options.dimension} numbers each; processor time on one core."
    )
    text = f"```sh\npython benchmarks/maxsim_speed.py\n```\n\n{about}\n\n{table}"
    print(text)
    if options.write:
        write("speed", "maxsim speed", text)


if __name__ == "__main__":
    main()
