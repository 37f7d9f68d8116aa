"""Immutable records that flow between stages: queries, documents, judgments, answers, rankings."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from functools import wraps
from html import escape
from numbers import Integral
from operator import attrgetter
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from telerank.errors import ArgumentError, ArgumentTypeError, show_value
from telerank.parameters import check_fields

Scores: TypeAlias = npt.NDArray[np.float64]
# ``qrels[qid][docno] -> grade``.
Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
# telerank's own limits of grades: measures keep a count for each grade up to the highest.
LEAST_GRADE, HIGHEST_GRADE = -(2**15), 2**15 - 1
# What stands in a docno between a file and the name of a passage: ``guide.pdf#chauffage-3f2a9c01``.
PASSAGE = "#"
# The names of passages: of :func:`telerank.corpus.readers.files.folder.name_passages`, or a number.
_PASSAGE_NAME = re.compile(r"[\w-]+-[0-9a-f]{8}(?:-[0-9]+)?|[0-9]+")
# What documents of every collection have, and models may read by itself.
TEXT_FIELDS = ("title", "text")
ColumnValue: TypeAlias = str | int | float | bool | date | tuple[str, ...]
"""A value of a column of documents: a text, a number, a date, a truth value, or several texts."""
# Progress callback: ``(label, done, total or None)``.
Progress: TypeAlias = Callable[[str, int, int | None], None]
# A callback; None: bars on standard error if that is a terminal; False: nothing.
ProgressSetting: TypeAlias = Progress | Literal[False] | None


@check_fields
@dataclass(frozen=True, slots=True)
class Query:
    qid: str
    text: str


def check_query(query: object) -> Query:
    """The query; raises ArgumentTypeError if it is none."""
    if not isinstance(query, Query):
        raise ArgumentTypeError(f"expected a query, telerank.Query(qid, text), got {query!r:.60}")
    return query


def as_query(query: Query | str) -> Query:
    """The query itself, or a query with this text and the qid ``query``."""
    if isinstance(query, str):
        return Query("query", query)
    return check_query(query)


class Mark(NamedTuple):
    """From character ``start`` of a document's text on, the text stands on ``page`` and under ``heading``.

    Pages count from 1; 0 is that of a file without pages. A heading below others is named with them:
    ``Tarifs › Cantine``.
    """

    start: int
    page: int = 0
    heading: str = ""


@dataclass(frozen=True, slots=True)
class Location:
    """Where in a file a text stands: from ``page`` to ``last_page``, beginning under ``heading``.

    ``file`` is the path within the folder of the collection, with ``/``. Pages count from 1; both are 0 if
    the file has no pages.
    """

    file: str
    page: int = 0
    last_page: int = 0
    heading: str = ""

    def __str__(self) -> str:
        if not self.page:
            return self.file
        return f"{self.file}, {name_pages(self.page, self.last_page)}"


def name_pages(first: int, last: int) -> str:
    """The pages as they are named in a sentence: ``page 3``, ``pages 3–5``."""
    return f"page {first}" if first == last else f"pages {first}–{last}"


@check_fields
@dataclass(frozen=True, slots=True)
class Doc:
    """A document as its collection gives it; ``title`` and ``url`` are empty if it has none.

    ``file`` is the path of the file that it was read from, within the folder of the collection, and ``marks``
    the pages and headings there, by ascending ``start``; documents that are not files of their own have none.
    ``columns`` has what else the collection says of it, by name, which filters and facets read
    (:mod:`telerank.columns.kinds`); a column without a value is not there.
    """

    docno: str
    text: str
    title: str = ""
    url: str = ""
    file: str = ""
    marks: tuple[Mark, ...] = ()
    columns: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def full_text(self) -> str:
        """The text that is indexed and re-ranked: the title, a blank, the text."""
        return f"{self.title} {self.text}" if self.title else self.text

    def field(self, name: str) -> str:
        """The text of a field: ``title``, ``text``, or a column of texts, each of which has lines of its own.

        Empty if the document has none.
        """
        if name in TEXT_FIELDS:
            return self.title if name == "title" else self.text
        value = self.columns.get(name, "")
        return "\n".join(value) if isinstance(value, tuple) else str(value)

    @property
    def record(self) -> dict[str, object]:
        """The document for JSON, with its location instead of its marks if it is of a file."""
        location = self.locate()
        where = {} if location is None else asdict(location)
        own = {"columns": columns_record(self.columns)} if self.columns else {}
        return {"docno": self.docno, "text": self.text, "title": self.title, "url": self.url, **where, **own}

    def locate(self, start: int = 0, end: int | None = None) -> Location | None:
        """Where in its file the characters ``start`` to ``end`` of the text stand; None without a file.

        Without ``end`` the text's end is taken.
        """
        if not self.file:
            return None
        last = max(start, (len(self.text) if end is None else end) - 1)
        first, following = (bisect_right(self.marks, n, key=attrgetter("start")) for n in (start, last))
        if not first:
            return Location(self.file)
        # a note at the foot of a page may follow what continues on the next one
        pages = [mark.page for mark in self.marks[first - 1 : following]]
        return Location(self.file, min(pages), max(pages), self.marks[first - 1].heading)


def columns_record(columns: Mapping[str, ColumnValue]) -> dict[str, Any]:
    """Values of columns for JSON: dates as texts."""
    return {name: value.isoformat() if isinstance(value, date) else value for name, value in columns.items()}


class Docs(Protocol):
    """Documents, or their full texts, by docno: ``index.docs``, a docstore, a mapping ``docno -> text``.

    Stages are compared by their documents, too, so they should compare as values.
    """

    def __getitem__(self, docno: str, /) -> Doc | str: ...

    def __contains__(self, docno: str, /) -> bool: ...


@runtime_checkable
class ColumnDocs(Docs, Protocol):
    """Documents whose columns have known ``kinds``, by name: those of an index, a docstore."""

    @property
    def kinds(self) -> Mapping[str, str]: ...


def doc_values(doc: Doc) -> dict[str, Any]:
    """The values of a document that filters read: docno, title, url, file, and its columns."""
    return {"docno": doc.docno, "title": doc.title, "url": doc.url, "file": doc.file, **doc.columns}


def whole_docno(docno: str) -> str:
    """The docno of the file that a passage is of; another docno is returned as it is.

    The passages of a file are :meth:`telerank.Index.passages`.
    """
    file, mark, name = docno.rpartition(PASSAGE)
    return file if file and mark and _PASSAGE_NAME.fullmatch(name) else docno


@check_fields
@dataclass(frozen=True, slots=True)
class Qrel:
    """One judgment; a document with a grade of 0 or less was judged not relevant.

    Grades are from :data:`LEAST_GRADE` to :data:`HIGHEST_GRADE`; reading and measuring refuse others.
    """

    qid: str
    docno: str
    grade: int


@check_fields
@dataclass(frozen=True, slots=True)
class Answer:
    """A span of a document; ``text`` begins at character ``start`` of the document's text.

    A reader of another ``field`` (:meth:`Doc.field`) marks spans of that one. ``confidence`` is the
    probability that it is the answer. ``sources`` has each document that gives the same answer, with the
    character where it begins there; the first is this document.
    """

    qid: str
    docno: str
    text: str
    start: int
    score: float = 1.0
    confidence: float = 1.0
    sources: tuple[tuple[str, int], ...] = ()
    field: str = "text"

    def __post_init__(self) -> None:
        if not self.sources:
            object.__setattr__(self, "sources", ((self.docno, self.start),))

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@check_fields
@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to one query, best first; none if a reader finds that the texts have none.

    ``no_answer`` is the score of no answer minus that of the best span, in the text that decides
    (:class:`telerank.answers.combine.SpanTable`): the higher, the less there is an answer. It is infinite if
    no text has a span. ``documents`` is how many were read.

    Raises
    ------
    ValueError
        If the scores rise.
    """

    query: Query
    answers: tuple[Answer, ...] = ()
    no_answer: float = 0.0
    documents: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        for better, worse in itertools.pairwise(self.answers):
            if better.score < worse.score:
                raise ArgumentError(f"query {self.query.qid}: {worse.text!r} comes after a lower score")

    @property
    def text(self) -> str:
        """The best answer's text; empty if there is none, as SQuAD's script expects it."""
        return self.answers[0].text if self.answers else ""

    def cut(self, k: int) -> Answers:
        """The first ``k`` answers."""
        if k < 0:
            raise ArgumentError(f"k must not be negative, got {k}")
        return self if k >= len(self.answers) else replace(self, answers=self.answers[:k])

    def __len__(self) -> int:
        return len(self.answers)

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)


@check_fields
@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """The ranked documents of one query, sorted by float64 score, then docno, both descending.

    This is the order of trec_eval since 10.0, so ties are measured alike everywhere. A query without
    documents is an empty ranking.

    Raises
    ------
    ValueError
        If the lengths differ, a score is not finite, a docno is repeated, or the order is wrong.
    """

    query: Query
    docnos: tuple[str, ...] = ()
    scores: Scores = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        qid, docnos = self.query.qid, tuple(self.docnos)
        if isinstance(self.docnos, str) or not all(isinstance(docno, str) for docno in docnos):
            raise ArgumentTypeError(f"query {qid}: expected docnos, texts, got {self.docnos!r:.60}")
        scores = _as_numbers(self.scores, self.query).copy()  # the caller may change its array
        object.__setattr__(self, "docnos", docnos)
        _freeze(self, scores)
        if scores.ndim != 1 or len(docnos) != len(scores):
            raise ArgumentError(f"query {qid}: {len(docnos)} docnos but scores of shape {scores.shape}")
        if not np.isfinite(scores).all():
            raise ArgumentError(f"query {qid}: a score is not a finite number")
        if len(set(docnos)) != len(docnos):
            raise ArgumentError(f"query {qid}: a docno comes twice")
        for i in np.flatnonzero(scores[:-1] <= scores[1:]):
            if scores[i] < scores[i + 1] or docnos[i] < docnos[i + 1]:
                pair = f"{docnos[i]!r} comes before {docnos[i + 1]!r}"
                raise ArgumentError(f"query {qid}: wrong order, {pair}; use Ranking.ranked")

    @classmethod
    def ranked(cls, query: Query, docnos: Sequence[str], scores: npt.ArrayLike) -> Ranking:
        """Sort documents by score, then docno, both descending; nothing else defines this order."""
        values = _as_numbers(scores, query)
        if isinstance(docnos, str) or not all(isinstance(docno, str) for docno in docnos):
            raise ArgumentTypeError(f"expected docnos, texts, got {docnos!r:.60}")
        if len(docnos) != len(values):
            raise ArgumentError(f"{len(docnos)} docnos but {len(values)} scores")
        descending = np.array(sorted(range(len(docnos)), key=docnos.__getitem__, reverse=True), np.int64)
        # the stable sort keeps docnos descending among equal scores; adding 0.0 makes -0.0 into 0.0
        order = descending[np.argsort(-(values[descending] + 0.0), kind="stable")]
        return cls(query, tuple(docnos[i] for i in order), values[order] + 0.0)

    @classmethod
    def presorted(cls, query: Query, docnos: tuple[str, ...], scores: npt.ArrayLike) -> Ranking:
        """Make a ranking without checks, for documents known to be in order; keeps a float64 array itself."""
        ranking = object.__new__(cls)
        object.__setattr__(ranking, "query", query)
        object.__setattr__(ranking, "docnos", docnos)
        _freeze(ranking, np.asarray(scores, np.float64))
        return ranking

    def cut(self, k: int) -> Ranking:
        """The ranking's first ``k`` documents."""
        if not isinstance(k, Integral):
            raise ArgumentTypeError(f"k must be a whole number, got {k!r:.60}")
        if k < 0:
            raise ArgumentError(f"k must not be negative, got {k}")
        if k >= len(self.docnos):
            return self
        return Ranking.presorted(self.query, self.docnos[:k], self.scores[:k])

    def __len__(self) -> int:
        return len(self.docnos)

    def __getitem__(self, rank: int) -> tuple[str, float]:
        """The document at a place, from 0 on, and its score."""
        if not isinstance(rank, Integral):
            hint = "ranking.cut(3) has the first three, dict(ranking) the scores by docno"
            raise ArgumentTypeError(f"a ranking is asked for a place, got {rank!r:.40}: {hint}")
        return self.docnos[rank], float(self.scores[rank])

    def __iter__(self) -> Iterator[tuple[str, float]]:
        return zip(self.docnos, self.scores.tolist(), strict=True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ranking):
            return NotImplemented
        same = self.query == other.query and self.docnos == other.docnos
        return same and bool(np.array_equal(self.scores, other.scores))

    def __hash__(self) -> int:
        return hash((self.query, self.docnos))

    def __repr__(self) -> str:
        head = ", ".join(f"{docno}: {score:.4f}" for docno, score in list(self)[:3])
        return f"Ranking({self.query.qid!r}, {len(self)} documents: {head}{' …' if len(self) > 3 else ''})"

    def _repr_html_(self) -> str:
        rows = [(rank, f"{score:.4f}", docno) for rank, (docno, score) in enumerate(self.cut(10), 1)]
        more = f", the first {len(rows)} of {len(self):,}" if len(self) > len(rows) else ""
        lines = (
            f"<tr><td>{rank}</td><td>{score}</td><td>{escape(docno)}</td></tr>" for rank, score, docno in rows
        )
        caption = f"<caption>{escape(self.query.text or self.query.qid)}{more}</caption>"
        heads = "<tr><th>rank</th><th>score</th><th>docno</th></tr>"
        return f"<table>{caption}{heads}{''.join(lines)}</table>"

    def __reduce__(self) -> tuple[object, ...]:
        return Ranking, (self.query, self.docnos, self.scores)


class Phrase(str):
    """A text made of a template and facts: ``Phrase("rank {n}", n=3)`` is the text ``rank 3``.

    Another language finds its own words by ``template``, and puts the same ``facts`` into them.
    """

    __slots__ = ("facts", "template")
    template: str
    facts: dict[str, Any]

    def __new__(cls, template: str, /, **facts: Any) -> Self:
        phrase = super().__new__(cls, template.format(**facts))
        phrase.template, phrase.facts = template, facts
        return phrase

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (self.template,), self.facts


@check_fields
@dataclass(frozen=True, slots=True)
class Explanation:
    """How a score was computed: a value, a description of it, and the parts it was computed from."""

    value: float
    what: str
    parts: tuple[Explanation, ...] = ()

    def lines(self, indent: int = 0) -> Iterator[str]:
        yield f"{'  ' * indent}{self.value:.6g}  {self.what}"
        for part in self.parts:
            yield from part.lines(indent + 1)

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _as_numbers(scores: npt.ArrayLike, query: Query) -> Scores:
    try:
        return np.asarray(scores, np.float64)
    except (TypeError, ValueError) as error:
        qid = getattr(query, "qid", query)
        raise ArgumentTypeError(f"query {qid}: expected numbers as scores, got {scores!r:.60}") from error


def _freeze(ranking: Ranking, scores: Scores) -> None:
    scores.setflags(write=False)
    object.__setattr__(ranking, "scores", scores)


def silent(label: str, done: int, total: int | None) -> None:
    """A :data:`Progress` that shows nothing."""


def check_stream(call: Callable[..., Iterator[Ranking]]) -> Callable[..., Iterator[Ranking]]:
    """The ``__call__`` of a stage, which refuses what is no stream of rankings."""

    def ranking_of(value: object) -> Ranking:
        if not isinstance(value, Ranking):
            raise ArgumentTypeError(f"a stage maps rankings, got {value!r:.60}: run() takes queries")
        return value

    @wraps(call)
    def checked(self: Any, *streams: Iterable[Ranking]) -> Iterator[Ranking]:
        stream: Any = streams[0] if len(streams) == 1 else None
        if isinstance(stream, str | Query | Ranking) or not isinstance(stream, Iterable):
            got = ", ".join(map(show_value, streams)) or "nothing"
            raise ArgumentTypeError(
                f"a stage maps a stream of rankings, got {got}: stage.search(query) ranks one query"
            )
        if isinstance(stream, list | tuple):
            for value in stream:
                ranking_of(value)
            return call(self, stream)
        return call(self, map(ranking_of, stream))

    return checked
