"""``telerank train``: train models on a collection."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Option

from telerank.cli.train import losses
from telerank.cli.train import reranker as train_reranker

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")


@app.callback()
def train() -> None:
    """Train models: `bi-encoder`, `reranker`.

    Example: `telerank train bi-encoder repbert.yaml --output trained`
    """


@app.command("bi-encoder")
def bi_encoder(
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG",
            help="A YAML file of settings, or a packaged one by name, as `repbert/insuranceqa`. Required: "
            "`data: {collection: …}`.",
        ),
    ],
    *,
    output: str = Option(
        "trained", "--output", "-o", help="The folder for the model, its checkpoints and its log."
    ),
    resume: bool = Option(False, "--resume", help="Continue from the last checkpoint, if there is any."),
) -> None:
    """Train an encoder of queries and documents; the defaults are those of RepBERT.

    Example: `telerank train bi-encoder repbert.yaml --output trained --resume`
    """
    import telerank as tr

    trained = tr.train("bi-encoder", config, output, resume=resume, report=losses.lines())
    losses.say_trained(trained.model)


app.command("reranker")(train_reranker.reranker)
