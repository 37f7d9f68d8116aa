"""Expansions, for a process whose children are killed on the way (see :mod:`accidents`)."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np

from accidents import serve
from telerank.corpus.derived.kept import DocSource
from telerank.expansion.writing import QueryFilter, WrittenQueries, write_expansion
from telerank.types import Doc

DOCS = [Doc(f"d{number}", f"text {number}") for number in range(300)]


class Digests:
    """Queries that are hashes, in place of a model."""

    settings = {"model": "digests"}  # noqa: RUF012
    windows = 0

    def predict(self, docs):
        self.windows += 1
        made = [[sha256(f"{doc.docno} {n}".encode()).hexdigest()[:8] for n in range(3)] for doc in docs]
        return made, sum(doc.docno.endswith("7") for doc in docs)


def score(pairs):
    assert all(text.startswith("text ") for _, text in pairs)
    return np.array([int(query, 16) % 1000 for query, _ in pairs], np.float64)


FILTER = QueryFilter(score, 0.3, {"model": "modulo"})


def expand(folder: Path, docs=DOCS, predictor=None, chosen=FILTER) -> WrittenQueries:
    source = DocSource("texts", len(docs), lambda: iter(docs))
    return write_expansion(source, folder / "out.jsonl", predictor or Digests(), chosen, lambda *_: None)


if __name__ == "__main__":
    serve({"expand": expand})
