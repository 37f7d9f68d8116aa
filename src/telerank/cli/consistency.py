"""``telerank consistency``: how much of what runs find is among the candidates of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from telerank.cli import console, runs
from telerank.cli.options import AsJson, check_plot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from telerank.evaluate.consistency import Consistency

_DEPTHS = "1,5,10,50,100,500,1000"


def consistency(
    reference: Annotated[
        str,
        typer.Argument(metavar="REFERENCE", help="The run whose candidates a re-ranker was trained on."),
    ],
    run: runs.RunArguments,
    *,
    depths: Annotated[str, typer.Option("--depths", help="Depths n of the runs.")] = _DEPTHS,
    reference_depth: Annotated[
        int, typer.Option("--reference-depth", min=1, help="Candidates of each list of the reference.")
    ] = 1000,
    plot: Annotated[
        str | None, typer.Option("--plot", help="A file for the plot (.png, .svg, .pdf).")
    ] = None,
    form: runs.FormOption = None,
    output: runs.Output = "-",
    as_json: AsJson = False,
) -> None:
    """Consistency factor C(f, n): the mean share of a run's first n that is among the reference's candidates.

    Where it is low, a re-ranker trained on the reference's candidates meets documents unlike those.

    Example: `telerank consistency bm25.run dfr.run lmd.run --depths 1,10,100,1000 --plot consistency.png`
    """
    from telerank.evaluate.report import depth_table

    runs.check_one_dash([reference, *run])
    wanted = runs.parse_depths(depths)
    check_plot(plot)
    found = _measured(reference, runs.named(run), wanted, reference_depth)
    _tell(found)
    if plot is not None:
        _draw(found, wanted, plot)
    if as_json:
        record = [
            {"run": path, "by_depth": one.values, "unknown": one.unknown, "unanswered": one.unanswered}
            for path, one in zip(run, found.values(), strict=True)
        ]
        settings = {"reference": reference, "reference_depth": reference_depth, "depths": wanted}
        runs.write_json({**settings, "runs": record}, output)
        return
    caption = f"Share of the first n that is among the first {reference_depth:,} of {reference}"
    curves = {name: {"C": one.values} for name, one in found.items()}
    runs.write_tables([depth_table(curves, wanted, caption=caption)], output, form, "Consistency")


def _measured(
    reference: str, named: Mapping[str, str], depths: Sequence[int], reference_depth: int
) -> dict[str, Consistency]:
    from telerank.errors import CollectionError
    from telerank.evaluate.consistency import Reference, measure_consistency
    from telerank.trec import read_run

    candidates = Reference.of(read_run(reference), reference_depth)
    found = {}
    for name, path in named.items():
        try:
            found[name] = measure_consistency(read_run(path), candidates, depths)
        except ValueError as error:
            raise CollectionError(f"{path}: {error}") from error
        if len(found[name].unknown) == found[name].queries:
            raise CollectionError(f"{path}: no query of it is in {reference}")
    return found


def _tell(found: Mapping[str, Consistency]) -> None:
    for name, one in found.items():
        if one.unknown:
            told = f"the reference has no list for {len(one.unknown)} of {one.queries} queries: they count 0"
            console.say(f"{name}: {told}")
        if one.unanswered:
            told = f"has no document for {len(one.unanswered)} queries of the reference: they do not count"
            console.say(f"{name}: {told}")


def _draw(found: Mapping[str, Consistency], depths: Sequence[int], path: str) -> None:
    from telerank.show.plots import line_plot, save_plot

    save_plot(
        line_plot({"consistency factor": {name: one.values for name, one in found.items()}}, depths), path
    )
    console.say(f"plot in {path}")
