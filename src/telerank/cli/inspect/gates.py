"""``telerank inspect gates``: what each episode looks at in a passage."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from telerank.cli import console
from telerank.cli.inspect import pairs as inspected
from telerank.cli.options import AsJson, check_plot
from telerank.cli.output import write_json
from telerank.errors import CollectionError

if TYPE_CHECKING:
    from telerank.inspect.gates import Gates

_DARK = (0, 114, 178)  # the blue of the plots
_LIGHT_UNTIL = 0.55  # of a gate: from there on its number is white


def gates(
    *,
    model: inspected.ModelOption,
    query: Annotated[str, typer.Option("--query", "-q", help="The query.")],
    text: Annotated[str | None, typer.Option("--text", help="The passage; `-`: standard input.")] = None,
    docno: Annotated[str | None, typer.Option("--docno", help="The passage, a document of --docs.")] = None,
    docs: Annotated[
        str | None, typer.Option("--docs", metavar="INDEX|COLLECTION", help="Where the document is.")
    ] = None,
    plot: inspected.PlotOption = None,
    as_json: AsJson = False,
) -> None:
    """Show the sentences of a passage with the gate of every episode of BERT-DMN or DMN.

    Example: `telerank inspect gates -m bert-dmn/model -q "what is a premium" --text "A sum. You pay it."`

    Example: `telerank inspect gates -m bert-dmn/model -q "what is a trust" --docno 12 --docs insuranceqa-v2`
    """
    from telerank.inspect.gates import gates_of
    from telerank.models.rerankers.reranker import load_reranker

    if (text is None) == (docno is None) or (docno is None) != (docs is None):
        raise CollectionError("gates: give --text, or --docno with --docs")
    check_plot(plot)
    passage = _passage(docno, docs) if docno is not None and docs is not None else _text(text or "")
    found = gates_of(load_reranker(model), query, passage)
    if plot is not None:
        from telerank.inspect.reranker_plots import gates_plot
        from telerank.show.plots import save_plot

        save_plot(gates_plot(found), plot)
        console.say(f"plot in {plot}")
    if as_json:
        write_json(asdict(found), "-")
        return
    console.out.print(_table(found))


def _text(text: str) -> str:
    return sys.stdin.read() if text == "-" else text


def _passage(docno: str, where: str) -> str:
    import telerank
    from telerank.corpus.formats import open_collection

    if (Path(where) / "segments").is_dir():
        documents = telerank.open(where).docs
        if docno in documents:
            return documents[docno].full_text
    else:
        for doc in open_collection(where).docs():
            if doc.docno == docno:
                return doc.full_text
    raise CollectionError(f"{where} has no document {docno!r}")


def _table(found: Gates) -> Table:
    """Sentences in rows; the darker a cell, the wider its gate stands open."""
    table = Table(
        title=_shown(f"{found.query}  (logit {found.logit:.4f})"), title_justify="left", box=box.SIMPLE_HEAD
    )
    table.add_column("sentence", overflow="fold")
    for episode in range(1, found.episodes + 1):
        table.add_column(str(episode), justify="right", no_wrap=True)
    for one in found.sentences:
        cells = [_cell(gate) for gate in one.gates] or [Text("not read", "dim")]
        table.add_row(_shown(" ".join(one.text.split())), *cells)
    if found.cut:
        table.caption = f"{console.counted(found.cut, 'token')} too many: not read"
    return table


def _shown(text: str) -> Text:
    return Text.from_markup(console.shown(text))


def _cell(gate: float) -> Text:
    red, green, blue = (round(255 + gate * (dark - 255)) for dark in _DARK)
    letters = "white" if gate > _LIGHT_UNTIL else "black"
    return Text(f" {gate:.2f} ", f"{letters} on rgb({red},{green},{blue})")
