"""The pages: what each shows for its address, as plain data, computed in a thread of the service.

Each function returns the values that its template shows, by name: no index, no model, no ranking.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from telerank.errors import shorten
from telerank.retrieval.index import Index
from telerank.service.errors import NotServed, Unprocessable
from telerank.service.indexes import READ_DEPTH, ServedIndex
from telerank.service.page import highlight
from telerank.service.page.highlight import Part, find_matches, mark
from telerank.service.page.messages import Messages
from telerank.service.page.render import SIZE, Inquiry, Links
from telerank.service.page.why import reasons
from telerank.service.searching import (
    QID,
    StagedRanking,
    StageRun,
    count_results,
    explain_stages,
    find_passages,
    run_reader,
    run_stages,
)
from telerank.service.state import Snapshot
from telerank.sparse.query_words import respell
from telerank.stage import Stage
from telerank.text.analyzer import locate_terms
from telerank.text.sentences import Span
from telerank.types import Answer, Doc, Query, Ranking

if TYPE_CHECKING:
    from telerank.answers.stage import ReadAnswers
    from telerank.segments.stage import SegmentMatch

Values = dict[str, Any]
ANSWERS = 3  # answers to a question that are shown
_SHORT = 24  # characters of a pipeline that stand in a list of choices on a telephone
_LEVELS = {"high": 0.7, "medium": 0.4, "low": 0.0}  # the least confidences of an answer that are called so
_TITLE = 90  # characters of a text that stand for a title
_ADDRESS = 80  # characters of a web address that are shown
_LONG = 2_000  # characters of a text from which a result leads to its passage
_CUT = Part(" …", "cut")
_BREAK = re.compile(r"(?<=([^\s]))[^\S\n]*\n\s*")
_ENDS = ".!?…:;,»”)"
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

    snapshot: Snapshot
    inquiry: Inquiry
    links: Links
    say: Messages

    @cached_property
    def served(self) -> ServedIndex:
        return self.snapshot.served_index(self.inquiry.index)

    @property
    def index(self) -> Index:
        return self.served.index

    @property
    def query(self) -> Query:
        return Query(QID, self.inquiry.query)

    @property
    def text_language(self) -> str:
        """The language of the index's texts, as far as its analyzer says it; empty otherwise."""
        analyzer = str(self.index.analyzer) if self.index.has_texts else ""
        return next((code for code, name in (("fr", "french"), ("en", "english")) if name in analyzer), "")

    @cached_property
    def terms(self) -> Mapping[str, float]:
        """The terms of the query with their weights."""
        return highlight.query_terms(self.index, self.inquiry.query)

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
        }

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

    def results(self, stage: Stage) -> Values:
        """A page of results; of the query in the spellings of the index if nothing is found without.

        ``total`` is how many results there are on all pages, None if that is not known. ``answer`` is the
        address of what a reader answers, empty if none is served, it has nothing to read, or behind the first
        page. ``none`` says why there are no results.

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
        ranked = run_stages(stage, self.query, depth)
        count = len(ranked.ranking)
        if not count and page == 1 and self.index.has_texts:
            spelled = respell(self.index.sparse, self.inquiry.query)
            if spelled != self.inquiry.query and len(spelled) <= settings.limits.query_characters:
                respelled = replace(self, inquiry=replace(self.inquiry, query=spelled)).results(stage)
                if respelled["results"]:
                    return respelled
        results, how = self._list(ranked, stage, first)
        can_answer = self.served.default_answer is not None and (settings.answer is not None or results)
        has_next = count > first + SIZE and first + 2 * SIZE <= most
        return {
            "inquiry": self.inquiry,
            "results": results,
            "first": first + 1,
            "last": first + len(results),
            "total": count if count < depth else count_results(stage, self.query),
            "answer": (
                self.links.to("answer", **self.links.values(self.inquiry)) if page == 1 and can_answer else ""
            ),
            "how": how,
            "previous": self.links.search(self.inquiry, page=page - 1 if page > 2 else None)
            if page > 1
            else "",
            "next": self.links.search(self.inquiry, page=page + 1) if has_next else "",
            "none": "" if results else self._why_none(),
        }

    def answered(self, stage: Stage, reader: ReadAnswers) -> Values:
        """What the reader answers from the first results of a pipeline, or of its own; best first.

        ``documents`` were read for that; ``cut`` tokens of the question were not. ``is_sure``: the best
        answer has the confidence that the settings ask for.
        """
        settings, ranked = self.snapshot.settings, StagedRanking([Ranking(self.query)], [])
        most = settings.limits.documents
        if reader.first is None:
            ranked = run_stages(stage, self.query, min(READ_DEPTH, most))
        read = run_reader(reader, ranked.ranking, most)
        answers = [self._answer(answer) for answer in read.answers]
        text = stage.text if reader.first is None else reader.text
        return {
            "answers": answers,
            "documents": read.documents,
            "cut": read.cut,
            "is_sure": bool(answers) and answers[0]["share"] >= settings.answer_confidence,
            "how": _how(text, ranked.stages + read.stages),
        }

    def compare(self, left: Stage, right: Stage) -> list[Values]:
        """The first results of two pipelines, with their ranks in the other, None for those only here."""
        both = [run_stages(stage, self.query, SIZE) for stage in (left, right)]
        ranks = [{docno: rank for rank, docno in enumerate(ranked.ranking.docnos, 1)} for ranked in both]
        views = []
        for ranked, stage, other in zip(both, (left, right), reversed(ranks), strict=True):
            results, how = self._list(ranked, stage, 0)
            views.append(
                {
                    "how": how,
                    "results": results,
                    "others": [other.get(result["source"]["docno"]) for result in results],
                }
            )
        return views

    def explained(self, stage: Stage, docno: str) -> Values:
        """Why a document has its rank (None: it is not in the ranking): what each stage made of it."""
        doc, query = self.doc(docno), self.inquiry.query
        stages = explain_stages(stage, self.query, docno, self.snapshot.settings.limits.documents)
        matches = locate_terms(self.index.analyzer, query) if self.index.has_texts else ()
        words = {match.term: query[match.start : match.end] for match in matches}
        said = [share.explanation and reasons(share.explanation, self.say, words) for share in stages]
        return {"source": self.source(doc), "rank": stages[-1].rank, "stages": stages, "reasons": said}

    def doc(self, docno: str) -> Doc:
        try:
            return self.index.doc(docno)
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
        bare = address.partition("://")[2].rstrip("/")
        where, location = doc.locate(*(span or (0, None))), ""
        if where is not None and where.last_page > where.page:
            location = self.say("place.pages", first=where.page, last=where.last_page)
        elif where is not None and where.page:
            location = self.say("place.page", page=where.page)
        return {
            "docno": doc.docno,
            "title": mark(title, self.matches(title)),
            "href": self.links.document(self.inquiry, doc.docno, span, is_answer=is_answer),
            "address": address if is_linked else "",
            "shown_address": bare if len(bare) <= _ADDRESS else f"{bare[:_ADDRESS]}…",
            "location": ", ".join(filter(None, (where.file, location))) if where else "",
        }

    def _list(self, ranked: StagedRanking, stage: Stage, first: int) -> tuple[list[Values], Values]:
        """A page of results behind the ``first`` ones, and how they were ranked.

        Each has its best passage: the one that counted most, or the one with most words of the query.
        """
        listed = list(enumerate(ranked.ranking, 1))[first : first + SIZE]
        passages, runs = find_passages(stage, self.query, [docno for _, (docno, _) in listed])
        results = []
        for rank, (docno, score) in listed:
            doc, passage = self.index.doc(docno), passages.get(docno)
            text, span = self._excerpt(doc, passage)
            shown = passage and self.say("place.passage", n=passage.number + 1, of=passage.count)
            explain = self.links.to("explain", docno=docno, **self.links.values(self.inquiry))
            result = {"rank": rank, "source": self.source(doc, span), "text": flow(text)}
            results.append({**result, "passage": shown, "score": self.say.score(score), "explain": explain})
        return results, _how(stage.text, ranked.stages + runs)

    def _excerpt(self, doc: Doc, passage: SegmentMatch | None) -> tuple[list[Part], tuple[int, int] | None]:
        """What a result shows of its document, and the characters to which it leads, if not to all."""
        if passage is not None:
            span = highlight.around(doc.text, passage.span, 0, self._sentences)
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

    @property
    def _sentences(self) -> str:
        """The language in which the index's texts are cut into sentences."""
        return self.text_language or "en"

    def _answer(self, answer: Answer) -> Values:
        """An answer, marked in the sentences around it."""
        doc, span, share = self.index.doc(answer.docno), Span(answer.start, answer.end), answer.confidence
        shown = highlight.around(doc.text, span, language=self._sentences)
        return {
            "text": answer.text,
            "source": self.source(doc, span, is_answer=True),
            "passage": flow(mark(doc.text, (), answer=span, shown=shown)),
            "confidence": self.say.share(share),
            "share": share,
            "level": next(level for level, least in _LEVELS.items() if share >= least),
        }

    def _why_none(self) -> str:
        """Why nothing is found."""
        if not self.served.documents:
            return self.say("none.empty")
        if self.inquiry.page > 1:
            return self.say("none.shown")
        analyzer = self.index.analyzer if self.index.has_texts else None
        if analyzer is None or analyzer(self.inquiry.query):
            return self.say("none.hint")
        if analyzer.tokens(self.inquiry.query):
            return self.say("none.omitted")
        return self.say("none.wordless")


def _how(pipeline: str, stages: list[StageRun]) -> Values:
    """Which pipeline ranked, and its stages."""
    seconds = sum(stage.milliseconds for stage in stages) / 1000
    return {"pipeline": pipeline, "stages": stages, "seconds": seconds}


def flow(parts: Iterable[Part]) -> list[Part]:
    """Lines of a text as one: a dot stands for a line end that ends no sentence."""
    flowing, last = [], ""
    for part in parts:
        text = _BREAK.sub(lambda line: " " if line[1] in _ENDS else " · ", f"{last}{part.text}")[len(last) :]
        flowing.append(Part(text, part.kind))
        last = part.text[-1:]
    return flowing
