"""The pages: what each shows for what its address asks, computed in a thread of the service."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from telerank.errors import shorten
from telerank.retrieval.index import Index
from telerank.service.errors import NotServed, Unprocessable
from telerank.service.indexes import READ_DEPTH, ServedIndex
from telerank.service.page.document import DocumentView, Excerpt, view_document
from telerank.service.page.messages import Messages
from telerank.service.page.view import (
    SIZE,
    AnswerView,
    HowView,
    Inquiry,
    Links,
    ResultView,
    Shown,
    SourceView,
)
from telerank.service.page.why import Reason, reasons
from telerank.service.searching import (
    QID,
    StagedRanking,
    StageRun,
    StageShare,
    count_results,
    explain_stages,
    find_passages,
    run_reader,
    run_stages,
)
from telerank.service.state import Snapshot
from telerank.sparse.query_words import respell
from telerank.stage import Stage
from telerank.types import Doc, Query, Ranking

if TYPE_CHECKING:
    from telerank.answers.stage import ReadAnswers

ANSWERS = 3
"""Answers to a question that are shown."""
SHORT = 24
"""Characters of a pipeline that stand in a list of choices on a telephone."""


@dataclass(frozen=True)
class Choices:
    """What a person can choose: indexes and pipelines by name, the number of documents of the index.

    ``usual`` says which pipeline is searched if none is chosen, by its name, or its text if that is short.
    """

    indexes: tuple[str, ...]
    pipelines: tuple[str, ...]
    default: str
    usual: str
    documents: int


@dataclass(frozen=True)
class ResultsView:
    """A page of the results of ``inquiry``, whose query has other accents if its own had no results.

    ``total`` is how many results there are on all pages, None if that is not known. ``answer`` is the address
    of what a reader answers, empty if none is served, it has nothing to read, or behind the first page.
    ``none`` says why there are no results.
    """

    inquiry: Inquiry
    results: tuple[ResultView, ...]
    total: int | None
    answer: str
    how: HowView
    previous: str
    next: str
    none: str

    @property
    def is_all(self) -> bool:
        """Whether these are all results."""
        return not self.previous and not self.next

    @property
    def first(self) -> int:
        return self.results[0].rank

    @property
    def last(self) -> int:
        return self.results[-1].rank


@dataclass(frozen=True)
class AnsweredView:
    """What a reader answers, best first, and how many documents it read for that.

    ``cut`` is how many tokens of the question were not read. ``is_sure``: the best answer has the confidence
    that the settings ask for.
    """

    answers: tuple[AnswerView, ...]
    documents: int
    cut: int
    is_sure: bool
    how: HowView


@dataclass(frozen=True)
class ComparedView:
    """A list of a comparison; ``moves`` are the other ranks of its documents, None for those only here."""

    how: HowView
    results: tuple[ResultView, ...]
    others: tuple[int | None, ...]


@dataclass(frozen=True)
class ExplainedView:
    """Why a document has its rank (None: it is not in the ranking): stages, and the reasons of its scores."""

    source: SourceView
    rank: int | None
    stages: list[StageShare]
    reasons: list[Reason | None]


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
    inquiry: Inquiry
    links: Links
    say: Messages

    @property
    def served(self) -> ServedIndex:
        return self.snapshot.served_index(self.inquiry.index)

    @property
    def index(self) -> Index:
        return self.served.index

    @property
    def query(self) -> Query:
        return Query(QID, self.inquiry.query)

    @property
    def shown(self) -> Shown:
        return Shown(self.index, self.inquiry, self.links, self.say)

    @property
    def text_language(self) -> str:
        """The language of the index's texts, as far as its analyzer says it; empty otherwise."""
        analyzer = str(self.index.analyzer) if self.index.has_texts else ""
        return next((code for code, name in (("fr", "french"), ("en", "english")) if name in analyzer), "")

    @property
    def most(self) -> int:
        """The most documents of a ranking."""
        return self.snapshot.settings.limits.documents

    def choices(self) -> Choices:
        """What can be chosen for a search."""
        served, chosen = self.served, self.inquiry.model
        names = [name for name in served.pipelines if name != served.default]
        if chosen is not None and chosen not in (*names, served.default):
            names.append(chosen)
        usual, default = self.say("pipeline.default"), served.default
        if len(default) <= SHORT:
            usual = f"{usual} ({default})"
        return Choices(tuple(self.snapshot.indexes), tuple(names), default, usual, served.documents)

    def stage(self, model: str | None = None) -> Stage:
        """The pipeline of a name or a text, by default the one that is asked for."""
        return self.served.pipeline(model or self.inquiry.model)

    def why_unusable(self, name: str | None) -> str | None:
        """Why the pipeline of a name cannot be run over this index; None: it can, or it is no name."""
        served, others = self.served, self.snapshot.indexes.values()
        if name is None or name in served.pipelines:
            return None
        if name in served.unavailable:
            return served.unavailable[name]
        is_elsewhere = any(name in other.pipelines or name in other.unavailable for other in others)
        return f"no pipeline of that name is saved with the index {served.name}" if is_elsewhere else None

    def with_usable_pipeline(self) -> Pages:
        """These pages, with the default pipeline if the one that is asked for cannot be run."""
        model = None if self.why_unusable(self.inquiry.model) else self.inquiry.model
        return replace(self, inquiry=replace(self.inquiry, model=model))

    def reader(self) -> ReadAnswers | None:
        """What answers questions: the pipeline of the settings, or what reads the results.

        None if no reader is served.
        """
        if self.served.default_answer is None:
            return None
        stage = self.served.answers() % ANSWERS
        return stage if self.snapshot.settings.answer is not None else replace(stage, first=None)

    def results(self, stage: Stage) -> ResultsView:
        """A page of results; of the query with other accents if nothing is found without.

        Raises
        ------
        Unprocessable
            If the page is behind the last one.
        """
        first = (self.inquiry.page - 1) * SIZE
        if first + SIZE > self.most:
            raise Unprocessable(f"page {self.inquiry.page}: there are pages 1 to {self.most // SIZE}")
        depth = min(first + SIZE + 1, self.most)
        ranked = run_stages(stage, self.query, depth)
        respelled = self if len(ranked.ranking) else self._respelled()
        if respelled != self and (view := respelled.results(stage)).results:
            return view
        results, more = self._list(ranked, stage, first)
        count, page = len(ranked.ranking), self.inquiry.page
        has_next = count > first + SIZE and first + 2 * SIZE <= self.most
        return ResultsView(
            self.inquiry,
            results,
            count if count < depth else count_results(stage, self.query),
            self._answer_link(has_results=bool(results)),
            HowView(stage.text, ranked.stages + more),
            self.links.search(self.inquiry, page=page - 1 if page > 2 else None) if page > 1 else "",
            self.links.search(self.inquiry, page=page + 1) if has_next else "",
            "" if results else self._why_none(),
        )

    def _respelled(self) -> Pages:
        """The first page for the query in the spellings of the index, if they differ in accents."""
        query, limits = self.inquiry.query, self.snapshot.settings.limits
        if self.index.has_texts and self.inquiry.page == 1:
            spelled = respell(self.index.sparse, query)
            query = spelled if len(spelled) <= limits.query_characters else query
        return replace(self, inquiry=replace(self.inquiry, query=query))

    def answered(self, stage: Stage, reader: ReadAnswers) -> AnsweredView:
        """What the reader answers from the first results of a pipeline, or of its own."""
        ranked = StagedRanking([Ranking(self.query)], [])
        if reader.first is None:
            ranked = run_stages(stage, self.query, min(READ_DEPTH, self.most))
        read = run_reader(reader, ranked.ranking, self.most)
        answers = tuple(map(self.shown.answer, read.answers))
        is_sure = bool(answers) and answers[0].share >= self.snapshot.settings.answer_confidence
        how = HowView(stage.text if reader.first is None else reader.text, ranked.stages + read.stages)
        return AnsweredView(answers, read.documents, read.cut, is_sure, how)

    def compare(self, left: Stage, right: Stage) -> tuple[ComparedView, ComparedView]:
        """The first results of two pipelines side by side."""
        both = [run_stages(stage, self.query, SIZE) for stage in (left, right)]
        ranks = [{docno: rank for rank, docno in enumerate(ranked.ranking.docnos, 1)} for ranked in both]
        views = []
        for ranked, stage, other in zip(both, (left, right), reversed(ranks), strict=True):
            results, more = self._list(ranked, stage, 0)
            others = tuple(other.get(result.source.docno) for result in results)
            views.append(ComparedView(HowView(stage.text, ranked.stages + more), results, others))
        return views[0], views[1]

    def explained(self, stage: Stage, docno: str) -> ExplainedView:
        """Why a document has its rank: what each stage made of it."""
        doc = self._doc(docno)
        stages, words = explain_stages(stage, self.query, docno, self.most), self.shown.words
        explanations = [share.explanation for share in stages]
        said = [None if each is None else reasons(each, self.say, words) for each in explanations]
        return ExplainedView(self.shown.source(doc), stages[-1].rank, stages, said)

    def document(self, docno: str, excerpt: Excerpt) -> DocumentView:
        """A document, with what is marked in it."""
        return view_document(self.shown, self._doc(docno), excerpt)

    def _list(
        self, ranked: StagedRanking, stage: Stage, first: int
    ) -> tuple[tuple[ResultView, ...], list[StageRun]]:
        """A page of results behind the ``first`` ones, and the stage that found their passages, if any."""
        listed = list(enumerate(ranked.ranking, 1))[first : first + SIZE]
        passages, runs = find_passages(stage, self.query, [docno for _, (docno, _) in listed])
        shown = self.shown
        results = tuple(
            shown.result(rank, docno, score, passages.get(docno)) for rank, (docno, score) in listed
        )
        return results, runs

    def _answer_link(self, *, has_results: bool) -> str:
        """The address of the answer on the first page, if a reader has something to read; else empty."""
        reads_results = self.snapshot.settings.answer is None
        if self.inquiry.page > 1 or self.served.default_answer is None or (reads_results and not has_results):
            return ""
        return self.links.answer(self.inquiry)

    def _why_none(self) -> str:
        """Why nothing is found."""
        if not self.served.documents:
            return self.say("none.empty")
        if self.inquiry.page > 1:
            return self.say("none.shown")
        analyzer = self.index.analyzer if self.index.has_texts else None
        if analyzer is None or analyzer(self.inquiry.query):
            return self.say("none.hint")
        has_words = bool(analyzer.tokens(self.inquiry.query))
        return self.say("none.omitted") if has_words else self.say("none.wordless")

    def _doc(self, docno: str) -> Doc:
        try:
            return self.index.doc(docno)
        except KeyError as error:
            raise NotServed(f"no document {shorten(docno)}") from error
