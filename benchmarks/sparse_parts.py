"""What each part of the search of learned vectors brings: milliseconds without it, in one run on one core.

``python benchmarks/sparse_parts.py --vectors FOLDER [--documents 30000] [--rounds 5] [--write]``

The vectors and queries are those of ``learned_sparse_speed.py``. Each variant of the search is compiled and
timed in a process of its own; they take turns, and all have to find the same documents with the same scores.
A query's time is its median over the rounds.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Mapping
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from learned_sparse_speed import (
    DEPTHS,
    Telerank,
    add_options,
    read_vectors,
    time_queries,
    write_index,
)
from results_page import write

from telerank.compiled import compiled
from telerank.show.tables import Table, render_markdown
from telerank.sparse import kernel


def change_parts(bits: int) -> None:
    """Parts of 2^bits documents."""
    kernel.PART_BITS, kernel.PARTS = bits, kernel.BLOCK >> bits


def leave_out_parts() -> None:
    """The bounds of blocks, as for queries with few terms."""
    kernel._MANY_TERMS = kernel.MOST_TERMS + 1


def walk_in_order() -> None:
    """No block has so high a bound that it is walked before the others."""
    kernel._floor_of_best = compiled(lambda _bound, _threshold, _blocks: np.int64(2**62))


def leave_out_bounds() -> None:
    """No query is pruned."""
    kernel.MOST_TERMS = 0


VARIANTS: Mapping[str, Callable[[], None]] = {
    "as it is: parts of 16, the best blocks first": lambda: None,
    "parts of 8": lambda: change_parts(3),
    "parts of 32": lambda: change_parts(5),
    "blocks of 256 without parts": leave_out_parts,
    "blocks in their order": walk_in_order,
    "every posting": leave_out_bounds,
}


def main() -> None:
    """Build, time the variants in turns, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[2])
    add_options(parser)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    documents, queries = read_vectors(options)
    with tempfile.TemporaryDirectory() as scratch:
        write_index(Path(scratch), documents, queries, queries)
        taken = take_turns(Path(scratch), len(queries), options.rounds)
    first = next(iter(taken.values()))
    rows = [
        [name, *(cell for pair in zip(means, first, strict=True) for cell in show(*pair))]
        for name, means in taken.items()
    ]
    heads = ["search", *(text for k in DEPTHS for text in (f"top-{k:,}, ms", "times"))]
    about = f"{documents.shape[0]:,} passages of {documents.nnz / documents.shape[0]:.0f} terms"
    command = f"`python benchmarks/sparse_parts.py --vectors FOLDER --documents {options.documents}`"
    text = f"{command}: {about}, {len(queries)} queries.\n\n{render_markdown(Table.of(heads, rows))}"
    print(text)
    if options.write:
        write("speed", "sparse parts", text)


def show(milliseconds: float, first: float) -> tuple[str, str]:
    return f"{milliseconds:.3f}", f"{milliseconds / first:.2f}"


def take_turns(folder: Path, queries: int, rounds: int) -> dict[str, np.ndarray]:
    """The mean milliseconds of a query for each variant and depth."""
    context = get_context("spawn")
    pipes: dict[str, Connection] = {}
    for number, name in enumerate(VARIANTS):
        os.environ["NUMBA_CACHE_DIR"] = str(folder / f"compiled-{number}")
        pipes[name], theirs = context.Pipe()
        context.Process(target=answer, args=(name, folder, queries, theirs), daemon=True).start()
    found = {name: pipe.recv() for name, pipe in pipes.items()}
    if len(set(found.values())) > 1:
        raise SystemExit("the variants do not find the same: no time of them is believed")
    taken: dict[str, list[np.ndarray]] = {name: [] for name in VARIANTS}
    for _ in range(rounds):
        for name, pipe in pipes.items():
            pipe.send(True)
            taken[name].append(pipe.recv())
    for pipe in pipes.values():
        pipe.send(False)
    return {name: np.median(times, axis=0).mean(axis=1) for name, times in taken.items()}


def answer(name: str, folder: Path, queries: int, pipe: Connection) -> None:
    """In a process of its own: what a variant finds, as text; then milliseconds, as often as it is asked."""
    VARIANTS[name]()
    engine = Telerank(folder, "queries.jsonl")
    pipe.send(str([engine.search(query, k) for k in DEPTHS for query in range(queries)]))
    while pipe.recv():
        pipe.send(np.array([time_queries(engine, queries, k).times / 1e6 for k in DEPTHS]))


if __name__ == "__main__":
    main()
