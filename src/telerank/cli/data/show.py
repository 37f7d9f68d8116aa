"""``telerank data show``: documents and queries of a collection."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from telerank.cli import console
from telerank.cli.console import shown
from telerank.cli.options import AsJson, CollectionArgument, Encoding, FormatOption, Split

if TYPE_CHECKING:
    from telerank.corpus.collection import Collection

_SHOWN = 600  # characters of a text


def show(
    collection: CollectionArgument,
    docnos: list[str] | None = Argument(None, metavar="DOCNO", help="Documents to show."),
    *,
    query: str | None = Option(None, "--query", "-q", metavar="QID", help="Show a query and its judgments."),
    head: int | None = Option(None, "--head", "-n", min=1, help="Show the first N documents and queries."),
    split: Split = None,
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Show documents, a query with its judgments, or the first documents and queries (default: 3 of each).

    Example: `telerank data show scifact 4983 --query 1`
    """
    import telerank as tr
    from telerank.verbs.data import find_docs, find_query

    opened = tr.collection(collection, format=format, encoding=encoding)
    records: list[dict[str, Any]] = []
    if docnos:
        records += ({"kind": "document", **asdict(doc)} for doc in find_docs(opened, docnos))
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
    for record in records:
        if as_json:
            print(json.dumps(record, ensure_ascii=False))
        else:
            _show_record(record)


def _first(collection: Collection, count: int, split: str | None) -> Iterator[dict[str, Any]]:
    splits = collection.splits if split is None else (collection.resolve_split(split),)
    if collection.size != 0:
        for doc in islice(collection.docs(), count):
            yield {"kind": "document", **asdict(doc)}
    for name in splits:
        for query in islice(collection.queries.get(name, tuple)(), count):
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
        span = f"{answer['docno']} at {answer['start']:,}"
        console.out.print(f"  answer in {shown(span)}: {shown(answer['text'])}", soft_wrap=True)
    console.out.print()
