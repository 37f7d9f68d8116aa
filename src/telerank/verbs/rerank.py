"""Re-ranking as a stage of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telerank.retrieval.index import Index
from telerank.retrieval.locate import locate_model

if TYPE_CHECKING:
    from telerank.corpus.collection import Collection
    from telerank.models.rerankers.reranker import Reranker
    from telerank.reranking.scorer import Scorer
    from telerank.reranking.stage import CrossReranker, Docs


def rerank(
    model: str | Path | Reranker | Scorer,
    texts: Index | Collection | Docs | Mapping[str, str],
    **settings: Any,
) -> CrossReranker:
    """The stage that scores the documents of rankings again with a re-ranker.

    ``model`` is the folder of a re-ranker, a name (looked for with the index, in the folders of
    ``TELERANK_MODELS``, as a path, on the hub), or a loaded one. ``texts`` has the documents: an index, a
    collection (whose texts are then held in memory), a docstore, or a mapping of texts by docno. ``settings``
    are those of :class:`~telerank.reranking.scorer.Scorer`: ``backend``, ``precision``, ``max_length``, ….

    >>> pipeline = index.bm25() % 100 >> tr.rerank("my-reranker", index) % 10

    Raises
    ------
    ModelError
        If there is no such back end or precision; with the first ranking, if there is no such model.
    MissingExtra
        If torch or the package of the back end is not installed.
    """
    from telerank.corpus.collection import Collection
    from telerank.reranking.scorer import Scorer
    from telerank.reranking.stage import CrossReranker

    folder = texts.folder if isinstance(texts, Index) else None
    scorer = model if isinstance(model, Scorer) else Scorer(_locate(model, folder), **settings)
    if isinstance(texts, Index):
        return CrossReranker(scorer, texts.docs, name=str(model) if isinstance(model, str | Path) else "")
    docs = {doc.docno: doc.full_text for doc in texts.docs()} if isinstance(texts, Collection) else texts
    return CrossReranker(scorer, docs)


def _locate(model: str | Path | Reranker, index: Path | None) -> str | Reranker:
    return locate_model(str(model), index=index) if isinstance(model, str | Path) else model
