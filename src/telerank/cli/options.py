"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from telerank.errors import ModelError

CollectionArgument = Annotated[
    str,
    typer.Argument(
        metavar="COLLECTION", help="A folder, a file, an ir_datasets id; `-`: JSON lines on standard input."
    ),
]
IndexArgument = Annotated[str, typer.Argument(metavar="INDEX", help="The folder of the index.")]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format", help="The collection's format, if it is not recognised; `telerank data ls` lists them."
    ),
]
Encoding = Annotated[str, typer.Option("--encoding", help="Encoding of the collection's texts.")]
Split = Annotated[
    str | None, typer.Option("--split", help="Whose queries and qrels; default: the only split.")
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]


def check_plot(plot: str | None) -> None:
    """Refuse a plot's file of an unknown form before the work, not after it."""
    if plot is not None:
        from telerank.show.plots import check_plot_name

        check_plot_name(plot)


def numbers(option: str, text: str | None, *, least: int) -> tuple[int, ...]:
    """What stands behind an option as `0,1,2`; nothing where it is not given.

    Raises
    ------
    ModelError
        where they are no different whole numbers from ``least`` on.
    """
    if text is None:
        return ()
    try:
        found = tuple(int(one) for one in text.replace(",", " ").split())
    except ValueError:
        found = ()
    if not found or min(found) < least or len(set(found)) < len(found):
        raise ModelError(f"{option}: expected different whole numbers from {least} on, got {text!r}")
    return found
