"""``telerank inspect diffusion``: how similar the outputs of a pair's tokens are, for several checkpoints."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from typer import Option

from telerank.cli import console, options
from telerank.cli.inspect import pairs as shared
from telerank.cli.runs.output import write_json, write_tables


def diffusion(
    collection: options.CollectionArgument,
    model: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help="Checkpoints to compare: re-rankers, or an encoder (`minilm`) as it is before training.",
        ),
    ],
    *,
    candidates: shared.CandidatesOption = None,
    split: options.Split = None,
    pairs: int = Option(1000, "--pairs", "-n", min=1, help="Number of pairs to draw."),
    seed: shared.Seed = 0,
    batch_tokens: shared.BatchTokens = 8192,
    device: shared.Device = "cpu",
    plot: options.PlotFile = None,
    form: options.TableForm = None,
    output: options.TableOutput = "-",
    format: options.FormatOption = None,  # noqa: A002
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Measure how far information has spread over a pair's tokens (figure 3 of the BERT-DMN paper).

    Cosines of the last hidden states: CLS with each query token, CLS with each passage token, and every two
    passage tokens.

    Example: `telerank inspect diffusion insuranceqa-v2 minilm --candidates test/100 -n 20 --plot cosines.png`
    """
    options.check_plot(plot)

    import telerank as tr
    from telerank.show.progress import show_progress
    from telerank.verbs.inspect import compare_diffusion, diffusion_table, draw_pairs, open_candidates

    source = open_candidates(tr.collection(collection, format=format, encoding=encoding), candidates, split)
    with show_progress() as progress:
        drawn = draw_pairs(source, pairs, seed=seed, progress=progress)
        checkpoints = compare_diffusion(
            model, drawn, batch_tokens=batch_tokens, device=device, progress=progress
        )
    for name, checkpoint in checkpoints.items():
        shared.say_cut(checkpoint.cut, checkpoint.pairs, name)
    if plot is not None:
        from telerank.show.plots import save_plot
        from telerank.verbs.inspect import diffusion_plot

        save_plot(diffusion_plot(checkpoints), plot)
        console.say(f"plot in {plot}")
    name = source.collection.name
    if as_json:
        settings = {"collection": name, "split": source.split, "candidates": candidates, "seed": seed}
        records = {name: asdict(checkpoint) for name, checkpoint in checkpoints.items()}
        write_json({**settings, "checkpoints": records}, output)
        return
    write_tables([diffusion_table(checkpoints, name)], output, form, "Diffusion")
