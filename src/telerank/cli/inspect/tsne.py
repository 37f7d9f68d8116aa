"""``telerank inspect tsne``: embeddings of relevant and other pairs, before and after training."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Option

from telerank.cli import console, options
from telerank.cli.inspect import pairs as shared
from telerank.cli.runs.output import write_json, write_tables


def tsne(
    collection: options.CollectionArgument,
    model: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help="Checkpoints to compare: an encoder (`minilm`), and re-rankers trained from it.",
        ),
    ],
    *,
    candidates: shared.CandidatesOption = None,
    split: options.Split = None,
    each: int = Option(250, "--each", "-n", min=1, help="Number of relevant pairs, and of other pairs."),
    perplexity: float = Option(30.0, min=1.0, help="About how many neighbours t-SNE keeps near."),
    neighbours: int = Option(
        10, min=1, help="Nearest pairs of which the share of the same class is computed."
    ),
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
    """Map the CLS outputs of relevant and other pairs by t-SNE, and measure how far apart they lie.

    Example: `telerank inspect tsne insuranceqa-v2 minilm --candidates test/100 --each 20 --plot tsne.png`
    """
    options.check_plot(plot)

    import telerank as tr
    from telerank.show.progress import show_progress
    from telerank.verbs.inspect import (
        MapSettings,
        compare_embeddings,
        draw_by_class,
        embeddings_table,
        open_candidates,
    )

    source = open_candidates(tr.collection(collection, format=format, encoding=encoding), candidates, split)
    settings = MapSettings(perplexity, neighbours, seed)
    with show_progress() as progress:
        drawn = draw_by_class(source, relevant=each, others=each, seed=seed, progress=progress)
        embeddings = compare_embeddings(
            model, drawn, settings, batch_tokens=batch_tokens, device=device, progress=progress
        )
    for name, embedding in embeddings.items():
        shared.say_cut(embedding.cut, len(drawn), name)
    if plot is not None:
        from telerank.show.plots import save_plot
        from telerank.verbs.inspect import embeddings_plot

        save_plot(embeddings_plot(embeddings, drawn), plot)
        console.say(f"plot in {plot}")
    if as_json:
        record = {
            "collection": source.collection.name,
            "split": source.split,
            "seed": seed,
            "pairs": [{"qid": pair.qid, "docno": pair.docno, "relevant": pair.relevant} for pair in drawn],
            "checkpoints": {name: embedding.record() for name, embedding in embeddings.items()},
        }
        write_json(record, output)
        return
    table = embeddings_table(embeddings, drawn, source.collection.name)
    write_tables([table], output, form, "Embeddings of pairs")
