"""``telerank search``, ``answer``: rank or answer the queries of a collection, or a single one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge

from telerank.cli import console, options
from telerank.cli.commands import derive
from telerank.cli.console import say_run
from telerank.cli.prompt import answer_typed
from telerank.errors import CollectionError, FormatError, count_noun, shorten
from telerank.expressions import quote
from telerank.feedback.like import LIKE
from telerank.parameters import Flags, Help, Split
from telerank.retrieval.group import MOST_FURTHER, FileGroups
from telerank.retrieval.group import Column as GroupColumn
from telerank.show.tables import plain
from telerank.syntax.stage import FUNCTION as SIMPLE
from telerank.syntax.synonyms import SYNONYMS
from telerank.text.languages import describe_languages
from telerank.types import whole_docno

if TYPE_CHECKING:
    from telerank import Index, Query, Ranking, Stage
    from telerank.retrieval.facets import Facet
    from telerank.retrieval.group import Passages
    from telerank.segments.stage import SegmentReranker
    from telerank.syntax.parser import Syntax

_FIRST, _ALL = 10, 1000  # documents kept by default: to be shown, in a run
_SNIPPET = 200  # characters of a document that are shown
_SHOWN = 300  # characters of a query that are shown
_FURTHER = 3  # further passages of a file that are named
_FIRST_ANSWERS, _SOURCES = 3, 5  # answers shown for a question; sources named of one


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
    queries: Annotated[str | None, Help("File of queries: TREC, TSV or JSONL; `-`: standard input.")] = None,
    like: Annotated[
        str | None, Flags("--like", "DOCNO"), Help("Show the documents that are most like this one.")
    ] = None,
    split: Split = None,
    model: options.Pipeline = None,
    filter: options.FilterText = None,  # noqa: A002
    syntax: options.SyntaxName = "none",
    synonyms: options.SynonymFile = None,
    facet: Annotated[
        list[str] | None,
        Flags("--facet"),
        Help("With --query: count the values of a column, such as `type` or `date:year`, in what is found."),
    ] = None,
    group: Annotated[
        GroupColumn | None, Help("Keep the best passage of each file, and so many files as `-k` says.")
    ] = None,
    keep: options.Kept = None,
    output: options.RunFile = "-",
    analyzer: Annotated[
        str | None, Flags("-a"), Help("Fail if the index was built with another one.")
    ] = None,
    threads: Annotated[int, Ge(1), Flags("-j"), Help("Threads of the first stages of a run.")] = 1,
    no_spelling: Annotated[
        bool, Help("With --query: do not look for what a misspelt word may have meant.")
    ] = False,
    explain: Annotated[bool, Help("With --query: explain the score of each document.")] = False,
    show_segment: Annotated[
        bool, Help("With --query: print the segment of each document that counts most.")
    ] = False,
    format: options.Format = None,  # noqa: A002
    encoding: options.Texts = "utf-8",
    as_json: options.PrintJson = False,
) -> None:
    """Search an index or vectors with a pipeline: write a run over a collection's queries, or answer one.

    Without a collection or a query, it asks for queries in a terminal until Ctrl-D or `exit`; a follow-up
    ("et pour un mineur ?") is completed from the query before, unless it begins with `=`. A run
    keeps 1000 documents per query, an answer 10. The record beside a run (`.json`) has the pipeline, the
    checksums of what it read, and the versions of the packages.

    Example: `telerank search idx scifact --split test --model "bm25(k1=0.9, b=0.4)" -o bm25.run`

    Example: `telerank search idx --query "does aspirin prevent cancer" -k 5`

    Example: `telerank search idx --query "parental leave" --group file`

    Example: `telerank search idx --query "parental leave" --filter "title is not null" --facet title`

    Example: `telerank search idx --like 42 -k 5`

    Example: `telerank search idx --syntax simple -q '"exact phrase" AND (lost OR stolen) -visa title:card'`

    Example: `telerank search vectors xquad-en -o dense.run`
    """
    import telerank as tr

    sources = (collection, query, queries, like)
    is_typed = all(each is None for each in sources) and sys.stdin.isatty()
    if not is_typed:
        check_queries("search", *sources)
    opened = tr.open(index)
    if like is not None:
        if model is not None:
            raise CollectionError("search: --like searches with the words of a document: leave out --model")
        opened.docs.locate(like)
        model, query, syntax, synonyms = LIKE, like, "none", None
    model = _compose(model or opened.default_pipeline, synonyms, syntax, group)
    if analyzer is not None:
        opened.require_analyzer(analyzer)
    if query is not None or is_typed:
        spelling = opened.has_texts and like is None and query != "-" and not no_spelling
        shown: dict[str, Any] = {"explain": explain, "show_segment": show_segment, "as_json": as_json}
        shown |= {"spelling": spelling, "facets": facet or (), "syntax": syntax}
        _answer(opened, _open_stage(opened, model, filter), query, keep or _FIRST, **shown)
        return
    source = open_queries(collection, queries, format, encoding)
    run = tr.search(opened, source, model, split=split, where=filter, k=keep or _ALL, threads=threads)
    run.save(output, as_json=as_json)
    say_run(f"{count_noun(run.queries, 'query')} searched", output)
    for remark in run.remarks:
        console.say(remark)


def _compose(model: str, synonyms: str | None, syntax: Syntax, group: GroupColumn | None) -> str:
    """The text of a pipeline with what the options say of it."""
    if synonyms is not None:
        model = f"{SYNONYMS}({model}, {quote(synonyms)})"
    if syntax == "simple":
        model = f"{SIMPLE}({model})"
    return model if group is None else f"{model} >> group({group})"


def check_queries(
    command: str, collection: str | None, query: str | None, queries: str | None, like: str | None = None
) -> None:
    """Raise CollectionError unless there is one thing to search for, and it is not empty."""
    if sum(each is not None for each in (collection, query, queries, like)) != 1:
        further = ", --queries or --like" if command == "search" else " or --queries"
        raise CollectionError(f"{command}: give one of a COLLECTION, --query{further}")
    if query is not None and not query.strip():
        raise CollectionError(f"{command}: --query is empty")


def open_queries(collection: str | None, queries: str | None, form: str | None, encoding: str) -> Any:
    from telerank.corpus.readers.plain import open_topics

    if queries is not None:
        return open_topics(queries, format=form, encoding=encoding)
    return options.open_collection(collection or "", form, encoding)


def _open_stage(index: Index, model: str | None, chosen: str | None) -> Stage:
    import telerank as tr

    stage = tr.pipeline(model or index.default_pipeline, index)
    return stage if chosen is None else stage.where(chosen, index.docs if index.has_texts else None)


def _answer(
    index: Index,
    whole: Stage,
    query: str | None,
    k: int,
    *,
    facets: Sequence[str],
    explain: bool,
    show_segment: bool,
    as_json: bool,
    spelling: bool,
    syntax: Syntax,
) -> None:
    """Show the first documents for a query, for the lines of standard input (``-``), or for typed ones."""
    stage = whole % k
    by_segments = None
    if show_segment:
        from telerank.segments.stage import find_segments

        by_segments = find_segments(stage)
    remarks: dict[str, None] = {}

    find = partial(_find, stage, remarks)

    def show(line: str) -> None:
        typed = line.strip()
        ranking, passages, meant = (
            _find_meant(index, find, typed, syntax) if spelling else (*find(typed), typed)
        )
        facts, said = _describe_query(index, ranking.query, syntax)
        counts = index.facets(ranking.query, facets, whole) if facets else []
        if as_json:
            record = _record(index, stage if explain else None, by_segments, ranking, passages)
            record |= {} if meant == typed else {"typed": typed, "meant": meant}
            record |= facts
            console.print_json(record | ({"facets": [*map(asdict, counts)]} if counts else {}))
            return
        _say_meant(typed, meant, ranking.query.text)
        for remark in said:
            console.say(plain(remark))
        _show(index, ranking, passages)
        _show_facets(counts)
        for docno in ranking.docnos if explain else ():
            print(plain(f"\n{docno}\n{stage.explain(ranking.query, docno)}"))
        if by_segments is not None:
            _show_segments(index, by_segments, ranking)

    if query is None:
        answer_typed(_completing(show), f"{index.folder.name}> ")
    for line in [] if query is None else _read_lines() if query == "-" else [query]:
        show(line)
    for remark in filter(None, (*remarks, *stage.all_remarks)):
        console.say(remark)


def _describe_query(index: Index, query: Query, syntax: Syntax) -> tuple[dict[str, Any], list[str]]:
    """How a query was read, and its languages: for JSON, and in lines."""
    read = index.simple().read(query) if syntax == "simple" else None
    languages = index.languages(query.text if read is None else read.words) if index.has_texts else {}
    facts = {"syntax": None if read is None else read.record, "languages": languages}
    lines = [*([] if read is None else read.remarks), describe_languages(languages)]
    return {name: fact for name, fact in facts.items() if fact}, [line for line in lines if line]


def _show_facets(facets: Iterable[Facet]) -> None:
    for facet in facets:
        name = f"{facet.column} by {facet.by}" if facet.by else facet.column
        of = "matches" if facet.is_exact else "documents of the ranking"
        print(plain(f"\n{name}, of {facet.documents:,} {of}"))
        rows = [(f"{value.count:,}", value.text) for value in facet.values]
        rows += [(f"{facet.missing:,}", "(no value)")] if facet.missing else []
        console.write_columns([(count, plain(text)) for count, text in rows])
        if facet.others:
            print(f"and {count_noun(facet.others, 'further value')}")


def _completing(show: Callable[[str], None]) -> Callable[[str], None]:
    """Show queries that are typed one after another: a follow-up is completed from those before it."""
    from telerank.text.follow_up import follow_up

    before: list[str] = []  # as they were searched

    def show_completed(line: str) -> None:
        completed = follow_up(line.removeprefix("=").strip(), [] if line.startswith("=") else before)
        if completed.earlier:
            console.say(f"{completed.rule}: from {completed.earlier!r}; = before a query takes it as typed")
        before.append(completed.text)
        show(completed.text)

    return show_completed


def _find(stage: Stage, remarks: dict[str, None], text: str) -> tuple[Ranking, Passages]:
    """The ranking of a query, and its groups if it has any, of which ``remarks`` get what is to be said."""
    from telerank import Query

    if not isinstance(stage, FileGroups):
        return stage.search(Query("query", text)), {}
    ranking, groups = stage.search_groups(Query("query", text))
    remarks[groups.remark] = None
    return ranking, groups.passages


def _find_meant(
    index: Index, find: Callable[[str], tuple[Ranking, Passages]], typed: str, syntax: Syntax
) -> tuple[Ranking, Passages, str]:
    """What is found for a query, or for what was probably meant if that is nothing; and what was meant."""
    ranking, passages = find(typed)
    meant = index.correct(typed, syntax=syntax)
    if meant != typed and not len(ranking):
        ranking, passages = find(meant)
    return ranking, passages, meant


def _say_meant(typed: str, meant: str, searched: str) -> None:
    if meant != typed:
        nothing = f"nothing found for {shorten(typed, _SHOWN)}; searched for {shorten(meant, _SHOWN)}"
        console.say(plain(nothing if searched == meant else f"did you mean {shorten(meant, _SHOWN)}?"))


def _show_segments(index: Index, stage: SegmentReranker, ranking: Ranking) -> None:
    for docno in ranking.docnos:
        match = stage.match(ranking.query, docno)[0]
        span = f"characters {match.span.start:,} to {match.span.end:,}"
        where = f"{span}{console.name_location(index.locate(docno, *match.span), docno)}"
        head = f"\n{docno}: segment {match.number + 1} of {match.count}, {where}, score {match.score:.4f}"
        print(plain(head), plain(match.text), sep="\n")


def _read_lines() -> Iterator[str]:
    """The lines of standard input as UTF-8, whatever the locale says."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise FormatError("-", number, "text in utf-8", repr(line)) from error


def _further(passages: Passages, docno: str) -> tuple[str, ...]:
    """The passages of the file of a hit, besides the best one."""
    return passages.get(whole_docno(docno), ())[1:]


def _describe_further(docnos: Sequence[str]) -> str:
    """How many there are, and the names of some behind that of their file, which stands before them."""
    more = ", …" if len(docnos) > _FURTHER else ""
    further = count_noun(len(docnos), "further passage")
    names = ", ".join(docno.removeprefix(whole_docno(docno)) for docno in docnos[:_FURTHER])
    return f" (+ {further}: {names}{more})" if docnos else ""


def _show(index: Index, ranking: Ranking, passages: Passages) -> None:
    if not len(ranking):
        print(f"nothing found for {plain(shorten(ranking.query.text, _SHOWN))}")
        return
    text = ranking.query.text
    print(plain(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"))
    rows = []
    for rank, (docno, score) in enumerate(ranking, 1):
        doc = index[docno]
        title = "" if doc.text.startswith(doc.title) else f"{doc.title} "  # files begin with theirs
        where = console.name_location(index.locate_hit(docno, ranking.query.text), docno)
        more = _describe_further(_further(passages, docno))
        rows.append((str(rank), f"{score:.4f}", docno, f"{where}{more} {title}{_snippet(doc.text)}".lstrip()))
    console.write_hits(rows)


def _record(
    index: Index,
    stage: Stage | None,
    by_segments: SegmentReranker | None,
    ranking: Ranking,
    passages: Passages,
) -> dict[str, Any]:
    documents = []
    for rank, (docno, score) in enumerate(ranking, 1):
        doc = index[docno]
        record: dict[str, Any] = {"rank": rank, "score": score, **doc.record}
        if location := index.locate_hit(docno, ranking.query.text):
            record |= asdict(location)
        if passages:
            further = _further(passages, docno)
            record["group"] = {
                "file": doc.file or whole_docno(docno),
                "more": len(further),
                "docnos": further[:MOST_FURTHER],
            }
        if stage is not None:
            record["explanation"] = asdict(stage.explain(ranking.query, docno))
        if by_segments is not None:
            match = by_segments.match(ranking.query, docno)[0]
            location = doc.locate(*match.span)
            record["segment"] = {**asdict(match), **(asdict(location) if location else {})}
        documents.append(record)
    return {"query": ranking.query.text, "ranking": documents}


def _snippet(text: str) -> str:
    words = " ".join(chain.from_iterable(line.split() for line in text[: 4 * _SNIPPET].splitlines()))
    return words if len(words) <= _SNIPPET else f"{words[:_SNIPPET]}…"
