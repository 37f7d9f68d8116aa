"""``telerank data``: list, show, download, convert and describe collections; make sets of other documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge
from rich.table import Column, Table

from telerank.cli import console, options
from telerank.cli.commands import derive, group
from telerank.cli.console import write_json, write_tables
from telerank.cli.data.made_sets import (
    align_passages,
    make_far_relevant,
    make_long_documents,
    make_ranking_set,
)
from telerank.cli.options import CollectionOptions, Format, PrintJson, ReportOptions, Texts
from telerank.errors import CollectionError, count_noun
from telerank.parameters import Flags, Help, Split
from telerank.show.progress import show_progress
from telerank.types import name_pages

if TYPE_CHECKING:
    from telerank.corpus.collection import Collection

_SHOWN = 600  # characters of a text


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
    from telerank.corpus.collection import count_contents
    from telerank.corpus.formats import list_collections, list_formats

    if where is None:
        _show_names(list_formats(), ("format", "description"), as_json=as_json)
    elif collections := {} if format else list_collections(where):
        _show_names(collections, ("collection", "format"), as_json=as_json)
    else:
        with show_progress() as progress:
            collection = options.open_collection(where, format, encoding)
            contents = count_contents(collection, progress=progress)
        if as_json:
            console.print_json(contents)
        else:
            _show_contents(contents)


def _show_names(names: Mapping[str, str], columns: tuple[str, str], *, as_json: bool) -> None:
    if as_json:
        console.print_json(names)
        return
    table = Table(Column(columns[0], no_wrap=True), columns[1])
    for name, description in names.items():
        table.add_row(console.shown(name), console.shown(description))
    console.out().print(table)


def _show_contents(contents: Mapping[str, Any]) -> None:
    head = Table(show_header=False, box=None)
    for name in ("name", "format", "licence", "source"):
        head.add_row(name, console.shown(contents[name] or "not stated by the files"))
    for name, count in ({"documents": contents["documents"]} | contents["notes"]).items():
        head.add_row(console.shown(name.replace("_", " ")), f"{count:,}")
    for name, label in (("unread", "not read"), ("pools", "pools")):
        if contents[name]:
            head.add_row(label, console.shown(", ".join(contents[name])))
    console.out().print(head)
    if not contents["splits"]:
        return
    known = {kind for counts in contents["splits"].values() for kind in counts}
    kinds = [kind for kind in ("queries", "qrels", "answers") if kind in known]
    table = Table(Column("split", no_wrap=True), *(Column(kind, justify="right") for kind in kinds))
    for split, counts in contents["splits"].items():
        numbers = (f"{counts[kind]:,}" if kind in counts else "" for kind in kinds)
        table.add_row(console.shown(split), *numbers)
    console.out().print(table)


@derive
def show(
    data: CollectionOptions,
    docnos: Annotated[list[str] | None, Flags("DOCNO"), Help("Documents to show.")] = None,
    *,
    qid: Annotated[str | None, Help("Show the query of this qid, and its judgments.")] = None,
    head: Annotated[int | None, Ge(1), Flags("-n"), Help("Show the first N documents and queries.")] = None,
    split: Split = None,
    as_json: PrintJson = False,
) -> None:
    """Show documents, a query with its judgments, or the first documents and queries (default: 3 of each).

    Example: `telerank data show scifact 4983 --qid 1`
    """
    from telerank.corpus.collection import find_docs, find_query

    opened = data.open()
    records: list[dict[str, Any]] = []
    if docnos:
        records += ({"kind": "document", **doc.record} for doc in find_docs(opened, docnos))
    if qid is not None:
        records.append({"kind": "query", **find_query(opened, qid, split)})
    if head is not None or not (docnos or qid is not None):
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
    console.out().print(f"[bold]{console.shown(name)}[/]", soft_wrap=True)
    for part in ("title", "url"):
        if record.get(part):
            console.out().print(f"[italic]{console.shown(record[part])}[/]", soft_wrap=True)
    if record.get("page"):
        pages = name_pages(record["page"], record["last_page"])
        console.out().print(f"[italic]{console.shown(record['file'])}, {pages}[/]", soft_wrap=True)
    text = record["text"]
    console.out().print(console.shown(text[:_SHOWN]), soft_wrap=True)
    if len(text) > _SHOWN:
        console.out().print(f"[dim]… {len(text) - _SHOWN:,} more characters (--json shows them)[/]")
    for docno, grade in sorted(record.get("qrels", {}).items(), key=lambda judged: -judged[1]):
        console.out().print(f"  grade {grade}: {console.shown(docno)}", soft_wrap=True)
    for answer in record.get("answers", ()):
        line = f"  answer in {answer['docno']} at {answer['start']:,}: {answer['text']}"
        console.out().print(console.shown(line), soft_wrap=True)
    console.out().print()


@derive
def convert(
    data: CollectionOptions,
    out: Annotated[Path, Flags("OUT"), Help("The folder to write; it must not exist.")],
    *,
    to: Annotated[Literal["beir", "jsonl", "msmarco", "trec"], Flags("--to"), Help("The format to write.")],
    index: Annotated[
        Path | None, Help("Index whose documents are written, for judgments and topics, which have none.")
    ] = None,
    expansion: Annotated[
        str | None,
        Help(
            "Queries that `telerank expand` has predicted: they are appended to the texts of the documents."
        ),
    ] = None,
    as_json: PrintJson = False,
) -> None:
    """Write a collection in another format, with all its splits.

    Example: `telerank data convert vaswani vaswani-beir --to beir`

    With predicted queries in its texts, which every model then reads:
    `telerank data convert scifact expanded --to jsonl --expansion queries.jsonl`

    What users of a service judged, as a collection to train on:
    `telerank data convert judged.jsonl judged --to jsonl --index idx`
    """
    from telerank.verbs.data import with_documents

    opened = data.open()
    whole = opened if index is None else with_documents(opened, index)
    _write_converted(whole if expansion is None else whole.expanded(expansion), out, to, as_json=as_json)


def _write_converted(collection: Collection, out: Path, to: str, *, as_json: bool) -> None:
    from telerank.corpus.writing import convert

    with show_progress() as progress:
        written = convert(collection, out, to, progress=progress)
    if as_json:
        console.print_json(asdict(written))
    else:
        counts = (
            f"{count_noun(written.docs, 'document')}, {count_noun(written.queries, 'query')}, "
            f"{written.qrels:,} qrels"
        )
        console.out().print(f"{console.shown(str(out))}: {counts}", soft_wrap=True)
    for note in written.notes:
        console.say(f"note: {note}")


@derive
def get(
    name: Annotated[
        str, Flags("NAME"), Help("An `ir_datasets` id, or a dataset of the hub (`mteb/scifact`).")
    ],
    out: Annotated[
        Path | None,
        Flags("OUT"),
        Help("The folder to write; it must not exist. Default: the name, with hyphens for slashes."),
    ] = None,
    *,
    as_json: PrintJson = False,
) -> None:
    """Download a collection, and write it as a BEIR folder with all its splits.

    Names are those of `ir_datasets` (extra `ir-datasets`; BEIR, MS MARCO and TREC collections), and of MTEB's
    retrieval tasks on the Hugging Face hub (extra `hub`). Wherever a collection is named they stand for it
    without this command, too; then it is read anew from what the packages keep.

    Example: `telerank data get vaswani my-vaswani`
    """
    from telerank.corpus.formats import has_form_of_id

    if not has_form_of_id(name):
        raise CollectionError(f"{name}: expected an ir_datasets id, or mteb/ and the name of a dataset")
    opened = CollectionOptions(name).open()
    _write_converted(opened, out or Path(name.replace("/", "-")), "beir", as_json=as_json)


PlotFormat = Literal["png", "svg", "pdf"]
Language = Literal["french", "english"]


@derive
def stats(
    collections: Annotated[list[str], Flags("COLLECTION"), Help("Folders, files, or ir_datasets ids.")],
    *,
    split: Annotated[list[str] | None, Help("Only this split; may be repeated. Default: all.")] = None,
    analyzer: Annotated[str, Flags("-a"), Help("Count the terms of this analyzer.")] = "standard",
    tokenizer: Annotated[
        Path | None, Flags("--tokenizer", "FILE"), Help("Count the tokens of a tokenizer.json instead.")
    ] = None,
    language: Annotated[
        Language | None, Help("Language of the question words. Default: the one that fits.")
    ] = None,
    plots: Annotated[Path | None, Flags("--plots", "DIR"), Help("A folder to save plots in.")] = None,
    plot_format: Annotated[PlotFormat, Help("Format of the plots.")] = "png",
    format: Format = None,  # noqa: A002
    encoding: Texts = "utf-8",
    report: ReportOptions,
) -> None:
    """Describe collections: question words, lengths in tokens, input lengths and class balance.

    The last table has what tells relevant documents from others besides their texts, with a warning where a
    title, a length, the place, the docno or copies separate them.

    Example: `telerank data stats piaf --plots plots`
    """
    from telerank.verbs.data import collection_statistics

    reports = []
    for name in collections:
        opened = options.open_collection(name, format, encoding)
        reports.append(
            collection_statistics(
                opened, splits=split, analyzer=analyzer, tokenizer=tokenizer, language=language
            )
        )
        if plots is not None:
            folder = plots / opened.name if len(collections) > 1 else plots
            for file in reports[-1].save_plots(folder, format=plot_format):
                console.say(f"wrote {file}")
    if report.as_json:
        records = [each.record() for each in reports]
        write_json(records if len(records) > 1 else records[0], report.output)
    else:
        write_tables(
            [table for each in reports for table in each.tables()], report.output, report.form, "Statistics"
        )


_LANGUAGES = {"english": "en", "french": "fr"}


@derive
def segments(
    collection: Annotated[str, Flags("COLLECTION"), Help("A folder, a file, or an ir_datasets id.")],
    *,
    model: Annotated[
        str, Flags("--model"), Help("A re-ranker, or an encoder to start from: in whose tokens is counted.")
    ],
    window: Annotated[
        str, Help("Segments by name: best, piaf, parade, …; or their length in tokens.")
    ] = "best",
    stride: Annotated[
        int | None, Ge(1), Help("Tokens from the start of a segment to the next one's.")
    ] = None,
    split: Annotated[
        list[str] | None, Help("Relevant text of this split; may be repeated. Default: all.")
    ] = None,
    limit: Annotated[list[int] | None, Ge(1), Help("Tokens; may be repeated. Default: 128 to 4096.")] = None,
    language: Annotated[Language, Help("Language of the sentences, if the model says none.")] = "english",
    plots: Annotated[Path | None, Flags("--plots", "DIR"), Help("A folder to save the plot in.")] = None,
    plot_format: Annotated[PlotFormat, Help("Format of the plot.")] = "png",
    format: Format = None,  # noqa: A002
    encoding: Texts = "utf-8",
    report: ReportOptions,
) -> None:
    """Cut documents into segments of a model: lengths, and what lies beyond a limit.

    Example: `telerank data segments french-long --model e5-small --language french --plots plots`
    """
    from telerank.verbs.data import LIMITS, segment_lengths

    lengths = segment_lengths(
        options.open_collection(collection, format, encoding),
        model,
        int(window) if window.isdecimal() else window,
        splits=split,
        language=_LANGUAGES[language],
        limits=limit or LIMITS,
        stride=stride,
    )
    if plots is not None:
        for file in lengths.save_plots(plots, format=plot_format):
            console.say(f"wrote {file}")
    report.write(lengths)


@group(
    align_passages,
    convert,
    get,
    ls,
    make_far_relevant,
    make_long_documents,
    make_ranking_set,
    segments,
    show,
    stats,
)
def data() -> None:
    """List, show, download, convert and describe collections; make ranking sets and long documents.

    Example: `telerank data ls scifact`
    """
