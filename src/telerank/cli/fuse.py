"""``telerank fuse``: one run of several."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from telerank.cli import console, runs
from telerank.errors import CollectionError

if TYPE_CHECKING:
    from telerank.types import Ranking


class Method(StrEnum):
    """How lists become one."""

    interleave = "interleave"
    linear = "linear"
    rrf = "rrf"


def fuse(
    run: runs.RunArguments,
    *,
    method: Annotated[
        Method,
        typer.Option(
            "--method",
            help="`interleave`: in turns; `linear`: weighted min-max scores; `rrf`: reciprocal ranks.",
        ),
    ] = Method.rrf,
    weights: Annotated[
        str | None, typer.Option("--weights", help="For `linear`: `0.4,0.6`, a weight a run. Default: equal.")
    ] = None,
    k: Annotated[float, typer.Option("--rrf-k", min=0, help="For `rrf`: the k of 1 / (k + rank).")] = 60.0,
    depth: Annotated[
        int, typer.Option("--depth", "-k", min=1, help="Documents taken of each list of a run.")
    ] = 1000,
    keep: Annotated[
        int | None,
        typer.Option("--keep", min=1, help="Documents kept of each fused list. Default: as --depth."),
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", help="A file for the run (.gz packs it); `-`: standard output.")
    ] = "-",
) -> None:
    """Fuse runs into one: in turns, by weighted scores, or by ranks.

    A document that a list lacks gets nothing from it; a query that a run lacks is fused of the others.

    Example: `telerank fuse bm25.run dfr.run --method linear --weights 0.4,0.6 -o fused.run`
    """
    from telerank.fuse.methods import make_fusion
    from telerank.trec import write_run

    runs.check_one_dash(run)
    names = list(runs.named(run))
    if len(run) < 2:
        raise CollectionError("there is nothing to fuse: give two runs or more")
    shares = _weights(weights, method, len(run))
    fusion = make_fusion(method, shares, k=k)
    counts = [0] * (len(run) + 1)
    with console.progress() as progress:

        def fused() -> Iterator[Ranking]:
            for done, lists in enumerate(_lists(run, depth, counts), 1):
                progress("fusing", done, None)
                yield fusion(lists).cut(keep or depth)

        write_run(output, fused())
    *lacking, queries = counts
    for name, count in zip(names, lacking, strict=True):
        if count:
            console.say(f"{name}: has no list for {count} of {queries} queries: fused of the others")
    if output != "-":
        settings: dict[str, object] = {"method": method, "runs": run, "depth": depth, "keep": keep or depth}
        settings |= {"weights": shares} if method is Method.linear else {}
        settings |= {"k": k} if method is Method.rrf else {}
        _describe(settings, output)
        told = f"{queries:,} queries fused; run in {output}, its settings in {output}.json"
        console.say(told)


def _lists(run: Sequence[str], depth: int, counts: list[int]) -> Iterator[list[Ranking]]:
    """The cut lists of each query; counts the queries that each run lacks and, last, all of them."""
    from telerank.fuse import join_runs
    from telerank.trec import read_run

    for lists in join_runs([read_run(path) for path in run]):
        counts[-1] += 1
        for i, ranking in enumerate(lists):
            counts[i] += not len(ranking)
        yield [ranking.cut(depth) for ranking in lists]


def _weights(text: str | None, method: Method, count: int) -> list[float]:
    if text is None:
        return [1.0 / count] * count
    if method is not Method.linear:
        raise CollectionError(f"--weights are for --method linear, not {method}")
    try:
        weights = [float(piece) for piece in text.split(",")]
    except ValueError:
        weights = []
    if len(weights) != count or not all(abs(one) < 1e30 for one in weights):
        raise CollectionError(f"--weights: expected {count} numbers with commas between, got {text!r}")
    return weights


def _describe(settings: dict[str, object], output: str) -> None:
    from telerank.experiments.provenance import versions

    record = json.dumps({**settings, "versions": versions()}, indent=1, ensure_ascii=False)
    Path(f"{output}.json").write_text(f"{record}\n", encoding="utf-8")
