"""``telerank depth``: the accuracy of a re-ranker by the depth of the first stage."""

from __future__ import annotations

from typer import Option

from telerank.cli import options
from telerank.cli.runs.judged import open_runs
from telerank.cli.runs.output import write_plot, write_report


def depth(
    qrels: options.QrelsArgument,
    run: options.RunArguments,
    *,
    reranker: str = Option(
        ..., "--reranker", "-r", help="A run with a re-ranker's scores for the candidates of all runs."
    ),
    measure: str = Option(
        "RR@10", "--measure", "-m", help="Measure of the re-ranked lists, as ir_measures names it."
    ),
    depths: str = Option("5,10,50,500,1000", help="Depths n of the first stage."),
    plot: options.PlotFile = None,
    split: options.Split = None,
    form: options.TableForm = None,
    output: options.TableOutput = "-",
    format: options.FormatOption = None,  # noqa: A002
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Re-rank the first n documents of each run by a re-ranker's scores, and measure at each depth n.

    The other runs are compared with the first. Recall by depth is printed by `evaluate -m R --depths`.

    Example: `telerank depth scifact bm25.run dfr.run --split test --reranker lmd.run --plot depths.png`
    """
    from telerank.verbs.candidates import depth

    options.check_one_dash([qrels, *run, reranker])
    cuts = options.parse_depths(depths)
    options.check_plot(plot)
    judged = open_runs(qrels, run, split, format=format, encoding=encoding)
    curves = depth(judged, reranker, measure, cuts)
    if plot is not None:
        write_plot(curves.plot(), plot)
    write_report(curves, output, form, as_json=as_json)
