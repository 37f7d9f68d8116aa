"""``telerank data ls``, ``show`` and ``convert``: what collections contain, and writing it otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge
from rich.table import Column, Table

from telerank.cli import console, options
from telerank.cli.derive import derive
from telerank.cli.options import CollectionOptions, Format, PrintJson, Texts
from telerank.errors import CollectionError
from telerank.parameters import Flags, Help, Split
from telerank.types import name_pages

if TYPE_CHECKING:
    from telerank.corpus.collection import Collection, CollectionContents

_SHOWN = 600  # characters of a text


class Target(StrEnum):
    beir = "beir"
    jsonl = "jsonl"
    msmarco = "msmarco"
    trec = "trec"


@derive
def ls(
    where: Annotated[
        str | None,
        Flags("COLLECTION"),
        Help("A collection, or a folder of collections. Default: list the formats."),
    ] = None,
    *,
    format: Format = None,  # noqa: A002
    encoding: Texts = "utf-8",
    as_json: PrintJson = False,
) -> None:
    """List the contents of a collection, the collections of a folder, or the known formats.

    Example: `telerank data ls scifact`
    """
    from telerank.show.progress import show_progress
    from telerank.verbs.data import count_contents, list_collections, list_formats

    if where is None:
        _show_names(list_formats(), ("format", "description"), as_json=as_json)
    elif collections := {} if format else list_collections(where):
        _show_names(collections, ("collection", "format"), as_json=as_json)
    else:
        with show_progress() as progress:
            collection = options.open_collection(where, format, encoding)
            contents = count_contents(collection, progress=progress)
        if as_json:
            console.print_json(asdict(contents))
        else:
            _show_contents(contents)


def _show_names(names: Mapping[str, str], columns: tuple[str, str], *, as_json: bool) -> None:
    if as_json:
        console.print_json(names)
        return
    table = Table(Column(columns[0], no_wrap=True), columns[1])
    for name, description in names.items():
        table.add_row(console.shown(name), console.shown(description))
    console.out.print(table)


def _show_contents(contents: CollectionContents) -> None:
    head = Table(show_header=False, box=None)
    for name in ("name", "format", "licence", "source"):
        head.add_row(name, console.shown(getattr(contents, name) or "not stated by the files"))
    head.add_row("documents", f"{contents.documents:,}")
    for note, count in contents.notes.items():
        head.add_row(console.shown(note.replace("_", " ")), f"{count:,}")
    if contents.unread:
        head.add_row("not read", console.shown(", ".join(contents.unread)))
    if contents.pools:
        head.add_row("pools", console.shown(", ".join(contents.pools)))
    console.out.print(head)
    if not contents.splits:
        return
    known = {kind for counts in contents.splits.values() for kind in counts}
    kinds = [kind for kind in ("queries", "qrels", "answers") if kind in known]
    table = Table(Column("split", no_wrap=True), *(Column(kind, justify="right") for kind in kinds))
    for split, counts in contents.splits.items():
        numbers = (f"{counts[kind]:,}" if kind in counts else "" for kind in kinds)
        table.add_row(console.shown(split), *numbers)
    console.out.print(table)


@derive
def show(
    data: CollectionOptions,
    docnos: Annotated[list[str] | None, Flags("DOCNO"), Help("Documents to show.")] = None,
    *,
    query: Annotated[
        str | None, Flags("--query", "-q", "QID"), Help("Show a query and its judgments.")
    ] = None,
    head: Annotated[int | None, Ge(1), Flags("-n"), Help("Show the first N documents and queries.")] = None,
    split: Split = None,
    as_json: PrintJson = False,
) -> None:
    """Show documents, a query with its judgments, or the first documents and queries (default: 3 of each).

    Example: `telerank data show scifact 4983 --query 1`
    """
    from telerank.verbs.data import find_docs, find_query

    opened = data.open()
    records: list[dict[str, Any]] = []
    if docnos:
        records += ({"kind": "document", **doc.record} for doc in find_docs(opened, docnos))
    if query is not None:
        judged = asdict(find_query(opened, query, split))
        records.append(
            {
                "kind": "query",
                "split": judged["split"],
                **judged["query"],
                "qrels": judged["grades"],
                "answers": judged["answers"],
            }
        )
    if head is not None or not (docnos or query is not None):
        records += _first(opened, head or 3, split)
    if not records:
        raise CollectionError(f"{data.collection}: no documents and no queries, read as {opened.format}")
    for record in records:
        if as_json:
            console.print_json(record)
        else:
            _show_record(record)


def _first(collection: Collection, count: int, split: str | None) -> Iterator[dict[str, Any]]:
    splits = collection.splits if split is None else (collection.resolve_split(split),)
    if collection.size != 0:
        for doc in islice(collection.docs(), count):
            yield {"kind": "document", **doc.record}
    for name in splits:
        for query in islice(collection.queries.get(name, tuple)(), count):
            yield {"kind": "query", "split": name, **asdict(query)}


def _show_record(record: dict[str, Any]) -> None:
    is_query = record["kind"] == "query"
    name = f"query {record['qid']} ({record['split']})" if is_query else f"document {record['docno']}"
    console.out.print(f"[bold]{console.shown(name)}[/]", soft_wrap=True)
    for part in ("title", "url"):
        if record.get(part):
            console.out.print(f"[italic]{console.shown(record[part])}[/]", soft_wrap=True)
    if record.get("page"):
        pages = name_pages(record["page"], record["last_page"])
        console.out.print(f"[italic]{console.shown(record['file'])}, {pages}[/]", soft_wrap=True)
    text = record["text"]
    console.out.print(console.shown(text[:_SHOWN]), soft_wrap=True)
    if len(text) > _SHOWN:
        console.out.print(f"[dim]… {len(text) - _SHOWN:,} more characters (--json shows them)[/]")
    for docno, grade in sorted(record.get("qrels", {}).items(), key=lambda judged: -judged[1]):
        console.out.print(f"  grade {grade}: {console.shown(docno)}", soft_wrap=True)
    for answer in record.get("answers", ()):
        line = f"  answer in {answer['docno']} at {answer['start']:,}: {answer['text']}"
        console.out.print(console.shown(line), soft_wrap=True)
    console.out.print()


@derive
def convert(
    data: CollectionOptions,
    out: Annotated[Path, Flags("OUT"), Help("The folder to write; it must not exist.")],
    *,
    to: Annotated[Target, Flags("--to"), Help("The format to write.")],
    index: Annotated[
        Path | None, Help("Index whose documents are written, for judgments and topics, which have none.")
    ] = None,
    as_json: PrintJson = False,
) -> None:
    """Write a collection in another format, with all its splits.

    Example: `telerank data convert vaswani vaswani-beir --to beir`

    What users of a service judged, as a collection to train on:
    `telerank data convert judged.jsonl judged --to jsonl --index idx`
    """
    from telerank.show.progress import show_progress
    from telerank.verbs.data import convert, with_documents

    with show_progress() as progress:
        opened = data.open()
        opened = opened if index is None else with_documents(opened, index)
        written = convert(opened, out, to.value, progress=progress)
    if as_json:
        console.print_json(asdict(written))
    else:
        counts = f"{written.docs:,} documents, {written.queries:,} queries, {written.qrels:,} qrels"
        console.out.print(f"{console.shown(str(out))}: {counts}", soft_wrap=True)
    for note in written.notes:
        console.say(f"note: {note}")
