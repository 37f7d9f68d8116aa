"""``telerank data show``: documents and queries of a collection, as they are read."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from telerank.cli import console
from telerank.cli.console import shown
from telerank.cli.options import AsJson, CollectionArgument, Encoding, FormatOption, Split
from telerank.errors import CollectionError

if TYPE_CHECKING:
    from telerank.corpus.collection import Collection
    from telerank.types import Doc

_SHOWN = 600  # characters of a text


def show(
    collection: CollectionArgument,
    docnos: Annotated[list[str] | None, typer.Argument(metavar="DOCNO", help="Documents to show.")] = None,
    *,
    query: Annotated[
        str | None, typer.Option("--query", "-q", metavar="QID", help="A query and its judgments.")
    ] = None,
    head: Annotated[
        int | None, typer.Option("--head", "-n", min=1, help="The first so many documents and queries.")
    ] = None,
    split: Split = None,
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Show documents, a query with its judgments, or the first of both (3 unless said otherwise).

    Example: `telerank data show scifact 4983 --query 1`
    """
    from telerank.corpus.formats import open_collection

    opened = open_collection(collection, format=format, encoding=encoding)
    records: Iterable[dict[str, Any]] = ()
    if docnos:
        records = _documents(opened, docnos)
    if query is not None:
        records = itertools.chain(records, [_query(opened, query, split)])
    if head is not None or not (docnos or query is not None):
        records = itertools.chain(records, _first(opened, head or 3, split))
    for record in records:
        if as_json:
            print(json.dumps(record, ensure_ascii=False))  # noqa: T201 — for machines
        else:
            _show_record(record)


def _documents(opened: Collection, docnos: list[str]) -> Iterator[dict[str, Any]]:
    """The documents as asked, when all are found; a collection is read, as it has no index."""
    wanted: dict[str, Doc | None] = dict.fromkeys(docnos)
    missing = len(wanted)
    for doc in opened.docs():
        if doc.docno in wanted and wanted[doc.docno] is None:
            wanted[doc.docno] = doc
            missing -= 1
            if not missing:
                break
    absent = [docno for docno, doc in wanted.items() if doc is None]
    if absent:
        raise CollectionError(f"{opened.name} has no document {', '.join(map(repr, absent))}")
    return ({"kind": "document", **asdict(doc)} for doc in wanted.values() if doc is not None)


def _query(opened: Collection, qid: str, split: str | None) -> dict[str, Any]:
    splits = opened.splits if split is None else (opened.resolve_split(split),)
    for name in splits:
        found = next((query for query in _stream(opened.queries, name) if query.qid == qid), None)
        if found is None:
            continue
        qrels = {one.docno: one.grade for one in _stream(opened.qrels, name) if one.qid == qid}
        answers = [asdict(one) for one in _stream(opened.answers, name) if one.qid == qid]
        return {"kind": "query", "split": name, **asdict(found), "qrels": qrels, "answers": answers}
    raise CollectionError(
        f"{opened.name} has no query {qid!r} in {', '.join(splits) or 'it: it has none at all'}"
    )


def _stream(streams: Mapping[str, Callable[[], Iterator[Any]]], split: str) -> Iterator[Any]:
    return streams[split]() if split in streams else iter(())


def _first(opened: Collection, count: int, split: str | None) -> Iterator[dict[str, Any]]:
    splits = opened.splits if split is None else (opened.resolve_split(split),)
    if opened.size != 0:
        for doc in itertools.islice(opened.docs(), count):
            yield {"kind": "document", **asdict(doc)}
    for name in splits:
        for query in itertools.islice(_stream(opened.queries, name), count):
            yield {"kind": "query", "split": name, **asdict(query)}


def _show_record(record: dict[str, Any]) -> None:
    is_query = record["kind"] == "query"
    name = f"query {record['qid']} ({record['split']})" if is_query else f"document {record['docno']}"
    console.out.print(f"[bold]{shown(name)}[/]", soft_wrap=True)
    for part in ("title", "url"):
        if record.get(part):
            console.out.print(f"[italic]{shown(record[part])}[/]", soft_wrap=True)
    text = record["text"]
    console.out.print(shown(text[:_SHOWN]), soft_wrap=True)
    if len(text) > _SHOWN:
        console.out.print(f"[dim]… {len(text) - _SHOWN:,} more characters (--json shows them)[/]")
    for docno, grade in sorted(record.get("qrels", {}).items(), key=lambda judged: -judged[1]):
        console.out.print(f"  grade {grade}: {shown(docno)}", soft_wrap=True)
    for answer in record.get("answers", ()):
        place = f"{answer['docno']} at {answer['start']:,}"
        console.out.print(f"  answer in {shown(place)}: {shown(answer['text'])}", soft_wrap=True)
    console.out.print()
