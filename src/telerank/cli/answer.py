"""``telerank answer``: answer the queries of a collection, or a single one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Le

from telerank.cli import console, options
from telerank.cli.commands import derive
from telerank.cli.search import check_queries, open_queries
from telerank.computing import Computing
from telerank.errors import CollectionError, count_noun
from telerank.parameters import FieldsOf, Flags, Help, Split
from telerank.show.tables import plain

if TYPE_CHECKING:
    from telerank import Answer, Answers, Index
    from telerank.answers.stage import ReadAnswers

_FIRST_ANSWERS, _SOURCES = 3, 5  # answers shown for a question; sources named of one


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
    field: Annotated[
        str | None, Help("Field that the reader reads, such as title or a column of texts. Default: text.")
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
    check_queries("answer", collection, query, queries)
    files = [name for name in (output, lines, no_answers) if name is not None]
    _check_files(files, one_question=query is not None, shown=explain or as_json)
    import telerank as tr
    from telerank.verbs.answer import open_answers

    opened = tr.open(index)
    settings = {name: value for name, value in computing.items() if value != getattr(Computing(), name)}
    settings |= {} if field is None else {"field": field}
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
    source = open_queries(collection, queries, format, encoding)
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
