"""What the templates show, as plain data: no index, no model, no ranking."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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
from telerank.service.page.links import Inquiry, Links, short_address, web_address
from telerank.service.page.messages import Messages
from telerank.service.page.stages import StagedAnswers, StagedRanking, StageRun
from telerank.text.places import locate_terms
from telerank.text.sentences import Span
from telerank.types import Answer, Doc

if TYPE_CHECKING:
    from telerank.segments.stage import SegmentMatch

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
class ReadingView:
    """The answers to a question, best first, and how many documents were read for them.

    ``cut`` is how many tokens of the question were not read.
    """

    answers: tuple[AnswerView, ...]
    documents: int
    cut: int


@dataclass(frozen=True)
class StepView:
    """A stage in the table of stages; ``share`` is its part of the whole time."""

    name: str
    text: str
    kept: str
    time: str
    share: float


@dataclass(frozen=True)
class HowView:
    """Which pipeline ranked, its stages, and how long it took in all."""

    pipeline: str
    steps: tuple[StepView, ...]
    total: str


@dataclass(frozen=True)
class Shown:
    """How documents of an index are shown for a query."""

    index: Index
    inquiry: Inquiry
    links: Links
    say: Messages
    terms: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, index: Index, inquiry: Inquiry, links: Links, say: Messages) -> Shown:
        return cls(index, inquiry, links, say, query_terms(index, inquiry.query))

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

    def reading(self, read: StagedAnswers) -> ReadingView:
        """The answers of a reader."""
        return ReadingView(tuple(map(self.answer, read.answers)), read.documents, read.cut)

    def how(self, ranked: StagedRanking, more: Sequence[StageRun] = ()) -> HowView:
        """The stages of a ranking, and ``more`` that ran after it."""
        steps = (*ranked.steps, *more)
        total = sum(step.seconds for step in steps)
        return HowView(
            ranked.pipeline,
            tuple(
                StepView(
                    self.say(f"stage.{step.kind}"),
                    step.text,
                    self.say.number(step.kept),
                    self.say.time(step.seconds),
                    step.seconds / total if total else 0.0,
                )
                for step in steps
            ),
            self.say.time(total),
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
