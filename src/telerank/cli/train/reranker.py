"""``telerank train reranker``: train a re-ranker on a collection, and measure it."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from typer import Option

from telerank.cli import console
from telerank.cli.options import parse_numbers
from telerank.cli.runs.output import write_tables
from telerank.cli.train import losses


def reranker(
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG",
            help="A YAML file of settings, or a packaged one by name (`piaf/grid`). Required: "
            "`data: {collection: …}` with `negatives` or `triples`; "
            "for a model over word vectors also `model: {start: …}`.",
        ),
    ],
    *,
    output: str = Option(
        "trained", "--output", "-o", help="The folder for the model, its checkpoints and its log."
    ),
    resume: bool = Option(
        False, "--resume", help="Continue from the last checkpoint; finished trainings are kept."
    ),
    seeds: str | None = Option(
        None, help="Train with each of these seeds, e.g. `0,1,2`; print mean and spread of the test."
    ),
    sizes: str | None = Option(
        None, help="Train on each of these numbers of queries, e.g. `100,1000`; show a table and a plot."
    ),
    as_json: bool = Option(False, "--json", help="Print the results of the test as JSON."),
) -> None:
    """Train a re-ranker: monoBERT, BERT-DMN, a frozen or fine-tuned ranker, or a model over word vectors.

    If the settings have a section `test`, it measures the model beside the first stage and prints a table.
    With `folds`, a `grid` of settings, or several seeds or sizes, each training has its own folder below the
    output.

    Example: `telerank train reranker monobert.yaml --output monobert`

    Example: `telerank train reranker monobert.yaml --output seeds --seeds 0,1`
    """
    import telerank as tr
    from telerank.verbs.train import is_first_process

    trained = tr.train(
        "reranker",
        config,
        output,
        resume=resume,
        seeds=parse_numbers("--seeds", seeds, least=0),
        sizes=parse_numbers("--sizes", sizes, least=1),
        report=losses.lines(),
    )
    if not is_first_process():
        return
    for remark in trained.remarks:
        console.say(remark)
    if not trained.tables():
        losses.say_trained(trained.model)
    elif as_json:
        print(json.dumps(trained.record(), indent=2))
    else:
        write_tables(trained.tables(), "-", None, trained.title)
