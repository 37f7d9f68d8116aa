"""The command line: what a command needs is loaded when it runs."""

from __future__ import annotations

import atexit
import gc
import io
import os
import signal
import sys
import warnings
from types import FrameType
from typing import Any

import click

from telerank.cli.commands import Commands
from telerank.errors import (
    FormatWarning,
    LongTexts,
    MissingQueries,
    MissingVectors,
    MissingWeights,
    TelerankError,
    UnlikelySetting,
    UnreadFiles,
    UpdateFailed,
    shorten_message,
)

_OBJECTS = 100_000
"""Objects between two garbage collections, which took a tenth of a short command's time: imports make many
objects and no garbage."""

_NAMES = {"stdin": "standard input", "stdout": "standard output", "stderr": "standard error"}
"""The standard streams, in the order of their numbers."""

_ended: list[int] = []
"""The exit statuses of the signals that asked this process to end."""


def main() -> None:
    """Run the command line: exit status 0, 2 for bad input (one line on standard error), 130 for Ctrl-C.

    A request to end (SIGTERM) is answered as Ctrl-C is, what was begun is cleared away, with exit status 143.
    Characters that a terminal's encoding lacks are escaped.
    """
    signal.signal(signal.SIGTERM, _end)
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    gc.set_threshold(_OBJECTS)
    atexit.register(gc.freeze)  # skips the last collection, which takes another tenth
    _open_streams()
    try:
        try:
            status = app.main(prog_name="telerank", standalone_mode=False) or 0
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            status = error.exit_code
        except click.ClickException as error:  # a wrong command is told how to be
            message = shorten_message(error.format_message())  # which repeats what was typed
            click.UsageError(message, getattr(error, "ctx", None)).show()
            status = error.exit_code
        sys.stdout.flush()
        sys.exit(status)
    except (KeyboardInterrupt, click.Abort) as error:
        _say_interrupted(error.__cause__ if isinstance(error, click.Abort) else error)
        sys.exit(_ended[-1] if _ended else 130)  # what waits outside Python makes an interrupt of any signal
    except (TelerankError, OSError, UnicodeError) as error:
        _report(error)
        sys.exit(2)


class _StandardStream(io.FileIO):
    """A standard stream, by its number; an error raises TelerankError.

    After the first error what is written is lost, and so nothing is reported at the end of the process.
    Errors of standard error are never raised.
    """

    def __init__(self, number: int, name: str) -> None:
        super().__init__(number, "w" if number else "r", closefd=False)
        self._label, self._is_lost = _NAMES[name], name == "stderr"

    def readinto(self, buffer: Any) -> int | None:
        try:
            return super().readinto(buffer)
        except OSError as error:
            raise TelerankError(f"{self._label}: {error.strerror}") from error

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError as error:
            if self._is_lost:
                return len(content)
            self._is_lost = True
            raise TelerankError(f"{self._label}: {error.strerror}") from error


def _open_streams() -> None:
    """Replace the standard streams of this process by :class:`_StandardStream`, those that are closed, too.

    Streams that were replaced already, as by tests, are left.
    """
    for number, name in enumerate(_NAMES):
        stream = getattr(sys, name)
        if stream is None:  # it is closed: using it must fail, and no other file may get its number
            os.open(os.devnull, os.O_RDONLY if number else os.O_WRONLY)
        elif stream is not getattr(sys, f"__{name}__"):
            continue
        buffer = (io.BufferedWriter if number else io.BufferedReader)(_StandardStream(number, name))
        how: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape"}
        if stream is not None:
            how = {
                "encoding": stream.encoding,
                "errors": "backslashreplace" if number else stream.errors,
                "line_buffering": stream.line_buffering,
                "write_through": stream.write_through,
            }
        setattr(sys, name, io.TextIOWrapper(buffer, **how))


def _report(error: BaseException) -> None:
    from telerank.cli import console

    if "--debug" in sys.argv:
        import traceback

        traceback.print_exc()
    console.err().print(f"[bold red]telerank:[/] {console.shown(console.one_line(error))}", soft_wrap=True)
    for note in getattr(error, "__notes__", ()):
        console.say(f"  {shorten_message(note)}")


def _say_interrupted(interrupt: BaseException | None) -> None:
    """A line after Ctrl-C: what is kept, and how to go on, if something was begun."""
    from telerank.cli import console

    for note in getattr(interrupt, "__notes__", ()):
        console.say(note.replace("call", "command"))


def _show_warning(message: Warning | str, category: type[Warning], *origin: Any) -> None:
    """Our own warnings (a deviation of a file, a setting, …) in one line; others as Python shows them."""
    from telerank.cli import console

    own = issubclass(
        category,
        FormatWarning
        | LongTexts
        | MissingVectors
        | MissingQueries
        | MissingWeights
        | UnlikelySetting
        | UnreadFiles
        | UpdateFailed,
    )
    text = str(message) if own else warnings.formatwarning(message, category, *origin[:2]).rstrip()
    console.say(shorten_message(text))


def _end(number: int, _: FrameType | None) -> None:
    _ended.append(128 + number)
    sys.exit(128 + number)


def _version(context: click.Context, _: click.Parameter, requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        print(f"telerank {version('telerank')}")
        context.exit()


def _show_completion(context: click.Context, _: click.Parameter, shell: str | None) -> None:
    if shell is not None:
        from click.shell_completion import get_completion_class

        completion = get_completion_class(shell)
        if completion is not None:
            print(completion(app, {}, "telerank", "_TELERANK_COMPLETE").source())
        context.exit()


app = Commands(
    name="telerank",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    callback=lambda **_: None,
    help="Rank text in stages, and measure every stage.\n\nTo begin: `telerank demo`",
    params=[
        click.Option(["--debug"], is_flag=True, help="Show the whole traceback of an error."),
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_version,
            help="Print the version and exit.",
        ),
        click.Option(
            ["--show-completion"],
            type=click.Choice(["bash", "zsh", "fish"]),
            is_eager=True,
            expose_value=False,
            callback=_show_completion,
            help="Print what completes commands in a shell, for the file that it reads at its start.",
        ),
    ],
)
