"""The command line: what a command needs is loaded when it runs."""

from __future__ import annotations

import atexit
import gc
import signal
import sys
from types import FrameType

import typer

from telerank.cli.commands import HELP_OPTIONS, Commands
from telerank.errors import TelerankError

_OBJECTS = 100_000
"""Objects between two garbage collections, which took a tenth of a short command's time: imports make many
objects and no garbage."""

app = typer.Typer(
    cls=Commands,
    name="telerank",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": HELP_OPTIONS},
)


def main() -> None:
    """Run the command line: exit status 0, 2 for bad input (one line on standard error), 130 for Ctrl-C.

    A request to end (SIGTERM) is answered as Ctrl-C is, what was begun is cleared away, with exit status 143.
    """
    signal.signal(signal.SIGTERM, _end)
    gc.set_threshold(_OBJECTS)
    atexit.register(gc.freeze)  # skips the last collection, which takes another tenth
    try:
        app()
    except KeyboardInterrupt:  # before a command has begun: from there on typer answers
        sys.exit(130)
    except (TelerankError, OSError, UnicodeError) as error:
        _report(error)
        sys.exit(2)


def _report(error: BaseException) -> None:
    from telerank.cli import console

    if "--debug" in sys.argv:
        import traceback

        traceback.print_exc()
    console.err.print(f"[bold red]telerank:[/] {console.shown(console.one_line(error))}", soft_wrap=True)
    for note in getattr(error, "__notes__", ()):
        console.say(f"  {note}")


def _end(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def _version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        print(f"telerank {version('telerank')}")
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
