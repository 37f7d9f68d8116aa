"""``telerank tune-fusion``: the best weights of a fusion, and how good they are on other queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from telerank.cli import console, runs
from telerank.cli.options import AsJson, Encoding, FormatOption, Split
from telerank.errors import CollectionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from telerank.fuse.tuning import FusionTuning
    from telerank.types import Qrels

_DRAWN = 3  # runs whose weights can be drawn


def tune_fusion(
    qrels: runs.QrelsArgument,
    run: runs.RunArguments,
    *,
    measure: Annotated[
        str, typer.Option("--measure", "-m", help="What is tuned for, as ir_measures writes it.")
    ] = "nDCG@10",
    step: Annotated[
        str, typer.Option("--step", help="Of the grid of weights: `0.1`, `0.05`, `1/3`.")
    ] = "0.1",
    folds: Annotated[int, typer.Option("--folds", min=2, help="Folds of the cross-validation.")] = 5,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the folds.")] = 0,
    depth: Annotated[
        int, typer.Option("--depth", "-k", min=1, help="Documents taken of each list of a run.")
    ] = 1000,
    plot: Annotated[
        str | None,
        typer.Option("--plot", help="A file for the plot of two or three runs (.png, .svg, .pdf)."),
    ] = None,
    split: Split = None,
    form: runs.FormOption = None,
    output: runs.Output = "-",
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Tune the weights of `fuse --method linear` over a whole grid, by cross-validation.

    Example: `telerank tune-fusion scifact bm25.run dfr.run --split test --measure nDCG@10 --plot weights.png`
    """
    runs.check_one_dash([qrels, *run])
    names = list(runs.named(run))
    if len(run) < 2:
        raise CollectionError("there is nothing to fuse: give two runs or more")
    if plot is not None:
        _check_plot(plot, names)
    judged = runs.load_qrels(runs.Source(qrels, split, format, encoding), run)
    tuning = _tune(run, judged, measure, step=step, folds=(folds, seed), depth=depth)
    if not tuning.answered:
        raise CollectionError(f"no query of the runs is judged in {qrels}")
    _tell(tuning, names)
    if plot is not None:
        _draw(tuning, names, plot)
    if as_json:
        runs.write_json(_record(tuning, run), output)
        return
    from telerank.fuse.report import weights_table, worth_table

    runs.write_tables([weights_table(tuning, names), worth_table(tuning, names)], output, form, "Fusion")


def _check_plot(plot: str, names: Sequence[str]) -> None:
    from telerank.show.plots import check_plot_name

    if len(names) > _DRAWN:
        raise CollectionError(f"--plot draws the weights of two or three runs, not of {len(names)}")
    check_plot_name(plot)


def _tune(
    run: Sequence[str], qrels: Qrels, measure: str, *, step: str, folds: tuple[int, int], depth: int
) -> FusionTuning:
    from telerank.evaluate.tune import Folds
    from telerank.fuse.tuning import WeightGrid, simplex, tune_fusion
    from telerank.trec import read_run

    try:
        simplex(len(run), step)
    except ValueError as error:
        raise CollectionError(f"--step: {error}") from error
    with console.progress() as progress:
        lists = [(ranking.cut(depth) for ranking in read_run(path)) for path in run]
        try:
            return tune_fusion(
                lists, qrels, measure, grid=WeightGrid(step=step), folds=Folds(*folds), progress=progress
            )
        except ValueError as error:  # too few queries for the folds, and the like: what was asked for
            raise CollectionError(str(error)) from error


def _tell(tuning: FusionTuning, names: Sequence[str]) -> None:
    for name, count in zip(names, tuning.lacking, strict=True):
        if count:
            console.say(f"{name}: has no list for {count} queries: fused of the others")
    judged = len(tuning.result.table)
    if missing := judged - tuning.answered:
        console.say(f"{missing} of {judged} queries of the qrels have no list in any run: they count 0")
    if tuning.unjudged:
        console.say(f"{tuning.unjudged} queries are not in the qrels: they do not count")


def _draw(tuning: FusionTuning, names: Sequence[str], path: str) -> None:
    from telerank.show.mixture_plots import mixture_plot
    from telerank.show.plots import save_plot

    levels = {"held out": tuning.held_out, "oracle": tuning.oracle}
    result = tuning.result
    save_plot(mixture_plot(result.settings, result.dev, names, measure=tuning.measure, levels=levels), path)
    console.say(f"plot in {path}")


def _record(tuning: FusionTuning, run: Sequence[str]) -> dict[str, Any]:
    result = tuning.result
    return {
        "measure": tuning.measure,
        "runs": [
            {"run": path, "mean": one.mean[tuning.measure], "lacking": lacking}
            for path, one, lacking in zip(run, tuning.alone, tuning.lacking, strict=True)
        ],
        "weights": result.best,
        "in_sample": tuning.in_sample,
        "held_out": tuning.held_out,
        "oracle": tuning.oracle,
        "choices": [
            {"queries": len(fold), "weights": one}
            for fold, one in zip(result.folds, result.choices, strict=True)
        ],
        "grid": [
            {"weights": one, "mean": value} for one, value in zip(result.settings, result.dev, strict=True)
        ],
    }
