"""``telerank evaluate``: measures of runs, in the mean, by query and by depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from telerank.cli import console, runs
from telerank.cli.options import AsJson, Encoding, FormatOption, Split, check_plot
from telerank.errors import MeasureError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from telerank.evaluate.measures import Evaluation

_BY_DEPTH = "R AP"


def evaluate(
    qrels: runs.QrelsArgument,
    run: runs.RunArguments,
    *,
    measures: Annotated[
        str | None,
        typer.Option(
            "--measures",
            "-m",
            help=f"Names as ir_measures writes them. Default: `{runs.MEASURES}`; by depth `{_BY_DEPTH}`.",
        ),
    ] = None,
    split: Split = None,
    per_query: Annotated[bool, typer.Option("--per-query", help="The values of every query, too.")] = False,
    depths: Annotated[
        str | None,
        typer.Option("--depths", help="Measures, named without cutoff, at depths such as `1,3,…,15`."),
    ] = None,
    plot: Annotated[
        str | None, typer.Option("--plot", help="With --depths: a file for their plot (.png, .svg, .pdf).")
    ] = None,
    form: runs.FormOption = None,
    output: runs.Output = "-",
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Measure runs: means over all queries of the qrels, where a query without results counts 0.

    Example: `telerank evaluate scifact bm25.run --split test -m "nDCG@10 RR@10 R@100" --json`

    Example: `telerank evaluate qrels.txt bm25.run dfi.run -m "R AP" --depths 1,3,…,15 --plot depth.png`
    """
    from telerank.evaluate.measures import parse_measures

    runs.check_one_dash([qrels, *run])
    if depths is not None:
        names, cuts = _at_depths(_BY_DEPTH if measures is None else measures, depths)
        wanted = [name for cut in names.values() for name in cut]
    elif plot is not None:
        raise MeasureError("--plot draws measures by depth: give --depths, such as 1,3,…,15")
    else:
        names, cuts, wanted = {}, [], list(parse_measures(runs.MEASURES if measures is None else measures))
    check_plot(plot)
    judged = runs.load_qrels(runs.Source(qrels, split, format, encoding), run)
    evaluations = runs.evaluate_runs(run, judged, wanted, qrels)
    curves = {
        system: {name: [one.mean[cut] for cut in cut_names] for name, cut_names in names.items()}
        for system, one in evaluations.items()
    }
    if plot is not None:
        _draw(curves, cuts, plot)
    if as_json:
        found = {"qrels": qrels, "queries": len(judged), **({"depths": cuts} if cuts else {})}
        found["runs"] = [
            _record(path, evaluations[name], curves[name], per_query=per_query)
            for name, path in runs.named(run).items()
        ]
        runs.write_json(found, output)
        return
    _show(evaluations, curves, cuts, per_query=per_query, output=output, form=form)


def _at_depths(measures: str, depths: str) -> tuple[dict[str, tuple[str, ...]], list[int]]:
    from telerank.evaluate.depth import expand_measures

    cuts = runs.parse_depths(depths)
    return expand_measures(measures, cuts), cuts


def _draw(curves: Mapping[str, Mapping[str, Sequence[float]]], depths: Sequence[int], path: str) -> None:
    from telerank.show.plots import line_plot, save_plot

    names = next(iter(curves.values()))
    save_plot(
        line_plot(
            {name: {system: lines[name] for system, lines in curves.items()} for name in names}, depths
        ),
        path,
    )
    console.say(f"plot in {path}")


def _record(
    path: str, evaluation: Evaluation, curve: Mapping[str, Sequence[float]], *, per_query: bool
) -> dict[str, Any]:
    record: dict[str, Any] = {"run": path}
    record |= {"by_depth": curve} if curve else {"mean": evaluation.mean}
    record |= {name: list(getattr(evaluation, name)) for name in ("missing", "unanswerable", "unjudged")}
    if per_query:
        values = {name: evaluation.of(name) for name in evaluation.measures}
        record["per_query"] = {
            qid: {name: one[qid] for name, one in values.items()} for qid in evaluation.qids
        }
    return record


def _show(
    evaluations: Mapping[str, Evaluation],
    curves: Mapping[str, Mapping[str, Sequence[float]]],
    depths: Sequence[int],
    *,
    per_query: bool,
    output: str,
    form: runs.Form | None,
) -> None:
    from telerank.evaluate.report import depth_table, means_table, query_table

    queries = len(next(iter(evaluations.values())).qids)
    caption = f"Means over {queries} queries"
    table = (
        depth_table(curves, depths, caption=caption) if depths else means_table(evaluations, caption=caption)
    )
    runs.write_tables([*([query_table(evaluations)] if per_query else []), table], output, form, "Evaluation")
