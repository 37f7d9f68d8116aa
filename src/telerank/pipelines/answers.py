"""Pipelines that end in ``read(READER)``, as text: their results are answers, not rankings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from telerank.computing import SpanComputing
from telerank.errors import ExpressionError
from telerank.expressions import Call, Expression, Operation, Word, parse_expression, whole_number
from telerank.parameters import FieldsOf
from telerank.pipelines.reader import Names, PipelineReader

if TYPE_CHECKING:
    from telerank.answers.stage import ReadAnswers

READ = "read"
Settings = Annotated[Any, FieldsOf(SpanComputing)]


def read(names: Names, model: str, mu: float | None = None, **settings: Settings) -> Any:  # noqa: ARG001
    """The function ``read`` where rankings are expected: it is refused."""
    raise ExpressionError(
        "read ends a pipeline, and its answers are no ranking: it can only come last, "
        "in a text for telerank answer"
    )


def read_last(names: Names, model: str, mu: float | None = None, **settings: Settings) -> ReadAnswers:
    """The function ``read`` at the end: the reader reads documents of the index."""
    from telerank.answers.stage import ReadAnswers

    docs = names.models.open_docs(READ)
    return ReadAnswers(names.models.open_reader(model, **settings), docs, mu, name=model)


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
        return _last(reader, tree.left) % whole_number(tree.right, reader.text)
    if isinstance(tree, Call) and tree.name == READ:
        answers: ReadAnswers = reader.apply(read_last, tree)
        return answers
    raise ExpressionError(f"{reader.text}: expected a pipeline that ends in read(READER)")
