"""The pages: what each shows for its address, as plain data, computed in a thread of the service.

Each function returns the values that its template shows, by name: no index, no model, no ranking.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fastapi import Request
from fastapi.responses import HTMLResponse

from telerank.corpus.read_fields import show_field
from telerank.errors import shorten
from telerank.feedback.given import judged_pipeline
from telerank.retrieval.facets import has_column
from telerank.retrieval.group import MOST_FURTHER, Column
from telerank.retrieval.index import Index
from telerank.service.errors import NotServed, Unprocessable
from telerank.service.indexes import READ_DEPTH, ServedIndex
from telerank.service.page import highlight
from telerank.service.page.highlight import Part, find_matches, flow, mark
from telerank.service.page.messages import Messages
from telerank.service.page.refine import list_chips, list_facets
from telerank.service.page.render import SIZE, Inquiry, Links, render
from telerank.service.page.why import Detail, describe_detail, reasons
from telerank.service.searching import (
    QID,
    StagedRanking,
    count_results,
    explain_stages,
    find_groups,
    find_passages,
    run_reader,
    run_stages,
)
from telerank.service.state import Snapshot
from telerank.sparse.query_words import respell
from telerank.stage import Stage
from telerank.syntax.reading import ReadQuery
from telerank.text.analyzer import locate_terms
from telerank.text.follow_up import FollowUp, follow_up
from telerank.text.languages import describe_languages
from telerank.text.sentences import Span
from telerank.types import Doc, Mark, Query, Ranking, whole_docno
from telerank.vocabulary.spelling import correct

if TYPE_CHECKING:
    from telerank.answers.stage import ReadAnswers
    from telerank.segments.stage import SegmentMatch

Values = dict[str, Any]
ANSWERS = 3  # answers to a question that are shown
_SHORT = 24  # characters of a pipeline that stand in a list of choices on a telephone
_TITLE = 90  # characters of a text that stand for a title
_LONG = 2_000  # characters of a text from which a result leads to its passage
_CUT = Part(" …", "cut")
PART_LENGTH = 24_000  # characters of a document on one page, if a line ends there
_LINES = re.compile(r"[^\n\r\v\f\x85\u2028\u2029]+")
_FIRST_LINE = re.compile(r"\s*([^\n\r\f]*)")


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

    request: Request
    snapshot: Snapshot
    inquiry: Inquiry
    links: Links
    say: Messages

    def render(self, template: str, **values: Any) -> HTMLResponse:
        """A page of a template with its values."""
        return render(self.request, template, {"pages": self, "inquiry": self.inquiry, **values})

    @cached_property
    def served(self) -> ServedIndex:
        return self.snapshot.served_index(self.inquiry.index)

    @property
    def index(self) -> Index:
        return self.served.index

    @property
    def query(self) -> Query:
        """The words that rank."""
        return Query(QID, self.read.words)

    @cached_property
    def read(self) -> ReadQuery:
        """The query as it is read: it takes time, and so is not for the thread of the event loop."""
        inquiry = self.inquiry
        if inquiry.syntax == "none" or not self.index.has_texts:
            return ReadQuery.of_words(inquiry.query)
        return self.served.read_query(inquiry.query, inquiry.filter)

    @property
    def text_language(self) -> str:
        """The language of the index's texts, as far as its analyzer says it; empty otherwise."""
        analyzer = str(self.index.analyzer) if self.index.has_texts else ""
        codes = [code for code, name in (("fr", "french"), ("en", "english")) if name in analyzer]
        return codes[0] if len(codes) == 1 else ""

    @property
    def can_judge(self) -> bool:
        """Whether documents have thumbs, to say whether they are relevant to the query."""
        return self.snapshot.settings.judgments is not None and bool(self.inquiry.query)

    def again(self, docno: str) -> str:
        """The address of a search with the terms of a document that was judged, and of those before it."""
        return self.links.search(self.inquiry, page=1, model=judged_pipeline(docno, self.inquiry.model))

    @cached_property
    def terms(self) -> Mapping[str, float]:
        """The terms of the query with their weights."""
        return highlight.query_terms(self.index, self.read.words)

    def matches(self, text: str) -> list[tuple[int, int]]:
        """The characters of a text that match the query."""
        if not self.index.has_texts:
            return []
        return [(match.start, match.end) for match in find_matches(self.index.analyzer, text, self.terms)]

    def choices(self) -> Values:
        """What can be chosen: indexes and pipelines by name; and how many documents the index has.

        ``usual`` says which pipeline is searched if none is chosen: its name, or its text if that is short.
        """
        served, chosen, default = self.served, self.inquiry.model, self.served.default
        names = [name for name in served.pipelines if name != default]
        if chosen is not None and chosen not in (*names, default):
            names.append(chosen)
        usual = self.say("pipeline.default")
        return {
            "indexes": tuple(self.snapshot.indexes),
            "pipelines": names,
            "default": default,
            "usual": f"{usual} ({default})" if len(default) <= _SHORT else usual,
            "documents": served.documents,
            "can_group": served.has_passages or self.inquiry.group is not None,
        }

    def stage(self, model: str | None = None, group: Column | None = None) -> Stage:
        """The pipeline of a name or a text, by default the one that is asked for; perhaps grouped."""
        return self.served.pipeline(model or self.inquiry.model, group, self.inquiry.filter)

    def why_unusable(self, name: str | None) -> Detail:
        """Why the pipeline of a name cannot be run over this index; empty if it can, or it is no name."""
        served, others, reason = self.served, self.snapshot.indexes.values(), ""
        if name in served.unavailable:
            reason = served.unavailable[name]
        elif name not in served.pipelines and any(name in {*o.pipelines, *o.unavailable} for o in others):
            reason = f"no pipeline of that name is saved with the index {served.name}"
        return describe_detail(reason, self.say)

    def with_usable_pipeline(self) -> Pages:
        """These pages, with the default pipeline if the one that is asked for cannot be run."""
        model = None if self.why_unusable(self.inquiry.model).text else self.inquiry.model
        return replace(self, inquiry=replace(self.inquiry, model=model))

    def completed(self) -> tuple[FollowUp | None, Pages]:
        """How a follow-up is completed from the questions before it, None if it is none; and its pages."""
        inquiry, most = self.inquiry, self.snapshot.settings.limits.query_characters
        completed = follow_up(inquiry.query, () if inquiry.is_final else inquiry.before)
        if not completed.earlier or len(completed.text) > most:
            return None, self
        return completed, replace(self, inquiry=replace(inquiry, query=completed.text, is_final=True))

    def reader(self) -> ReadAnswers:
        """What answers questions: the pipeline of the settings, or what reads the results."""
        if self.served.default_answer is None:
            raise NotServed("no reader is served")
        stage = self.served.answers(None, self.inquiry.filter, self.read) % ANSWERS
        return stage if self.snapshot.settings.answer is not None else replace(stage, first=None)

    def results(self, stage: Stage, *, as_typed: bool = False) -> Values:
        """A page of results; of what was probably meant if nothing is found, unless ``as_typed``.

        ``meant`` is the query without misspelt words, if results are as it was typed. ``total`` is how many
        results there are on all pages, None if that is not known. ``groups`` are the files, if the pipeline
        groups by them. ``can_answer``: a reader is served, and has something to read. ``none`` says why there
        are no results.

        Raises
        ------
        Unprocessable
            If the page is behind the last one.
        """
        page, settings = self.inquiry.page, self.snapshot.settings
        first, most = (page - 1) * SIZE, settings.limits.documents
        if first + SIZE > most:
            raise Unprocessable(f"page {page}: there are pages 1 to {most // SIZE}")
        depth = min(first + SIZE + 1, most)
        placed = self._placed(stage)
        ranked = run_stages(placed, self.query, depth)
        count = len(ranked.ranking)
        meant = "" if page > 1 or as_typed else self._meant(is_found=count > 0)
        if meant and not count:
            respelled = replace(self, inquiry=replace(self.inquiry, query=meant)).results(
                stage, as_typed=True
            )
            if respelled["results"]:
                return respelled
        listed = self._list(ranked, placed, first)
        can_answer = self.served.default_answer is not None and (settings.answer is not None or count > first)
        groups = listed["groups"]
        if groups is not None:
            total = groups.total
        else:
            total = count if count < depth else count_results(placed, self.query)
        return {
            **listed,
            "pipeline": stage.text,
            **self._query_values(),
            "inquiry": self.inquiry,
            "meant": meant,
            "first": first + 1,
            "last": first + len(listed["results"]),
            "total": total,
            "can_answer": page == 1 and can_answer,
            "has_next": count > first + SIZE and first + 2 * SIZE <= most,
            "none": "" if listed["results"] else self._why_none(),
            "chips": list_chips(self.inquiry, self.links),
            "facets": self._facets(placed),
        }

    def _query_values(self) -> Values:
        """How the query was read; its languages with their probabilities, if they are not sure."""
        languages = self.index.languages(self.read.words) if self.index.has_texts else {}
        return {
            "read": self.read,
            "problem": describe_detail(self.read.problem, self.say),
            "read_notes": [describe_detail(note, self.say) for note in self.read.notes],
            "languages": [*languages.items()] if describe_languages(languages) else [],
        }

    def _placed(self, stage: Stage) -> Stage:
        """A pipeline among the documents that fulfil the conditions of the query."""
        if self.read.has_words or self.inquiry.group is None:
            return self.read.restrict(stage)
        return self.served.pipeline(None, self.inquiry.group, self.inquiry.filter, self.read)

    def _facets(self, stage: Stage) -> list[Values]:
        """The counts of the columns that the settings name, as far as the index has them."""
        columns = [name for name in self.snapshot.settings.facets if has_column(self.served.columns, name)]
        if not columns or not self.index.has_texts:
            return []
        facets = self.index.facets(self.query, columns, stage, depth=self.snapshot.settings.limits.documents)
        return list_facets(facets, self.inquiry, self.links)

    def _meant(self, *, is_found: bool) -> str:
        """What was probably meant; empty if that is what was typed. What finds nothing gets other accents."""
        # spellings may be those of documents that a key does not see
        if not self.index.has_texts or self.served.chosen is not None:
            return ""
        typed, index, kept = self.inquiry.query, self.index.sparse, self.read.kept
        spelled = typed if is_found or kept else respell(index, typed)
        meant = spelled if spelled != typed else correct(index, typed, kept=kept)
        most = self.snapshot.settings.limits.query_characters
        return meant if meant != typed and len(meant) <= most else ""

    def answered(self, stage: Stage, reader: ReadAnswers) -> Values:
        """What the reader answers from the first results of a pipeline, or of its own; best first.

        ``documents`` were read for that; ``cut`` tokens of the question were not. ``is_sure``: the best
        answer has the confidence that the settings ask for.
        """
        settings, ranked = self.snapshot.settings, StagedRanking([Ranking(self.query)], [])
        most = settings.limits.documents
        if reader.first is None:
            ranked = run_stages(self._placed(stage), self.query, min(READ_DEPTH, most))
        read = run_reader(reader, ranked.ranking, most)
        answers: list[Values] = []
        for answer in read.answers:
            doc, span = show_field(self.index[answer.docno], answer.field), Span(answer.start, answer.end)
            shown = highlight.around(doc.text, span, language=self.text_language or "en")
            passage = flow(mark(doc.text, (), answer=span, shown=shown))
            source = self.source(doc, span, is_answer=True)
            answers.append(
                {"text": answer.text, "source": source, "passage": passage, "share": answer.confidence}
            )
        return {
            "answers": answers,
            "documents": read.documents,
            "cut": read.cut,
            "is_sure": bool(answers) and answers[0]["share"] >= settings.answer_confidence,
            "pipeline": stage.text if reader.first is None else reader.text,
            "stages": ranked.stages + read.stages,
        }

    def compare(self, left: Stage, right: Stage) -> list[Values]:
        """The first results of two pipelines, with their ranks in the other, None for those only here."""
        both = [run_stages(self._placed(stage), self.query, SIZE) for stage in (left, right)]
        views = []
        for ranked, stage, other in zip(both, (left, right), reversed(both), strict=True):
            ranks = {docno: rank for rank, docno in enumerate(other.ranking.docnos, 1)}
            others = [ranks.get(docno) for docno in ranked.ranking.docnos]
            views.append({**self._list(ranked, stage, 0), "others": others})
        return views

    def explained(self, stage: Stage, docno: str) -> Values:
        """Why a document has its rank (None: it is not in the ranking): what each stage made of it."""
        doc, query, read = self.doc(docno), self.read.words, self.read
        placed, most = self._placed(stage), self.snapshot.settings.limits.documents
        stages = explain_stages(placed, self.query, docno, most)
        *_, last = stages
        if last.explanation is not None:
            stages[-1] = replace(last, explanation=read.explain(last.explanation, docno))
        matches = locate_terms(self.index.analyzer, query) if self.index.has_texts else ()
        words = {match.term: query[match.start : match.end] for match in matches}
        return {
            "source": self.source(doc),
            "rank": stages[-1].rank,
            "stages": stages,
            "reasons": [
                share.explanation and reasons(share.explanation, self.say, words) for share in stages
            ],
        }

    def document(self, docno: str, at: tuple[int, int] | None, part: int | None, kind: str) -> Values:
        """A part of a document, from 1; None: the one in which what is marked begins, or the first.

        The characters ``at`` are marked as an ``answer`` or as the ``passage`` of a result, if they are in
        the document. ``before`` and ``after`` are the addresses of the parts beside it, or of the passages of
        its file, if any.
        """
        doc = self.doc(docno)
        cuts = _cut_parts(doc.text)
        last = len(cuts) - 1
        number = min(max(part or 1, 1), last)
        if at is not None and not 0 <= at[0] < at[1] <= len(doc.text):
            at = None
        elif part is None and at is not None:
            number = bisect_right(cuts, at[0])
        lines = list(self._lines(doc, (cuts[number - 1], cuts[number]), at, kind))
        around = self.index.passages(whole_docno(docno)) if doc.file else [docno]
        addresses = []
        for step in (-1, 1):
            beside, position = "", around.index(docno) + step
            if 1 <= number + step <= last:
                beside = self.links.document(self.inquiry, doc.docno, part=number + step)
            elif 0 <= position < len(around):
                beside = self.links.document(self.inquiry, around[position])
            addresses.append(beside)
        return {
            "source": self.source(doc),
            "lines": lines,
            "part": number,
            "parts": last,
            "before": addresses[0],
            "after": addresses[1],
            "is_marked": any(line["is_marked"] for line in lines),
        }

    def _lines(
        self, doc: Doc, span: tuple[int, int], at: tuple[int, int] | None, kind: str
    ) -> Iterator[Values]:
        """The lines of a text in parts; ``page`` begins with it, or is 0.

        ``is_marked`` says that it is in the passage that is marked, ``is_first`` that this begins in it.
        """
        matches = [(span[0] + start, span[0] + end) for start, end in self.matches(doc.text[slice(*span)])]
        ends = [end for _, end in matches]
        is_first, shown_page = True, 0
        for line in _LINES.finditer(doc.text, *span):
            if not line[0].strip():
                continue
            start, end = line.span()
            inside = matches[bisect_right(ends, start) : bisect_left(matches, (end,))]
            is_marked = at is not None and at[0] < end and start < at[1]
            answer = (
                (max(at[0], start), min(at[1], end))
                if at is not None and is_marked and kind == "answer"
                else None
            )
            # the last mark before the end says the page, and the heading behind › if it begins in the line
            number = bisect_left(doc.marks, (end,))
            last = doc.marks[number - 1] if number else Mark(0)
            heading = last.heading.rpartition("›")[2].split()
            yield {
                "parts": mark(doc.text, inside, answer=answer, shown=(start, end)),
                "page": last.page if last.page != shown_page else 0,
                "is_heading": last.start >= start and bool(heading) and heading == line[0].split(),
                "is_marked": is_marked,
                "is_first": is_marked and is_first,
            }
            is_first, shown_page = is_first and not is_marked, last.page

    def doc(self, docno: str) -> Doc:
        try:
            return self.index[docno]
        except KeyError as error:
            raise NotServed(f"no document {shorten(docno)}") from error

    def source(self, doc: Doc, span: tuple[int, int] | None = None, *, is_answer: bool = False) -> Values:
        """A document: its title in parts, its addresses, the file and the pages in which it stands.

        ``href`` leads to the characters ``span`` of the document here, ``address`` to the web.
        """
        line = next(_FIRST_LINE.finditer(doc.text))[1].strip()
        line = line if len(line) <= _TITLE else f"{line[:_TITLE].rsplit(' ', 1)[0]} …"
        title, address = doc.title.strip() or line or self.say("untitled"), doc.url.strip()
        try:
            parts = urlsplit(address)
            is_linked = parts.scheme in ("http", "https") and bool(parts.hostname)
        except ValueError:
            is_linked = False
        return {
            "docno": doc.docno,
            "title": mark(title, self.matches(title)),
            "href": self.links.document(self.inquiry, doc.docno, span, is_answer=is_answer),
            "address": address if is_linked else "",
            "where": doc.locate(*(span or (0, None))),
        }

    def _list(self, ranked: StagedRanking, stage: Stage, first: int) -> Values:
        """A page of results behind the ``first`` ones, the pipeline that ranked them, and its stages.

        Each has its best passage: the one that counted most, or the one with most words of the query; and
        ``further`` passages of the same file, if they are grouped, the first of them with texts.
        """
        groups = find_groups(stage, ranked)
        listed = list(enumerate(ranked.ranking, 1))[first : first + SIZE]
        passages, runs = find_passages(stage, self.query, [docno for _, (docno, _) in listed])
        results = []
        for rank, (docno, _) in listed:
            doc, passage = self.index[docno], passages.get(docno)
            further = groups.passages[whole_docno(docno)][1:] if groups else ()
            results.append(
                {
                    "rank": rank,
                    **self._shown(doc, passage, rank),
                    "further": len(further),
                    "passages": [self._shown(self.index[other]) for other in further[:MOST_FURTHER]],
                }
            )
        return {"results": results, "pipeline": stage.text, "stages": ranked.stages + runs, "groups": groups}

    def _shown(self, doc: Doc, passage: SegmentMatch | None = None, rank: int | None = None) -> Values:
        """A document with the text that a result shows of it."""
        text, span = self._excerpt(doc, passage)
        source, clicked = self.source(doc, span), rank if self.snapshot.settings.clicks else None
        source["href"] = self.links.document(self.inquiry, doc.docno, span, rank=clicked)
        return {"source": source, "text": flow(text), "passage": passage}

    def _excerpt(self, doc: Doc, passage: SegmentMatch | None) -> tuple[list[Part], tuple[int, int] | None]:
        """What a result shows of its document, and the characters to which it leads, if not to all."""
        if passage is not None:
            span = highlight.around(doc.text, passage.span, 0, self.text_language or "en")
            return mark(doc.text, self.matches(doc.text), shown=span), span
        if not self.index.has_texts:
            return [], None
        searched = doc.text[: highlight.SEARCHED]
        matches = find_matches(self.index.analyzer, searched, self.terms)
        spans = highlight.best_passages(searched, matches, self.terms)
        parts = highlight.show_passages(searched, matches, spans)
        if len(searched) < len(doc.text) and parts[-1:] != [_CUT]:
            parts.append(_CUT)
        return parts, spans[0] if len(doc.text) > _LONG else None

    def _why_none(self) -> str:
        """Why nothing is found."""
        if not self.served.documents:
            return self.say("none.empty")
        if self.inquiry.page > 1:
            return self.say("none.shown")
        if self.read.chosen is not None:
            return self.say("none.conditions")
        analyzer = self.index.analyzer if self.index.has_texts else None
        if analyzer is None or analyzer(self.inquiry.query):
            return self.say("none.hint")
        if analyzer.tokens(self.inquiry.query):
            return self.say("none.omitted")
        return self.say("none.wordless")


def _cut_parts(text: str) -> list[int]:
    """Where the parts of a text begin, and its end: after a line, or at a blank if a line is too long."""
    cuts = [0]
    while len(text) - cuts[-1] > PART_LENGTH + PART_LENGTH // 4:
        least, most = cuts[-1] + PART_LENGTH, min(cuts[-1] + 2 * PART_LENGTH, len(text))
        at = text.find("\n", least, most)
        at = at if at >= 0 else text.find(" ", least, most)
        cuts.append(at + 1 if at >= 0 else least)
    return [*cuts, len(text)]
