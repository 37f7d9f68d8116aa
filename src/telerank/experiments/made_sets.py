"""Collections that an experiment makes of others: ranking sets, long documents, sets parted by article."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

from telerank.corpus.collection import Collection
from telerank.corpus.derived import writing as long_documents
from telerank.corpus.derived.articles import (
    ArticleParts,
    ArticleSettings,
    is_parted_by,
    join_articles,
    write_parts,
)
from telerank.corpus.derived.far import FarSettings, make_far_relevant
from telerank.corpus.derived.ranking_set import (
    RankingSetSettings,
    is_made_by,
    make_ranking_set,
    write_ranking_set,
)
from telerank.errors import CollectionError
from telerank.experiments.schema import DataSpec
from telerank.sparse.retriever import SparseRetriever
from telerank.sparse.similarities.families import BM25
from telerank.sparse.writer import build_index
from telerank.stage import Stage
from telerank.types import Doc, Progress


def is_made(data: DataSpec, target: Path) -> bool:
    """Whether the folder has the set that :func:`make_set` makes, of the same recipe."""
    settings = _read_recipe(data)
    match settings:
        case RankingSetSettings():
            return is_made_by(target, settings)
        case ArticleParts():
            return is_parted_by(target, settings)
    manifest = target / long_documents.MANIFEST
    if not manifest.is_file():
        return False
    recipe = json.loads(manifest.read_text("utf-8")).get("recipe", {})
    return {key: recipe.get(key) for key in asdict(settings)} == asdict(settings)


def make_set(data: DataSpec, parts: Sequence[Collection], target: Path, progress: Progress) -> None:
    """Make the set of ``parts`` as the data says: its kind ``made_as``, the settings of its ``recipe``.

    Raises CollectionError if the recipe has a setting that the kind does not have, or the set cannot be made.
    """
    settings = _read_recipe(data)
    match settings:
        case RankingSetSettings():
            _make_ranking_set(data, settings, parts, target, progress)
        case ArticleParts():
            progress("parting articles", 0, None)
            write_parts(parts, settings, target)
        case ArticleSettings():
            documents = join_articles(parts, settings, progress=progress)
            long_documents.write_long_documents(target, documents, overwrite=True, progress=progress)
        case FarSettings():
            if len(parts) != 1:
                raise CollectionError(
                    f"far-relevant documents are made of one collection, not of {len(parts)}"
                )
            with ExitStack() as resources:
                documents = make_far_relevant(parts[0], settings, resources=resources, progress=progress)
                long_documents.write_long_documents(target, documents, overwrite=True, progress=progress)


Settings: TypeAlias = RankingSetSettings | ArticleSettings | FarSettings | ArticleParts
_KINDS: Mapping[str, Callable[..., Settings]] = {
    "ranking-set": RankingSetSettings,
    "articles": ArticleSettings,
    "far-relevant": FarSettings,
    "article-parts": ArticleParts,
}


def _read_recipe(data: DataSpec) -> Settings:
    """The settings of what is made; a ranking set has the Piaf report's by default (section 5.2).

    Its documents are contexts, without the titles of their articles.
    """
    usual = {"model": f"bm25 over {data.analyzer}", "titles": False} if data.made_as == "ranking-set" else {}
    try:
        return _KINDS[data.made_as](**{**usual, **data.recipe})
    except (TypeError, ValueError) as error:
        raise CollectionError(f"recipe of {data.made_as}: {error}") from error


def _make_ranking_set(
    data: DataSpec,
    settings: RankingSetSettings,
    parts: Sequence[Collection],
    target: Path,
    progress: Progress,
) -> None:
    """A ranking set of question-answering sets (Piaf report, section 5)."""

    @contextmanager
    def first_stage(docs: Iterable[Doc]) -> Iterator[Stage]:
        index = target.with_name("ranking-set-index")
        built = build_index(docs, index, analyzer=data.analyzer, overwrite=True, progress=progress)
        yield SparseRetriever(built, BM25())

    ranking_set = make_ranking_set(parts, settings, first_stage=first_stage, progress=progress)
    write_ranking_set(target, ranking_set, overwrite=True)
