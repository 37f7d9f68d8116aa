"""SQuAD-style JSON: articles of paragraphs, questions about a paragraph, answers as spans of it.

Such a file becomes a collection as follows:

- A paragraph is a document. Its docno is its position in the file, ``3-7`` for ``data[3].paragraphs[7]``, and
  its title that of the article. A paragraph with the text of an earlier one is merged with that
  (``tally.merged_paragraphs``), and so are the questions about it.
- A question is a query, and its paragraph is relevant to it with grade 1. A question marked
  ``is_impossible`` (SQuAD 2.0) is a query without relevant document or answer: its paragraph, which is in
  ``QASet.paragraphs``, was judged not to have one. In the qrels it would count 0 in every mean.
- An id that comes twice is one question if text and paragraph are equal (``tally.merged_questions``; its
  answers are joined), and an error otherwise.
- The text of an answer must begin at its offset. If it does not, the answer moves to the text's only
  occurrence (``tally.moved``) or to the one nearest to the offset (``tally.nearest``); in COVID-QA
  this repairs all of 234 offsets, which are off by one to three characters. An answer that is blank or does
  not occur is not a span; it is kept in ``QASet.unlocated`` as the file has it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from telerank.corpus.collection import Collection, Format
from telerank.corpus.readers.reading import PACKED, check_surrogates, plain_name, read_beginning
from telerank.errors import FormatError
from telerank.trec.files import check_id, open_bytes
from telerank.types import Answer, Doc, Qrel, Query

Kind = TypeVar("Kind")
_TYPE_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "a whole number",
    bool: "true or false",
}


_COUNTED = (
    *("articles", "paragraphs", "merged_paragraphs", "questions", "merged_questions", "unanswerable"),
    *("answers", "exact", "moved", "nearest", "absent"),
)


@dataclass(frozen=True, eq=False)
class QASet:
    """Paragraphs, questions and answers of one file; ``paragraphs[qid]`` is the docno of a question's.

    ``tally`` counts what was read and repaired; ``exact + moved + nearest + absent == answers``.
    """

    docs: tuple[Doc, ...]
    queries: tuple[Query, ...]
    paragraphs: Mapping[str, str]
    unanswerable: frozenset[str]
    answers: tuple[Answer, ...]
    unlocated: tuple[Answer, ...]
    tally: Mapping[str, int]

    @property
    def qrels(self) -> Iterator[Qrel]:
        """The paragraph of every question that has an answer, with grade 1."""
        return (Qrel(qid, docno, 1) for qid, docno in self.paragraphs.items() if qid not in self.unanswerable)


def read_squad(path: str | Path, *, encoding: str = "utf-8", prefix: str = "") -> QASet:
    """Read a SQuAD-style file, plain or compressed; docnos begin with ``prefix``.

    Errors name the position: ``data[3].paragraphs[7].qas[0]``.
    """
    reader = _SquadReader(path, prefix)
    for a, article in enumerate(reader.field(reader.load(encoding), "data", list, "the file")):
        reader.read_article(a, article)
    return reader.result()


class _SquadReader:
    """Collects the records of one file."""

    def __init__(self, path: str | Path, prefix: str) -> None:
        self._path, self._prefix = path, prefix
        self._counts: dict[str, int] = dict.fromkeys(_COUNTED, 0)
        self._docs: dict[str, Doc] = {}  # by text
        self._queries: dict[str, Query] = {}
        self._paragraphs: dict[str, str] = {}
        self._unanswerable: set[str] = set()
        self._answers: list[Answer] = []
        self._unlocated: list[Answer] = []

    def result(self) -> QASet:
        return QASet(
            tuple(self._docs.values()),
            tuple(self._queries.values()),
            MappingProxyType(self._paragraphs),
            frozenset(self._unanswerable),
            tuple(self._answers),
            tuple(self._unlocated),
            MappingProxyType(self._counts),
        )

    def load(self, encoding: str) -> object:
        with open_bytes(self._path) as file:
            try:
                text = file.read().removeprefix(b"\xef\xbb\xbf").decode(encoding)
            except UnicodeDecodeError as error:
                raise FormatError(self._path, None, f"text in {encoding}", str(error)) from error
        try:
            loaded = json.loads(text)
        except json.JSONDecodeError as error:
            raise FormatError(self._path, error.lineno, "JSON", error.msg) from error
        check_surrogates(text, loaded, self._path, None)
        return loaded

    def field(
        self, record: object, name: str, kind: type[Kind], where: str, *, default: Kind | None = None
    ) -> Kind:
        """``record[name]``, checked, or ``default`` if it is absent; ``where`` locates the record."""
        if not isinstance(record, dict):
            raise FormatError(self._path, None, f"an object as {where}", json.dumps(record))
        value = record.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            got = "nothing" if name not in record else json.dumps(value)
            raise FormatError(self._path, None, f"{_TYPE_NAMES[kind]} as {name!r} of {where}", got)
        return value

    def read_article(self, a: int, article: object) -> None:
        where = f"data[{a}]"
        self._counts["articles"] += 1
        title = self.field(article, "title", str, where, default="")
        for p, paragraph in enumerate(self.field(article, "paragraphs", list, where)):
            self._read_paragraph(f"{self._prefix}{a}-{p}", title, paragraph, f"{where}.paragraphs[{p}]")

    def _read_paragraph(self, docno: str, title: str, paragraph: object, where: str) -> None:
        text = self.field(paragraph, "context", str, where)
        self._counts["paragraphs"] += 1
        self._counts["merged_paragraphs"] += text in self._docs
        doc = self._docs.setdefault(text, Doc(docno, text, title))
        for q, question in enumerate(self.field(paragraph, "qas", list, where)):
            self._read_question(doc, question, f"{where}.qas[{q}]")

    def _read_question(self, doc: Doc, question: object, where: str) -> None:
        query = Query(self._qid(question, where), self.field(question, "question", str, where))
        impossible = self.field(question, "is_impossible", bool, where, default=False)
        answers = self.field(question, "answers", list, where, default=[])
        if impossible and answers:
            raise FormatError(self._path, None, f"no answers of {where}, which is marked is_impossible")
        known = query.qid in self._queries
        if known and (query, doc.docno, impossible) != self._known(query.qid):
            raise FormatError(self._path, None, f"an id of {where} that no other question has", query.qid)
        self._counts["questions"] += 1
        self._counts["merged_questions"] += known
        self._counts["unanswerable"] += impossible and not known
        self._queries[query.qid], self._paragraphs[query.qid] = query, doc.docno
        if impossible:
            self._unanswerable.add(query.qid)
        for i, answer in enumerate(answers):
            self._read_answer(query.qid, doc, answer, f"{where}.answers[{i}]")

    def _known(self, qid: str) -> tuple[Query, str, bool]:
        return self._queries[qid], self._paragraphs[qid], qid in self._unanswerable

    def _qid(self, question: object, where: str) -> str:
        number = isinstance(question, dict) and isinstance(question.get("id"), int)  # COVID-QA numbers them
        qid = str(self.field(question, "id", int if number else str, where))
        return check_id(qid, "question id", f"{self._path}: {where}")

    def _read_answer(self, qid: str, doc: Doc, answer: object, where: str) -> None:
        text = self.field(answer, "text", str, where)
        stated = self.field(answer, "answer_start", int, where)
        start, how = locate_answer(doc.text, text, stated)
        self._counts["answers"] += 1
        self._counts[how] += 1
        (self._unlocated if how == "absent" else self._answers).append(Answer(qid, doc.docno, text, start))


def locate_answer(text: str, answer: str, stated: int) -> tuple[int, str]:
    """Find the offset of ``answer`` in ``text``: it is ``exact``, ``moved``, ``nearest`` or ``absent``.

    Of two offsets equally near to ``stated`` the earlier is taken; an absent answer keeps ``stated``.
    """
    if not answer.strip():
        return stated, "absent"
    if stated >= 0 and text.startswith(answer, stated):
        return stated, "exact"
    offsets = list(_find_all(text, answer))
    if not offsets:
        return stated, "absent"
    nearest = min(offsets, key=lambda offset: (abs(offset - stated), offset))
    return nearest, "moved" if len(offsets) == 1 else "nearest"


def _find_all(text: str, part: str) -> Iterator[int]:
    offset = text.find(part)
    while offset >= 0:
        yield offset
        offset = text.find(part, offset + 1)


_SPLIT = re.compile(r"(?<![a-z])(train|dev|valid|validation|val|test)(?![a-z])")
_LIKE_SQUAD = re.compile(r'\A\s*\{.*?"data"\s*:\s*\[.*?"paragraphs"\s*:\s*\[', re.DOTALL)


def _recognises(path: Path) -> bool:
    return bool(_files(path))


def _open(path: Path, encoding: str) -> Collection:
    files = _files(path) or {"all": path}
    several = len(files) > 1
    load = {
        split: cache(partial(read_squad, file, encoding=encoding, prefix=f"{split}-" if several else ""))
        for split, file in files.items()
    }
    return Collection(
        name=path.name if path.is_dir() else plain_name(path).removesuffix(".json"),
        format=SQUAD.name,
        docs=lambda: (doc for read in load.values() for doc in read().docs),
        queries={split: _stream(read, "queries") for split, read in load.items()},
        qrels={split: _stream(read, "qrels") for split, read in load.items()},
        answers={split: _stream(read, "answers") for split, read in load.items()},
        notes=lambda: {name: sum(read().tally[name] for read in load.values()) for name in _COUNTED},
    )


def _stream(read: Callable[[], QASet], member: str) -> Callable[[], Iterator[Any]]:
    return lambda: iter(getattr(read(), member))


def _files(path: Path) -> dict[str, Path]:
    """The SQuAD-style files of a folder, or the file itself, by split."""
    inside = sorted(path.iterdir()) if path.is_dir() else [path]
    files = [file for file in inside if file.is_file() and _is_squad(file)]
    splits = [_split(file) for file in files]
    counts = Counter(splits)
    return {
        split if counts[split] == 1 else plain_name(file).removesuffix(".json"): file
        for split, file in zip(splits, files, strict=True)
    }


def _split(file: Path) -> str:
    match = _SPLIT.search(plain_name(file).lower())
    return match[1] if match else "all"


def _is_squad(file: Path) -> bool:
    return file.name.endswith((".json", *(f".json{packed}" for packed in PACKED))) and bool(
        _LIKE_SQUAD.match(read_beginning(file, 1 << 16))
    )


SQUAD = Format("squad", _recognises, _open, "SQuAD-style JSON: data, paragraphs, qas")
"""A file, or a folder with a file for each split, named after it (``train-v1.1.json``).

A file whose name has no split is the split ``all``; if two have the same split, splits have the whole file
names. In a folder of several files docnos begin with the split (``dev-3-7``).

Sources, and licences as stated there: SQuAD 1.1 and 2.0, rajpurkar.github.io/SQuAD-explorer, CC BY-SA 4.0.
PIAF, piaf.etalab.studio, MIT. FQuAD, fquad.illuin.tech, CC BY-NC-SA, for research. SQuAD-FR,
github.com/Alikabbadj/French-SQuAD, made by machine from SQuAD. COVID-QA,
github.com/deepset-ai/COVID-QA, Apache-2.0. XQuAD, github.com/google-deepmind/xquad, CC BY-SA 4.0.
"""
