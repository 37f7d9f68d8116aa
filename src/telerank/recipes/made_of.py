"""A ranking set for a recipe, made of question-answering sets (Piaf report, section 5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from telerank.corpus.formats import open_collection
from telerank.corpus.ranking_sets.ranking_set import (
    MANIFEST,
    RankingSetSettings,
    make_ranking_set,
    write_ranking_set,
)
from telerank.recipes.made import plain
from telerank.recipes.schema import Data
from telerank.sparse.retriever import SparseRetriever
from telerank.sparse.similarities import BM25
from telerank.sparse.writer import build_index
from telerank.stage import Stage
from telerank.types import Doc, Progress


def ranking_set(data: Data, parts: Sequence[str], folder: Path, progress: Progress) -> Path:
    """The set's folder in ``folder``; one that is there is taken."""
    place = folder / plain(data.name) / "ranking-set"
    if (place / MANIFEST).is_file():
        return place

    @contextmanager
    def first_stage(docs: Iterable[Doc]) -> Iterator[Stage]:
        index = place.with_name("ranking-set-index")
        made = build_index(docs, index, analyzer=data.analyzer, overwrite=True, progress=progress)
        yield SparseRetriever(made, BM25())

    wanted = RankingSetSettings(model=f"bm25 over {data.analyzer}")
    made = make_ranking_set(
        [open_collection(one) for one in parts], wanted, first_stage=first_stage, progress=progress
    )
    write_ranking_set(place, made)
    return place
