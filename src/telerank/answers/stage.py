"""The stage that ends a pipeline: it reads the documents of rankings, and gives answers.

Their files are SQuAD's predictions and scores of no answer, and lines with everything (:class:`AnswerRun`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from telerank.answers.combine import (
    MU,
    AnswerRules,
    ReadText,
    answer_record,
    check_mu,
    choose_answers,
    explain_answer,
    weighs_texts,
)
from telerank.answers.scorer import SpanReader
from telerank.columns.filters import Filter
from telerank.columns.kinds import check_name
from telerank.corpus.docstore import identify_docs, read_candidates
from telerank.corpus.read_fields import TEXT, check_known
from telerank.errors import ModelError, count_noun
from telerank.expressions import call_text, depth_text, quote
from telerank.models.inference import compute_each
from telerank.models.readers import Reader
from telerank.reranking.texts import TextPair
from telerank.stage import SUM, Chain, Stage, check_depth, operand_text, walk_stages
from telerank.stored import versions
from telerank.trec import open_to_write
from telerank.types import Answer, Answers, Doc, Docs, Explanation, Query, Ranking, as_query

_LAST = "read ends a pipeline: its answers are no ranking"


@dataclass(frozen=True, repr=False)
class ReadAnswers:
    """Read the documents of each ranking, and give the ``k`` best answers; ``first`` makes the rankings.

    ``index.bm25() % 20 >> ReadAnswers(reader, index.docs) % 3`` is a pipeline whose :meth:`run` gives
    :class:`~telerank.types.Answers`, not rankings, so nothing can follow. A document's text is read, without
    its title, or another ``field`` of it. ``mu`` weighs the reader against what ranked the documents
    (:class:`~telerank.answers.combine.AnswerRules`); None stands for ``MU``, 1 for the reader alone. ``name``
    stands for the reader in the text of a pipeline over an index; without it the text cannot be read back.

    Raises
    ------
    ValueError
        If k is not a whole number of at least 1, or there is no such field.
    ModelError
        If mu is not between 0 and 1, or something follows or is added.
    CollectionError
        When a ranking names a document that ``docs`` lacks.
    """

    model: SpanReader | Reader | str | Path
    docs: Docs = field(hash=False)
    mu: float | None = None
    k: int | None = None
    name: str = field(default="", compare=False)
    first: Stage | None = None
    field: str = TEXT

    def __post_init__(self) -> None:
        if self.k is not None:
            check_depth(self.k)
        check_name(self.field)
        check_known((self.field,), self.docs)
        check_mu(self.weight)
        if not isinstance(self.model, SpanReader):
            object.__setattr__(self, "model", SpanReader(self.model))

    @property
    def reader(self) -> SpanReader:
        """The reader and how it is computed."""
        return self.model if isinstance(self.model, SpanReader) else SpanReader(self.model)

    @property
    def weight(self) -> float:
        """The reader's weight beside what ranked the documents."""
        return MU if self.mu is None else self.mu

    @property
    def rules(self) -> AnswerRules:
        """How spans become answers: the reader's settings, and its weight."""
        return self.reader.rules(self.weight)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Answers]:
        """The answers for each ranking of a stream, lazily and in order; ``first`` ranks it before."""
        for query, texts in self.read_texts(stream):
            answers = choose_answers(query, texts, self.rules)
            yield answers if self.k is None else answers.cut(self.k)

    def read_texts(self, stream: Iterable[Ranking]) -> Iterator[tuple[Query, list[ReadText]]]:
        """Each query with the texts that were read for it, from which other settings choose anew."""
        rankings = stream if self.first is None else self.first(stream)
        candidates = ((ranking, list(read_candidates(ranking, self.docs))) for ranking in rankings)

        def pairs_of(candidate: tuple[Ranking, list[Doc]]) -> list[TextPair]:
            return [(candidate[0].query.text, doc.field(self.field)) for doc in candidate[1]]

        for (ranking, docs), readings in compute_each(candidates, pairs_of, self.reader.stream):
            parts = zip(docs, readings, ranking.scores.tolist(), strict=True)
            yield (
                ranking.query,
                [
                    ReadText(doc.docno, doc.field(self.field), reading, score, self.field)
                    for doc, reading, score in parts
                ],
            )

    def run(self, queries: Iterable[Query]) -> Iterator[Answers]:
        """The answers to queries, lazily, in their order."""
        return self(Ranking(query) for query in queries)

    def answer(self, query: Query | str) -> Answers:
        """The answers to one query."""
        return next(self.run([as_query(query)]))

    def explain(self, query: Query | str, answer: Answer) -> Explanation:
        """Why the answer has its score and its confidence, among the spans of all texts that were read.

        Raises
        ------
        KeyError
            If the texts that are read for the query do not have that answer.
        """
        ((given, texts),) = self.read_texts([Ranking(as_query(query))])
        parts = explain_answer(given, texts, self.rules, answer)
        if self.first is None or not weighs_texts(texts, self.weight):
            return parts
        return replace(parts, parts=(*parts.parts, self.first.explain(given, answer.docno)))

    def limit(self, k: int) -> ReadAnswers:
        """The same with at most ``k`` answers to a query."""
        return replace(self, k=k if self.k is None else min(self.k, k))

    def where(self, filter: str) -> ReadAnswers:  # noqa: A002
        """The same reading only documents that pass a filter; see :meth:`telerank.stage.Stage.where`."""
        return self.filtered(Filter.parse(filter))

    def filtered(self, chosen: Filter) -> ReadAnswers:
        """What :meth:`where` returns.

        Raises
        ------
        ModelError
            If nothing stands before, which could be filtered.
        """
        if self.first is None:
            raise ModelError(f"{self.text}: a filter needs a first stage before the reader")
        return replace(self, first=self.first.filtered(chosen))

    def behind(self, first: Stage) -> ReadAnswers:
        """The same reading the rankings of ``first`` alone."""
        return replace(self, first=first)

    @property
    def text(self) -> str:
        """The text of the pipeline; in angle brackets if it cannot be read back."""
        settings = dict(self.reader.changed)
        if settings.get("threshold") == float("inf"):
            settings["threshold"] = "none"
        values: dict[str, Any] = settings if self.mu is None else {"mu": self.mu, **settings}
        values |= {} if self.field == TEXT else {"field": self.field}
        call = call_text("read", quote(self.name or self.reader.name), **values)
        own = depth_text(call if self.name and not self.reader.samples else f"<{call}>", self.k)
        if self.first is None:
            return own
        before = self.first.text if isinstance(self.first, Chain) else operand_text(self.first, SUM)
        return f"{before} >> {own}"

    @property
    def sources(self) -> Mapping[str, object]:
        """What the pipeline reads, by name: the reader, the documents, what the stages before read."""
        source = self.reader.source
        if self.field != TEXT:
            source["field"] = self.field
        if not self.name:  # of an index, which has its own checksums
            source["documents"] = identify_docs(self.docs)
        stages = () if self.first is None else walk_stages(self.first)
        before = {name: value for stage in stages for name, value in stage.sources.items()}
        return {**before, f"read({self.name or self.reader.name})": source}

    @property
    def remarks(self) -> Sequence[str]:
        """Notes on what was done so far: what was cut, or did not fit, each line once."""
        stages = () if self.first is None else walk_stages(self.first)
        lines = [line for stage in stages for line in stage.remarks]
        lines += [f"read({self.name or self.reader.name}): {line}" for line in self.reader.remarks]
        return list(dict.fromkeys(lines))

    def __mod__(self, k: int) -> ReadAnswers:
        return self.limit(check_depth(k))

    def __rrshift__(self, first: Stage) -> ReadAnswers:
        if not isinstance(first, Stage):
            return NotImplemented
        return self.behind(first if self.first is None else first >> self.first)

    def _refuse(self, _: object) -> NoReturn:
        raise ModelError(f"{_LAST}, and nothing can be added to them or follow: {self.text}")

    __rshift__ = __add__ = __radd__ = __mul__ = __rmul__ = _refuse

    def __repr__(self) -> str:
        return self.text


_HIGHEST = 1e9
"""Stands for infinity in a file for SQuAD's script, whose JSON has none."""


def answers_record(answers: Answers) -> dict[str, Any]:
    """The answers to a query as JSON has them; an infinite score of no answer is null."""
    no_answer = answers.no_answer if math.isfinite(answers.no_answer) else None
    return {
        "query-id": answers.query.qid,
        "query": answers.query.text,
        "no-answer": no_answer,
        "documents": answers.documents,
        "answers": [answer_record(answer) for answer in answers],
    }


@dataclass(eq=False)
class AnswerRun:
    """The answers to queries, computed each time they are read; ``settings`` say how, for the record.

    ``queries`` counts the queries of the last reading, ``unanswered`` has those without an answer, and
    ``unread`` those of them for which no document was found; ``describe`` gives lines about it.
    """

    compute: Callable[[], Iterator[Answers]]
    settings: Callable[[], Mapping[str, Any]]
    describe: Callable[[], Sequence[str]] = tuple
    queries: int = field(default=0, init=False)
    unanswered: list[str] = field(default_factory=list, init=False)
    unread: list[str] = field(default_factory=list, init=False)

    def __iter__(self) -> Iterator[Answers]:
        self.queries, self.unanswered, self.unread = 0, [], []
        for answers in self.compute():
            self.queries += 1
            if not len(answers):
                self.unanswered.append(answers.query.qid)
            if not answers.documents:
                self.unread.append(answers.query.qid)
            yield answers

    @property
    def remarks(self) -> list[str]:
        """Notes on the last reading, such as how many queries have no answer."""
        remarks = [*self.describe()]
        for qids, what in ((self.unanswered, "have no answer"), (self.unread, "found no document to read")):
            if qids:
                more = " …" if len(qids) > 5 else ""
                remarks.append(
                    f"{len(qids)} of {count_noun(self.queries, 'query')} {what}: {', '.join(qids[:5])}{more}"
                )
        return remarks

    def save(
        self,
        predictions: str | Path | None = None,
        *,
        lines: str | Path | None = None,
        no_answers: str | Path | None = None,
    ) -> None:
        """Read the answers once, and write them.

        ``predictions`` is ``{qid: text}`` as SQuAD's script reads it, with an empty text for no answer;
        ``no_answers`` is ``{qid: score of no answer}``, its file of null odds, in which 10^9 stands for
        infinity; ``lines`` has all answers of a query as an object on a line. The record of what was
        computed is written beside each, as ``FILE.json``; ``-`` is standard output, ``.gz`` packs.
        """
        texts: dict[str, str] = {}
        scores: dict[str, float] = {}
        with ExitStack() as stack:
            file = None if lines is None else stack.enter_context(open_to_write(lines, self.record))
            for answers in self:
                qid = answers.query.qid
                texts[qid], scores[qid] = answers.text, min(answers.no_answer, _HIGHEST)
                if file is not None:
                    file.write(f"{json.dumps(answers_record(answers), ensure_ascii=False)}\n")
        for path, values in ((predictions, texts), (no_answers, scores)):
            if path is not None:
                write_predictions(path, values, record=self.record)

    def record(self) -> dict[str, Any]:
        """The settings, and the versions that computed the answers."""
        return {**self.settings(), "versions": versions()}


def write_predictions(
    path: str | Path,
    values: Mapping[str, str] | Mapping[str, float],
    *,
    record: Callable[[], dict[str, Any]] | None = None,
) -> None:
    """Write a value for each query as one JSON object, as SQuAD's script reads it."""
    with open_to_write(path, record) as file:
        file.write(f"{json.dumps(values, ensure_ascii=False, indent=0)}\n")
