"""Commands made of functions: the arguments and options of a command are the function's parameters.

A required parameter is an argument, one with a default an option; its annotation says what it is and what the
help says of it, and ``Flags`` how it is spelled (:mod:`telerank.parameters`). A parameter whose type is a
dataclass is a group of options, which several commands share. ``**settings: FieldsOf(verb)`` are the options
that the verb declares. The docstring is the help.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

import click
from annotated_types import Ge, Le

from telerank.errors import TelerankError, known_names, nearest_name
from telerank.parameters import REQUIRED, Check, Flags, Help, Parameter, parameters_of

_CONTEXT = {"help_option_names": ["-h", "--help"]}


class Command(click.Command):
    """A command whose help is plain text: without the backticks of its docstring, an example on one line.

    The first or the last argument may be given as an option, too, if its ``Flags`` name one behind it.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        arguments = [each for each in self.params if isinstance(each, click.Argument)]
        for argument in arguments:
            for option in argument.secondary_opts:
                args = _as_argument(ctx, option, args, is_first=argument is arguments[0])
        return super().parse_args(ctx, args)

    def format_help_text(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        for paragraph in _plain(self.help or "").split("\n\n"):
            formatter.write_paragraph()
            with formatter.indentation():
                if paragraph.startswith("Example"):  # to be copied
                    formatter.write(f"{'':{formatter.current_indent}}{' '.join(paragraph.split())}\n")
                else:
                    formatter.write_text(paragraph)


def _as_argument(ctx: click.Context, option: str, args: list[str], *, is_first: bool) -> list[str]:
    """The words of a command with the value of an option as its first, or its last, argument."""
    options = args[: args.index("--")] if "--" in args else args
    for number, word in enumerate(options):
        name, has_value, value = word.partition("=")
        if name == option:
            following = number + (1 if has_value else 2)
            if following > len(options):
                raise click.BadOptionUsage(option, f"Option {option!r} requires an argument.", ctx)
            value = value if has_value else options[number + 1]
            rest = [*args[:number], *args[following:]]
            return [value, *rest] if is_first else [*rest, value]
    return args


def _plain(text: str) -> str:
    return text.replace("`", "")


class CommandGroup(Command, click.Group):
    """Commands by name, in their order; if none is named, the ``default`` is meant, if there is one."""

    default: str | None = None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if self.default and args and args[0] not in (*self.commands, *ctx.help_option_names):
            from telerank.corpus.reading import locate_data

            near = nearest_name(self.commands, args[0])
            if near and not locate_data(args[0]).exists():
                ctx.fail(f"No such command {args[0]!r}{near}")
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}; {known_names(self.commands, args[0])}")
        return super().resolve_command(ctx, args)

    def list_commands(self, _: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            first_paragraphs = {
                name: _plain(command.help or "").split("\n\n")[0] for name, command in self.commands.items()
            }
            formatter.write_dl([(name, " ".join(text.split())) for name, text in first_paragraphs.items()])


def group(
    *commands: click.Command, default: str | None = None
) -> Callable[[Callable[[], None]], CommandGroup]:
    """Make a group of commands of a function, whose docstring is the help.

    ``group ARGUMENT`` stands for ``group default ARGUMENT`` if there is a default.
    """

    def make(function: Callable[[], None]) -> CommandGroup:
        commands_of_group = CommandGroup(
            function.__name__,
            help=inspect.getdoc(function),
            commands=list(commands),
            no_args_is_help=True,
            context_settings=_CONTEXT,
        )
        commands_of_group.default = default
        return commands_of_group

    return make


def derive(function: Callable[..., None]) -> click.Command:
    """The command of a function, with an argument or option for each parameter that can be typed."""
    groups: dict[str, tuple[type, Mapping[str, Parameter]]] = {}
    options: dict[str, Parameter] = {}
    for name, parameter in parameters_of(function).items():
        if inspect.isclass(parameter.kind) and is_dataclass(parameter.kind):
            groups[name] = parameter.kind, parameters_of(parameter.kind)
            options |= groups[name][1]
        elif _type(parameter) is not None:
            options[name] = parameter

    def run(**values: Any) -> None:
        for name, value in values.items():
            if isinstance(value, tuple):
                values[name] = list(value) or (None if options[name].is_optional else [])
        for name, (kind, inner) in groups.items():
            values[name] = kind(**{part: values.pop(part) for part in inner})
        function(**values)

    shared = {name for _, inner in groups.values() for name in inner}
    # arguments first, in their order; options that commands share last
    parameters = sorted(
        map(_parameter, options.values()),
        key=lambda each: 0 if isinstance(each, click.Argument) else 1 + (each.name in shared),
    )
    return Command(
        function.__name__.replace("_", "-"),
        callback=run,
        params=parameters,
        help=inspect.getdoc(function),
        context_settings=_CONTEXT,
    )


def _item(parameter: Parameter) -> tuple[Any, bool]:
    """The type of a value that is typed, the first of several, and whether it is one of a list."""
    kind = parameter.kind[0] if isinstance(parameter.kind, tuple) else parameter.kind
    origin: Any = get_origin(kind)
    if origin is Mapping:
        return str, True  # NAME=VALUE
    if origin not in (list, tuple, Sequence):
        return kind, False
    item = get_args(kind)[0]
    return get_args(item)[0] if get_origin(item) in (Annotated, UnionType) else item, True


def _type(parameter: Parameter) -> click.ParamType[Any] | None:
    """How a value is read; None if it cannot be typed."""
    item, _ = _item(parameter)
    low, high = parameter.fact(Ge), parameter.fact(Le)
    bounds: dict[str, Any] = {"min": low and low.ge, "max": high and high.le}
    if get_origin(item) is Literal:
        return click.Choice(get_args(item))
    if item in (int, float) and (low or high):
        return click.IntRange(**bounds) if item is int else click.FloatRange(**bounds)
    plain: dict[Any, click.ParamType[Any]] = {
        str: click.STRING,
        bool: click.BOOL,
        int: click.INT,
        float: click.FLOAT,
        Path: click.Path(path_type=Path, readable=False),
    }
    return plain.get(item)


def _parameter(parameter: Parameter) -> click.Parameter:
    item, is_many = _item(parameter)
    is_required, doc = parameter.default is REQUIRED, parameter.fact(Help)
    flags: Sequence[str] = getattr(parameter.fact(Flags), "names", ())
    metavar = next((flag for flag in flags if not flag.startswith("-")), None)
    checks = [fact.function for fact in parameter.facts if isinstance(fact, Check)]
    help_text = _plain(doc.text) if doc else None
    facts: dict[str, Any] = {
        "type": _type(parameter),
        "metavar": metavar,
        "callback": partial(_check, [*checks, *([_refuse_nan] if item is float else [])]),
        **({} if is_required else {"default": parameter.default}),
    }
    spelled = [flag for flag in flags if flag.startswith("-")]
    if (flags and not flags[0].startswith("-")) or (not spelled and is_required):
        metavar = (metavar or parameter.name.upper()).strip("[].")
        shown = f"{metavar}..." if is_many else metavar
        facts |= {"metavar": shown if is_required else f"[{shown}]", "required": is_required}
        argument = click.Argument([parameter.name], nargs=-1 if is_many else 1, help=help_text, **facts)
        argument.secondary_opts = spelled
        return argument
    if not any(flag.startswith("--") for flag in spelled):
        spelled.append(f"--{parameter.name.strip('_').replace('_', '-')}")
    if item is bool:
        facts |= {"is_flag": True, "type": None}
        if parameter.default is True:
            spelled = [f"{flag}/--no-{flag[2:]}" if flag.startswith("--") else flag for flag in spelled]
    return click.Option(
        [parameter.name, *spelled],
        help=help_text,
        multiple=is_many,
        required=is_required,
        show_default=item is not bool or parameter.default is True,
        **facts,
    )


def _check(checks: Iterable[Callable[[Any], object]], _: Any, __: Any, value: Any) -> Any:
    try:
        for check in checks:
            check(value)
    except TelerankError:
        raise
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return value


def _refuse_nan(value: float | None) -> None:
    if value is not None and math.isnan(value):
        raise ValueError(f"{value!r} is not a valid number.")


SHORT_HELPS = {
    "index": "Build, add, update, watch, delete, merge, verify, describe, back up, restore, export an index.",
    "encode": "Encode the documents of a collection or an index into a folder of vectors, to search them.",
    "expand": "Predict queries for documents (doc2query), with which `--expansion` expands an index.",
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
    "train": "Train models of several kinds (`splade`, `reranker`, …); `fine-tune`, `lengthen`, `trim` "
    "or `pack` one.",
    "inspect": "See why re-rankers score as they do: outputs of tokens, embeddings of pairs, gates over "
    "sentences.",
    "depth": "Re-rank the first n documents of each run by a re-ranker's scores, and measure at each "
    "depth n.",
    "consistency": "Consistency factor C(f, n): the mean share of a run's first n that is among the "
    "reference's candidates.",
    "combine": "Fuse all ordered pairs of runs, and show what each run adds to each other.",
    "experiment": "Run experiments: tables and figures of papers, or YAML files of your own.",
    "data": "List, show, download, convert and describe collections; make ranking sets and long documents.",
    "analyze-text": "Show the output of each step of an analyzer for a text.",
    "demo": "Try everything on a French collection that is installed with telerank, without a network.",
}
"""The first lines of the commands' docstrings, in the order in which the commands are used.

Command ``a-b`` is ``a_b`` of the module ``telerank.cli.a_b``.
"""
_MODULES = {
    "demo": "experiment",
    "pipeline": "index",
    **dict.fromkeys(("evaluate", "compare", "depth", "consistency"), "runs.evaluate"),
    **dict.fromkeys(("rerank", "fuse", "tune", "tune-fusion", "combine"), "runs.fuse"),
}
"""The modules of other names."""


class Commands(CommandGroup):
    """The group of all commands; its help needs none of their modules."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            commands=[click.Command(name, help=text) for name, text in SHORT_HELPS.items()], **settings
        )

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SHORT_HELPS:
            return None
        function = cmd_name.replace("-", "_")
        command: click.Command = getattr(
            import_module(f"telerank.cli.{_MODULES.get(cmd_name, function)}"), function
        )
        return command
