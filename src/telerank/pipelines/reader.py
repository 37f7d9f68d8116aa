"""From the tree of a text to a stage: what words and calls stand for."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from telerank.errors import ExpressionError
from telerank.expressions import (
    Call,
    Expression,
    Operation,
    Word,
    as_name,
    as_number,
    bind,
    known_names,
    parse_expression,
    whole_number,
    wrong,
)
from telerank.retrieval.index import Index
from telerank.sparse.retriever import SparseRetriever
from telerank.sparse.similarities.families import MODELS, build_similarity, is_similarity
from telerank.stage import Stage

_DEEPEST = 20  # saved pipelines that name each other


@dataclass(frozen=True)
class Names:
    """What the words of a text stand for.

    ``systems`` and ``models`` are those of an experiment. ``docs`` are the documents that re-rankers read;
    None stands for those of the index. ``texts`` are the saved pipelines; None stands for those saved with
    the index. ``read`` makes the stage ``read(READER)``; None stands for
    :func:`telerank.pipelines.answers.build_read`. ``pool`` makes the stage ``pool(NAME)``, which needs the
    collection of the queries; None if there is none.
    """

    index: Index | None = None
    systems: Mapping[str, Stage] = field(default_factory=dict)
    models: Mapping[str, str | Path] = field(default_factory=dict)
    docs: Any = None
    functions: Mapping[str, StageFunction] = field(default_factory=dict)
    texts: Mapping[str, str] | None = None
    read: Callable[..., Any] | None = None
    pool: Callable[[str], Stage] | None = None

    @cached_property
    def saved(self) -> Mapping[str, str]:
        """The texts of the saved pipelines, by name."""
        if self.texts is not None:
            return self.texts
        return {} if self.index is None else self.index.pipelines


Argument: TypeAlias = Callable[["PipelineReader", Expression], Any]
"""Reads an argument, as :meth:`PipelineReader.stage`, :meth:`PipelineReader.number` and their like do."""


@dataclass(frozen=True)
class StageFunction:
    """A function of pipelines: ``build(names, *stages, **arguments)`` makes the stage.

    ``parameters`` says how each argument is read, ``required`` which must be given. With ``stages`` all
    positional arguments are stages, at least one.
    """

    build: Callable[..., Stage]
    parameters: Mapping[str, Argument] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    stages: bool = False


@dataclass(frozen=True)
class PipelineReader:
    """Reads the tree of one text."""

    text: str
    names: Names
    depth: int = 0

    def stage(self, tree: Expression) -> Stage:
        """The stage that the tree describes.

        Raises
        ------
        ExpressionError
            If a name is unknown, an argument is missing, or an operator has the wrong operands.
        """
        match tree:
            case Operation():
                return self._operation(tree)
            case Call():
                return self._call(tree)
            case Word():
                return self._word(tree)

    def number(self, tree: Expression) -> float:
        return as_number(tree, self.text)

    def whole(self, tree: Expression) -> int:
        return whole_number(tree, self.text)

    def name(self, tree: Expression) -> str:
        return as_name(tree, self.text)

    def _operation(self, tree: Operation) -> Stage:
        if tree.operator == ">>":
            return self.stage(tree.left) >> self.stage(tree.right)
        if tree.operator == "+":
            return self.stage(tree.left) + self.stage(tree.right)
        if tree.operator == "%":
            return self.stage(tree.left) % self.whole(tree.right)
        left, right = tree.left, tree.right
        if isinstance(right, Word) and right.number is not None:
            left, right = right, left
        return self.number(left) * self.stage(right)

    def _word(self, word: Word) -> Stage:
        name, names = word.text, self.names
        if name in names.systems:
            return names.systems[name]
        if name in names.saved:
            return self._saved(name, names.saved[name])
        is_function = name in names.functions or is_similarity(name)
        if is_function and not word.quoted and word.number is None:
            return self._call(Call(name, (), word.at))
        if word.number is not None:
            raise wrong(self.text, word.at, f"expected a stage, got the number {name}")
        if is_function:
            raise wrong(self.text, word.at, f"no system {name!r}: the function {name} stands without quotes")
        known = [*names.systems, *names.saved, *self._functions()]
        raise wrong(self.text, word.at, f"unknown name {name!r}{suggest(name, known)}; {known_names(known)}")

    def _saved(self, name: str, text: str) -> Stage:
        if self.depth >= _DEEPEST:
            raise ExpressionError(f"the saved pipeline {name!r} names itself")
        try:
            return replace(self, text=text, depth=self.depth + 1).stage(parse_expression(text))
        except ExpressionError as error:
            raise ExpressionError(f"the saved pipeline {name!r}: {error}") from error

    def _call(self, call: Call) -> Stage:
        function = self.names.functions.get(call.name)
        if function is None:
            return self._retriever(call)
        positional = [value for key, value in call.arguments if not key] if function.stages else []
        if function.stages and not positional:
            raise wrong(self.text, call.at, f"{call.name} takes one or more stages")
        rest = tuple(pair for pair in call.arguments if pair[1] not in positional)
        values = self.arguments(Call(call.name, rest, call.at), function)
        return function.build(self.names, *map(self.stage, positional), **values)

    def arguments(self, call: Call, function: StageFunction) -> dict[str, Any]:
        """The values of a call's arguments, by name.

        Raises
        ------
        ExpressionError
            If one is unknown, missing, or not as expected.
        """
        bound = bind(call, function.parameters, self.text)
        for name in function.required:
            if name not in bound:
                raise wrong(self.text, call.at, f"{call.name} lacks the argument {name!r}")
        return {name: function.parameters[name](self, value) for name, value in bound.items()}

    def _retriever(self, call: Call) -> Stage:
        if not is_similarity(call.name):
            known = self._functions()
            near = suggest(call.name, known)
            raise wrong(self.text, call.at, f"unknown function {call.name!r}{near}; {known_names(known)}")
        if self.names.index is None:
            raise wrong(self.text, call.at, f"{call.name} needs an index, and there is none here")
        return SparseRetriever(self.names.index.sparse, build_similarity(call, self.text))

    def _functions(self) -> list[str]:
        return [*MODELS, *self.names.functions]


def suggest(name: str, known: Iterable[str]) -> str:
    """A known name that is much like this one, as a part of an error message."""
    by_case = {other.casefold(): other for other in known}
    near = difflib.get_close_matches(name.casefold(), list(by_case), n=1)
    return f" (did you mean {by_case[near[0]]!r}?)" if near else ""
