"""``telerank inspect diffusion``: how alike the outputs of a pair's tokens are, for several checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from telerank.cli import console
from telerank.cli.inspect import pairs as inspected
from telerank.cli.options import (
    AsJson,
    CollectionArgument,
    Encoding,
    FormatOption,
    Split,
    TableForm,
    TableOutput,
    check_plot,
)
from telerank.cli.output import write_json, write_tables

if TYPE_CHECKING:
    from telerank.inspect.diffusion import Diffusion
    from telerank.inspect.drawn_pairs import JudgedPair
    from telerank.show.tables import Table


def diffusion(
    collection: CollectionArgument,
    model: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help="Checkpoints: re-rankers, or an encoder (`minilm`) as it is before training.",
        ),
    ],
    *,
    candidates: inspected.CandidatesOption = None,
    split: Split = None,
    pairs: Annotated[int, typer.Option("--pairs", "-n", min=1, help="Pairs drawn of the candidates.")] = 1000,
    seed: inspected.Seed = 0,
    batch_tokens: inspected.BatchTokens = 8192,
    device: inspected.Device = "cpu",
    plot: inspected.PlotOption = None,
    form: TableForm = None,
    output: TableOutput = "-",
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Measure how far information has spread over a pair's tokens (figure 3 of the BERT-DMN paper).

    Cosines of the last hidden states: CLS with each query token, CLS with each passage token, and every two
    passage tokens.

    Example: `telerank inspect diffusion insuranceqa-v2 minilm -c test/100 --pairs 20 --plot diffusion.png`
    """
    from telerank.inspect.drawn_pairs import draw

    named = inspected.named(model)
    check_plot(plot)
    source = inspected.Asked(collection, candidates, split, format, encoding).opened()
    with console.progress() as progress:
        drawn = draw(source, pairs, seed=seed, progress=progress)
    found = _measured(named, drawn, batch_tokens, device)
    if plot is not None:
        from telerank.inspect.reranker_plots import diffusion_plot
        from telerank.show.plots import save_plot

        save_plot(diffusion_plot(found), plot)
        console.say(f"plot in {plot}")
    if as_json:
        settings = {"collection": source.collection.name, "split": source.split, "candidates": candidates}
        record = {name: asdict(one) for name, one in found.items()}
        write_json({**settings, "seed": seed, "checkpoints": record}, output)
        return
    write_tables([_table(found, len(drawn), source.collection.name)], output, form, "Diffusion")


def _measured(
    named: Mapping[str, str], drawn: list[JudgedPair], batch_tokens: int, device: str
) -> dict[str, Diffusion]:
    from telerank.inspect.diffusion import diffusion as measure
    from telerank.inspect.token_outputs import open_checkpoint, shape_among

    like = shape_among(list(named.values()))
    found = {}
    for name, place in named.items():
        reranker = inspected.on_device(open_checkpoint(place, like=like), device)
        made = inspected.pairs_for(reranker, drawn)
        with console.progress() as progress:
            found[name] = measure(reranker, made, batch_tokens=batch_tokens, progress=progress)
    return found


def _table(found: Mapping[str, Diffusion], pairs: int, collection: str) -> Table:
    from telerank.show.tables import Table

    rows = [
        [kind, name, f"{one.count:,}", *(f"{x:.3f}" for x in (one.mean, one.first, one.median, one.third))]
        for kind in next(iter(found.values())).spreads
        for name, one in ((name, of_model.spreads[kind]) for name, of_model in found.items())
    ]
    columns = ("cosines", "model", "number", "mean", "25 %", "median", "75 %")
    caption = f"Diffusion of information in {console.counted(pairs, 'pair')} of {collection}"
    return Table.of(columns, rows, caption=caption, left=2)
