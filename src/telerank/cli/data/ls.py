"""``telerank data ls``: the contents of a collection, the collections of a folder, the known formats."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table
from typer import Argument

from telerank.cli import console
from telerank.cli.options import AsJson, Encoding, FormatOption

if TYPE_CHECKING:
    from telerank.corpus.contents import CollectionContents


def ls(
    where: str | None = Argument(
        None,
        metavar="COLLECTION",
        help="A collection, or a folder of collections. Default: list the formats.",
    ),
    *,
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """List the contents of a collection, the collections of a folder, or the known formats.

    Example: `telerank data ls scifact`
    """
    import telerank as tr
    from telerank.show.progress import show_progress
    from telerank.verbs.data import count_contents, list_collections, list_formats

    if where is None:
        _show_names(list_formats(), ("format", "description"), as_json=as_json)
    elif collections := {} if format else list_collections(where):
        _show_names(collections, ("collection", "format"), as_json=as_json)
    else:
        with show_progress() as progress:
            collection = tr.collection(where, format=format, encoding=encoding)
            contents = count_contents(collection, progress=progress)
        if as_json:
            _print_json(asdict(contents))
        else:
            _show_contents(contents)


def _show_names(names: Mapping[str, str], columns: tuple[str, str], *, as_json: bool) -> None:
    if as_json:
        _print_json(names)
        return
    table = Table()
    table.add_column(columns[0], no_wrap=True)
    table.add_column(columns[1])
    for name, description in names.items():
        table.add_row(escape(name), escape(description))
    console.out.print(table)


def _show_contents(contents: CollectionContents) -> None:
    head = Table(show_header=False, box=None)
    for name in ("name", "format", "licence", "source"):
        head.add_row(name, escape(getattr(contents, name) or "not stated by the files"))
    head.add_row("documents", f"{contents.documents:,}")
    for note, count in contents.notes.items():
        head.add_row(escape(note.replace("_", " ")), f"{count:,}")
    if contents.pools:
        head.add_row("pools", escape(", ".join(contents.pools)))
    console.out.print(head)
    if not contents.splits:
        return
    known = {kind for counts in contents.splits.values() for kind in counts}
    kinds = [kind for kind in ("queries", "qrels", "answers") if kind in known]
    table = Table()
    table.add_column("split", no_wrap=True)
    for kind in kinds:
        table.add_column(kind, justify="right")
    for split, counts in contents.splits.items():
        table.add_row(escape(split), *(f"{counts[kind]:,}" if kind in counts else "" for kind in kinds))
    console.out.print(table)


def _print_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=False))
