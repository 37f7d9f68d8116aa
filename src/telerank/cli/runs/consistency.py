"""``telerank consistency``: the share of runs' documents that are candidates of a reference run."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Option

from telerank.cli import options
from telerank.cli.runs.output import write_plot, write_report


def consistency(
    reference: Annotated[
        str, typer.Argument(metavar="REFERENCE", help="The run whose candidates a re-ranker was trained on.")
    ],
    run: options.RunArguments,
    *,
    depths: str = Option("1,5,10,50,100,500,1000", help="Depths n of the runs."),
    reference_depth: int = Option(1000, min=1, help="Documents of the reference that are candidates."),
    plot: options.PlotFile = None,
    form: options.TableForm = None,
    output: options.TableOutput = "-",
    as_json: options.AsJson = False,
) -> None:
    """Consistency factor C(f, n): the mean share of a run's first n that is among the reference's candidates.

    If it is low, a re-ranker trained on the reference's candidates meets documents unlike them.

    Example: `telerank consistency bm25.run dfr.run lmd.run --depths 1,10,100,1000 --plot consistency.png`
    """
    from telerank.verbs.candidates import consistency

    options.check_one_dash([reference, *run])
    cuts = options.parse_depths(depths)
    options.check_plot(plot)
    curves = consistency(reference, run, cuts, reference_depth=reference_depth)
    if plot is not None:
        write_plot(curves.plot(), plot)
    write_report(curves, output, form, as_json=as_json)
