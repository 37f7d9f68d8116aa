"""The commands by name; a command's module is imported when the command runs or its own help is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from telerank.errors import shorten_message

HELP_OPTIONS = ["-h", "--help"]
SHORT_HELPS = {
    "index": "Build an index, add to it, update it, delete, merge, verify, describe.",
    "encode": "Encode the documents of a collection or an index into a folder of vectors, to search them.",
    "search": "Search an index or vectors with a pipeline: write a run over a collection's queries, or "
    "answer one.",
    "answer": "Answer questions from the documents of an index: rank them, read the first ones, mark the "
    "answers.",
    "serve": "Serve indexes and models over HTTP: a page for people, an API for programs.",
    "pipeline": "Save pipelines with an index by name, list, show and remove them.",
    "rerank": "Score the documents of a run again with a re-ranker, and write the new run.",
    "fuse": "Fuse runs into one: in turns, by weighted scores, or by ranks.",
    "evaluate": "Measure runs over all queries of the qrels, or predicted answers over all questions of a "
    "collection.",
    "compare": "Compare runs with baselines: paired t-test with Holm's correction, effect size, bootstrap "
    "interval.",
    "tune": "Tune pipelines and analyzers, by cross-validation or on one split for another.",
    "tune-fusion": "Tune the weights of `fuse --method linear` over a grid, by cross-validation.",
    "train": "Train models: `bi-encoder`, `reranker`, `reader`.",
    "inspect": "See why re-rankers score as they do: outputs of tokens, embeddings of pairs, gates over "
    "sentences.",
    "depth": "Re-rank the first n documents of each run by a re-ranker's scores, and measure at each "
    "depth n.",
    "consistency": "Consistency factor C(f, n): the mean share of a run's first n that is among the "
    "reference's candidates.",
    "combine": "Fuse all ordered pairs of runs, and show what each run adds to each other.",
    "experiment": "Run experiments: tables and figures of papers, or YAML files of your own.",
    "data": "List, show, convert and describe collections; make ranking sets and long documents.",
    "analyze-text": "Show the output of each step of an analyzer for a text.",
    "demo": "Try everything on a French collection that is installed with telerank, without a network.",
}
"""The first lines of the commands' docstrings, in the order in which the commands are used.

Command ``a-b`` is the function ``a_b`` of the module ``telerank.cli.a_b``, or the module's ``app``.
"""
_MODULES = {
    "demo": "experiment",
    "rerank": "runs.rerank",
    **dict.fromkeys(("evaluate", "compare", "depth", "consistency"), "runs.evaluate"),
    "tune": "runs.tune",
    **dict.fromkeys(("fuse", "tune-fusion", "combine"), "runs.fuse"),
}
"""The modules of other names."""
_FUNCTIONS_OF_GROUPS = ("demo",)  # in the module of a group
_UsageError: Any = typer.BadParameter.__base__  # typer's, or click's before typer had its own


class Commands(TyperGroup):
    """The group of all commands; its help, plain text, needs none of their modules."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Loaded()  # type: ignore[assignment]

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        _take_plain_values(self, ctx)
        with _bounded_messages():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with _bounded_messages():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(SHORT_HELPS)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super(TyperGroup, self).format_help(ctx, formatter)  # not rich's, which takes as long as typer itself

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text.replace("`", "")) for name, text in SHORT_HELPS.items()])


@contextmanager
def _bounded_messages() -> Iterator[None]:
    """Shorten the messages of wrong arguments, which repeat them."""
    try:
        yield
    except _UsageError as error:
        error.message = shorten_message(error.message)
        raise


def group_with_default(default: str) -> type[TyperGroup]:
    """A group in which ``group ARGUMENT`` stands for ``group default ARGUMENT``."""

    class DefaultGroup(TyperGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
                args = [default, *args]
            return super().parse_args(ctx, args)

    return DefaultGroup


class _Loaded(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        if name not in SHORT_HELPS:
            raise KeyError(name)
        return _load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(SHORT_HELPS)

    def __len__(self) -> int:
        return len(SHORT_HELPS)


@cache
def _load(name: str) -> Any:
    function = name.replace("-", "_")
    module = import_module(f"telerank.cli.{_MODULES.get(name, function)}")
    parent = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    parent.callback()(lambda: None)
    if name in _FUNCTIONS_OF_GROUPS or not hasattr(module, "app"):
        parent.command(name)(getattr(module, function))
    else:
        parent.add_typer(module.app, name=name)
    command = get_command(parent).commands[name]  # type: ignore[attr-defined]
    for part in (command, *getattr(command, "commands", {}).values()):
        _take_plain_values(part, typer.Context(part, help_option_names=HELP_OPTIONS))
    return command


def _take_plain_values(command: Any, context: Any) -> None:
    """Read words and whole numbers without typer, which makes a validator of pydantic for each option."""
    for parameter in command.get_params(context):
        # typer before 0.29 has no such attribute, and no validators
        if hasattr(parameter, "_runtime_param") and not (parameter.multiple or parameter.nargs != 1):
            parameter._runtime_param = _PLAIN_VALUE  # noqa: SLF001


class _PlainValue:
    """Reads a word, or a whole number within its range; leaves everything else to typer."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        kind, info = param.type_descriptor.annotation, param.type_descriptor.parameter_info
        if value is None or (kind is str and isinstance(value, str) and info.parser is None):
            return value
        if kind is int and isinstance(value, str) and value.isascii() and value.isdecimal():
            number = int(value)
            if (info.min is None or number >= info.min) and (info.max is None or number <= info.max):
                return number
        if kind is int and type(value) is int:  # the default
            return value
        param._runtime_param = None  # noqa: SLF001
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


_PLAIN_VALUE = _PlainValue()
