"""``telerank inspect efficiency``: how fast a frozen encoder's head trains, beside fine-tuning."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from telerank.cli import console, runs
from telerank.cli.inspect import pairs as inspected
from telerank.cli.options import AsJson, CollectionArgument, Encoding, FormatOption, Split

if TYPE_CHECKING:
    from telerank.inspect.efficiency import Contest


def efficiency(
    collection: CollectionArgument,
    encoder: Annotated[
        str, typer.Argument(metavar="ENCODER", help="An encoder: `minilm`, a folder, or a name on the hub.")
    ] = "minilm",
    *,
    candidates: inspected.CandidatesOption = None,
    split: Split = None,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Rounds in which the three take turns.")] = 5,
    size: Annotated[int, typer.Option("--batch", min=1, help="Pairs of a batch.")] = 16,
    max_query: Annotated[int, typer.Option("--max-query", min=1, help="Tokens of a query.")] = 64,
    max_length: Annotated[int, typer.Option("--max-length", min=1, help="Tokens of a pair.")] = 512,
    language: Annotated[
        str, typer.Option("--language", help="How sentences are split: `en` or `fr`.")
    ] = "en",
    precision: Annotated[
        str, typer.Option("--precision", help="Of matrix products: `float32`, `float32-fast`, `bfloat16`.")
    ] = "float32",
    seed: inspected.Seed = 0,
    device: inspected.Device = "cpu",
    form: runs.FormOption = None,
    output: runs.Output = "-",
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Measure batches a second: BERT fine-tuned, BERT-DMN-lite's first epoch, its later ones (table 3).

    What is learned is thrown away; the features are stored in the folder for temporary files.

    Example: `telerank inspect efficiency insuranceqa-v2 minilm -c train/100 --rounds 1 --batch 2`
    """
    from telerank.inspect.efficiency import Rounds, efficiency_table, labelled

    plan = Rounds(number=rounds, size=size)
    source = inspected.Asked(collection, candidates, split, format, encoding).opened()
    with console.progress() as progress:
        pairs, labels = labelled(source, plan.pairs, seed=seed, progress=progress)
    texts = {"max_query": max_query, "max_length": max_length, "language": language}
    with tempfile.TemporaryDirectory() as folder, console.progress() as progress:
        contest = _contest(encoder, Path(folder), texts, precision, device)
        found = contest.measure(pairs, labels, plan, progress=progress)
    by_the_clock = device != "cpu"
    if as_json:
        seconds = {name: one.tolist() for name, one in (*found.seconds.items(), *found.parts.items())}
        runs.write_json(
            {"collection": source.collection.name, "encoder": encoder, "seconds": seconds}, output
        )
        return
    runs.write_tables([efficiency_table(found, by_the_clock=by_the_clock)], output, form, "Efficiency")


def _contest(encoder: str, folder: Path, texts: dict[str, Any], precision: str, device: str) -> Contest:
    import torch

    from telerank.inspect.efficiency import Contest
    from telerank.models.precision import precision as context
    from telerank.models.rerankers.reranker import Shape, fresh_reranker

    shapes = (Shape(kind, frozen=kind == "bert-dmn", **texts) for kind in ("bert", "bert-dmn"))
    tuned, frozen = (inspected.on_device(fresh_reranker(encoder, shape), device) for shape in shapes)
    return Contest(tuned, frozen, folder, context(precision, torch.device(device)))
