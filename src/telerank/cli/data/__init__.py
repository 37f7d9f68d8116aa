"""``telerank data``: list, show, convert and describe collections; make ranking sets."""

from __future__ import annotations

import typer

from telerank.cli.data.contents import convert, ls, show
from telerank.cli.data.make_ranking_set import make_ranking_set
from telerank.cli.data.stats import stats

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")


@app.callback()
def data() -> None:
    """List, show, convert and describe collections; make ranking sets.

    Example: `telerank data ls scifact`
    """


for command in (convert, ls, make_ranking_set, show, stats):
    app.command()(command)
