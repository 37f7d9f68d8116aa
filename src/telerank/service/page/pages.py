"""The pages: what each shows for what is asked, computed in a thread of the service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from telerank.errors import shorten
from telerank.pipelines.answers import read_answers
from telerank.pipelines.functions import FUNCTIONS
from telerank.pipelines.reader import Names
from telerank.retrieval.index import Index
from telerank.service.errors import NotServed, Unprocessable
from telerank.service.judgments import query_id
from telerank.service.page.document import DocumentView, view_document
from telerank.service.page.links import SIZE, Asked, Links
from telerank.service.page.messages import Messages
from telerank.service.page.view import HowView, ReadingView, ResultView, Shown, SourceView, StepView
from telerank.service.page.why import Reason, reasons
from telerank.service.page.stages import Found, Read, Step, explain_stages, find, find_passages, read
from telerank.service.state import Snapshot
from telerank.stage import Stage
from telerank.types import Doc, Query, Ranking

if TYPE_CHECKING:
    from telerank.answers.stage import ReadAnswers

READ_DEPTH = 20
"""Documents of a ranking that are read for an answer, if the service names no pipeline that answers."""


@dataclass(frozen=True)
class Choices:
    """What a person can choose: indexes and pipelines by name, the number of documents of the index."""

    indexes: tuple[str, ...]
    pipelines: tuple[str, ...]
    default: str
    documents: int


@dataclass(frozen=True)
class ResultsView:
    """A page of results; ``reading`` is None where no reader is served, or behind the first page."""

    results: tuple[ResultView, ...]
    reading: ReadingView | None
    how: HowView
    previous: str
    next: str

    @property
    def first(self) -> int:
        return self.results[0].rank

    @property
    def last(self) -> int:
        return self.results[-1].rank


@dataclass(frozen=True)
class ComparedView:
    """A list of a comparison; ``moves`` are the other ranks of its documents, None for those only here."""

    how: HowView
    results: tuple[ResultView, ...]
    others: tuple[int | None, ...]


@dataclass(frozen=True)
class ExplainedStage:
    """A stage of a ranking with a document's rank in it (None: absent) and the reason of its score."""

    step: StepView
    rank: int | None
    kept: str
    reason: Reason | None


@dataclass(frozen=True)
class ExplainedView:
    """Why a document has its rank (None: it is not in the ranking)."""

    source: SourceView
    rank: int | None
    stages: tuple[ExplainedStage, ...]
    how: HowView


@dataclass(frozen=True)
class Pages:
    """The pages over one snapshot, for what an address asks, in a language.

    Raises
    ------
    NotServed
        If there is no such index, pipeline or document.
    ExpressionError
        If the text of a pipeline cannot be read.
    """

    snapshot: Snapshot
    asked: Asked
    links: Links
    say: Messages

    @property
    def index(self) -> Index:
        return self.snapshot.index(self.asked.index)

    @property
    def query(self) -> Query:
        return Query(query_id(self.asked.query), self.asked.query)

    @property
    def shown(self) -> Shown:
        return Shown.of(self.index, self.asked, self.links, self.say)

    def choices(self) -> Choices:
        """What can be chosen for a search."""
        named = {**self.index.pipelines, **self.snapshot.settings.pipelines}
        default = self.snapshot.settings.model or self.index.default_pipeline
        names = [name for name in named if name != default]
        chosen = self.asked.model
        if chosen is not None and chosen != default and chosen not in names:
            names.append(chosen)
        return Choices(tuple(self.snapshot.indexes), tuple(names), default, len(self.index))

    def stage(self, model: str | None = None) -> Stage:
        """The pipeline of a name or a text, by default the one that is asked for."""
        return self.snapshot.pipeline(model or self.asked.model, self.asked.index)

    def reader(self) -> ReadAnswers | None:
        """What answers questions: the pipeline of the settings, or the first reader; None if there is none."""
        settings = self.snapshot.settings
        if settings.answer is not None:
            return read_answers(settings.answer, Names(self.index, functions=FUNCTIONS))
        if not settings.readers or not self.index.has_texts:
            return None
        from telerank.answers.stage import ReadAnswers

        return ReadAnswers(self.snapshot.reader(), self.index.docs, name=next(iter(settings.readers)), k=3)

    def results(self, stage: Stage, reader: ReadAnswers | None) -> ResultsView:
        """A page of results, and on the first one the answers."""
        first = (self.asked.page - 1) * SIZE
        most = self.snapshot.settings.limits.documents
        if self.asked.page < 1 or first + SIZE > most:
            raise Unprocessable(f"page {self.asked.page}: there are pages 1 to {most // SIZE}")
        found = find(stage, self.query, min(first + SIZE + 1, most))
        results, more = self._list(found, stage, first, SIZE)
        answered = self._answers(found, reader) if reader is not None and self.asked.page == 1 else None
        has_next = len(found.ranking) > first + SIZE and first + 2 * SIZE <= most
        return ResultsView(
            results,
            None if answered is None else self.shown.reading(answered),
            self.shown.how(found, [*more, *(answered.steps if answered else ())]),
            self.links.search(self.asked, page=self.asked.page - 1 or None) if self.asked.page > 1 else "",
            self.links.search(self.asked, page=self.asked.page + 1) if has_next else "",
        )

    def compare(self, left: Stage, right: Stage) -> tuple[ComparedView, ComparedView]:
        """The first results of two pipelines side by side."""
        both = [find(stage, self.query, SIZE) for stage in (left, right)]
        ranks = [{docno: rank for rank, docno in enumerate(found.ranking.docnos, 1)} for found in both]
        views = []
        for found, stage, other in zip(both, (left, right), reversed(ranks), strict=True):
            results, more = self._list(found, stage, 0, SIZE)
            others = tuple(other.get(result.source.docno) for result in results)
            views.append(ComparedView(self.shown.how(found, more), results, others))
        return views[0], views[1]

    def explained(self, stage: Stage, docno: str) -> ExplainedView:
        """Why a document has its rank: what each stage made of it."""
        doc = self._doc(docno)
        shares = explain_stages(stage, self.query, docno, self.snapshot.settings.limits.documents)
        how = self.shown.how(Found(stage.text, Ranking(self.query), tuple(share.step for share in shares)))
        words = self.shown.words
        stages = tuple(
            ExplainedStage(
                step,
                share.rank,
                step.kept,
                None if share.explanation is None else reasons(share.explanation, self.say, words),
            )
            for step, share in zip(how.steps, shares, strict=True)
        )
        return ExplainedView(self.shown.source(doc), stages[-1].rank, stages, how)

    def document(self, docno: str, at: tuple[int, int] | None, part: int | None, kind: str) -> DocumentView:
        """A document, with what is marked in it."""
        return view_document(self.shown, self._doc(docno), at, part, kind)

    def _list(
        self, found: Found, stage: Stage, first: int, count: int
    ) -> tuple[tuple[ResultView, ...], tuple[Step, ...]]:
        """Results ``first`` (from 0) and behind, and the stage that found their passages, if one did."""
        listed = list(enumerate(found.ranking, 1))[first : first + count]
        passages, step = find_passages(stage, self.query, [docno for _, (docno, _) in listed])
        shown = self.shown
        results = tuple(
            shown.result(rank, docno, score, passages.get(docno)) for rank, (docno, score) in listed
        )
        return results, () if step is None else (step,)

    def _answers(self, found: Found, reader: ReadAnswers) -> Read:
        return read(reader, found.ranking.cut(READ_DEPTH), self.snapshot.settings.limits.documents)

    def _doc(self, docno: str) -> Doc:
        try:
            return self.index.doc(docno)
        except KeyError as error:
            raise NotServed(f"no document {shorten(docno)}") from error
