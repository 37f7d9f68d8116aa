"""``telerank search``: write a run over the queries of a collection, or answer one query."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge

from telerank.cli import console, options
from telerank.cli.commands import derive
from telerank.cli.console import say_run
from telerank.errors import CollectionError, FormatError
from telerank.parameters import Flags, Help, Split
from telerank.show.tables import plain

if TYPE_CHECKING:
    from telerank import Doc, Index, Ranking, Stage
    from telerank.segments.stage import SegmentMatch, SegmentReranker

_FIRST, _ALL = 10, 1000  # documents kept by default: to be shown, in a run
_SNIPPET = 200  # characters of a document that are shown


@derive
def search(
    index: options.IndexName,
    collection: Annotated[
        str | None,
        Flags("COLLECTION"),
        Help("Collection with the queries: a folder, a file or an ir_datasets id."),
    ] = None,
    *,
    query: Annotated[
        str | None,
        Flags("-q"),
        Help("Show the first documents for this query; `-`: for the lines of standard input."),
    ] = None,
    topics: Annotated[str | None, Help("File of queries: TREC, TSV or JSONL; `-`: standard input.")] = None,
    split: Split = None,
    model: options.Pipeline = None,
    keep: options.Kept = None,
    output: options.RunFile = "-",
    analyzer: Annotated[
        str | None, Flags("-a"), Help("Fail if the index was built with another one.")
    ] = None,
    threads: Annotated[int, Ge(1), Flags("-j"), Help("Threads of the first stages of a run.")] = 1,
    explain: Annotated[bool, Help("With --query: explain the score of each document.")] = False,
    show_segment: Annotated[
        bool, Help("With --query: print the segment of each document that counts most.")
    ] = False,
    format: options.Format = None,  # noqa: A002
    encoding: options.Texts = "utf-8",
    as_json: options.PrintJson = False,
) -> None:
    """Search an index or vectors with a pipeline: write a run over a collection's queries, or answer one.

    A run keeps 1000 documents per query, an answer 10. The record beside a run (`.json`) has the pipeline,
    the checksums of what it read, and the versions of the packages.

    Example: `telerank search idx scifact --split test --model "bm25(k1=0.9, b=0.4)" -o bm25.run`

    Example: `telerank search idx --query "does aspirin prevent cancer" -k 5`

    Example: `telerank search vectors xquad-en -o dense.run`
    """
    import telerank as tr

    if (collection is not None) + (query is not None) + (topics is not None) != 1:
        raise CollectionError("search: give one of a COLLECTION, --query or --topics")
    if query is not None and not query.strip():
        raise CollectionError("search: --query is empty")
    opened = tr.open(index)
    if analyzer is not None:
        opened.require_analyzer(analyzer)
    if query is not None:
        explained = {"explain": explain, "show_segment": show_segment}
        _answer(opened, model, query, keep or _FIRST, as_json=as_json, **explained)
        return
    from telerank.corpus.readers.plain import open_topics

    queries = (
        open_topics(topics, format=format, encoding=encoding)
        if topics is not None
        else options.open_collection(collection or "", format, encoding)
    )
    run = tr.search(opened, queries, model, split=split, k=keep or _ALL, threads=threads)
    run.save(output, as_json=as_json)
    say_run(f"{run.queries:,} queries searched", output)
    for remark in run.remarks:
        console.say(remark)


def _answer(
    index: Index, model: str | None, query: str, k: int, *, explain: bool, show_segment: bool, as_json: bool
) -> None:
    import telerank as tr

    stage = tr.pipeline(model or index.default_pipeline, index) % k
    by_segments = None
    if show_segment:
        from telerank.segments.stage import find_segments

        by_segments = find_segments(stage)
    for line in _read_lines() if query == "-" else [query]:
        ranking = stage.search(line.strip())
        if as_json:
            console.print_json(_record(index, stage if explain else None, by_segments, ranking))
            continue
        _show(index, ranking)
        for docno in ranking.docnos if explain else ():
            print(plain(f"\n{docno}\n{stage.explain(ranking.query, docno)}"))
        if by_segments is not None:
            _show_segments(index, by_segments, ranking)
    for remark in stage.all_remarks:
        console.say(remark)


def _show_segments(index: Index, stage: SegmentReranker, ranking: Ranking) -> None:
    for docno in ranking.docnos:
        match = stage.match(ranking.query, docno)[0]
        span = f"characters {match.span.start:,} to {match.span.end:,}"
        where = f"{span}{console.name_location(index.locate(docno, *match.span), docno)}"
        head = f"\n{docno}: segment {match.number + 1} of {match.count}, {where}, score {match.score:.4f}"
        print(plain(head), plain(match.text), sep="\n")


def _segment_record(doc: Doc, match: SegmentMatch) -> dict[str, Any]:
    from dataclasses import asdict

    location = doc.locate(*match.span)
    return {**asdict(match), **(asdict(location) if location else {})}


def _read_lines() -> Iterator[str]:
    """The lines of standard input as UTF-8, whatever the locale says."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise FormatError("-", number, "text in utf-8", repr(line)) from error


def _show(index: Index, ranking: Ranking) -> None:
    if not len(ranking):
        print(f"nothing found for {plain(repr(ranking.query.text))}")
        return
    print(plain(ranking.query.text))
    rows = [("rank", "score", "docno", "document")]
    for rank, (docno, score) in enumerate(ranking, 1):
        doc = index.doc(docno)
        title = f"{doc.title} " if doc.title else ""
        where = console.name_location(index.locate_hit(docno, ranking.query.text), docno)
        rows.append((str(rank), f"{score:.4f}", docno, f"{where} {title}{_snippet(doc.text)}".lstrip()))
    console.write_columns(rows)


def _record(
    index: Index, stage: Stage | None, by_segments: SegmentReranker | None, ranking: Ranking
) -> dict[str, Any]:
    from dataclasses import asdict

    documents = []
    for rank, (docno, score) in enumerate(ranking, 1):
        doc = index.doc(docno)
        record: dict[str, Any] = {"rank": rank, "score": score, **doc.record}
        if location := index.locate_hit(docno, ranking.query.text):
            record |= asdict(location)
        if stage is not None:
            record["explanation"] = asdict(stage.explain(ranking.query, docno))
        if by_segments is not None:
            record["segment"] = _segment_record(doc, by_segments.match(ranking.query, docno)[0])
        documents.append(record)
    return {"query": ranking.query.text, "ranking": documents}


def _snippet(text: str) -> str:
    words = " ".join(chain.from_iterable(line.split() for line in text[: 4 * _SNIPPET].splitlines()))
    return words if len(words) <= _SNIPPET else f"{words[:_SNIPPET]}…"
