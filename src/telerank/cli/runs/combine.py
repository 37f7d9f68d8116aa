"""``telerank combine``: every run combined with every other, and what that changes."""

from __future__ import annotations

from typer import Option

from telerank.cli import options
from telerank.cli.runs.fuse import Method
from telerank.cli.runs.judged import open_runs
from telerank.cli.runs.output import write_report


def combine(
    qrels: options.QrelsArgument,
    run: options.RunArguments,
    *,
    measures: options.Measures = "RR@10 R@1000",
    method: Method = Option(Method.interleave, help="How two lists are fused; `linear` has equal weights."),
    depth: options.Depth = 1000,
    level: options.Level = 0.05,
    split: options.Split = None,
    form: options.TableForm = None,
    output: options.TableOutput = "-",
    format: options.FormatOption = None,  # noqa: A002
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Fuse all ordered pairs of runs, and show what each run adds to each other.

    A row is the first run, a column the second; the change is from the first run alone. Fused lists are cut
    to --depth too.

    Example: `telerank combine scifact bm25.run dfr.run lmd.run --split test -m "RR@10 R@1000"`
    """
    from telerank.verbs.fuse import Fusion, combine

    judged = open_runs(qrels, run, split, format=format, encoding=encoding)
    fusion = Fusion(method.value, depth=depth)
    matrix = combine(judged, measures, fusion=fusion, level=level)
    write_report(matrix, output, form, as_json=as_json)
