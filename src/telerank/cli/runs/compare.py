"""``telerank compare``: runs compared with baselines, with significance."""

from __future__ import annotations

from typer import Option

from telerank.cli import options
from telerank.cli.runs.judged import open_runs
from telerank.cli.runs.output import write_report


def compare(
    qrels: options.QrelsArgument,
    run: options.RunArguments,
    *,
    baseline: list[str] | None = Option(
        None,
        "--baseline",
        "-b",
        help="One of the runs, by file or name; repeat for several. Default: the first.",
    ),
    measures: options.Measures = "RR@10 R@1000 AP nDCG@10 P@1",
    split: options.Split = None,
    level: options.Level = 0.05,
    queries: int = Option(10, min=0, max=10, help="Show only N of the queries that changed most."),
    form: options.TableForm = None,
    output: options.TableOutput = "-",
    format: options.FormatOption = None,  # noqa: A002
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Compare runs with baselines: paired t-test with Holm's correction, effect size, bootstrap interval.

    Example: `telerank compare scifact bm25.run lmd.run --baseline bm25.run -m "nDCG@10 AP"`

    Example: `telerank compare qrels.txt bm25.run dfi.run dfr.run -b bm25 -b dfi -o table.tex`
    """
    from telerank.verbs.compare import compare

    judged = open_runs(qrels, run, split, format=format, encoding=encoding)
    comparison = compare(judged, baseline or (), measures, level=level)
    write_report(comparison.with_changes(queries), output, form, as_json=as_json)
