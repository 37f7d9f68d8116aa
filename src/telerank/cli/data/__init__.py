"""``telerank data``: list, show, convert and describe collections; make ranking sets."""

from __future__ import annotations

import typer

from telerank.cli.data.convert import convert
from telerank.cli.data.ls import ls
from telerank.cli.data.make_ranking_set import make_ranking_set
from telerank.cli.data.show import show
from telerank.cli.data.stats import stats

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")


@app.callback()
def data() -> None:
    """List, show, convert and describe collections; make ranking sets.

    Example: `telerank data ls scifact`
    """


app.command()(convert)
app.command()(ls)
app.command()(make_ranking_set)
app.command()(show)
app.command()(stats)
