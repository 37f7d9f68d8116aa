"""``telerank evaluate``: measures of runs, in the mean, per query and by depth."""

from __future__ import annotations

from dataclasses import replace

from typer import Option

from telerank.cli import options
from telerank.cli.runs.judged import open_runs
from telerank.cli.runs.output import write_plot, write_report
from telerank.errors import MeasureError


def evaluate(
    qrels: options.QrelsArgument,
    run: options.RunArguments,
    *,
    measures: str | None = Option(
        None,
        "--measures",
        "-m",
        help="Measures by the names of ir_measures. Default: `RR@10 R@1000 AP nDCG@10 P@1`; "
        "with --depths `R AP`.",
    ),
    split: options.Split = None,
    per_query: bool = Option(False, "--per-query", help="Show the values of each query too."),
    depths: str | None = Option(
        None, help="Compute measures, named without cutoff, at depths such as `1,3,…,15`."
    ),
    plot: options.PlotFile = None,
    form: options.TableForm = None,
    output: options.TableOutput = "-",
    format: options.FormatOption = None,  # noqa: A002
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Measure runs over all queries of the qrels; a query without results counts 0.

    Example: `telerank evaluate scifact bm25.run --split test -m "nDCG@10 RR@10 R@100" --json`

    Example: `telerank evaluate qrels.txt bm25.run dfi.run -m "R AP" --depths 1,3,…,15 --plot depth.png`
    """
    from telerank.verbs.evaluate import evaluate, expand_measures, parse_measures

    cuts = [] if depths is None else options.parse_depths(depths)
    if measures is not None:  # before the files are read
        expand_measures(measures, cuts) if cuts else parse_measures(measures)
    if plot is not None and not cuts:
        raise MeasureError("--plot draws measures by depth: give --depths, such as 1,3,…,15")
    options.check_plot(plot)
    judged = open_runs(qrels, run, split, format=format, encoding=encoding)
    evaluations = evaluate(judged, measures, depths=cuts)
    if plot is not None:
        write_plot(evaluations.plot(), plot)
    write_report(replace(evaluations, per_query=per_query), output, form, as_json=as_json)
