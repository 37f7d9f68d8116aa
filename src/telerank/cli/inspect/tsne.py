"""``telerank inspect tsne``: embeddings of relevant and other pairs, before and after training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
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
    from telerank.inspect.drawn_pairs import JudgedPair
    from telerank.inspect.embeddings import Separation, Vectors
    from telerank.show.tables import Table

_DIMENSIONS = (2, 3)


@dataclass(frozen=True, eq=False)
class _Seen:
    """Of one checkpoint: the separation in its vectors, its maps, and the separation in these."""

    width: int
    separation: Separation
    maps: list[Vectors]
    in_maps: list[Separation]


@dataclass(frozen=True)
class _How:
    perplexity: float
    neighbours: int
    seed: int
    batch_tokens: int
    device: str


def tsne(
    collection: CollectionArgument,
    model: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL", help="Before and after: an encoder (`minilm`) and re-rankers trained from it."
        ),
    ],
    *,
    candidates: inspected.CandidatesOption = None,
    split: Split = None,
    each: Annotated[
        int, typer.Option("--each", "-n", min=1, help="Relevant pairs drawn, and as many of the others.")
    ] = 250,
    perplexity: Annotated[
        float, typer.Option("--perplexity", min=1.0, help="About how many neighbours t-SNE keeps near.")
    ] = 30.0,
    neighbours: Annotated[
        int,
        typer.Option(
            "--neighbours", min=1, help="Nearest pairs of which the share of the same class is told."
        ),
    ] = 10,
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
    """Map the CLS outputs of relevant and other pairs by t-SNE, and say how far apart they lie.

    Example: `telerank inspect tsne insuranceqa-v2 minilm -c test/100 --each 20 --plot tsne.png`
    """
    from telerank.inspect.drawn_pairs import draw_by_class
    from telerank.inspect.embeddings import check_classes

    named = inspected.named(model)
    check_plot(plot)
    source = inspected.Asked(collection, candidates, split, format, encoding).opened()
    with console.progress() as progress:
        drawn = draw_by_class(source, relevant=each, others=each, seed=seed, progress=progress)
    relevant = [bool(one.relevant) for one in drawn]
    check_classes(relevant, neighbours)
    how = _How(perplexity, neighbours, seed, batch_tokens, device)
    found = _seen(named, drawn, relevant, how)
    if plot is not None:
        _draw(found, relevant, plot)
    if as_json:
        record = {
            "collection": source.collection.name,
            "split": source.split,
            "seed": seed,
            "pairs": [{"qid": one.qid, "docno": one.docno, "relevant": one.relevant} for one in drawn],
            "checkpoints": {name: _record(one) for name, one in found.items()},
        }
        write_json(record, output)
        return
    write_tables([_table(found, relevant, source.collection.name)], output, form, "Embeddings of pairs")


def _seen(
    named: Mapping[str, str], drawn: list[JudgedPair], relevant: list[bool], how: _How
) -> dict[str, _Seen]:
    from telerank.inspect.embeddings import cls_vectors, separation
    from telerank.inspect.embeddings import tsne as mapped
    from telerank.inspect.token_outputs import open_checkpoint, shape_among

    like = shape_among(list(named.values()))
    found = {}
    for name, place in named.items():
        reranker = inspected.on_device(open_checkpoint(place, like=like), how.device)
        pairs = inspected.pairs_for(reranker, drawn)
        with console.progress() as progress:
            vectors = cls_vectors(reranker, pairs, batch_tokens=how.batch_tokens, progress=progress)
        apart = separation(vectors, relevant, neighbours=how.neighbours)
        maps = [mapped(vectors, n, perplexity=how.perplexity, seed=how.seed) for n in _DIMENSIONS]
        in_maps = [separation(one, relevant, neighbours=how.neighbours) for one in maps]
        found[name] = _Seen(vectors.shape[1], apart, maps, in_maps)
    return found


def _draw(found: Mapping[str, _Seen], relevant: list[bool], path: str) -> None:
    import numpy as np

    from telerank.inspect.reranker_plots import map_plot
    from telerank.show.plots import save_plot

    notes = {
        name: f"silhouette {one.separation.silhouette:+.2f}, agreement {one.separation.agreement:.2f}"
        for name, one in found.items()
    }
    save_plot(map_plot({name: one.maps for name, one in found.items()}, np.array(relevant), notes), path)
    console.say(f"plot in {path}")


def _table(found: Mapping[str, _Seen], relevant: list[bool], collection: str) -> Table:
    from telerank.show.tables import Table

    rows = []
    for name, one in found.items():
        spaces = (f"CLS outputs ({one.width})", *(f"t-SNE map ({n})" for n in _DIMENSIONS))
        for space, apart in zip(spaces, (one.separation, *one.in_maps), strict=True):
            rows.append([name, space, f"{apart.silhouette:+.3f}", f"{apart.agreement:.3f}"])
    good = sum(relevant)
    caption = f"{good:,} relevant and {len(relevant) - good:,} other pairs of {collection}"
    neighbours = next(iter(found.values())).separation.neighbours
    notes = [
        "silhouette: 1 where the classes lie apart, 0 where they are mixed.",
        f"agreement: of the {neighbours} nearest pairs, the share of a pair's own class; 0.5 by chance.",
    ]
    columns = ("model", "space (dimensions)", "silhouette", "agreement")
    return Table.of(columns, rows, caption=caption, notes=notes, left=2)


def _record(one: _Seen) -> dict[str, object]:
    maps = [
        {"dimensions": n, **asdict(apart), "points": points.tolist()}
        for n, apart, points in zip(_DIMENSIONS, one.in_maps, one.maps, strict=True)
    ]
    return {"width": one.width, **asdict(one.separation), "maps": maps}
