"""How many bytes of an index a system searches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from telerank.dense.retriever import DenseRetriever
from telerank.late_interaction.stage import MaxSim
from telerank.sparse.index import SparseIndex
from telerank.sparse.inverted.lists import FIELDS, WEIGHTS
from telerank.sparse.retriever import SparseRetriever
from telerank.sparse.similarities.base import Beside
from telerank.sparse.weights.retriever import ImpactRetriever
from telerank.stage import Stage
from telerank.stage.parts import walk_stages

_WORDS = ("terms", "offsets", "occurrences", "postings", "starts", "lengths")


def count_bytes(stage: Stage) -> int:
    """The bytes on the disk of the postings, weights and vectors that a stage reads; None of it counts twice.

    Texts, docnos and models do not count.
    """
    return sum(file.stat().st_size for file in {*list_files(stage)})


def list_files(stage: Stage) -> Iterator[Path]:
    """The files with what a stage searches."""
    for part in walk_stages(stage):
        match part:
            case ImpactRetriever():
                yield from _list_postings(part.index, (WEIGHTS,))
            case SparseRetriever():
                reads = part.similarity.reads
                begin = (WEIGHTS,) if isinstance(reads, Beside) else (FIELDS,) if reads else _WORDS
                yield from _list_postings(part.index, begin)
            case DenseRetriever() | MaxSim():
                yield from (file for file in part.vectors.folder.rglob("*") if file.is_file())


def _list_postings(index: SparseIndex, begin: tuple[str, ...]) -> Iterator[Path]:
    for segment in index.segments:
        yield from (file for file in segment.folder.iterdir() if file.name.startswith(begin))
