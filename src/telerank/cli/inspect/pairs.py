"""What the commands of ``telerank inspect`` share: where pairs come from, models by short names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from telerank.cli import console
from telerank.cli.console import counted
from telerank.errors import CollectionError, ModelError

if TYPE_CHECKING:
    from telerank.corpus.collection import Collection
    from telerank.inspect.drawn_pairs import CandidateLists, JudgedPair
    from telerank.models.pairs.pair import Pair
    from telerank.models.rerankers.reranker import Reranker

CandidatesOption = Annotated[
    str | None,
    typer.Option(
        "--candidates",
        "-c",
        metavar="RUN|POOL",
        help="Which pairs: a run file, or a pool of the collection (`test/100`). Default: its only pool.",
    ),
]
ModelOption = Annotated[
    str,
    typer.Option(
        "--model", "-m", help="A re-ranker: the folder OUTPUT/model of a training, or a name on the hub."
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="Decides which pairs are drawn.")]
BatchTokens = Annotated[
    int, typer.Option("--batch-tokens", min=1, help="Tokens of a batch: its longest pair times its pairs.")
]
Device = Annotated[str, typer.Option("--device", help="`cpu` or `cuda`; the GPU is taken when it is named.")]
PlotOption = Annotated[str | None, typer.Option("--plot", help="A file for the plot (.png, .svg, .pdf).")]


@dataclass(frozen=True)
class Asked:
    """Where the pairs come from, as the command line says it."""

    collection: str
    candidates: str | None
    split: str | None
    format: str | None
    encoding: str

    def opened(self) -> CandidateLists:
        """The collection and the candidates of a split of it.

        Raises
        ------
        CollectionError
            where the candidates are no pool of the collection and no file, or none are named and it has not
            one pool alone.
        """
        from telerank.corpus.formats import open_collection
        from telerank.inspect.drawn_pairs import CandidateLists
        from telerank.trec import read_run

        collection = open_collection(self.collection, format=self.format, encoding=self.encoding)
        named = self.candidates or _only_pool(collection)
        if named in collection.pools:
            split = named.partition("/")[0] if self.split is None else self.split
            return CandidateLists(collection, collection.resolve_split(split), collection.pools[named])
        if not Path(named).is_file():
            known = ", ".join(collection.pools) or "none"
            raise CollectionError(f"{named}: no run file, nor a pool of {collection.name} (it has: {known})")
        return CandidateLists(collection, collection.resolve_split(self.split), partial(read_run, named))


def named(models: Sequence[str]) -> dict[str, str]:
    """Models by short names: the last part of a folder, unless two would share it.

    Raises
    ------
    ModelError
        where a model is given twice.
    """
    if len(set(models)) < len(models):
        raise ModelError("a model is given twice")
    short = [Path(one).name or one for one in models]
    return {name if short.count(name) == 1 else one: one for name, one in zip(short, models, strict=True)}


def pairs_for(reranker: Reranker, drawn: Sequence[JudgedPair]) -> list[Pair]:
    """The tokens of drawn pairs; how many were cut is said on standard error."""
    from telerank.reranking.texts import make_pairs

    pairs = make_pairs(reranker, [one.query for one in drawn], [one.passage for one in drawn])
    if cut := sum(one.cut > 0 for one in pairs):
        told = f"{cut:,} of {counted(len(pairs), 'pair')} longer than {reranker.shape.max_length} tokens"
        console.say(f"{told}: cut there")
    return pairs


def on_device(reranker: Reranker, device: str) -> Reranker:
    """The same re-ranker, its model moved.

    Raises
    ------
    ModelError
        where there is no such device.
    """
    from telerank.training.training import choose_device as named_device

    reranker.model.to(named_device(device))
    return reranker


def _only_pool(collection: Collection) -> str:
    if len(collection.pools) == 1:
        return next(iter(collection.pools))
    known = f"its pools: {', '.join(collection.pools)}" if collection.pools else "it has no pools: a run file"
    raise CollectionError(f"{collection.name}: say with --candidates which pairs ({known})")
