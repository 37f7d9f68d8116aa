"""SQuAD-style JSON: articles of paragraphs, questions about a paragraph, answers as spans of it.

Such a file becomes a collection as follows:

- A paragraph is a document. Its docno is its position in the file, ``3-7`` for ``data[3].paragraphs[7]``, and
  its title that of the article. A paragraph with the text of an earlier one is merged with that
  (``tally.merged_paragraphs``), and so are the questions about it.
- A question is a query, and its paragraph is relevant to it with grade 1. A question marked
  ``is_impossible`` (SQuAD 2.0) is a query without relevant document or answer: its paragraph, which is in
  ``QASet.paragraphs``, was judged not to have one. In the qrels it would count 0 in every mean.
- A question without an id has its position: ``3-7-0`` for the first of that paragraph
  (``tally.questions_numbered``).
- An id that comes twice is one question if text and paragraph are equal (``tally.merged_questions``; its
  answers are joined), and an error otherwise.
- The text of an answer must begin at its offset. If it does not, the answer moves to the text's only
  occurrence (``tally.moved``) or to the one nearest to the offset (``tally.nearest``); in COVID-QA
  this repairs all of 234 offsets, which are off by one to three characters. An answer that is blank or does
  not occur is not a span; it is kept in ``QASet.unlocated`` as the file has it.

``squad``: A file, or a folder with a file for each split, named after it (``train-v1.1.json``).

A file whose name has no split is the split ``all``; if two have the same split, splits have the whole file
names. In a folder of several files docnos begin with the split (``dev-3-7``).

Sources, and licences as stated there: SQuAD 1.1 and 2.0, rajpurkar.github.io/SQuAD-explorer, CC BY-SA 4.0.
PIAF, piaf.etalab.studio, MIT. FQuAD, fquad.illuin.tech, CC BY-NC-SA, for research. SQuAD-FR,
github.com/Alikabbadj/French-SQuAD, made by machine from SQuAD. COVID-QA,
github.com/deepset-ai/COVID-QA, Apache-2.0. XQuAD, github.com/google-deepmind/xquad, CC BY-SA 4.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from telerank.corpus.collection import Collection
from telerank.corpus.reading import (
    WHOLE,
    bind_parts,
    list_few,
    load_splits,
    name_splits,
    plain_name,
    read_beginning,
    read_text,
    unread_files,
)
from telerank.errors import FormatError
from telerank.trec import Conditions, Format, check_id, describe_json, holds, parse_json
from telerank.types import Answer, Doc, Qrel, Query

Kind = TypeVar("Kind")
_TYPE_NAMES = {list: "a list", str: "a string", int: "a whole number", bool: "true or false"}
_COUNTED = (
    *("articles", "paragraphs", "merged_paragraphs", "questions", "merged_questions", "questions_numbered"),
    "unanswerable",
    *("answers", "exact", "moved", "nearest", "absent"),
)


@dataclass(eq=False)
class QASet:
    """Paragraphs by text, questions by id, and answers; ``paragraphs[qid]`` is the docno of a question's.

    ``moved`` are those of the answers that stand elsewhere than the file says. ``tally`` counts what was
    read and repaired; ``exact + moved + nearest + absent == answers``.
    """

    docs: dict[str, Doc] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
    paragraphs: dict[str, str] = field(default_factory=dict)
    unanswerable: set[str] = field(default_factory=set)
    answers: list[Answer] = field(default_factory=list)
    unlocated: list[Answer] = field(default_factory=list)
    moved: list[Answer] = field(default_factory=list)
    tally: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTED, 0))

    @property
    def qrels(self) -> Iterator[Qrel]:
        """The paragraph of every question that has an answer, with grade 1."""
        return (Qrel(qid, docno, 1) for qid, docno in self.paragraphs.items() if qid not in self.unanswerable)


@dataclass(frozen=True, slots=True)
class _JsonObject:
    """A JSON object of a file, with its position there (none for the whole file)."""

    path: Path
    where: str
    fields: dict[str, Any]

    def field(self, name: str, kind: type[Kind], default: Kind | None = None) -> Kind:
        """The field ``name``, checked, or ``default`` if it is absent."""
        value = self.fields.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            got = describe_json(value) if name in self.fields else "nothing"
            raise FormatError(
                self.path, None, f"{_TYPE_NAMES[kind]} as {name!r} of {self.where or 'the file'}", got
            )
        return value

    def records(self, name: str, default: list[Any] | None = None) -> Iterator[_JsonObject]:
        """The objects in the list ``name``."""
        for number, value in enumerate(self.field(name, list, default)):
            where = f"{self.where}.{name}[{number}]".removeprefix(".")
            if not isinstance(value, dict):
                raise FormatError(self.path, None, f"an object as {where}", describe_json(value))
            yield _JsonObject(self.path, where, value)


def read_squad(path: Path, encoding: str = "utf-8", prefix: str = "") -> QASet:
    """Read a SQuAD-style file, plain or compressed; docnos begin with ``prefix``.

    Errors name the position: ``data[3].paragraphs[7].qas[0]``.
    """
    loaded = parse_json(path, read_text(path, encoding))
    if not isinstance(loaded, dict):
        raise FormatError(path, None, "an object as the file", describe_json(loaded))
    qa = QASet()
    for a, article in enumerate(_JsonObject(path, "", loaded).records("data")):
        qa.tally["articles"] += 1
        title = article.field("title", str, "")
        for p, paragraph in enumerate(article.records("paragraphs")):
            text = paragraph.field("context", str)
            qa.tally["paragraphs"] += 1
            qa.tally["merged_paragraphs"] += text in qa.docs
            doc = qa.docs.setdefault(text, Doc(f"{prefix}{a}-{p}", text, title))
            for q, question in enumerate(paragraph.records("qas")):
                _add_question(qa, doc, question, f"{prefix}{a}-{p}-{q}")
    return qa


def _add_question(qa: QASet, doc: Doc, question: _JsonObject, position: str) -> None:
    stated = question.fields.get("id")
    kind = int if isinstance(stated, int) else str  # COVID-QA numbers its questions
    qid = check_id(
        position if stated is None else str(question.field("id", kind)),
        "question id",
        f"{question.path}: {question.where}",
    )
    qa.tally["questions_numbered"] += stated is None
    query = Query(qid, question.field("question", str))
    impossible = question.field("is_impossible", bool, default=False)
    answers = list(question.records("answers", []))
    if impossible and answers:
        what = f"no answers of {question.where}, which is marked is_impossible"
        raise FormatError(question.path, None, what)
    known = qid in qa.queries
    before = qa.queries.get(qid), qa.paragraphs.get(qid), qid in qa.unanswerable
    if known and before != (query, doc.docno, impossible):
        what = f"an id of {question.where} that no other question has"
        raise FormatError(question.path, None, what, qid)
    qa.tally["questions"] += 1
    qa.tally["merged_questions"] += known
    qa.tally["unanswerable"] += impossible and not known
    qa.queries[qid], qa.paragraphs[qid] = query, doc.docno
    if impossible:
        qa.unanswerable.add(qid)
    for answer in answers:
        text = answer.field("text", str)
        start, how = locate_answer(doc.text, text, answer.field("answer_start", int))
        qa.tally["answers"] += 1
        qa.tally[how] += 1
        (qa.unlocated if how == "absent" else qa.answers).append(Answer(qid, doc.docno, text, start))
        if how in ("moved", "nearest"):
            qa.moved.append(qa.answers[-1])


def locate_answer(text: str, answer: str, stated: int) -> tuple[int, str]:
    """Find the offset of ``answer`` in ``text``: it is ``exact``, ``moved``, ``nearest`` or ``absent``.

    Of two offsets equally near to ``stated`` the earlier is taken; an absent answer keeps ``stated``.
    """
    if not answer.strip():
        return stated, "absent"
    if stated >= 0 and text.startswith(answer, stated):
        return stated, "exact"
    start = max(stated, 0)
    ends = (_find_last(text[: start + len(answer)], answer), text.find(answer, start))
    offsets = [offset for offset in ends if offset >= 0]
    if not offsets:
        return stated, "absent"
    nearest = min(offsets, key=lambda offset: (abs(offset - stated), offset))
    single = text.find(answer) == _find_last(text, answer)
    return nearest, "moved" if single else "nearest"


def _find_last(text: str, answer: str) -> int:
    """The last offset of ``answer``, or -1: ``str.rfind`` in linear time, which only ``str.find`` takes."""
    offset = text[::-1].find(answer[::-1])
    return offset if offset < 0 else len(text) - offset - len(answer)


def _open(path: Path, encoding: str) -> Collection:
    files = _files(path) or ({WHOLE: path} if path.is_file() else {})
    load = load_splits(path, files, read_squad, encoding, "no SQuAD-style file in it: data, paragraphs, qas")
    return Collection(
        name=path.name if path.is_dir() else plain_name(path).removesuffix(".json"),
        format=SQUAD.name,
        docs=lambda: (doc for read in load.values() for doc in read().docs.values()),
        queries=bind_parts(load, lambda qa: iter(qa.queries.values())),
        qrels=bind_parts(load, lambda qa: qa.qrels),
        answers=bind_parts(load, lambda qa: iter(qa.answers)),
        contexts=bind_parts(load, lambda qa: qa.paragraphs),
        unlocated=bind_parts(load, lambda qa: iter(qa.unlocated)),
        moved=bind_parts(load, lambda qa: iter(qa.moved)),
        unread=unread_files(path, files.values()),
        notes=lambda: {name: sum(read().tally[name] for read in load.values()) for name in _COUNTED},
    )


def _files(path: Path) -> dict[str, Path]:
    """The SQuAD-style files of a folder, or the file itself, by split."""
    return name_splits([file for file in list_few(path) if holds(_file_conditions(file))])


def _conditions(path: Path) -> Conditions:
    if path.is_dir():
        yield _files(path), "no file in it has data, paragraphs and qas"
    else:
        yield from _file_conditions(path)


def _file_conditions(file: Path) -> Conditions:
    rest = read_beginning(file, 1 << 16).lstrip()
    yield rest.startswith("{"), "it does not begin with a JSON object"
    for name in ("data", "paragraphs"):
        match = re.search(rf'"{name}"\s*+:\s*+\[', rest)
        rest = rest[match.end() :] if match else ""
        yield match, f'no list "{name}" at its beginning'
    yield plain_name(file).endswith(".json"), "its name does not end in .json"


SQUAD = Format("squad", _conditions, _open, "SQuAD-style JSON: data, paragraphs, qas")
