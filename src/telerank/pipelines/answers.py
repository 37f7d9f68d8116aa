"""Pipelines that end in ``read(READER)``, as text: their results are answers, not rankings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telerank.errors import CollectionError, ExpressionError
from telerank.expressions import Call, Expression, Operation, Word, parse_expression
from telerank.pipelines.reader import Names, PipelineReader, StageFunction
from telerank.retrieval.index import locate_model

if TYPE_CHECKING:
    from telerank.answers.stage import ReadAnswers

READ = "read"


def _threshold(reader: PipelineReader, tree: Expression) -> float:
    """A number, or ``none``: always an answer."""
    return math.inf if getattr(tree, "text", None) == "none" else reader.number(tree)


PARAMETERS: Mapping[str, Callable[[PipelineReader, Expression], Any]] = {
    "model": PipelineReader.name,
    "mu": PipelineReader.number,
    "backend": PipelineReader.name,
    "precision": PipelineReader.name,
    "threads": PipelineReader.whole,
    "tokens": PipelineReader.whole,
    "device": PipelineReader.name,
    "max_length": PipelineReader.whole,
    "stride": PipelineReader.whole,
    "max_question": PipelineReader.whole,
    "max_answer": PipelineReader.whole,
    "threshold": _threshold,
    "temperature": PipelineReader.number,
}
"""The arguments of ``read``: the reader, ``mu``, and the settings of
:class:`telerank.answers.scorer.SpanReader`."""


def _refuse(_: Names, **__: Any) -> Any:
    raise ExpressionError(
        "read ends a pipeline, and its answers are no ranking: it can only come last, "
        "in a text for telerank answer"
    )


READ_FUNCTION = StageFunction(_refuse, PARAMETERS, ("model",))
"""The function ``read`` where rankings are expected."""


def read_answers(text: str, names: Names) -> ReadAnswers:
    """The pipeline of a text that ends in ``read(READER)``, perhaps cut: ``bm25 % 20 >> read(r) % 3``.

    Raises
    ------
    ExpressionError
        If the text cannot be read, or does not end so.
    """
    reader = PipelineReader(text, names)
    tree = parse_expression(text)
    if isinstance(tree, Operation) and tree.operator == ">>":
        return reader.stage(tree.left) >> _last(reader, tree.right)
    return _last(reader, tree)


def ends_in_read(text: str) -> bool:
    """Whether the last stage of a text is ``read``; raises ExpressionError if the text cannot be read."""
    tree = parse_expression(text)
    while isinstance(tree, Operation) and tree.operator in (">>", "%"):
        tree = tree.right if tree.operator == ">>" else tree.left
    return isinstance(tree, Call | Word) and (tree.name if isinstance(tree, Call) else tree.text) == READ


def _last(reader: PipelineReader, tree: Expression) -> ReadAnswers:
    """The stage ``read(READER)`` or ``read(READER) % k``."""
    if isinstance(tree, Operation) and tree.operator == "%":
        return _last(reader, tree.left) % reader.whole(tree.right)
    if isinstance(tree, Call) and tree.name == READ:
        build = reader.names.read or build_read
        return build(reader.names, **reader.arguments(tree, READ_FUNCTION))
    raise ExpressionError(f"{reader.text}: expected a pipeline that ends in read(READER)")


def build_read(names: Names, model: str, mu: float | None = None, **settings: Any) -> ReadAnswers:
    """The stage that reads documents of the index with the reader of that name."""
    from telerank.answers.scorer import SpanReader
    from telerank.answers.stage import ReadAnswers

    index, docs = names.index, names.docs
    if index is not None and (index.has_texts or docs is None):
        docs = index.docs
    if docs is None:
        raise CollectionError("read needs an index, whose documents it reads, and there is none here")
    folder = None if index is None else index.folder
    source: str | Path = locate_model(model, models=names.models, index=folder)
    return ReadAnswers(SpanReader(source, **settings), docs, mu, name=model)
