"""``telerank search``, ``answer``: rank or answer the queries of a collection, or a single one."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Le

from telerank.cli import console, options
from telerank.cli.commands import derive
from telerank.cli.console import say_run
from telerank.cli.prompt import answer_typed
from telerank.computing import Computing
from telerank.errors import CollectionError, FormatError, count_noun
from telerank.feedback.like import LIKE
from telerank.parameters import FieldsOf, Flags, Help, Split
from telerank.retrieval.group import MOST_FURTHER, FileGroups
from telerank.retrieval.group import Column as GroupColumn
from telerank.show.tables import plain
from telerank.types import whole_docno

if TYPE_CHECKING:
    from telerank import Answer, Answers, Index, Ranking, Stage
    from telerank.answers.stage import ReadAnswers
    from telerank.retrieval.facets import Facet
    from telerank.retrieval.group import Passages
    from telerank.segments.stage import SegmentReranker

_FIRST, _ALL = 10, 1000  # documents kept by default: to be shown, in a run
_SNIPPET = 200  # characters of a document that are shown
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

    Example: `telerank search vectors xquad-en -o dense.run`
    """
    import telerank as tr

    sources = (collection, query, queries, like)
    is_typed = all(each is None for each in sources) and sys.stdin.isatty()
    if not is_typed:
        _check_asked("search", *sources)
    opened = tr.open(index)
    if like is not None:
        if model is not None:
            raise CollectionError("search: --like searches with the words of a document: leave out --model")
        opened.docs.locate(like)
        model, query = LIKE, like
    if group is not None:
        model = f"{model or opened.default_pipeline} >> group({group})"
    if analyzer is not None:
        opened.require_analyzer(analyzer)
    if query is not None or is_typed:
        spelling = opened.has_texts and like is None and query != "-" and not no_spelling
        shown = {
            "explain": explain,
            "show_segment": show_segment,
            "as_json": as_json,
            "spelling": spelling,
            "facets": facet or (),
        }
        _answer(opened, _open_stage(opened, model, filter), query, keep or _FIRST, **shown)
        return
    source = _open_queries(collection, queries, format, encoding)
    run = tr.search(opened, source, model, split=split, where=filter, k=keep or _ALL, threads=threads)
    run.save(output, as_json=as_json)
    say_run(f"{count_noun(run.queries, 'query')} searched", output)
    for remark in run.remarks:
        console.say(remark)


def _check_asked(
    command: str, collection: str | None, query: str | None, queries: str | None, like: str | None = None
) -> None:
    """Raise CollectionError unless there is one thing to search for, and it is not empty."""
    if sum(each is not None for each in (collection, query, queries, like)) != 1:
        further = ", --queries or --like" if command == "search" else " or --queries"
        raise CollectionError(f"{command}: give one of a COLLECTION, --query{further}")
    if query is not None and not query.strip():
        raise CollectionError(f"{command}: --query is empty")


def _open_queries(collection: str | None, queries: str | None, form: str | None, encoding: str) -> Any:
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
        ranking, passages, meant = _find_meant(index, find, typed) if spelling else (*find(typed), typed)
        if as_json:
            record = _record(index, stage if explain else None, by_segments, ranking, passages)
            record |= {} if meant == typed else {"typed": typed, "meant": meant}
            counts = index.facets(ranking.query, facets, whole) if facets else []
            console.print_json(record | ({"facets": [*map(asdict, counts)]} if counts else {}))
            return
        if meant != typed:
            searched = ranking.query.text == meant
            nothing = f"nothing found for {typed!r}; searched for {meant!r}"
            console.say(plain(nothing if searched else f"did you mean {meant!r}?"))
        _show(index, ranking, passages)
        _show_facets(index.facets(ranking.query, facets, whole) if facets else ())
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
    index: Index, find: Callable[[str], tuple[Ranking, Passages]], typed: str
) -> tuple[Ranking, Passages, str]:
    """What is found for a query, or for what was probably meant if that is nothing; and what was meant."""
    ranking, passages = find(typed)
    meant = index.correct(typed)
    if meant != typed and not len(ranking):
        ranking, passages = find(meant)
    return ranking, passages, meant


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
        print(f"nothing found for {plain(repr(ranking.query.text))}")
        return
    print(plain(ranking.query.text))
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


@derive
def answer(
    index: options.IndexName,
    collection: Annotated[
        str | None,
        Flags("COLLECTION"),
        Help("Collection with the questions: a folder, a file or an ir_datasets id."),
    ] = None,
    *,
    query: Annotated[str | None, Flags("-q"), Help("Show the answers to this question.")] = None,
    queries: Annotated[
        str | None, Help("File of questions: TREC, TSV or JSONL; `-`: standard input.")
    ] = None,
    split: Split = None,
    model: options.Pipeline = None,
    filter: options.FilterText = None,  # noqa: A002
    reader: Annotated[
        str | None,
        Help(
            "The folder OUTPUT/model of `telerank train reader`, or a reader on the hub. Default: the French "
            "and English one that comes with telerank (extra `e5`)."
        ),
    ] = None,
    depth: Annotated[
        int | None,
        Ge(1),
        Help("Documents of each ranking that are read, if the pipeline has no reader. Default: 20."),
    ] = None,
    mu: Annotated[
        float | None,
        Ge(0.0),
        Le(1.0),
        Help(
            "Weight of the reader's score; the rest is the ranking's, both scaled to [0, 1]. 1: the reader's "
            "alone. Default: 0.8."
        ),
    ] = None,
    keep: Annotated[
        int | None, Ge(1), Flags("-k"), Help("Answers to each question. Default: 3, all.")
    ] = None,
    output: Annotated[
        str | None,
        Flags("-o"),
        Help("File for the predictions, JSON as SQuAD's script reads it; `-`: standard output."),
    ] = None,
    lines: Annotated[str | None, Help("File for all answers, a line of JSON for each question.")] = None,
    no_answers: Annotated[
        str | None, Help("File for the scores of no answer, JSON as SQuAD's script reads null odds.")
    ] = None,
    always: Annotated[bool, Help("Always give an answer, whatever the reader's threshold.")] = False,
    explain: Annotated[bool, Help("With --query: explain the score of each answer.")] = False,
    format: options.Format = None,  # noqa: A002
    encoding: options.Texts = "utf-8",
    as_json: options.PrintJson = False,
    **computing: Annotated[Any, FieldsOf(Computing, ("tokens",))],
) -> None:
    """Answer questions from the documents of an index: rank them, read the first ones, mark the answers.

    Each answer is shown in its sentence, with the title, the document and its confidence. With a collection
    the answers are written, as SQuAD's script reads them (`--output`) or with everything (`--lines`).

    Example: `telerank answer idx --query "does aspirin prevent cancer" --reader my-reader -k 3`

    Example: `telerank answer idx scifact --split test --reader my-reader --depth 2 -o predictions.json`
    """
    _check_asked("answer", collection, query, queries)
    files = [name for name in (output, lines, no_answers) if name is not None]
    _check_files(files, one_question=query is not None, shown=explain or as_json)
    import telerank as tr
    from telerank.verbs.answer import open_answers

    opened = tr.open(index)
    settings = {name: value for name, value in computing.items() if value != getattr(Computing(), name)}
    if always:
        settings["threshold"] = math.inf
    stage = open_answers(opened, model, reader, depth=depth, mu=mu, **settings)
    stage = stage if filter is None else stage.where(filter)
    if query is not None:
        _answer_one(
            opened,
            stage if keep is None and stage.k else stage % (keep or _FIRST_ANSWERS),
            query,
            explain=explain,
            as_json=as_json,
        )
        return
    source = _open_queries(collection, queries, format, encoding)
    run = tr.answer(opened, source, stage, split=split, k=keep)
    run.save("-" if not files else output, lines=lines, no_answers=no_answers)
    for name in files:
        if name != "-":  # which has no record
            console.say(f"{count_noun(run.queries, 'question')} answered; in {name}, how in {name}.json")
    for remark in run.remarks:
        console.say(remark)


def _check_files(files: Sequence[str], *, one_question: bool, shown: bool) -> None:
    """Raise CollectionError for files of one question, a form to show of many, or one file for two things."""
    if one_question and files:
        raise CollectionError("answer: --output, --lines and --no-answers go with a COLLECTION or --queries")
    if shown and not one_question:
        raise CollectionError("answer: --explain and --json go with --query; --lines has everything")
    if len(set(files)) < len(files):
        raise CollectionError("answer: --output, --lines and --no-answers need different files")


def _answer_one(index: Index, stage: ReadAnswers, query: str, *, explain: bool, as_json: bool) -> None:
    answers = stage.answer(query.strip())
    if as_json:
        console.print_json(_answers_record(index, stage, answers, explain=explain))
    else:
        _show_answers(index, stage, answers)
        for number, each in enumerate(answers if explain else (), 1):
            print(plain(f"\n{number}. {stage.explain(answers.query, each)}"))
    for remark in (*stage.remarks, *_explain_order(stage, answers)):
        console.say(remark)


def _explain_order(stage: ReadAnswers, answers: Answers) -> list[str]:
    """Why a later answer has a higher confidence than an earlier one, if one has."""
    confidences = [round(each.confidence, 2) for each in answers]
    if confidences == sorted(confidences, reverse=True):
        return []
    parts = f", {stage.weight:g} of the reader's and {1 - stage.weight:g} of the ranking's"
    order = f"answers are in the order of their scores{parts if stage.weight < 1 else ''}"
    return [f"{order}; a confidence is the reader's alone, summed over equal answers"]


def _show_answers(index: Index, stage: ReadAnswers, answers: Answers) -> None:
    print(plain(answers.query.text))
    if not answers.documents:
        print("no document was found, so that nothing was read")
    elif not len(answers):
        threshold = stage.rules.threshold
        limit = "" if threshold is None else f" (threshold: {_difference(threshold)})"
        margin = f": it scores {_difference(answers.no_answer)} the best span{limit}"
        # no answer is better than the best span, unless there is none
        print("no answer in the documents that were read" + (margin if answers.no_answer < math.inf else ""))
    for number, each in enumerate(answers, 1):
        print(plain(f"\n{number}. {' '.join(each.text.split())}  (confidence {each.confidence:.2f})"))
        sentence = _sentence(index, stage, each)
        marked = f"{sentence.before}[{sentence.text}]{sentence.after}"
        print(plain(f"   {' '.join(marked.split())}"))
        title = f"{sentence.title}, " if sentence.title else ""
        where = console.name_location(index.locate(each.docno, each.start, each.end), each.docno)
        others = list(dict.fromkeys(docno for docno, _ in each.sources if docno != each.docno))
        more = ", …" if len(others) > _SOURCES else ""
        also = f"; also in {', '.join(others[:_SOURCES])}{more}" if others else ""
        print(plain(f"   {title}document {each.docno}{where}{also}"))


def _sentence(index: Index, stage: ReadAnswers, answer: Answer) -> Any:
    from telerank.verbs.answer import in_sentence

    return in_sentence(index, answer, stage.reader.reader.settings.language)


def _difference(value: float) -> str:
    return f"{abs(value):.2f} {'above' if value >= 0 else 'below'}"


def _answers_record(index: Index, stage: ReadAnswers, answers: Answers, *, explain: bool) -> dict[str, Any]:
    from telerank.answers.stage import answers_record

    record = answers_record(answers)
    for each, own in zip(answers, record["answers"], strict=True):
        sentence = _sentence(index, stage, each)
        own |= {"title": sentence.title, "sentence": f"{sentence.before}{sentence.text}{sentence.after}"}
        if location := index.locate(each.docno, each.start, each.end):
            own |= asdict(location)
        if explain:
            own["explanation"] = asdict(stage.explain(answers.query, each))
    return record
