"""``telerank depth``: the accuracy of a re-ranker by the depth of the first stage."""

from __future__ import annotations

from typing import Annotated

import typer

from telerank.cli.judged import open_runs
from telerank.cli.options import (
    AsJson,
    Encoding,
    FormatOption,
    PlotFile,
    QrelsArgument,
    RunArguments,
    Split,
    TableForm,
    TableOutput,
    check_one_dash,
    check_plot,
    parse_depths,
)
from telerank.cli.output import write_plot, write_report


def depth(
    qrels: QrelsArgument,
    run: RunArguments,
    *,
    reranker: Annotated[
        str,
        typer.Option(
            "--reranker", "-r", help="A run with a re-ranker's scores for the candidates of all runs."
        ),
    ],
    measure: Annotated[
        str, typer.Option("--measure", "-m", help="Measure of the re-ranked lists, as ir_measures names it.")
    ] = "RR@10",
    depths: Annotated[
        str, typer.Option("--depths", help="Depths n of the first stage.")
    ] = "5,10,50,500,1000",
    plot: PlotFile = None,
    split: Split = None,
    form: TableForm = None,
    output: TableOutput = "-",
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Re-rank the first n documents of each run by a re-ranker's scores, and measure at each depth n.

    The other runs are compared with the first. Recall by depth is printed by `evaluate -m R --depths`.

    Example: `telerank depth scifact bm25.run dfr.run --split test --reranker lmd.run --plot depths.png`
    """
    from telerank.verbs.depth import depth

    check_one_dash([qrels, *run, reranker])
    cuts = parse_depths(depths)
    check_plot(plot)
    judged = open_runs(qrels, run, split, format=format, encoding=encoding)
    curves = depth(judged, reranker, measure, cuts)
    if plot is not None:
        write_plot(curves.plot(), plot)
    write_report(curves, output, form, as_json=as_json)
