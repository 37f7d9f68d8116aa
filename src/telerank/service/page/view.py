"""What the templates show, as plain data: no index, no model, no ranking."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from telerank.retrieval.index import Index
from telerank.service.page.highlight import (
    SEARCHED,
    Part,
    around,
    best_passages,
    find_matches,
    mark,
    query_terms,
    show_passages,
)
from telerank.service.page.messages import Messages
from telerank.service.searching import StageRun
from telerank.text.places import locate_terms
from telerank.text.sentences import Span
from telerank.types import Answer, Doc

if TYPE_CHECKING:
    from telerank.segments.stage import SegmentMatch

SIZE = 10
"""Results on a page."""


@dataclass(frozen=True)
class Inquiry:
    """What the address of a page asks for; ``None`` stands for the default."""

    query: str = ""
    index: str | None = None
    model: str | None = None
    page: int = 1


@dataclass(frozen=True)
class Links:
    """The addresses of a service below ``prefix``, in the language ``lang`` if the address names one."""

    prefix: str = ""
    lang: str | None = None

    def to(self, path: str, **values: object) -> str:
        """The address of a path (without its first slash) with the values that are set as its query."""
        given = {
            name: value for name, value in {**values, "lang": self.lang}.items() if value not in (None, "")
        }
        query = urlencode({name: str(value) for name, value in given.items()})
        return f"{self.prefix}/{path}{'?' if query else ''}{query}"

    def search(self, inquiry: Inquiry, **changes: object) -> str:
        """The address of the results."""
        return self.to("search", **{**self.values(inquiry), **changes})

    def answer(self, inquiry: Inquiry) -> str:
        """The address of what a reader answers."""
        return self.to("answer", **self.values(inquiry))

    def values(self, inquiry: Inquiry) -> dict[str, object]:
        """An inquiry as the values of an address."""
        page = inquiry.page if inquiry.page > 1 else None
        return {"q": inquiry.query, "index": inquiry.index, "model": inquiry.model, "page": page}

    def document(
        self,
        inquiry: Inquiry,
        docno: str,
        span: tuple[int, int] | None = None,
        *,
        is_answer: bool = False,
        part: int | None = None,
    ) -> str:
        """The address of a document, at the characters of an answer or a passage; or of one of its parts."""
        own = {"at": f"{span[0]}-{span[1]}" if span else None, "kind": "answer" if is_answer else None}
        address = self.to(
            "document", docno=docno, **{**self.values(inquiry), "page": None, **own, "part": part}
        )
        return f"{address}#passage" if span else address

    def explain(self, inquiry: Inquiry, docno: str) -> str:
        """The address of why a document has its rank."""
        return self.to("explain", docno=docno, **self.values(inquiry))

    def static(self, name: str, version: str) -> str:
        """The address of a file of the page, which changes with its content."""
        return f"{self.prefix}/static/{name}?v={version}"


def web_address(url: str) -> str:
    """A document's address if it is one of the web, which a page may link to; empty otherwise."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return ""
    return url.strip() if parts.scheme in ("http", "https") and parts.hostname else ""


def short_address(url: str, length: int = 80) -> str:
    """A web address as it is shown: without its scheme, and cut."""
    shown = url.partition("://")[2].rstrip("/")
    return shown if len(shown) <= length else f"{shown[:length]}…"


HIGH, MEDIUM = 0.7, 0.4
"""Confidences from which an answer's is called high or medium."""
_TITLE = 90  # characters of a text that stand for a title
_LONG = 2_000  # characters of a text from which a result leads to its passage
_FIRST_LINE = re.compile(r"\s*([^\n\r\f]*)")


@dataclass(frozen=True)
class SourceView:
    """A document: its title in parts, its address here and that on the web, and where in a file it stands."""

    docno: str
    title: tuple[Part, ...]
    href: str
    address: str = ""
    shown_address: str = ""
    location: str = ""


@dataclass(frozen=True)
class ResultView:
    """A result: its document, its text in parts, where that stands, and why it has its rank."""

    rank: int
    source: SourceView
    text: tuple[Part, ...]
    passage: str
    score: str
    explain: str


@dataclass(frozen=True)
class AnswerView:
    """An answer in its passage; ``level`` is ``high``, ``medium`` or ``low``."""

    text: str
    source: SourceView
    passage: tuple[Part, ...]
    confidence: str
    share: float
    level: str


@dataclass(frozen=True)
class HowView:
    """Which pipeline ranked, and its stages."""

    pipeline: str
    stages: Sequence[StageRun]

    @property
    def seconds(self) -> float:
        return sum(stage.milliseconds for stage in self.stages) / 1000


@dataclass(frozen=True)
class Shown:
    """How documents of an index are shown for a query."""

    index: Index
    inquiry: Inquiry
    links: Links
    say: Messages

    @cached_property
    def terms(self) -> Mapping[str, float]:
        """The terms of the query with their weights."""
        return query_terms(self.index, self.inquiry.query)

    @property
    def language(self) -> str:
        """The language in which the index's texts are cut into sentences."""
        return "fr" if self.index.has_texts and "french" in str(self.index.analyzer) else "en"

    @property
    def words(self) -> Mapping[str, str]:
        """The words of the query by their terms."""
        if not self.index.has_texts:
            return {}
        query = self.inquiry.query
        matches = locate_terms(self.index.analyzer, query)
        return {match.term: query[match.start : match.end] for match in matches}

    def matches(self, text: str) -> list[tuple[int, int]]:
        """The characters of a text that match the query."""
        if not self.index.has_texts:
            return []
        return [(match.start, match.end) for match in find_matches(self.index.analyzer, text, self.terms)]

    def source(self, doc: Doc, span: tuple[int, int] | None = None, *, is_answer: bool = False) -> SourceView:
        """A document's title and addresses; ``span`` are the characters to which its address leads."""
        title = doc.title.strip() or _first_line(doc.text) or self.say("untitled")
        address = web_address(doc.url)
        return SourceView(
            doc.docno,
            tuple(mark(title, self.matches(title))),
            self.links.document(self.inquiry, doc.docno, span, is_answer=is_answer),
            address,
            short_address(address),
            self.location(doc, span),
        )

    def location(self, doc: Doc, span: tuple[int, int] | None = None) -> str:
        """The file and the pages in which characters of a document stand; empty without a file."""
        where = doc.locate(*(span or (0, None)))
        if where is None or not where.page:
            return "" if where is None else where.file
        pages = self.say("place.page", page=where.page)
        if where.last_page > where.page:
            pages = self.say("place.pages", first=where.page, last=where.last_page)
        return f"{where.file}, {pages}"

    def result(self, rank: int, docno: str, score: float, passage: SegmentMatch | None) -> ResultView:
        """A result with its best passage: the one that counted most, or the one with most words."""
        doc = self.index.doc(docno)
        if passage is None:
            text, best = self._snippet(doc)
            span = best if len(doc.text) > _LONG else None
        else:
            span = around(doc.text, passage.span, 0, self.language)
            text = mark(doc.text, self.matches(doc.text), shown=span)
        return ResultView(
            rank,
            self.source(doc, span),
            tuple(flow(text)),
            "" if passage is None else self.say("place.passage", n=passage.number + 1, of=passage.count),
            self.say.score(score),
            self.links.explain(self.inquiry, docno),
        )

    def answer(self, answer: Answer) -> AnswerView:
        """An answer, marked in the sentences around it."""
        doc = self.index.doc(answer.docno)
        span = (answer.start, answer.end)
        passage = mark(doc.text, (), answer=span, shown=around(doc.text, Span(*span), language=self.language))
        share = answer.confidence
        return AnswerView(
            answer.text,
            self.source(doc, span, is_answer=True),
            tuple(flow(passage)),
            self.say.share(share),
            share,
            "high" if share >= HIGH else "medium" if share >= MEDIUM else "low",
        )

    def _snippet(self, doc: Doc) -> tuple[list[Part], tuple[int, int]]:
        """The best passages of a document, and the characters of the first of them."""
        if not self.index.has_texts:
            return [], (0, 0)
        searched = doc.text[:SEARCHED]
        matches = find_matches(self.index.analyzer, searched, self.terms)
        spans = best_passages(searched, matches, self.terms)
        parts = show_passages(searched, matches, spans)
        is_cut = len(searched) < len(doc.text) and parts[-1:] != [_CUT]
        return [*parts, _CUT] if is_cut else parts, spans[0]


_CUT = Part(" …", "cut")
_BREAK = re.compile(r"(?<=([^\s]))[^\S\n]*\n\s*")


def flow(parts: Iterable[Part]) -> list[Part]:
    """Lines of a text as one: a dot stands for a line end that ends no sentence."""
    flowing, last = [], ""
    for part in parts:
        text = _BREAK.sub(lambda line: " " if line[1] in _ENDS else " · ", f"{last}{part.text}")[len(last) :]
        flowing.append(Part(text, part.kind))
        last = part.text[-1:]
    return flowing


_ENDS = ".!?…:;,»”)"


def _first_line(text: str) -> str:
    match = _FIRST_LINE.match(text)
    line = match[1].strip() if match else ""
    return line if len(line) <= _TITLE else f"{line[:_TITLE].rsplit(' ', 1)[0]} …"
