"""``telerank compare``: runs beside baselines, and which differences to believe."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from telerank.cli import runs
from telerank.cli.options import AsJson, Encoding, FormatOption, Split
from telerank.errors import CollectionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from telerank.evaluate.compare import Comparison


def compare(
    qrels: runs.QrelsArgument,
    run: runs.RunArguments,
    *,
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            "--baseline",
            "-b",
            help="One of the runs, by file or name; repeat for several. Default: the first.",
        ),
    ] = None,
    measures: runs.Measures = runs.MEASURES,
    split: Split = None,
    level: Annotated[
        float,
        typer.Option("--level", min=0.0, max=1.0, help="A difference is significant where p is below it."),
    ] = 0.05,
    queries: Annotated[
        int, typer.Option("--queries", min=0, max=10, help="Show so many of the queries that changed most.")
    ] = 10,
    form: runs.FormOption = None,
    output: runs.Output = "-",
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Compare runs with baselines: paired t-test with Holm's correction, effect size, bootstrap.

    Example: `telerank compare scifact bm25.run lmd.run --baseline bm25.run -m "nDCG@10 AP"`

    Example: `telerank compare qrels.txt bm25.run dfi.run dfr.run -b bm25 -b dfi --as latex -o table.tex`
    """
    from telerank.evaluate.compare import compare as compared
    from telerank.evaluate.measures import parse_measures

    runs.check_one_dash([qrels, *run])
    names = parse_measures(measures)
    if len(run) < 2:
        raise CollectionError("there is nothing to compare: give two runs or more")
    baselines = _baselines(baseline or run[:1], runs.named(run))
    judged = runs.load_qrels(runs.Source(qrels, split, format, encoding), run)
    evaluations = runs.evaluate_runs(run, judged, names, qrels)
    comparison = compared(evaluations, baselines, level=level)
    if as_json:
        runs.write_json(_record(comparison), output)
    else:
        _show(comparison, queries, output, form)


def _baselines(wanted: Sequence[str], named: dict[str, str]) -> list[str]:
    """The names of the runs that are meant by file or by name, each once."""
    names = {**{path: name for name, path in named.items()}, **{name: name for name in named}}
    for one in wanted:
        if one not in names:
            raise CollectionError(f"the baseline {one} is none of the runs: {', '.join(named.values())}")
    return list(dict.fromkeys(names[one] for one in wanted))


def _record(comparison: Comparison) -> dict[str, Any]:
    return {
        "queries": len(next(iter(comparison.evaluations.values())).qids),
        "baselines": comparison.baselines,
        "level": comparison.level,
        "means": {system: one.mean for system, one in comparison.evaluations.items()},
        "differences": [asdict(one) for one in comparison.differences],
    }


def _show(comparison: Comparison, queries: int, output: str, form: runs.Form | None) -> None:
    from telerank.evaluate.report import changes_table, comparison_table, difference_table

    tables = [comparison_table(comparison)]
    tables += [difference_table(comparison, one) for one in comparison.baselines]
    if queries:
        tables += [changes_table(comparison, one, queries=queries) for one in comparison.baselines]
    runs.write_tables([table for table in tables if table.rows], output, form, "Comparison")
