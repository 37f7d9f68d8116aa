"""Questions with candidate sentences: TREC-QA, WikiQA, SelQA, castorini's parallel files.

Every candidate is a document, and those of a question are its pool ``SPLIT/candidates`` in the order of the
file. Candidates that answer have grade 1, the others 0. A question without an answer keeps its grades of 0,
so that it counts as 0 in every mean; notes count such questions. A folder has a file for each split, named
after it.

``wikiqa``: Questions of Bing with the sentences of a Wikipedia page.

A line has question, document and sentence, each with its id, and the label; sentences are the documents,
with the page as title. ``WikiQA.tsv`` beside the files of splits has the same questions again, and is not
read.

Source: Yang et al., WikiQA: A Challenge Dataset for Open-Domain Question Answering, EMNLP 2015
(microsoft.com/download, id 52419). Licence: Microsoft Research Data License.

``trecqa``: Questions of TREC with sentences, as pseudo-XML with a line of tokens for each text.

``<QApairs id='1'>`` has a ``<question>``, and any number of ``<positive>`` and ``<negative>``, in each of
which the first line is the text, tokens separated by tabs. Further lines (parts of speech, entities) are
left out. A sentence's docno is its query's id and its position, ``1-0``.

Source: Wang, Smith and Mitamura, What is the Jeopardy Model?, EMNLP-CoNLL 2007, in the edition of Yao et
al. 2013 (code.google.com/p/jacana). Licence: none stated.

``parallel``: Questions and sentences in four parallel files, as castorini distributes WikiQA and TREC-QA.

==========  ===========================================
``a.toks``  the question, once for each of its sentences
``b.toks``  the sentence
``id.txt``  the question's id
``sim.txt`` the label, 0 or 1
==========  ===========================================

A collection is a folder with these files, or of such folders, each a split named as the folder. A
sentence's docno is its line in the files, after the split if there are several (``test-12``).

Source: github.com/castorini/data (Rao, He and Lin, CIKM 2016). Licence: that of each set.

``selqa``: Questions on Wikipedia with the sentences of a section, as JSON or as TSV.

The JSON is an array of questions with ``question``, ``candidates`` (sentences) and ``answers`` (the
positions of those that answer), the TSV has the columns question, sentence and label, lines of a question
together. A question's id is its position from 1, a sentence's docno that and its own, ``1-0``. If a folder
has a split in both forms, the JSON is read.

Source: Jurczyk, Zhai and Choi, SelQA: A New Benchmark for Selection-based Question Answering, ICTAI 2016
(github.com/emorynlp/selqa). Licence: Apache-2.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby, zip_longest
from operator import itemgetter
from pathlib import Path
from typing import TypeAlias

from telerank.corpus.collection import Collection, rank_in_order
from telerank.corpus.reading import (
    WHOLE,
    bind_parts,
    find_file,
    has_files,
    is_note,
    list_few,
    load_splits,
    name_splits,
    plain_name,
    read_first_keys,
    read_first_line,
    read_text,
    require_file,
    unread_files,
)
from telerank.errors import FormatError
from telerank.trec import Conditions, Format, check_id, describe_json, numbered_lines, parse_json
from telerank.types import Doc, Qrel, Query, Ranking

LABELS = {"0": False, "1": True}
# A question and its candidates, each with whether it answers the question.
CandidateQuestion: TypeAlias = tuple[Query, tuple[tuple[Doc, bool], ...]]
# Reads a file, with an encoding and the prefix of ids that the file does not state.
ReadQuestions = Callable[[Path, str, str], Iterator[CandidateQuestion]]


def candidate_format(
    form: Format[Path, dict[str, Path]],
    read: ReadQuestions,
    *,
    missing: str,
    source: str,
    parts: tuple[str, ...] = (),
) -> Format[Path, Collection]:
    """The format of collections whose files, or folders of files named ``parts``, ``form`` finds by split.

    Ids that the files do not state begin with the split if there are several. ``missing`` is said of a path
    without such files; a file that is chosen by the format's name may begin otherwise.
    """

    def open_questions(path: Path, encoding: str) -> Collection:
        files = form.read(path) or ({WHOLE: path} if path.is_file() and not parts else {})
        load = load_splits(path, files, partial(_read_split, read), encoding, missing)

        def docs() -> Iterator[Doc]:
            """The candidates of all splits; one with the docno of an earlier one must have its text."""
            known: dict[str, Doc] = {}
            for split, questions in load.items():
                for doc in (doc for _, candidates in questions() for doc, _ in candidates):
                    if known.setdefault(doc.docno, doc) is doc:
                        yield doc
                    elif known[doc.docno] != doc:
                        what = f"one text for the candidate {doc.docno}"
                        raise FormatError(files[split], None, what, doc.text)

        def count_notes() -> dict[str, int]:
            every = (candidates for questions in load.values() for _, candidates in questions())
            return {"questions_without_answer": sum(not any(answers for _, answers in own) for own in every)}

        return Collection(
            path.name,
            form.name,
            docs,
            bind_parts(load, lambda questions: (query for query, _ in questions)),
            bind_parts(
                load,
                lambda questions: (
                    Qrel(query.qid, doc.docno, int(answers))
                    for query, candidates in questions
                    for doc, answers in candidates
                ),
            ),
            pools={f"{split}/candidates": pool for split, pool in bind_parts(load, _pool).items()},
            candidates="candidates",
            source=source,
            notes=count_notes,
            unread=unread_files(path, [*files.values(), *(find_file(path, part) for part in parts)]),
        )

    return Format(form.name, form.conditions, open_questions, form.description)


def _read_split(read: ReadQuestions, path: Path, encoding: str, prefix: str) -> tuple[CandidateQuestion, ...]:
    questions = tuple(read(path, encoding, prefix))
    seen = set[str]()
    for query, candidates in questions:
        if query.qid in seen:
            raise FormatError(path, None, f"query {query.qid} once, with its candidates together")
        if len({doc.docno for doc, _ in candidates}) < len(candidates):
            raise FormatError(path, None, f"each candidate of query {query.qid} once")
        seen.add(query.qid)
    return questions


def _pool(questions: Iterable[CandidateQuestion]) -> Iterator[Ranking]:
    return (rank_in_order(query, (doc.docno for doc, _ in candidates)) for query, candidates in questions)


def _group(rows: Iterable[tuple[Query, Doc, bool]]) -> Iterator[CandidateQuestion]:
    """The questions of lines that each have a question and a candidate; those of a question are together."""
    for query, own in groupby(rows, itemgetter(0)):
        yield query, tuple((doc, answers) for _, doc, answers in own)


def _number(qid: str, question: str, candidates: Iterable[tuple[str, bool]]) -> CandidateQuestion:
    """A question whose sentences have no ids: they are its own and their positions, ``1-0``."""
    docs = ((Doc(f"{qid}-{n}", text), answers) for n, (text, answers) in enumerate(candidates))
    return Query(qid, question), tuple(docs)


def _split_files(files: Iterable[Path]) -> dict[str, Path]:
    """Files by split; one without a split in its name beside others that have one is the sum of them."""
    splits = name_splits([*files])
    return {split: file for split, file in splits.items() if split != WHOLE} or splits


_WIKIQA = ["QuestionID", "Question", "DocumentID", "DocumentTitle", "SentenceID", "Sentence", "Label"]


def _read_wikiqa(path: Path, encoding: str, _prefix: str) -> Iterator[tuple[Query, Doc, bool]]:
    for number, line in numbered_lines(path, encoding):
        columns = line.split("\t")
        if number == 1 and columns == _WIKIQA:
            continue
        if len(columns) != len(_WIKIQA) or columns[-1] not in LABELS:
            what = f"{len(_WIKIQA)} columns with tabs between, {', '.join(_WIKIQA)}"
            raise FormatError(path, number, f"{what}, of which the last is 0 or 1", line)
        qid, question, _, title, docno, sentence, label = columns
        doc = Doc(check_id(docno, "SentenceID", path, number), sentence, title)
        yield Query(check_id(qid, "QuestionID", path, number), question), doc, LABELS[label]


def _wikiqa_files(path: Path) -> dict[str, Path]:
    return _split_files(
        file for file in list_few(path) if read_first_line(file).rstrip().split("\t") == _WIKIQA
    )


WIKIQA = candidate_format(
    Format(
        "wikiqa",
        has_files(
            _wikiqa_files,
            "no file in it has a first line that begins with QuestionID and Question",
            "its first line does not begin with QuestionID and Question",
            "wikiqa",
        ),
        _wikiqa_files,
        "WikiQA: TSV of QuestionID, Question, …, Sentence, Label",
    ),
    lambda *file: _group(_read_wikiqa(*file)),
    missing=f"no file with the columns {', '.join(_WIKIQA)}",
    source="microsoft.com/download, id 52419",
)

_QA_PAIRS = re.compile(r"""<QApairs\s++id\s*+=\s*+['"]([^'"<>]*+)['"]\s*+>""", re.IGNORECASE)
_QA_ELEMENTS = ("<question>", "<positive>", "<negative>")
_QA_BEGINS = re.compile(r"<QApairs\b", re.IGNORECASE)


def _read_trecqa(path: Path, encoding: str, prefix: str) -> Iterator[CandidateQuestion]:
    qid, texts = "", list[tuple[str, str]]()
    lines = numbered_lines(path, encoding)
    for number, line in lines:
        name = line.strip().lower()
        if (match := _QA_PAIRS.fullmatch(line.strip())) and not qid:
            qid, texts = prefix + check_id(match[1], "id", path, number), []
        elif name == "</qapairs>" and qid:
            questions = [text for tag, text in texts if tag == "<question>"]
            if len(questions) != 1:
                raise FormatError(path, number, f"one <question> in {qid}", str(len(questions)))
            yield _number(
                qid, questions[0], [(text, tag == "<positive>") for tag, text in texts if tag != "<question>"]
            )
            qid = ""
        elif name in _QA_ELEMENTS and qid:
            texts.append((name, _read_element(path, number, name, lines)))
        else:
            what = f"{', '.join(_QA_ELEMENTS)} or </QApairs>" if qid else "<QApairs id='…'>"
            raise FormatError(path, number, what, line)
    if qid:
        raise FormatError(path, None, f"</QApairs> of {qid} before the file ends")


def _read_element(path: Path, begun: int, name: str, lines: Iterator[tuple[int, str]]) -> str:
    """The first line of an element; those up to its end tag are consumed."""
    end, text = name.replace("<", "</"), ""
    for number, line in lines:
        tag = line.strip().lower()
        if tag == end:
            break
        if tag in _QA_ELEMENTS or _QA_BEGINS.match(tag):
            raise FormatError(path, number, f"{end} of line {begun}", line)
        text = text or " ".join(line.split())
    if not text:
        raise FormatError(path, begun, f"a line of text in {name}")
    return text


def _trecqa_files(path: Path) -> dict[str, Path]:
    return _split_files(file for file in list_few(path) if _QA_BEGINS.match(read_first_line(file).strip()))


TRECQA = candidate_format(
    Format(
        "trecqa",
        has_files(
            _trecqa_files,
            "no file in it begins with <QApairs id='…'>",
            "it does not begin with <QApairs id='…'>",
        ),
        _trecqa_files,
        "TREC-QA: pseudo-XML of <QApairs>, tokens separated by tabs",
    ),
    _read_trecqa,
    missing="no file that begins with <QApairs id='…'>",
    source="code.google.com/p/jacana",
)

_PARALLEL = ("id.txt", "a.toks", "b.toks", "sim.txt")


def _read_parallel(path: Path, encoding: str, prefix: str) -> Iterator[tuple[Query, Doc, bool]]:
    # blank lines, too: the files are parallel
    files = [numbered_lines(require_file(path, name), encoding, blank=True) for name in _PARALLEL]
    for number, lines in enumerate(zip_longest(*files), 1):
        if None in lines:
            what = f"as many lines as the longest of {', '.join(_PARALLEL)}"
            raise FormatError(path / _PARALLEL[lines.index(None)], number, what)
        qid, question, sentence, label = (line.strip() for _, line in lines)
        if label not in LABELS:
            raise FormatError(path / _PARALLEL[-1], number, "0 or 1", label)
        query = Query(check_id(qid, "id", path / _PARALLEL[0], number), question)
        yield query, Doc(f"{prefix}{number}", sentence), LABELS[label]


def _missing(path: Path) -> list[str]:
    return [name for name in _PARALLEL if not find_file(path, name)]


def _parallel_folders(path: Path) -> dict[str, Path]:
    """The folders with all four files, by split; all entries of a folder of splits are such folders."""
    if not _missing(path):
        return {WHOLE: path}
    entries = [entry for entry in list_few(path) if not is_note(entry)] if path.is_dir() else []
    return {} if any(map(_missing, entries)) else {entry.name: entry for entry in entries}


def _parallel_conditions(path: Path) -> Conditions:
    missing = _missing(path)
    yield from ((name not in missing, "") for name in _PARALLEL[1:])
    problem = f"no {', '.join(missing)} in it" if path.is_dir() else "no folder"
    yield path.is_dir() and _parallel_folders(path), problem


PARALLEL = candidate_format(
    Format(
        "parallel",
        _parallel_conditions,
        _parallel_folders,
        f"castorini's parallel files: {', '.join(_PARALLEL)}",
    ),
    lambda *folder: _group(_read_parallel(*folder)),
    missing=f"expected {', '.join(_PARALLEL)} in it, or in folders in it",
    source="github.com/castorini/data",
    parts=_PARALLEL,
)


_SELQA = {"question", "candidates", "answers"}


def _read_selqa(path: Path, encoding: str, prefix: str) -> Iterator[CandidateQuestion]:
    """Read the questions of a file, JSON or TSV by its content."""
    read = _read_selqa_json if read_first_keys(path) else _read_selqa_tsv
    for position, (question, candidates) in enumerate(read(path, encoding), 1):
        yield _number(f"{prefix}{position}", question, candidates)


def _read_selqa_json(path: Path, encoding: str) -> Iterator[tuple[str, list[tuple[str, bool]]]]:
    loaded = parse_json(path, read_text(path, encoding))
    if not isinstance(loaded, list):
        raise FormatError(path, None, "an array of questions", describe_json(loaded))
    for position, record in enumerate(loaded, 1):
        match record:
            case {"question": str(question), "candidates": list(texts), "answers": list(answers)} if all(
                isinstance(text, str) for text in texts
            ):
                pass
            case _:
                raise FormatError(path, None, f"a question with candidates and answers as item {position}")
        for answer in answers:
            if isinstance(answer, bool) or not isinstance(answer, int) or not 0 <= answer < len(texts):
                what = f"answers of item {position} that are positions of its candidates"
                raise FormatError(path, None, what, describe_json(answer))
        yield question, [(text, n in answers) for n, text in enumerate(texts)]


def _read_selqa_tsv(path: Path, encoding: str) -> Iterator[tuple[str, list[tuple[str, bool]]]]:
    rows = list[tuple[str, str, bool]]()
    for number, line in numbered_lines(path, encoding):
        columns = line.split("\t")
        if len(columns) != 3 or columns[2].strip() not in LABELS:
            raise FormatError(path, number, "3 columns with tabs between: question, sentence, 0 or 1", line)
        rows.append((columns[0], columns[1], LABELS[columns[2].strip()]))
    for question, own in groupby(rows, itemgetter(0)):
        yield question, [(text, answers) for _, text, answers in own]


def _selqa_files(path: Path) -> dict[str, Path]:
    files = list_few(path)
    rows = {
        file: read_first_line(file).split("\t") for file in files if plain_name(file).lower().endswith(".tsv")
    }
    tables = [
        file for file, row in rows.items() if len(row) == 3 and row[2].strip() in LABELS and " " in row[1]
    ]
    return _split_files(tables) | _split_files(file for file in files if read_first_keys(file) >= _SELQA)


SELQA = candidate_format(
    Format(
        "selqa",
        has_files(
            _selqa_files,
            "no file of question, candidates and answers in it",
            "its first object has not question, candidates and answers",
            "selqa",
        ),
        _selqa_files,
        "SelQA: JSON of question, candidates, answers; or TSV",
    ),
    _read_selqa,
    missing="no file of questions, candidates and answers",
    source="github.com/emorynlp/selqa",
)
