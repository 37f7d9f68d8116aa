"""``telerank tune``: the best setting of a model, and how good it is on queries that did not choose it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from telerank.cli import console
from telerank.cli.options import AsJson, CollectionArgument, Encoding, FormatOption, IndexArgument, Split
from telerank.errors import CollectionError, ModelError

if TYPE_CHECKING:
    from telerank.evaluate.tune import TuneResult
    from telerank.sparse.index import SparseIndex
    from telerank.sparse.retriever import SparseRetriever
    from telerank.types import Query, Ranking

    Result = TuneResult[SparseRetriever]

_BATCH = 256  # queries answered at a time


def tune(
    index: IndexArgument,
    collection: CollectionArgument,
    *,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model", "-m", help="A model whose grid is searched; repeat for several. Default: `bm25`."
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--setting", help="One setting to try, `bm25(k1=0.7, b=0.3)`; repeat for a grid of your own."
        ),
    ] = None,
    analyzers: Annotated[
        str | None,
        typer.Option(
            "--analyzers",
            help="Analyzers to try, with commas between; others than the index's own index anew.",
        ),
    ] = None,
    measure: Annotated[
        str, typer.Option("--measure", help="What is tuned for, as ir_measures writes it.")
    ] = "nDCG@10",
    split: Split = None,
    test: Annotated[
        str | None, typer.Option("--test", help="A split that measures what --split chose, instead of folds.")
    ] = None,
    folds: Annotated[int, typer.Option("--folds", min=2, help="Folds of the cross-validation.")] = 5,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the folds.")] = 0,
    depth: Annotated[
        int, typer.Option("--depth", "-k", min=1, help="Documents retrieved for a query.")
    ] = 1000,
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Tune a model's parameters, and analyzers, by cross-validation or on one split for another.

    Example: `telerank tune idx-fr dila --model dfi --measure "R@5" --folds 5`
    """
    import telerank
    from telerank.corpus.formats import open_collection
    from telerank.evaluate.tune import Folds, Objective, tune

    opened, source = telerank.open(index), open_collection(collection, format=format, encoding=encoding)
    held_out = Folds(folds, seed) if test is None else list(source.split_queries(test))
    dev = list(source.split_queries(split))
    qrels = source.judged(split)
    if test is not None:
        qrels = {**qrels, **source.judged(test)}
    if not any(docno in opened.docs for grades in qrels.values() for docno in grades):
        raise CollectionError(
            f"{index}: holds no document that {source.name} judges: another collection's index"
        )
    with console.progress() as progress, _indexes(opened.sparse, analyzers) as indexes:
        retrievers = _settings(indexes, model or ([] if setting else ["bm25"]), setting or [], depth)
        try:
            result = tune(
                retrievers, _run, Objective(dev, qrels, measure), held_out=held_out, progress=progress
            )
        except ValueError as error:  # too few queries for the folds, and the like: what was asked for
            raise CollectionError(f"{source.name}: {error}") from error
        if as_json:
            print(json.dumps(_record(result, measure), ensure_ascii=False))  # noqa: T201
        else:
            _show(result, measure, "test split" if test else f"{folds} folds")


def _run(retriever: SparseRetriever, queries: Sequence[Query]) -> Iterator[Ranking]:
    return replace(retriever, batch=_BATCH).run(queries)


@contextmanager
def _indexes(opened: SparseIndex, analyzers: str | None) -> Iterator[list[SparseIndex]]:
    """The index under each analyzer: itself for its own, a passing one of its texts for another."""
    from telerank.sparse.writer import build_index
    from telerank.text import Analyzer

    with tempfile.TemporaryDirectory(prefix="telerank-tune-") as folder:
        indexes = []
        names = [opened.manifest.analyzer] if analyzers is None else analyzers.split(",")
        for number, name in enumerate(names):
            wanted = Analyzer.parse(name)
            own = wanted == opened.analyzer
            indexes.append(
                opened if own else build_index(opened.docs, Path(folder, str(number)), analyzer=wanted)
            )
        yield indexes


def _settings(
    indexes: list[SparseIndex], models: list[str], settings: list[str], depth: int
) -> list[SparseRetriever]:
    from telerank.sparse.retriever import SparseRetriever
    from telerank.sparse.similarities import make_grid, parse_similarity

    similarities = [one for name in models for one in make_grid(parse_similarity(name))]
    similarities += [parse_similarity(text) for text in settings]
    if not similarities:
        raise ModelError("nothing to tune: give --model or --setting")
    return [
        SparseRetriever(index, one).limit(depth) for index in indexes for one in dict.fromkeys(similarities)
    ]


def _name(retriever: SparseRetriever) -> str:
    return f"{retriever.similarity!r}, {retriever.index.analyzer.name}"


def _record(result: Result, measure: str) -> dict[str, Any]:
    named = [
        {"model": repr(one.similarity), "analyzer": str(one.index.analyzer), "dev": value}
        for one, value in zip(result.settings, result.dev, strict=True)
    ]
    return {
        "measure": measure,
        "tuned": named[result.settings.index(result.best)],
        "held_out": result.held_out,
        "choices": [
            {"queries": len(fold), "model": repr(one.similarity), "analyzer": str(one.index.analyzer)}
            for fold, one in zip(result.folds, result.choices, strict=True)
        ],
        "settings": named,
        "unjudged": list(result.unjudged),
    }


def _show(result: Result, measure: str, how: str) -> None:
    from telerank.show.tables import Table, render_terminal

    best_first = sorted(zip(result.settings, result.dev, strict=True), key=lambda pair: -pair[1])[:10]
    rows = [[_name(one), f"{value:.4f}"] for one, value in best_first]
    caption = f"the best {len(rows)} of {len(result.settings)} settings"
    console.out.print(render_terminal(Table.of(["setting", f"{measure} in dev"], rows, caption=caption)))
    console.out.print(f"tuned: [bold]{escape(_name(result.best))}[/]")
    console.out.print(f"{measure} on the queries that chose it: {result.best_dev:.4f}")
    console.out.print(f"{measure} on held-out queries ({how}): [bold]{result.held_out:.4f}[/]")
    if len(result.folds) > 1:
        chosen = [_name(one) for one in result.choices]
        for name in dict.fromkeys(chosen):
            console.out.print(f"  chosen in {chosen.count(name)} of {len(chosen)} folds: {escape(name)}")
    if result.unjudged:
        console.say(f"{len(result.unjudged)} queries have no judgment and were left out")
