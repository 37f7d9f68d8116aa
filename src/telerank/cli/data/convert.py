"""``telerank data convert``: write a collection in another format."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from typer import Option

from telerank.cli import console
from telerank.cli.options import AsJson, CollectionArgument, Encoding, FormatOption


class Target(StrEnum):
    beir = "beir"
    jsonl = "jsonl"
    msmarco = "msmarco"
    trec = "trec"


def convert(
    collection: CollectionArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write; it must not exist.")],
    *,
    to: Target = Option(..., help="The format to write."),
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Write a collection in another format, with all its splits.

    Example: `telerank data convert vaswani vaswani-beir --to beir`
    """
    import telerank as tr
    from telerank.show.progress import show_progress
    from telerank.verbs.data import convert

    with show_progress() as progress:
        opened = tr.collection(collection, format=format, encoding=encoding)
        written = convert(opened, out, to.value, progress=progress)
    if as_json:
        print(json.dumps(asdict(written), ensure_ascii=False))
    else:
        counts = f"{written.docs:,} documents, {written.queries:,} queries, {written.qrels:,} qrels"
        console.out.print(f"{escape(str(out))}: {counts}", soft_wrap=True)
    for note in written.notes:
        console.say(f"note: {note}")
