"""From the tree of a text to a stage: what words and calls stand for, and the models that they name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from annotated_types import Ge

from telerank.errors import CollectionError, ExpressionError, known_names
from telerank.expressions import (
    Call,
    Expression,
    Operation,
    Word,
    as_name,
    as_number,
    bind,
    parse_expression,
    whole_number,
    wrong,
)
from telerank.model_names import require_default
from telerank.parameters import REQUIRED, Check, Parameter, WordValues, parameters_of
from telerank.retrieval.index import Index
from telerank.retrieval.model_sources import locate_model
from telerank.sparse.similarities.base import Similarity
from telerank.sparse.similarities.families import MODELS, build_similarity, is_similarity
from telerank.stage import Stage

if TYPE_CHECKING:
    from telerank.answers.scorer import SpanReader
    from telerank.reranking.scorer import Scorer
    from telerank.types import Docs

_DEEPEST = 20  # saved pipelines that name each other
_READERS: Mapping[Any, Callable[[Expression, str], Any]] = {
    float: as_number,
    str: as_name,
    Similarity: build_similarity,
}


@dataclass(frozen=True)
class Models:
    """Opens models for stages over an index.

    They are looked for by name in ``sources``, with the index, in the folders of ``TELERANK_MODELS``, as a
    path, and on the hub.
    """

    index: Index | None = None
    sources: Mapping[str, str | Path] = field(default_factory=dict)

    def locate(self, model: str) -> str:
        """The path of a model, or the name itself, which is then one on the hub."""
        return locate_model(model, models=self.sources, index=self.index.folder if self.index else None)

    def check_default(self, model: str, default: str) -> None:
        """Raise MissingExtra or ModelError if the model is the default one, and not here."""
        if model == default and self.locate(model) == model:
            require_default(default)

    def open_docs(self, function: str) -> Docs:
        """The documents that a function of pipelines reads; raises CollectionError without an index."""
        return self._need(function, ", whose documents it reads,").docs

    def open_vectors(self, model: str | None, approximate: str | None, candidates: int) -> Stage:
        """The retriever over the vectors of a model; None: the only ones of the index."""
        index = self._need("dense")
        return index.dense(model, approximate=approximate, candidates=candidates, models=self.sources)

    def open_maxsim(self, model: str | None) -> Stage:
        """The re-ranker over the vectors of tokens of a model; None: the only ones of the index."""
        return self._need("maxsim").maxsim(model, models=self.sources)

    def open_impact(self, model: str | None, queries: str | None, table: str | None) -> Stage:
        """The retriever over weights of terms, with what gives them to queries."""
        index = self._need("impact")
        return index.impact(model, queries=queries, table=table, models=self.sources)

    def open_boolean(self, join: Literal["and", "or"]) -> Stage:
        """The retriever of Boolean expressions."""
        return self._need("boolean").boolean(join)

    def open_reranker(self, model: str, **settings: Any) -> Scorer:
        from telerank.reranking.scorer import Scorer

        return Scorer(self.locate(model), **settings)

    def open_reader(self, model: str, **settings: Any) -> SpanReader:
        from telerank.answers.scorer import SpanReader

        return SpanReader(self.locate(model), **settings)

    def _need(self, function: str, what_for: str = "") -> Index:
        if self.index is None:
            raise CollectionError(f"{function} needs an index{what_for or ','} and there is none here")
        return self.index


@dataclass(frozen=True)
class Names:
    """What the words of a text stand for.

    ``systems`` are those of an experiment. ``functions`` make stages: their signatures say what the text
    gives them, and these names are the first argument of those that take any. ``texts`` are the saved
    pipelines; None stands for those saved with the index. ``pool`` makes the stage ``pool(NAME)``, which
    needs the collection of the queries; None if there is none.
    """

    models: Models = field(default_factory=Models)
    systems: Mapping[str, Stage] = field(default_factory=dict)
    functions: Mapping[str, Callable[..., Any] | str] = field(default_factory=dict)
    texts: Mapping[str, str] | None = None
    pool: Callable[[str], Stage] | None = None

    @property
    def index(self) -> Index | None:
        return self.models.index

    @cached_property
    def saved(self) -> Mapping[str, str]:
        """The texts of the saved pipelines, by name."""
        if self.texts is not None:
            return self.texts
        return {} if self.index is None else self.index.pipelines


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
            case Operation(">>", left, right):
                return self.stage(left) >> self.stage(right)
            case Operation("+", left, right):
                return self.stage(left) + self.stage(right)
            case Operation("%", left, right):
                return self.stage(left) % whole_number(right, self.text)
            case Operation(_, left, right):
                if isinstance(right, Word) and right.number is not None:
                    left, right = right, left
                return as_number(left, self.text) * self.stage(right)
            case Call():
                return self._call(tree)
            case Word():
                return self._word(tree)

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
        raise wrong(self.text, word.at, f"unknown name {name!r}; {known_names(known, name)}")

    def _saved(self, name: str, text: str) -> Stage:
        if self.depth >= _DEEPEST:
            raise ExpressionError(f"the saved pipeline {name!r} names itself")
        try:
            return replace(self, text=text, depth=self.depth + 1).stage(parse_expression(text))
        except ExpressionError as error:
            raise ExpressionError(f"the saved pipeline {name!r}: {error}") from error

    def _call(self, call: Call) -> Stage:
        function = self.names.functions.get(call.name)
        if function is not None:
            stage: Stage = self.apply(resolve_name(function) if isinstance(function, str) else function, call)
            return stage
        if not is_similarity(call.name):
            known = known_names(self._functions(), call.name)
            raise wrong(self.text, call.at, f"unknown function {call.name!r}; {known}")
        if self.names.index is None:
            raise wrong(self.text, call.at, f"{call.name} needs an index, and there is none here")
        return self.names.index.retriever(build_similarity(call, self.text))

    def apply(self, function: Callable[..., Any], call: Call) -> Any:
        """The result of a function with the arguments of a call, which are read as its signature says.

        Raises
        ------
        ExpressionError
            If one is unknown, missing, or not as expected.
        """
        known = parameters_of(function)
        needed = [name for name, parameter in known.items() if parameter.kind is Names]
        parameters = {name: each for name, each in known.items() if name not in needed}
        values: list[Any] = [self.names for _ in needed]
        if many := next((each for each in parameters.values() if each.is_many), None):
            del parameters[many.name]
            positional = [value for key, value in call.arguments if not key]
            if not positional:
                raise wrong(self.text, call.at, f"{call.name} takes one or more stages")
            values += [self._argument(many, value) for value in positional]
            call = replace(call, arguments=tuple(pair for pair in call.arguments if pair[0]))
        bound = bind(call, parameters, self.text)
        for name, parameter in parameters.items():
            if name not in bound and parameter.default is REQUIRED:
                raise wrong(self.text, call.at, f"{call.name} lacks the argument {name!r}")
        return function(*values, **{name: self._argument(parameters[name], bound[name]) for name in bound})

    def _argument(self, parameter: Parameter, tree: Expression) -> Any:
        """The value of an argument, by the type of its parameter."""
        words = parameter.fact(WordValues)
        values = {**(words.values if words else {})}
        if parameter.is_optional and parameter.default is not None:
            values["none"] = None
        if isinstance(tree, Word) and tree.text in values:
            return values[tree.text]
        value = self._value(parameter, tree)
        if check := parameter.fact(Check):
            try:
                check.function(value)
            except ValueError as error:
                raise wrong(self.text, tree.at, str(error)) from error
        return value

    def _value(self, parameter: Parameter, tree: Expression) -> Any:
        kind = parameter.kind
        if kind == (int, str):
            kind = int if isinstance(tree, Word) and tree.number is not None else str
        if kind == (Similarity, str):  # programs may give its text
            kind = Similarity
        if kind is bool or get_origin(kind) is Literal:
            words = ("true", "false") if kind is bool else get_args(kind)
            if (word := as_name(tree, self.text)) not in words:
                raise wrong(self.text, tree.at, f"expected {' or '.join(words)}, got {word!r}")
            return word == "true" if kind is bool else word
        if kind is int:
            bound = parameter.fact(Ge)
            return whole_number(tree, self.text, least=1 if bound is None else int(str(bound.ge)))
        if kind in _READERS:
            return _READERS[kind](tree, self.text)
        if get_origin(kind) is not tuple:
            return self.stage(tree)
        try:
            return tuple(map(float, as_name(tree, self.text).replace(",", " ").split()))
        except ValueError:
            raise wrong(self.text, tree.at, "expected numbers such as '1 0.5 0.2'") from None

    def _functions(self) -> list[str]:
        return [*MODELS, *self.names.functions]
