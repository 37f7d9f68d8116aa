"""The models in pipelines."""

from __future__ import annotations

from dataclasses import dataclass

from telerank.expressions import Call, Expression, Operation, Word, walk


@dataclass(frozen=True)
class RerankerUse:
    """What ``candidates >> rerank(model)`` is made of."""

    candidates: Expression
    model: str


def model_words(tree: Expression, *functions: str) -> set[str]:
    """The words that stand for models of these functions; by default of all."""
    names = functions or ("dense", "rerank")
    calls = (node for node in walk(tree) if isinstance(node, Call) and node.name in names)
    values = (value for call in calls for key, value in call.arguments if key in ("", "model"))
    return {value.text for value in values if isinstance(value, Word)}


def reranker_use(tree: Expression) -> RerankerUse | None:
    """The candidates and the model of ``candidates >> rerank(model)``; None if the pipeline is another."""
    if not isinstance(tree, Operation) or tree.operator != ">>":
        return None
    last = tree.right
    if isinstance(last, Operation) and last.operator == "%":
        last = last.left
    if not isinstance(last, Call) or last.name != "rerank" or len(last.arguments) != 1:
        return None
    model = last.arguments[0][1]
    return RerankerUse(tree.left, model.text) if isinstance(model, Word) else None
