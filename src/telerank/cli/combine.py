"""``telerank combine``: every run combined with every other, and what that changes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from telerank.cli import console, runs
from telerank.cli.fuse import Method
from telerank.cli.options import AsJson, Encoding, FormatOption, Split
from telerank.errors import CollectionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from telerank.fuse.matrix import Matrix
    from telerank.types import Ranking


def combine(
    qrels: runs.QrelsArgument,
    run: runs.RunArguments,
    *,
    measures: runs.Measures = "RR@10 R@1000",
    method: Annotated[
        Method, typer.Option("--method", help="How two lists become one; `linear` has equal weights.")
    ] = Method.interleave,
    depth: Annotated[
        int, typer.Option("--depth", "-k", min=1, help="Documents of each list, and of each fused one.")
    ] = 1000,
    level: Annotated[
        float, typer.Option("--level", min=0.0, max=1.0, help="A change is marked where p is below it.")
    ] = 0.05,
    split: Split = None,
    form: runs.FormOption = None,
    output: runs.Output = "-",
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Combine all ordered pairs of runs: which run adds what to which.

    A row is the run that begins, a column the run that is added; the change is from the row's run alone.

    Example: `telerank combine scifact bm25.run dfr.run lmd.run --split test -m "RR@10 R@1000"`
    """
    from telerank.evaluate.measures import parse_measures
    from telerank.fuse.matrix import combine as combined
    from telerank.fuse.methods import make_fusion
    from telerank.fuse.report import matrix_table
    from telerank.trec import read_run

    runs.check_one_dash([qrels, *run])
    names = parse_measures(measures)
    if len(run) < 2:
        raise CollectionError("there is nothing to combine: give two runs or more")
    judged = runs.load_qrels(runs.Source(qrels, split, format, encoding), run)
    fusion = make_fusion(method, [0.5, 0.5])
    asked: dict[str, set[str]] = {name: set() for name in runs.named(run)}

    def cut(name: str, path: str) -> Iterator[Ranking]:
        for ranking in read_run(path):
            asked[name].add(ranking.query.qid)
            yield ranking.cut(depth)

    with console.progress() as progress:
        streams = {name: cut(name, path) for name, path in runs.named(run).items()}
        pair = lambda lists: fusion(lists).cut(depth)  # noqa: E731
        matrix = combined(streams, judged, names, fusion=pair, progress=progress)
    _tell(asked, set(judged), qrels)
    if as_json:
        runs.write_json(_record(matrix, method, depth), output)
    else:
        tables = [matrix_table(matrix, name, level=level) for name in matrix.measures]
        runs.write_tables(tables, output, form, "Combinations")


def _tell(asked: dict[str, set[str]], judged: set[str], where: str) -> None:
    for name, qids in asked.items():
        if not qids & judged:
            raise CollectionError(f"{name}: no query of it is judged in {where}")
        if missing := len(judged - qids):
            console.say(f"{name}: has no list for {missing} of {len(judged)} queries of the qrels")
        if strange := len(qids - judged):
            console.say(f"{name}: {strange} queries are not in the qrels: they do not count")


def _record(matrix: Matrix, method: Method, depth: int) -> dict[str, Any]:
    return {
        "method": method,
        "depth": depth,
        "queries": matrix.queries,
        "alone": matrix.alone,
        "combinations": [asdict(one) for one in matrix.cells],
    }
