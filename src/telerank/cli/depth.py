"""``telerank depth``: recall of runs by depth, and what a re-ranker makes of them by depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from telerank.cli import console, runs
from telerank.cli.options import AsJson, Encoding, FormatOption, Split, check_plot
from telerank.errors import MeasureError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from telerank.evaluate.reranking import RerankingByDepth
    from telerank.types import Qrels

_DEPTHS = "5,10,50,500,1000"


def depth(
    qrels: runs.QrelsArgument,
    run: runs.RunArguments,
    *,
    depths: Annotated[str, typer.Option("--depths", help="Depths of the first stage.")] = _DEPTHS,
    reranker: Annotated[
        str | None,
        typer.Option(
            "--reranker", "-r", help="A run of a re-ranker's scores over the candidates of all runs."
        ),
    ] = None,
    measure: Annotated[
        str, typer.Option("--measure", "-m", help="Of the re-ranked lists, as ir_measures writes it.")
    ] = "RR@10",
    plot: Annotated[
        str | None, typer.Option("--plot", help="A file for the plot (.png, .svg, .pdf).")
    ] = None,
    split: Split = None,
    form: runs.FormOption = None,
    output: runs.Output = "-",
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Recall of first stages by depth; with a re-ranker's scores, its accuracy by depth, too.

    The first run is what the others are compared with.

    Example: `telerank depth scifact bm25.run dfr.run --split test --reranker lmd.run --plot depths.png`
    """
    from telerank.evaluate.measures import parse_measures

    runs.check_one_dash([qrels, *run, *([reranker] if reranker else [])])
    wanted = runs.parse_depths(depths)
    (name, *more) = parse_measures(measure)
    if more:
        raise MeasureError(f"the re-ranked lists are measured by one measure, got {measure!r}")
    check_plot(plot)
    judged = runs.load_qrels(runs.Source(qrels, split, format, encoding), run)
    evaluations = runs.evaluate_runs(run, judged, [f"R@{one}" for one in wanted], qrels)
    recall = {system: tuple(one.mean[f"R@{n}"] for n in wanted) for system, one in evaluations.items()}
    reranked = _reranked(runs.named(run), reranker, judged, name, wanted) if reranker else {}
    if plot is not None:
        _draw(recall, {system: one.of(name) for system, one in reranked.items()}, wanted, plot, name)
    if as_json:
        told = {"depths": wanted, "qrels": qrels, "reranker": reranker, "measure": name}
        runs.write_json(_record(recall, reranked, told), output)
    else:
        _show(recall, reranked, depths=wanted, measure=name, output=output, form=form)


def _reranked(
    named: Mapping[str, str], reranker: str, qrels: Qrels, measure: str, depths: Sequence[int]
) -> dict[str, RerankingByDepth]:
    from telerank.evaluate.reranking import measure_reranking, rerank_by_run
    from telerank.trec import read_run

    scores = rerank_by_run(read_run(reranker))
    found = {}
    with console.progress() as progress:
        for name, path in named.items():
            found[name] = measure_reranking(read_run(path), scores, qrels, measure, depths, progress=progress)
    for name, one in found.items():
        if one.unscored:
            told = f"{one.unscored:,} of {one.candidates:,} candidates have no score in {reranker}"
            console.say(f"{name}: {told}: they stay below the others")
    return found


def _draw(
    recall: Mapping[str, Sequence[float]],
    reranked: Mapping[str, Sequence[float]],
    depths: Sequence[int],
    path: str,
    measure: str,
) -> None:
    from telerank.show.plots import line_plot, save_plot

    panels = {"R": recall, **({f"{measure}, re-ranked": reranked} if reranked else {})}
    save_plot(line_plot(panels, depths), path)
    console.say(f"plot in {path}")


def _record(
    recall: Mapping[str, Sequence[float]],
    reranked: Mapping[str, RerankingByDepth],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    found = {
        name: {
            "by_depth": one.of(settings["measure"]),
            "candidates": one.candidates,
            "unscored": one.unscored,
        }
        for name, one in reranked.items()
    }
    return {**settings, "recall": recall, "reranked": found}


def _show(
    recall: Mapping[str, Sequence[float]],
    reranked: Mapping[str, RerankingByDepth],
    *,
    depths: Sequence[int],
    measure: str,
    output: str,
    form: runs.Form | None,
) -> None:
    from telerank.evaluate.report import columns_table

    tables = [columns_table(recall, depths, caption="Recall of the first stage")]
    if reranked:
        values = {name: one.of(measure) for name, one in reranked.items()}
        caption = f"{measure} of the first n, re-ranked"
        tables.append(columns_table(values, depths, caption=caption, changes=True))
    runs.write_tables(tables, output, form, "By depth")
