"""``telerank inspect``: see why re-rankers score as they do."""

from __future__ import annotations

import typer

from telerank.cli.inspect.diffusion import diffusion
from telerank.cli.inspect.faithfulness import faithfulness
from telerank.cli.inspect.gates import gates
from telerank.cli.inspect.tsne import tsne

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")


@app.callback()
def inspect() -> None:
    """See why re-rankers score as they do: outputs of tokens, embeddings of pairs, gates over sentences.

    Example: `telerank inspect tsne insuranceqa-v2 minilm --candidates test/100 --each 20 --plot tsne.png`
    """


app.command()(diffusion)
app.command()(faithfulness)
app.command()(gates)
app.command()(tsne)
