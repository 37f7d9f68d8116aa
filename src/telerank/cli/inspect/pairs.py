"""Options that the commands of ``telerank inspect`` share."""

from __future__ import annotations

from typing import Annotated

import typer

from telerank.cli import console
from telerank.cli.console import counted

CandidatesOption = Annotated[
    str | None,
    typer.Option(
        "--candidates",
        metavar="RUN|POOL",
        help="A run file, or a pool of the collection (`test/100`), to draw from. Default: its only pool.",
    ),
]
ModelOption = Annotated[
    str,
    typer.Option("--model", help="A re-ranker: the folder OUTPUT/model of a training, or a name on the hub."),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the draw.")]
BatchTokens = Annotated[
    int, typer.Option("--batch-tokens", min=1, help="Most tokens in a batch, padding included.")
]
Device = Annotated[str, typer.Option("--device", help="`cpu` or `cuda`.")]


def say_cut(cut: int, pairs: int, model: str) -> None:
    """Report on standard error how many pairs are longer than the model reads."""
    if cut:
        console.say(f"{cut:,} of {counted(pairs, 'pair')} are longer than {model} reads: cut there")
