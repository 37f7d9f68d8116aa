"""``telerank train``: models that learn from a collection."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from telerank.cli import console

if TYPE_CHECKING:
    from telerank.train.log import Record, Report

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")

_BETWEEN = 5.0  # seconds between two lines of losses


@app.callback()
def train() -> None:
    """Train models: `bi-encoder`.

    Example: `telerank train bi-encoder repbert.yaml --output trained`
    """


@app.command("bi-encoder")
def bi_encoder(
    config: Annotated[
        str,
        typer.Argument(metavar="CONFIG", help="A YAML file; `data: {collection: …}` is all it must have."),
    ],
    *,
    output: Annotated[
        str, typer.Option("--output", "-o", help="The folder of the model, its checkpoints and its log.")
    ] = "trained",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint there, if there is one.")
    ] = False,
) -> None:
    """Train an encoder of queries and documents, by default as RepBERT was.

    Example: `telerank train bi-encoder repbert.yaml --output trained --resume`
    """
    from telerank.train.config import read_config

    wanted = read_config(config)

    from telerank.train.bi_encoder import train_bi_encoder

    with console.progress() as progress:
        model = train_bi_encoder(wanted, output, resume=resume, report=_lines(), progress=progress)
    _say_trained(model)


def _say_trained(model: Path) -> None:
    """Once, where several processes have trained it."""
    from telerank.train.parallel import leads

    if leads():
        console.err.print(f"trained {model}")


def _lines() -> Report:
    """A line of the log on standard error every few seconds, and wherever the dev measure was taken."""
    last = [0.0]

    def show(record: Record) -> None:
        now = time.monotonic()
        if record.dev is None and now - last[0] < _BETWEEN:
            return
        last[0] = now
        dev = "" if record.dev is None else f", dev {record.dev:.4f}"
        told = f"update {record.step:,}: loss {record.loss:.4f}, rate {record.learning_rate:.3g}{dev}"
        console.err.print(f"{told}, {_clock(record.seconds)}, {_clock(record.remaining)} to go")

    return show


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
