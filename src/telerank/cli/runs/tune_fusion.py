"""``telerank tune-fusion``: the best weights of a fusion, measured on queries that did not choose them."""

from __future__ import annotations

from enum import StrEnum

from typer import Option

from telerank.cli import options
from telerank.cli.runs.judged import open_runs
from telerank.cli.runs.output import write_plot, write_report
from telerank.errors import CollectionError


class GridName(StrEnum):
    """Which weights are tried."""

    simplex = "simplex"
    square = "square"


_DRAWN = {GridName.simplex: 3, GridName.square: 2}  # the most runs whose weights can be drawn


def tune_fusion(
    qrels: options.QrelsArgument,
    run: options.RunArguments,
    *,
    measure: str = Option("nDCG@10", "--measure", "-m", help="Measure to maximise, as ir_measures names it."),
    grid: GridName = Option(
        GridName.simplex, help="Weights to try: `simplex`: they sum to 1; `square`: each from 0 to 1."
    ),
    step: str = Option("0.1", help="Step of the weights: `0.1`, `0.05`, `1/3`."),
    folds: int = Option(5, min=2, help="Folds of the cross-validation."),
    seed: int = Option(0, help="Seed of the folds."),
    depth: options.Depth = 1000,
    plot: options.PlotFile = None,
    split: options.Split = None,
    form: options.TableForm = None,
    output: options.TableOutput = "-",
    format: options.FormatOption = None,  # noqa: A002
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Tune the weights of `fuse --method linear` over a grid, by cross-validation.

    A plot can be drawn for two runs, and for three on the simplex.

    Example: `telerank tune-fusion scifact bm25.run dfr.run --split test --measure nDCG@10 --plot weights.png`
    """
    from telerank.verbs.fuse import Folds, WeightGrid, tune_fusion

    options.check_plot(plot)
    if plot is not None and len(run) > _DRAWN[grid]:
        raise CollectionError(f"--plot cannot draw the weights of {len(run)} runs on the {grid}")
    judged = open_runs(qrels, run, split, format=format, encoding=encoding, depth=depth)
    points, parts = WeightGrid(grid.value, step), Folds(folds, seed)
    tuning = tune_fusion(judged, measure, grid=points, folds=parts)
    if plot is not None:
        write_plot(tuning.plot(), plot)
    write_report(tuning, output, form, as_json=as_json)
