"""Indexes that are needed for a while only."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from telerank.sparse.retriever import SparseRetriever
from telerank.sparse.similarities.families import parse_similarity
from telerank.sparse.writer import build_index
from telerank.stage import Stage
from telerank.text import Analyzer
from telerank.types import Doc, Progress, silent


@dataclass(frozen=True)
class TemporaryIndex:
    """Opens a sparse model over documents, as a context manager, on an index in a temporary folder.

    Raises
    ------
    AnalyzerError
        If the analyzer cannot be read.
    ExpressionError
        If the model cannot be read.
    """

    analyzer: str = "standard"
    model: str = "bm25"
    progress: Progress = silent

    def __post_init__(self) -> None:
        Analyzer.parse(self.analyzer)
        parse_similarity(self.model)

    @contextmanager
    def __call__(self, docs: Iterable[Doc]) -> Iterator[Stage]:
        with tempfile.TemporaryDirectory(prefix="telerank-") as folder:
            index = build_index(docs, Path(folder) / "index", analyzer=self.analyzer, progress=self.progress)
            yield SparseRetriever(index, parse_similarity(self.model))
