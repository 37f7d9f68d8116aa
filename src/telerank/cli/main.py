"""The command line: one file per command; what a command needs is loaded when it runs."""

from __future__ import annotations

import signal
import sys
import traceback
from importlib.metadata import version
from types import FrameType
from typing import Any

import typer
from typer.core import TyperGroup

from telerank.cli import console
from telerank.cli import data as data_commands
from telerank.cli import index as index_commands
from telerank.cli import inspect as inspect_commands
from telerank.cli import train as train_commands
from telerank.cli.analyze_text import analyze_text
from telerank.cli.combine import combine
from telerank.cli.compare import compare
from telerank.cli.consistency import consistency
from telerank.cli.demo import demo
from telerank.cli.depth import depth
from telerank.cli.encode import encode
from telerank.cli.evaluate import evaluate
from telerank.cli.fuse import fuse
from telerank.cli.rerank import rerank
from telerank.cli.run import run
from telerank.cli.search import search
from telerank.cli.tune import tune
from telerank.cli.tune_fusion import tune_fusion

_IN_ORDER = (
    *("index", "encode", "search", "rerank", "fuse", "evaluate", "compare", "tune", "tune-fusion"),
    *("train", "inspect", "depth", "consistency", "combine", "run", "data", "analyze-text", "demo"),
)


class _InOrder(TyperGroup):
    """Lists the commands in the order in which they are used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=_IN_ORDER.index)


app = typer.Typer(
    cls=_InOrder,
    name="telerank",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line: exit status 0, 2 for bad input (one line on standard error), 130 for Ctrl-C.

    A request to end (SIGTERM) is answered as Ctrl-C is, what was begun is cleared away, with exit status 143.
    """
    debug = "--debug" in sys.argv
    signal.signal(signal.SIGTERM, _end)
    try:
        app()
    except KeyboardInterrupt:  # before a command has begun: from there on typer answers
        sys.exit(130)
    except console.USER_ERRORS as error:
        if debug:
            traceback.print_exc()
        console.err.print(f"[bold red]telerank:[/] {console.shown(console.one_line(error))}", soft_wrap=True)
        sys.exit(2)


def _end(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def _version(asked: bool) -> None:
    if asked:
        print(f"telerank {version('telerank')}")  # noqa: T201
        raise typer.Exit


@app.callback()
def _root(
    debug: bool = typer.Option(False, "--debug", help="Show the whole traceback of an error."),
    _: bool = typer.Option(
        False, "--version", help="Print the version and exit.", callback=_version, is_eager=True
    ),
) -> None:
    """Rank text in stages, and measure every stage.

    To begin: `telerank demo`
    """


app.command()(analyze_text)
app.command()(combine)
app.command()(compare)
app.command()(consistency)
app.command()(demo)
app.command()(depth)
app.command()(encode)
app.command()(evaluate)
app.command()(fuse)
app.add_typer(data_commands.app, name="data")
app.add_typer(index_commands.app, name="index")
app.add_typer(inspect_commands.app, name="inspect")
app.command()(rerank)
app.command()(run)
app.command()(search)
app.add_typer(train_commands.app, name="train")
app.command()(tune)
app.command("tune-fusion")(tune_fusion)
