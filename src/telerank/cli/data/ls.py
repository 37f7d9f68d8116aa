"""``telerank data ls``: what a collection holds, the collections of a folder, the known formats."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from telerank.cli import console
from telerank.cli.options import AsJson, Encoding, FormatOption

if TYPE_CHECKING:
    from telerank.corpus.collection import Collection
    from telerank.types import Progress


def ls(
    where: Annotated[
        str | None,
        typer.Argument(
            metavar="COLLECTION", help="A collection, or a folder of them; none: the known formats."
        ),
    ] = None,
    *,
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """List what a collection holds, the collections of a folder, or the known formats.

    Example: `telerank data ls scifact`
    """
    from telerank.corpus.formats import open_collection

    if where is None:
        _show_formats(as_json=as_json)
        return
    inside = [] if format else _collections_in(Path(where))
    if inside:
        _show_names(inside, as_json=as_json)
        return
    with console.progress() as progress:
        facts = _counted(open_collection(where, format=format, encoding=encoding), progress)
    if as_json:
        _print_json(facts)
    else:
        _show_collection(facts)


def _show_formats(*, as_json: bool) -> None:
    from telerank.corpus.formats import FORMATS
    from telerank.corpus.readers.ir_datasets_ids import IR_DATASETS

    known = {one.name: one.description for one in FORMATS}
    known[IR_DATASETS] = "ids such as beir/scifact/test (an extra: pip install 'telerank[ir-datasets]')"
    if as_json:
        _print_json(known)
        return
    table = Table()
    table.add_column("format", no_wrap=True)
    table.add_column("what it is")
    for name, description in known.items():
        table.add_row(name, escape(description))
    console.out.print(table)


def _collections_in(path: Path) -> list[tuple[str, str]]:
    """Name and format of what stands in a folder that is no collection itself."""
    if not path.is_dir() or _formats_of(path):
        return []
    return [
        (place.name, formats)
        for place in sorted(path.iterdir())
        if not place.name.startswith(".") and (formats := _formats_of(place))
    ]


def _formats_of(path: Path) -> str:
    from telerank.corpus.formats import FORMATS

    return " or ".join(one.name for one in FORMATS if one.recognises(path))


def _show_names(found: list[tuple[str, str]], *, as_json: bool) -> None:
    if as_json:
        _print_json(dict(found))
        return
    table = Table()
    table.add_column("collection", no_wrap=True)
    table.add_column("format")
    for name, formats in found:
        table.add_row(escape(name), formats)
    console.out.print(table)


def _counted(opened: Collection, progress: Progress) -> dict[str, Any]:
    """What ``ls`` tells; documents are counted where their number is not known."""
    count = opened.size
    if count is None:
        count = 0
        for count, _ in enumerate(opened.docs(), 1):
            if count % 1000 == 0:
                progress("counting documents", count, None)
    kinds: dict[str, Mapping[str, Callable[[], Iterator[Any]]]] = {
        "queries": opened.queries, "qrels": opened.qrels, "answers": opened.answers,
    }  # fmt: skip
    splits = {
        split: {kind: sum(1 for _ in streams[split]()) for kind, streams in kinds.items() if split in streams}
        for split in opened.splits
    }
    return {
        "name": opened.name,
        "format": opened.format,
        "licence": opened.licence,
        "source": opened.source,
        "documents": count,
        "splits": splits,
        "pools": list(opened.pools),
        "notes": dict(opened.notes()),
    }


def _show_collection(facts: dict[str, Any]) -> None:
    head = Table(show_header=False, box=None)
    for name in ("name", "format", "licence", "source"):
        head.add_row(name, escape(facts[name] or "not stated by the files"))
    head.add_row("documents", f"{facts['documents']:,}")
    for what, count in facts["notes"].items():
        head.add_row(escape(what.replace("_", " ")), f"{count:,}")
    if facts["pools"]:
        head.add_row("pools", escape(", ".join(facts["pools"])))
    console.out.print(head)
    if not facts["splits"]:
        return
    table = Table()
    table.add_column("split", no_wrap=True)
    kinds = [
        kind
        for kind in ("queries", "qrels", "answers")
        if any(kind in one for one in facts["splits"].values())
    ]
    for kind in kinds:
        table.add_column(kind, justify="right")
    for split, counts in facts["splits"].items():
        table.add_row(escape(split), *(f"{counts[kind]:,}" if kind in counts else "" for kind in kinds))
    console.out.print(table)


def _print_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=False))  # noqa: T201 — for machines
