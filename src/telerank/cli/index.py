"""``telerank index``: build an index, add to it, delete from it, merge, check and describe it."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from telerank.cli import console
from telerank.cli.console import counted
from telerank.cli.groups import group_with_default
from telerank.cli.options import AsJson, CollectionArgument, Encoding, FormatOption, IndexArgument

_BUILD = "build"


app = typer.Typer(cls=group_with_default(_BUILD), no_args_is_help=True, rich_markup_mode="markdown")

Workers = Annotated[
    int | None, typer.Option("--workers", "-j", min=1, help="Processes that build; default: one a core.")
]


@app.callback()
def index() -> None:
    """Build an index, add to it, delete, merge, verify, describe.

    `telerank index COLLECTION INDEX` is short for `telerank index build COLLECTION INDEX`; the options are
    those of `build`.

    Example: `telerank index scifact idx --analyzer english`
    """


@app.command(_BUILD)
def build(
    collection: CollectionArgument,
    index: IndexArgument,
    *,
    analyzer: Annotated[
        str,
        typer.Option(
            "--analyzer",
            "-a",
            help="`none`, `standard`, `english`, `french`, or steps such as `french|asciifold`.",
        ),
    ] = "standard",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the index that is there.")] = False,
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    workers: Workers = None,
) -> None:
    """Index the documents of a collection.

    Example: `telerank index build dila idx-fr --analyzer french`
    """
    from telerank.corpus.formats import open_collection
    from telerank.sparse.writer import build_index

    opened = open_collection(collection, format=format, encoding=encoding)
    began = time.perf_counter()
    with console.progress(of=opened.size) as progress:
        built = build_index(
            opened.docs(), index, analyzer=analyzer, overwrite=overwrite, workers=workers, progress=progress
        )
    seconds = time.perf_counter() - began
    rate = f"{seconds:.1f} s, {len(built) / seconds:,.0f} a second"
    console.say(f"indexed {counted(len(built), 'document')} of {opened.name} into {index} ({rate})")


@app.command()
def add(
    collection: CollectionArgument,
    index: IndexArgument,
    *,
    update: Annotated[bool, typer.Option("--update", help="Replace documents of the same docno.")] = False,
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    workers: Workers = None,
) -> None:
    """Add the documents of a collection to an index, as a new segment.

    Example: `telerank index add new.jsonl idx --update`
    """
    from telerank.corpus.formats import open_collection
    from telerank.sparse.writer import IndexWriter

    opened = open_collection(collection, format=format, encoding=encoding)
    with IndexWriter(index, workers=workers) as writer, console.progress(of=opened.size) as progress:
        added = writer.add(opened.docs(), update=update, progress=progress)
    console.say(f"added {counted(added, 'document')} of {opened.name} to {index}")


@app.command()
def delete(
    index: IndexArgument,
    docnos: Annotated[
        list[str], typer.Argument(metavar="DOCNO", help="Docnos, or `-` for those on standard input.")
    ],
) -> None:
    """Delete documents: they are found no more, and go for good with `merge`.

    Example: `telerank index delete idx 4983 5836`
    """
    from telerank.sparse.writer import IndexWriter

    wanted = [docno for given in docnos for docno in (sys.stdin.read().split() if given == "-" else [given])]
    with IndexWriter(index) as writer:
        deleted = writer.delete(wanted)
    console.say(f"deleted {counted(deleted, 'document')} from {index}")


@app.command()
def merge(index: IndexArgument) -> None:
    """Fold all segments into one, without what is deleted.

    Example: `telerank index merge idx`
    """
    from telerank.sparse.writer import IndexWriter

    with IndexWriter(index) as writer, console.progress() as progress:
        writer.merge(progress)
    console.say(f"merged {index}")


@app.command()
def verify(index: IndexArgument) -> None:
    """Read every file of an index and compare its checksum; exit status 2 where one is damaged.

    Example: `telerank index verify idx`
    """
    import telerank

    opened = telerank.open(index).sparse
    with console.progress() as progress:
        opened.verify(progress)
    files = sum(len(entry.files) for entry in opened.manifest.segments)
    console.say(f"{index}: {files} files are as they were written")


@app.command()
def info(index: IndexArgument, *, as_json: AsJson = False) -> None:
    """Describe an index: analyzer, counts, segments, sizes.

    Example: `telerank index info idx --json`
    """
    import telerank

    opened = telerank.open(index).sparse
    facts = {"folder": index, **_facts(opened)}
    if as_json:
        print(json.dumps(facts | {"segments": [asdict(s) for s in opened.manifest.segments]}))  # noqa: T201
        return
    table = Table(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, f"{value:,}" if isinstance(value, int) else escape(str(value)))
    console.out.print(table)


def _facts(opened: Any) -> dict[str, object]:
    entries = opened.manifest.segments
    files = [(name, part.bytes) for entry in entries for name, part in entry.files.items()]
    return {
        "analyzer": opened.manifest.analyzer,
        "documents": len(opened),
        "deleted, not yet merged": sum(entry.deletions for entry in entries),
        "documents with a term": opened.statistics.documents,
        "terms in all": opened.statistics.tokens,
        "average length": round(opened.statistics.average_length, 2),
        "segments": len(entries),
        "bytes of texts": sum(size for name, size in files if name.startswith("docs.")),
        "bytes of the rest": sum(size for name, size in files if not name.startswith("docs.")),
    }
