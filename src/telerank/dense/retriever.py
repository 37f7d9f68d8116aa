"""The dense first stage: the documents whose vectors have the largest inner products with the query's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from telerank.dense.encoder import Encoder, TorchEncoder
from telerank.dense.search import TOGETHER, Hits, search
from telerank.dense.vectors import Encoded, Vectors
from telerank.errors import ModelError
from telerank.expressions import quote
from telerank.stage import Retriever, check_depth
from telerank.types import Explanation, Phrase, Query, Ranking


@dataclass(frozen=True, repr=False)
class DenseRetriever(Retriever):
    """Ranks all documents by inner product; ``depth`` None keeps all of them.

    ``batch`` queries are read, encoded and searched together. A query's ranking does not depend on the batch,
    but the model's arithmetic may differ in the last digits. ``threads`` divide the rows among themselves;
    with a ``device`` such as ``cuda:1`` torch searches on a GPU. Rankings are the same. Raises ModelError if
    the encoder is not the one that made the vectors.
    """

    vectors: Vectors
    encoder: Encoder
    depth: int | None = None
    batch: int = field(default=64, compare=False)
    threads: int = field(default=1, compare=False)
    device: str = field(default="cpu", compare=False)
    name: str = field(default="", compare=False)
    role = "dense"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_depth(self.threads)
        mine, other = self.vectors.manifest, self.encoder
        if mine.fingerprint != other.fingerprint:
            raise ModelError(
                f"{self.vectors.folder}: its vectors were made by {mine.model} "
                f"({mine.fingerprint[:12]}), not by {other.name} ({other.fingerprint[:12]})"
            )

    def in_batches(self, batch: int, threads: int = 1) -> DenseRetriever:
        """On a GPU batches are at least as large as it searches together, unless queries come one by one."""
        least = TOGETHER if self.device != "cpu" and batch > 1 else 1
        return replace(self, batch=max(batch, least), threads=threads)

    @property
    def call(self) -> str:
        return f"dense({quote(self.name or self.encoder.name)})"

    @property
    def sources(self) -> Mapping[str, object]:
        return {f"dense({self.name or self.encoder.name})": self.vectors.identity}

    @property
    def remarks(self) -> Sequence[str]:
        if self.device == "cpu":
            return ()
        from telerank.dense.torch_search import describe_memory

        memory = describe_memory(self.vectors, self.device)
        return [f"{self.call}: {memory}"] if memory else ()

    def explanation(self, query: Query, docno: str) -> Explanation:
        row = np.array([self.vectors.docnos.row(docno)])
        [target] = self.vectors.require(self.encoder.encode_queries([query.text]))
        lengths = [float(np.linalg.norm(vector)) for vector in (target, self.vectors.take(row)[0])]
        score = float(self.vectors.score_rows(row, target)[0])
        product = lengths[0] * lengths[1]
        parts = (
            Explanation(lengths[0], "length of the query's vector"),
            Explanation(lengths[1], "length of the document's vector"),
            Explanation(score / product if product else 0.0, "cosine of the angle between them"),
        )
        model = self.name or self.encoder.name
        what = "inner product of {n} dimensions, by {model}: the product of"
        return Explanation(score, Phrase(what, n=self.vectors.dimension, model=model), parts)

    def rank_batch(self, queries: list[Query]) -> Iterator[Ranking]:
        encoded = self.encoder.encode_queries([query.text for query in queries])
        depth = len(self.vectors) if self.depth is None else min(self.depth, len(self.vectors))
        for query, hits in zip(queries, self._search(encoded, depth), strict=True):
            yield Ranking.presorted(query, tuple(self.vectors.docnos.take(hits.rows)), hits.scores)

    def _search(self, queries: Encoded, depth: int) -> list[Hits]:
        if self.device == "cpu":
            return search(self.vectors, queries, depth, threads=self.threads)
        from telerank.dense.torch_search import load_on_device

        return load_on_device(self.vectors, self.device).search(queries, depth)


def open_retriever(
    vectors: Vectors | str | Path, model: str | Encoder | None = None, *, name: str = ""
) -> DenseRetriever:
    """Open the retriever over a folder of vectors; without ``model``, the one that the folder names is used.

    ``name`` is the model's name in the text of the stage. Raises as :class:`Vectors`, :class:`DenseRetriever`
    and :class:`TorchEncoder` do.
    """
    opened = vectors if isinstance(vectors, Vectors) else Vectors(vectors)
    named = opened.manifest.model if model is None else model
    precision = opened.manifest.settings.get("precision", "float32")
    encoder = TorchEncoder(named, precision=precision) if isinstance(named, str) else named
    if isinstance(encoder, TorchEncoder):
        device = encoder.device_name
        batch = 64 if device == "cpu" else TOGETHER
        return DenseRetriever(opened, encoder, batch=batch, device=device, name=name)
    return DenseRetriever(opened, encoder, name=name)
