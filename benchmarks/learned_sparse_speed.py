# ruff: noqa: E402 — how many threads there are is read when libraries are loaded
"""Search of SPLADE's vectors beside scipy, bm25s, BMP and Seismic, in one run on one core, in turns.

``python benchmarks/learned_sparse_speed.py --vectors FOLDER [--documents 300000] [--write]``

The passages of ``msdocs`` (in TELERANK_DATA) are encoded once; their vectors stay in FOLDER, in parts, so
that an encoding that was interrupted goes on. All engines get the same whole numbers: weights times 100, as
Anserini stores them, and queries of the same model. Rankings are compared with the exhaustive product of the
matrix before any time is believed: exact engines must have its scores at every rank. BMP rounds the weights
of queries, so that its recall is below 1; of Seismic, which is approximate, the fastest settings of a grid
with a recall of at least 0.99 are timed. bm25s knows no weights of queries: it is timed with each term of a
query once, beside telerank with the same. A query's time is its median over the rounds.
"""

from __future__ import annotations

import os

for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON"):
    os.environ[f"{name}_NUM_THREADS"] = "1"

import argparse
import gzip
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from peers import corpus
from peers.engine import Found
from peers.interleave import Times, interleaved
from results_page import write
from scipy.sparse import csr_matrix

import telerank as tr
from telerank.models.encoders.sparse import SparseEncoding, load_sparse_encoder
from telerank.models.loading import locate
from telerank.show.progress import show_progress
from telerank.show.tables import Table, render_markdown
from telerank.text import Analyzer
from telerank.types import Query

PART = 10_000  # passages of a file of vectors
SCALE = 100
DEPTHS = (10, 1000)
RECALL = 0.99
EXACT = ("scipy", "telerank", "bm25s")
POSTINGS = (3500, 30_000)  # that Seismic keeps of each term, on average; the first is its default
# which of its builds, query_cut, heap_factor
GRID = tuple(product(POSTINGS, (4, 6, 8, 12, 20, 40), (0.6, 0.7, 0.8, 0.9, 1.0)))

# A query's terms by number and their weights.
SparseQuery = tuple[np.ndarray, np.ndarray]


class Engine(Protocol):
    """Answers the query of a number with the rows and scores of the best ``k`` documents, best first."""

    def search(self, number: int, k: int) -> tuple[Sequence[int], Sequence[float]]: ...


@dataclass(frozen=True)
class Matrix:
    """The products of all documents: what all others are held to."""

    documents: csr_matrix  # (N, V), float32
    queries: Sequence[SparseQuery]

    def search(self, number: int, k: int) -> tuple[Sequence[int], Sequence[float]]:
        scores = self.score(number)
        best = np.argpartition(-scores, k)[:k]
        best = best[np.argsort(-scores[best], kind="stable")]
        return best, scores[best]

    def score(self, number: int) -> np.ndarray:
        """The scores of all documents (N,)."""
        dense = np.zeros(self.documents.shape[1], np.float32)
        terms, values = self.queries[number]
        dense[terms] = values
        return self.documents @ dense


class Telerank:
    """``index.impact(queries=FILE)``, with docnos."""

    def __init__(self, folder: Path, name: str) -> None:
        self.stages = {k: tr.Index(folder / "index").impact(queries=folder / name) % k for k in DEPTHS}

    def search(self, number: int, k: int) -> tuple[Sequence[int], Sequence[float]]:
        ranking = self.stages[k].search(Query(str(number), ""))
        return [int(docno) for docno in ranking.docnos], ranking.scores


class BM25s:
    """bm25s with these weights in place of its own scores; all terms of a query count once."""

    def __init__(self, documents: csr_matrix, queries: Sequence[SparseQuery]) -> None:
        import bm25s

        columns = documents.tocsc()
        self.retriever = bm25s.BM25(backend="numba")
        self.retriever.scores = {
            "data": columns.data,
            "indices": columns.indices,
            "indptr": columns.indptr,
            "num_docs": documents.shape[0],
        }
        self.retriever.nonoccurrence_array = None
        self.retriever.vocab_dict = {str(term): term for term in range(documents.shape[1])}
        self.retriever.unique_token_ids_set = set(range(documents.shape[1]))
        self.tokens = [[str(term) for term in terms] for terms, _ in queries]

    def search(self, number: int, k: int) -> tuple[Sequence[int], Sequence[float]]:
        asked = [self.tokens[number]]
        rows, scores = self.retriever.retrieve(asked, k=k, show_progress=False, n_threads=0)
        return rows[0], scores[0]


class BMP:
    """Block-max pruning in blocks of 32; it rounds the weights of queries further."""

    def __init__(self, folder: Path, documents: csr_matrix, queries: Sequence[SparseQuery]) -> None:
        from bmp import Indexer, Searcher

        indexer = Indexer(str(folder / "bmp"), 32, True)
        for row in range(documents.shape[0]):
            indexer.add_document(str(row), name_terms(row_of(documents, row)))
        indexer.finish()
        self.searcher = Searcher(str(folder / "bmp"))
        self.queries = [name_terms(query) for query in queries]

    def search(self, number: int, k: int) -> tuple[Sequence[int], Sequence[float]]:
        rows, scores = self.searcher.search(self.queries[number], k, 1.0, 1.0)
        return [int(row) for row in rows], scores


class Seismic:
    """Seismic's approximate search, built with its defaults and with more postings; ``settings`` of GRID."""

    def __init__(self, documents: csr_matrix, queries: Sequence[SparseQuery]) -> None:
        import seismic

        data = seismic.SeismicDataset()
        ids = [str(row) for row in range(documents.shape[0])]
        offsets = documents.indptr.astype(np.int64)
        data.add_documents_by_id(ids, documents.indices.astype(np.int64), documents.data, offsets)
        build = partial(seismic.SeismicIndex.build_from_dataset, data, num_threads=1)
        self.indexes = {postings: build(n_postings=postings) for postings in POSTINGS}
        kind = seismic.get_seismic_string()
        self.queries = [
            (np.array([str(term) for term in terms], kind), values.astype(np.float32))
            for terms, values in queries
        ]
        self.settings = dict.fromkeys(DEPTHS, GRID[-1])

    def search(self, number: int, k: int) -> tuple[Sequence[int], Sequence[float]]:
        terms, values = self.queries[number]
        postings, cut, heap = self.settings[k]
        found = self.indexes[postings].search("", terms, values, k=k, query_cut=cut, heap_factor=heap)
        return [int(row) for _, _, row in found], [score for _, score, _ in found]


def main() -> None:
    """Encode, build, compare and measure."""
    options = read_options()
    os.sched_setaffinity(0, {options.core})
    documents, queries = read_vectors(options)
    once = [(terms, np.ones_like(values)) for terms, values in queries]
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        folder = Path(scratch)
        write_index(folder, documents, queries, once)
        engines: dict[str, Engine] = {
            "scipy": Matrix(documents, queries),
            "telerank": Telerank(folder, "queries.jsonl"),
            "BMP": BMP(folder, documents, queries),
            "Seismic": Seismic(documents, queries),
        }
        rows = [row for k in DEPTHS for row in measure(engines, len(queries), k, options.rounds)]
        engines = {
            "scipy": Matrix(documents, once),
            "telerank": Telerank(folder, "once.jsonl"),
            "bm25s": BM25s(documents, once),
        }
        more = [row for k in DEPTHS for row in measure(engines, len(once), k, options.rounds)]
    heads = ["engine", "depth", "recall", "p50 ms", "p99 ms", "mean ms", "to telerank"]
    per = documents.nnz / documents.shape[0], sum(len(terms) for terms, _ in queries) / len(queries)
    about = f"{documents.shape[0]:,} passages of {per[0]:.0f} terms, {len(queries)} queries of {per[1]:.1f}"
    tables = [render_markdown(Table.of(heads, part)) for part in (rows, more)]
    command = f"`python benchmarks/learned_sparse_speed.py {' '.join(sys.argv[1:])}`"
    text = f"{command}: {about}, one core.\n\n{tables[0]}\n\nAll weights of queries 1:\n\n{tables[1]}"
    print(text)
    if options.write:
        write("speed", "learned sparse speed", text)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[2])
    add_options(parser)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--scratch", type=Path, help="where to put indexes, instead of the system's place")
    return parser.parse_args()


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that say which vectors and queries there are."""
    default = Path(os.environ.get("TELERANK_DATA", ".")) / "msdocs" / "passages.tsv.xz"
    parser.add_argument("--passages", type=Path, default=default, help="number, source, text; xz-packed")
    parser.add_argument("--vectors", type=Path, required=True, help="where the vectors are kept")
    parser.add_argument("--model", default="bert-tiny-splade")
    parser.add_argument("--documents", type=int, default=300_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/results/speed.md")


def read_vectors(options: argparse.Namespace) -> tuple[csr_matrix, list[SparseQuery]]:
    """The vectors of the passages and of the queries."""
    encoding = load_sparse_encoder(locate(options.model), "cpu")
    return read_documents(options, encoding), make_queries(options, encoding)


def read_documents(options: argparse.Namespace, encoding: SparseEncoding) -> csr_matrix:
    """The vectors of the passages (N, V) in whole numbers, encoded where they are not kept."""
    options.vectors.mkdir(parents=True, exist_ok=True)
    texts = corpus.passages(options.passages, options.documents)
    parts = []
    with show_progress() as progress:
        while part := list(next_part(texts)):
            file = options.vectors / f"part{len(parts):03d}.npz"
            if not file.exists():
                save_vectors(file, encoding, part)
            parts.append(file)
            progress("encoding", PART * len(parts), options.documents)
    loaded = [np.load(file) for file in parts]
    sizes, numbers, weights = (
        np.concatenate([part[name] for part in loaded]) for name in ("sizes", "numbers", "weights")
    )
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    shape = (len(sizes), len(encoding.pieces))
    matrix = csr_matrix(
        (np.rint(weights * SCALE).astype(np.float32), numbers.astype(np.int32), offsets), shape
    )
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def next_part(texts: Iterator[str]) -> Iterator[str]:
    return (text for _, text in zip(range(PART), texts, strict=False))


def save_vectors(file: Path, encoding: SparseEncoding, texts: Sequence[str]) -> None:
    vectors = encoding.encode(texts, queries=False)
    draft = file.with_suffix(".writing.npz")
    np.savez(
        draft,
        sizes=np.array([len(vector.numbers) for vector in vectors]),
        numbers=np.concatenate([vector.numbers for vector in vectors]).astype(np.uint16),
        weights=np.concatenate([vector.weights for vector in vectors]),
    )
    draft.rename(file)


def make_queries(options: argparse.Namespace, encoding: SparseEncoding) -> list[SparseQuery]:
    texts = list(corpus.passages(options.passages, options.documents))
    made = corpus.queries(texts, Analyzer.parse("english"), len(texts), options.queries)
    vectors = encoding.encode(made, queries=True)
    whole = [(vector.numbers, np.rint(vector.weights * SCALE).astype(np.int64)) for vector in vectors]
    return [(numbers[values > 0], values[values > 0]) for numbers, values in whole]


def write_index(
    folder: Path, documents: csr_matrix, queries: Sequence[SparseQuery], once: Sequence[SparseQuery]
) -> None:
    """An index with these weights, and the queries as files."""
    rows = range(documents.shape[0])
    write_vectors(folder / "documents.jsonl.gz", (row_of(documents, row) for row in rows))
    for name, vectors in (("queries", queries), ("once", once)):
        write_vectors(folder / f"{name}.jsonl", vectors)
    docs = (tr.Doc(str(row), "passage") for row in rows)
    tr.index(docs, folder / "index", weights=folder / "documents.jsonl.gz")


def write_vectors(file: Path, vectors: Iterator[SparseQuery] | Sequence[SparseQuery]) -> None:
    """Vectors as Anserini has them; the terms are numbers."""
    with gzip.open(file, "wt", 1) if file.suffix == ".gz" else file.open("w") as lines:
        for row, (terms, values) in enumerate(vectors):
            lines.write(json.dumps({"id": str(row), "vector": name_terms((terms, values))}) + "\n")


def name_terms(query: SparseQuery) -> dict[str, int]:
    """Weights by the terms' numbers as text."""
    return dict(zip(map(str, query[0].tolist()), map(int, query[1].tolist()), strict=True))


def row_of(documents: csr_matrix, row: int) -> SparseQuery:
    part = slice(documents.indptr[row], documents.indptr[row + 1])
    return documents.indices[part], documents.data[part]


def measure(engines: Mapping[str, Any], number: int, k: int, rounds: int) -> Iterator[list[str]]:
    """A row for each engine."""
    truth = [engines["scipy"].score(query) for query in range(number)]
    if "Seismic" in engines:
        choose_settings(engines["Seismic"], k, truth)
    recalls = {name: compare(name, engine, k, truth) for name, engine in engines.items()}
    searches = {name: partial(time_queries, engine, number, k) for name, engine in engines.items()}
    times: Mapping[str, Times] = interleaved(searches, warm_up=1, rounds=rounds)
    for name, taken in times.items():
        ratio = taken.mean / times["telerank"].mean
        shown = (f"{value:.3f}" for value in (taken.median, taken.p99, taken.mean))
        yield [name, f"top-{k}", f"{recalls[name]:.4f}", *shown, f"{ratio:.2f}"]


def compare(name: str, engine: Engine, k: int, truth: Sequence[Any]) -> float:
    """The recall: the share of documents found that are among the best; a wrong exact engine ends the run."""
    shares = []
    for query, exact in enumerate(truth):
        rows, scores = engine.search(query, k)
        best = -np.partition(-exact, k)[:k]
        shares.append(float((exact[np.asarray(rows, np.int64)] >= best.min()).sum()) / k)
        if name in EXACT and not np.array_equal(np.asarray(scores, np.float64), np.sort(best)[::-1]):
            raise SystemExit(f"{name} does not rank by these weights: no time of it is believed")
    return float(np.mean(shares))


def choose_settings(engine: Any, k: int, truth: Sequence[Any]) -> None:
    """The fastest settings of the grid that reach the recall; the last of the grid if none does."""
    reached = {}
    for settings in GRID:
        engine.settings[k] = settings
        if compare("Seismic", engine, k, truth) >= RECALL:
            reached[settings] = time_queries(engine, len(truth), k).times.mean()
    engine.settings[k] = min(reached, key=lambda settings: reached[settings], default=GRID[-1])


def time_queries(engine: Engine, number: int, k: int) -> Found:
    """Nanoseconds of each query."""
    times = np.empty(number, np.int64)
    for query in range(number):
        begun = time.perf_counter_ns()
        engine.search(query, k)
        times[query] = time.perf_counter_ns() - begun
    return Found(times, (), ())


if __name__ == "__main__":
    main()
