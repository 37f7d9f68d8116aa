"""The functions of pipelines, and reading a pipeline against an index."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from telerank.computing import PairComputing
from telerank.errors import CollectionError
from telerank.expressions import parse_expression
from telerank.fusion import interleave, minmax, prob, rrf, within
from telerank.parameters import FieldsOf
from telerank.pipelines.answers import read, read_answers
from telerank.pipelines.models import Models
from telerank.pipelines.reader import Names, PipelineReader
from telerank.pipelines.run_files import RunFile
from telerank.retrieval.index import Index
from telerank.stage import Stage

if TYPE_CHECKING:
    from telerank.answers.stage import ReadAnswers


def pipeline(
    text: str, index: Index | str | Path | None = None, *, pool: Callable[[str], Stage] | None = None
) -> Stage:
    """The stage that a text describes, over an index: ``bm25 % 100 >> rerank(my-reranker) % 10``.

    A word is a pipeline saved with the index, or a function without arguments. A model is looked for with the
    index, in the folders of ``TELERANK_MODELS``, as a path, and on the hub. ``pool`` makes the stage
    ``pool(NAME)``: :meth:`~telerank.corpus.collection.Collection.pool` of the collection that has the
    queries. The ``repr`` of the stage is a text that reads back as an equal stage.

    Raises
    ------
    ExpressionError
        If the text cannot be read; the message shows where, and the names that are known.
    CollectionError
        If it needs an index or candidate lists that are not there.
    """
    opened = Index(index) if isinstance(index, str | Path) else index
    return read_pipeline(text, Names(Models(opened), functions=FUNCTIONS, pool=pool))


def answer_pipeline(text: str, index: Index | str | Path | None = None) -> ReadAnswers:
    """The pipeline of a text that ends in ``read(READER)``: ``bm25 % 20 >> read(my-reader) % 3``.

    The rest of the text is as :func:`pipeline` reads it. The ``repr`` of the result is a text that reads
    back as an equal one.

    Raises
    ------
    ExpressionError
        If the text cannot be read, or does not end so.
    """
    opened = Index(index) if isinstance(index, str | Path) else index
    return read_answers(text, Names(Models(opened), functions=FUNCTIONS))


def read_pipeline(text: str, names: Names) -> Stage:
    """The stage of a text whose words stand for ``names``; raises as :func:`pipeline`."""
    return PipelineReader(text, names).stage(parse_expression(text))


def dense(
    names: Names, model: str | None = None, approximate: str | None = None, candidates: int = 1000
) -> Stage:
    """The documents whose vectors are nearest to the query's; see :meth:`telerank.Index.dense`."""
    return names.models.open_vectors(model, approximate, candidates)


Scoring = Annotated[Any, FieldsOf(PairComputing)]


def rerank(names: Names, model: str, **settings: Scoring) -> Stage:
    """Score the documents of rankings again; see :func:`telerank.rerank`."""
    from telerank.reranking.stage import CrossReranker

    docs = names.models.open_docs("rerank")
    return CrossReranker(names.models.open_reranker(model, **settings), docs, name=model)


def pool(names: Names, name: str) -> Stage:
    """Candidate lists that come with a collection."""
    if names.pool is None:
        raise CollectionError(f"pool({name}) needs the collection that has these lists and the queries")
    return names.pool(name)


OF_SEGMENTS = ("firstp", "maxp", "meanp", "sump", "kmaxp", "passages", "birch")
# Functions that make stages: a pipeline's text gives them what their signatures say. One that is named, since
# it needs torch, is imported when it is called.
#
# The sparse models are further ones: ``bm25``, ``lm_dirichlet``, … (:mod:`telerank.sparse.similarities`).
FUNCTIONS: Mapping[str, Callable[..., Any] | str] = {
    "dense": dense,
    "rerank": rerank,
    "minmax": minmax,
    "prob": prob,
    "within": within,
    "interleave": interleave,
    "rrf": rrf,
    "pool": pool,
    "run": RunFile,
    **{name: f"telerank.segments.stage:{name}" for name in OF_SEGMENTS},
    "read": read,
}
