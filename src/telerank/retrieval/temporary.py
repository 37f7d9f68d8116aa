"""An index in a temporary folder, for what needs a first stage over some documents once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from telerank.sparse.retriever import SparseRetriever
from telerank.sparse.similarities.families import parse_similarity
from telerank.stage import Stage
from telerank.text import Analyzer
from telerank.types import Doc, Progress, silent


def temporary_index(
    analyzer: str = "standard", model: str = "bm25", progress: Progress = silent
) -> Callable[[Iterable[Doc]], AbstractContextManager[Stage]]:
    """What opens a sparse model over documents, on an index in a temporary folder.

    Raises
    ------
    AnalyzerError
        If the analyzer cannot be read.
    ExpressionError
        If the model cannot be read.
    """
    chain, similarity = Analyzer.parse(analyzer), parse_similarity(model)

    @contextmanager
    def open_over(docs: Iterable[Doc]) -> Iterator[Stage]:
        from telerank.sparse.writer import build_index

        with TemporaryDirectory(prefix="telerank-") as folder:
            index = build_index(docs, Path(folder) / "index", analyzer=chain, progress=progress)
            yield SparseRetriever(index, similarity)

    return open_over
