"""What search of SPLADE's vectors reads, by how documents are bounded and ordered: counts, no times.

``python benchmarks/sparse_bounds.py --vectors FOLDER [--documents 30000] [--write]``

The vectors and queries are those of ``learned_sparse_speed.py``. A group of documents is read if its bound
reaches the score of the last document of the answer, which is known beforehand here: no search reads less
with these bounds. A bound is the sum of each query term's largest weight in a group of so many documents; a
block of 256 has the highest bound of its groups. The orders of documents are the collection's, a random one,
and one by content: all documents are halved along the main direction of their vectors, the halves too, and
so on, down to blocks (principal direction divisive partitioning, Boley 1998).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from learned_sparse_speed import DEPTHS, SparseQuery, add_options, read_vectors
from results_page import write
from scipy.sparse import csc_matrix, csr_matrix

from telerank.show.tables import Table, render_markdown

BLOCK = 256
GROUPS = (4096, 256, 64, 16, 8)  # documents of a group
PROJECTED = 128  # numbers of a document's vector by which it is ordered


@dataclass(frozen=True)
class Bounded:
    """A matrix of documents (N, V), and each group's largest weights (groups, V) by the group's size."""

    documents: csr_matrix
    largest: Mapping[int, csc_matrix]

    @classmethod
    def of(cls, documents: csr_matrix) -> Bounded:
        return cls(documents, {size: find_largest(documents, size) for size in GROUPS})

    def bound(self, query: SparseQuery, size: int) -> np.ndarray:
        """The bounds of the groups of so many documents."""
        terms, weights = query
        return np.asarray(self.largest[size][:, terms] @ weights.astype(np.float64))


def main() -> None:
    """Order, bound, count and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[2])
    add_options(parser)
    options = parser.parse_args()
    documents, queries = read_vectors(options)
    draw = np.random.default_rng(0)
    orders = {
        "as they come": np.arange(documents.shape[0]),
        "random": draw.permutation(documents.shape[0]),
        "by content": order_by_content(documents),
    }
    rows = [row for name, order in orders.items() for row in count(name, documents[order], queries)]
    columns = ("blocks", "postings", "forward")
    heads = ["order", "bounds of", *(f"{column}, top-{k}" for k in DEPTHS for column in columns)]
    about = f"{documents.shape[0]:,} passages of {documents.nnz / documents.shape[0]:.0f} terms"
    command = f"`python benchmarks/sparse_bounds.py --vectors FOLDER --documents {options.documents}`"
    text = f"{command}: {about}, {len(queries)} queries.\n\n{render_markdown(Table.of(heads, rows))}"
    print(text)
    if options.write:
        write("speed", "sparse bounds", text)


def find_largest(documents: csr_matrix, size: int) -> csc_matrix:
    """The largest weight of each term in each group of documents."""
    rows = np.repeat(np.arange(documents.shape[0]), np.diff(documents.indptr)) // size
    keys = rows.astype(np.int64) * documents.shape[1] + documents.indices
    order = np.argsort(keys, kind="stable")
    groups, first = np.unique(keys[order], return_index=True)
    values = np.maximum.reduceat(documents.data[order], first).astype(np.float64)
    shape = (-(-documents.shape[0] // size), documents.shape[1])
    return csc_matrix((values, (groups // shape[1], groups % shape[1])), shape)


def order_by_content(documents: csr_matrix) -> np.ndarray:
    """The rows of documents (N,) in an order in which like documents are near each other."""
    draw = np.random.default_rng(0)
    vectors = documents @ draw.standard_normal((documents.shape[1], PROJECTED))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-9)
    return np.concatenate(list(halve(vectors, np.arange(documents.shape[0]))))


def halve(vectors: np.ndarray, rows: np.ndarray) -> Iterator[np.ndarray]:
    """The rows in blocks, by their place along the main direction of their vectors."""
    if len(rows) <= BLOCK:
        yield rows
        return
    centred = vectors[rows] - vectors[rows].mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    ordered = rows[np.argsort(centred @ directions[:, -1], kind="stable")]
    middle = -(-len(rows) // (2 * BLOCK)) * BLOCK  # whole blocks
    yield from halve(vectors, ordered[:middle])
    yield from halve(vectors, ordered[middle:])


def count(name: str, documents: csr_matrix, queries: Sequence[SparseQuery]) -> Iterator[list[str]]:
    """A row for each size of groups: what is read, as shares of all, means over the queries."""
    bounded, columns = Bounded.of(documents), documents.tocsc()
    read = {size: [read_by(bounded, columns, query, size) for query in queries] for size in GROUPS}
    for size, counts in read.items():
        means = np.mean(counts, axis=0)  # (depths, 3)
        shown = [text for row in means for text in (f"{100 * row[0]:.1f} %", *(f"{n:,.0f}" for n in row[1:]))]
        yield [name, f"{size:,}", *shown]


def read_by(bounded: Bounded, columns: csc_matrix, query: SparseQuery, size: int) -> np.ndarray:
    """The share of blocks that are read, the query's postings in them, and all weights of the documents
    whose group reaches the score, which a forward index would read (3,): a row for each depth."""
    terms, weights = query
    scores = np.asarray(columns[:, terms] @ weights.astype(np.float64))
    bounds = bounded.bound(query, size)
    blocks, terms_of = -(-len(scores) // BLOCK), np.diff(bounded.documents.indptr)
    if size <= BLOCK:
        starts = np.arange(0, len(bounds), BLOCK // size)
        of_blocks = np.maximum.reduceat(bounds, starts)
    else:
        of_blocks = np.repeat(bounds, size // BLOCK)[:blocks]
    postings = np.bincount(columns[:, terms].indices // BLOCK, minlength=blocks)
    rows = []
    for k in DEPTHS:
        last = -np.partition(-scores, k - 1)[k - 1]
        reach = of_blocks >= last
        inside = np.repeat(bounds >= last, size)[: len(scores)]
        rows.append([reach.mean(), postings[reach].sum(), terms_of[inside].sum()])
    return np.array(rows)


if __name__ == "__main__":
    main()
