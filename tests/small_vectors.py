"""Small vectors, and encoders that need no torch."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from telerank.dense.encode import VectorWriter
from telerank.dense.manifest import VectorManifest
from telerank.dense.search import Hits
from telerank.dense.unfinished import UnfinishedShard
from telerank.dense.vectors import Encoded, Vectors
from telerank.types import Doc, Progress, silent

MODEL = "letters"
FINGERPRINT = "f" * 64


def made(rows: int, dimension: int, seed: int = 0) -> np.ndarray:
    """Vectors in clusters, of decaying spectrum and different lengths."""
    random = np.random.default_rng(seed)
    middles = random.normal(size=(20, dimension))
    spectrum = np.arange(1, dimension + 1) ** -0.5
    vectors = (middles[random.integers(0, 20, rows)] * 0.5 + random.normal(size=(rows, dimension))) * spectrum
    return (vectors * random.uniform(0.5, 1.5, (rows, 1))).astype(np.float32)


def stored(folder, vectors: np.ndarray, dtype: str = "float32", shard: int = 5000) -> Vectors:
    """Written in shards; docnos do not rise with the rows."""
    docnos = [f"d{number * 7919 % 1000003}" for number in range(len(vectors))]
    parts = range(0, len(vectors), shard)
    blocks = ((docnos[at : at + shard], vectors[at : at + shard]) for at in parts)
    return write_vectors(folder, blocks, VectorManifest(vectors.shape[1], dtype, MODEL, FINGERPRINT))


def write_vectors(
    folder, blocks: Iterable[tuple[Sequence[str], np.ndarray]], manifest: VectorManifest
) -> Vectors:
    """Written with a shard for each block of docnos and vectors."""
    with VectorWriter(folder, manifest) as writer:
        for docnos, vectors in blocks:
            writer.add([Doc(docno, "") for docno in docnos], vectors)
    return Vectors(folder)


def asked(vectors: np.ndarray) -> Encoded:
    return Encoded(np.asarray(vectors, np.float32), FINGERPRINT)


def brute(vectors: Vectors, queries: np.ndarray, k: int) -> list[tuple[list[str], np.ndarray]]:
    """Each query's best by float64 products of what is stored: docnos and scores, in Ranking's order."""
    rows = np.concatenate(
        [
            shard.codes[:, : vectors.dimension] * shard.bounds[:, :1].astype(np.float64)
            if vectors.dtype == "int8"
            else vectors.widen(shard, slice(None)).astype(np.float64)
            for shard in vectors.shards
        ]
    )
    scores = (queries.astype(np.float64) @ rows.T).astype(np.float32)
    docnos = np.array(list(vectors.docnos))
    ranks = np.argsort(np.argsort(docnos))
    orders = [np.lexsort((ranks, each))[::-1][:k] for each in scores]
    return [(docnos[order].tolist(), each[order]) for order, each in zip(orders, scores, strict=True)]


def check_hits(hits: Sequence[Hits], expected: Sequence[Hits]) -> None:
    """The same rows and scores for each query, to the bit."""
    for each, other in zip(hits, expected, strict=True):
        assert (each.rows == other.rows).all()
        assert (each.scores == other.scores).all()


@dataclass(frozen=True)
class Letters:
    """A text's vector counts its letters, mixed up by the seed; it reads 40 of them."""

    dimension: int = 24
    seed: int = 0

    @property
    def name(self) -> str:
        return MODEL

    @property
    def fingerprint(self) -> str:
        return f"{self.seed:064d}"

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"reads": 40}

    @property
    def batch_tokens(self) -> int:
        return 4096

    def encode_queries(self, texts: Sequence[str]) -> Encoded:
        return Encoded(self.encode_tokens(self.tokenize(texts)[0]), self.fingerprint)

    def tokenize(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        return [list(map(ord, text[:40])) for text in texts], sum(len(text) > 40 for text in texts)

    def encode_tokens(
        self,
        tokens: Sequence[Sequence[int]],
        budget: int | None = None,  # noqa: ARG002
        progress: Progress = silent,  # noqa: ARG002
        unfinished: UnfinishedShard | None = None,
    ) -> np.ndarray:
        """In batches of three texts, each of which is saved."""
        before = [] if unfinished is None else [unfinished.vectors]
        for begin in range(sum(map(len, before)), len(tokens), 3):
            before.append(self._encode(tokens[begin : begin + 3]))
            if unfinished is not None and begin + 3 < len(tokens):
                unfinished.save(before[-1])
        return np.concatenate([np.empty((0, self.dimension), np.float32), *before])

    def _encode(self, tokens: Sequence[Sequence[int]]) -> np.ndarray:
        vectors = np.zeros((len(tokens), self.dimension), np.float32)
        for row, ids in enumerate(tokens):
            for letter in ids:
                mixed = zlib.crc32(bytes([letter % 256, self.seed]))
                vectors[row, mixed % self.dimension] += 1 if mixed & 256 else -1
        return vectors


def docs(texts: Sequence[str]) -> list[Doc]:
    return [Doc(f"d{number}", text) for number, text in enumerate(texts)]
