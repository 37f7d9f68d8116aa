"""The functions of pipelines, and reading a pipeline against an index."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telerank.errors import CollectionError
from telerank.expressions import Expression, parse_expression
from telerank.fusion import interleave, minmax, prob, rrf, within
from telerank.pipelines.answers import READ_FUNCTION, read_answers
from telerank.pipelines.reader import Names, PipelineReader, StageFunction
from telerank.pipelines.run_files import RunFile
from telerank.pipelines.segments import SEGMENT_FUNCTIONS
from telerank.retrieval.index import Index, locate_model
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
    return read_pipeline(text, Names(opened, functions=FUNCTIONS, pool=pool))


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
    return read_answers(text, Names(opened, functions=FUNCTIONS))


def read_pipeline(text: str, names: Names) -> Stage:
    """The stage of a text whose words stand for ``names``; raises as :func:`pipeline`."""
    return PipelineReader(text, names).stage(parse_expression(text))


def _dense(
    names: Names, model: str | None = None, approximate: str | None = None, candidates: int = 1000
) -> Stage:
    if names.index is None:
        raise CollectionError("dense needs an index, and there is none here")
    return names.index.dense(model, approximate=approximate, candidates=candidates, models=names.models)


def _rerank(names: Names, model: str, **settings: Any) -> Stage:
    from telerank.reranking.scorer import Scorer
    from telerank.reranking.stage import CrossReranker

    if names.docs is None and names.index is None:
        raise CollectionError("rerank needs an index, whose documents it reads, and there is none here")
    folder = None if names.index is None else names.index.folder
    source = locate_model(model, models=names.models, index=folder)
    docs = names.docs if names.index is None or not names.index.has_texts else names.index.docs
    return CrossReranker(Scorer(source, **settings), docs, name=model)


def _pool(names: Names, name: str) -> Stage:
    if names.pool is None:
        raise CollectionError(f"pool({name}) needs the collection that has these lists and the queries")
    return names.pool(name)


def _depth(reader: PipelineReader, tree: Expression) -> int | None:
    word = getattr(tree, "text", None)
    return None if word == "none" else reader.whole(tree)


FUNCTIONS: Mapping[str, StageFunction] = {
    "dense": StageFunction(
        _dense,
        {
            "model": PipelineReader.name,
            "approximate": PipelineReader.name,
            "candidates": PipelineReader.whole,
        },
    ),
    "rerank": StageFunction(
        _rerank,
        {
            "model": PipelineReader.name,
            "backend": PipelineReader.name,
            "precision": PipelineReader.name,
            "threads": PipelineReader.whole,
            "tokens": PipelineReader.whole,
            "device": PipelineReader.name,
            "max_query": PipelineReader.whole,
            "max_length": PipelineReader.whole,
        },
        required=("model",),
    ),
    "minmax": StageFunction(lambda _, stage: minmax(stage), {"stage": PipelineReader.stage}, ("stage",)),
    "prob": StageFunction(lambda _, stage: prob(stage), {"stage": PipelineReader.stage}, ("stage",)),
    "within": StageFunction(
        lambda _, candidates, stage: within(candidates, stage),
        {"candidates": PipelineReader.stage, "stage": PipelineReader.stage},
        ("candidates", "stage"),
    ),
    "interleave": StageFunction(
        lambda _, *stages, depth=1000: interleave(*stages, depth=depth), {"depth": _depth}, stages=True
    ),
    "rrf": StageFunction(
        lambda _, *stages, k=60.0: rrf(*stages, k=k), {"k": PipelineReader.number}, stages=True
    ),
    "pool": StageFunction(_pool, {"name": PipelineReader.name}, ("name",)),
    "run": StageFunction(lambda _, file: RunFile(file), {"file": PipelineReader.name}, ("file",)),
    **SEGMENT_FUNCTIONS,
    "read": READ_FUNCTION,
}
"""Besides these the sparse models: ``bm25``, ``lm_dirichlet``, … (:mod:`telerank.sparse.similarities`)."""
