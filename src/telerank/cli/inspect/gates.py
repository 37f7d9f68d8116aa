"""``telerank inspect gates``: how much each episode attends to the sentences of a passage."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text
from typer import Option

from telerank.cli import console
from telerank.cli.inspect import pairs as shared
from telerank.cli.options import AsJson, PlotFile, check_plot
from telerank.cli.runs.output import write_json
from telerank.errors import CollectionError

if TYPE_CHECKING:
    from telerank.inspect.gates import Gates

_DARK = (0, 114, 178)  # the blue of the plots
_WHITE_FROM = 0.55  # a gate from which its number is white


def gates(
    *,
    model: shared.ModelOption,
    query: str = Option(..., "--query", "-q", help="The query."),
    text: str | None = Option(None, help="The passage; `-`: standard input."),
    docno: str | None = Option(None, help="Docno of the passage, a document of --docs."),
    docs: str | None = Option(
        None, metavar="INDEX|COLLECTION", help="An index or a collection with the document."
    ),
    plot: PlotFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the sentences of a passage with the gate of every episode of BERT-DMN or DMN.

    Example: `telerank inspect gates --model bert-dmn/model -q "what is a premium" --text "A sum. You pay."`

    Example: `telerank inspect gates --model bert-dmn/model -q "a trust" --docno 12 --docs insuranceqa-v2`
    """
    from telerank.verbs.inspect import load_reranker, read_gates

    if (text is None) == (docno is None) or (docno is None) != (docs is None):
        raise CollectionError("gates: give --text, or --docno with --docs")
    check_plot(plot)
    passage = _find_text(docno, docs) if docno is not None and docs is not None else _read_text(text or "")
    result = read_gates(load_reranker(model), query, passage)
    if plot is not None:
        from telerank.show.plots import save_plot
        from telerank.verbs.inspect import gates_plot

        save_plot(gates_plot(result), plot)
        console.say(f"plot in {plot}")
    if as_json:
        write_json(asdict(result), "-")
        return
    console.out.print(_table(result))


def _read_text(text: str) -> str:
    return sys.stdin.read() if text == "-" else text


def _find_text(docno: str, docs: str) -> str:
    import telerank
    import telerank as tr
    from telerank.verbs.data import find_docs

    if not (Path(docs) / "segments").is_dir():
        return find_docs(tr.collection(docs), [docno])[0].full_text
    documents = telerank.open(docs).docs
    if docno not in documents:
        raise CollectionError(f"{docs} has no document {docno!r}")
    return documents[docno].full_text


def _table(result: Gates) -> Table:
    """A row for each sentence; a higher gate is darker."""
    title = f"{result.query}  (logit {result.logit:.4f})"
    table = Table(title=_escape(title), title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("sentence", overflow="fold")
    for episode in range(1, result.episodes + 1):
        table.add_column(str(episode), justify="right", no_wrap=True)
    for sentence in result.sentences:
        cells = [_cell(gate) for gate in sentence.gates] or [Text("not read", "dim")]
        table.add_row(_escape(" ".join(sentence.text.split())), *cells)
    if result.cut:
        table.caption = f"{console.counted(result.cut, 'token')} too many: not read"
    return table


def _escape(text: str) -> Text:
    return Text.from_markup(console.shown(text))


def _cell(gate: float) -> Text:
    red, green, blue = (round(255 + gate * (dark - 255)) for dark in _DARK)
    letters = "white" if gate > _WHITE_FROM else "black"
    return Text(f" {gate:.2f} ", f"{letters} on rgb({red},{green},{blue})")
