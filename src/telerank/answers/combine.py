"""From what a reader says of several texts to the answers of a question: one list, best first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from telerank.answers.spans import AnswerSpan, TextReading
from telerank.errors import ModelError, count_noun
from telerank.evaluation.answers.overlap import answer_words
from telerank.fusion.lists import scale
from telerank.types import Answer, Answers, Explanation, Query, Scores

MU = 0.8
"""The reader's weight over several ranked texts by default; ``benchmarks/answer_defaults.py`` chose it."""


def check_mu(mu: float) -> None:
    """Raise ModelError if mu is not between 0 and 1."""
    if not 0 <= mu <= 1:
        raise ModelError(f"mu must be between 0 and 1, got {mu}")


@dataclass(frozen=True, slots=True)
class ReadText:
    """A text that was read: its docno, the score that retrieved it, and what the reader says of it.

    ``field`` is that of the document that it is.
    """

    docno: str
    text: str
    reading: TextReading
    score: float = 0.0
    field: str = "text"


@dataclass(frozen=True)
class AnswerRules:
    """How the spans of several texts become answers.

    ``threshold``, ``temperature`` and ``language`` are those of
    :class:`~telerank.models.readers.ReaderSettings`; a threshold of None or infinity gives always an
    answer. A score is mu * span + (1 - mu) * retriever
    (BERTserini, Yang et al. 2019, equation 1), each scaled to [0, 1] over the question's spans and texts
    (Piaf report, equation 20). It is the span's score, as it is, if mu is 1 or the texts' scores do not
    differ.

    Raises
    ------
    ModelError
        If mu is not between 0 and 1.
    """

    threshold: float | None = None
    temperature: float = 1.0
    language: str = "en"
    mu: float = 1.0

    def __post_init__(self) -> None:
        check_mu(self.mu)


@dataclass(frozen=True, eq=False)
class SpanTable:
    """All spans of a question's texts: ``spans`` has the number of a text and a span of it.

    ``scores``, ``scaled``, ``retrieved`` and ``totals``, all (spans,), have each span's score, the two parts
    that ``mu`` weighs, and their sum, or the scores themselves if nothing is weighed
    (:func:`weighs_texts`). ``order`` has the numbers of the spans, best first. ``null`` is the smallest score
    of no answer. ``decides`` is the number of the text that says whether there is an answer: of those with a
    span the one that ranks first, or that of the best span if nothing is weighed; -1 without a span.
    ``no_answer`` is its score of no answer minus that of its best span, or infinity.
    """

    spans: tuple[tuple[int, AnswerSpan], ...]
    scores: Scores
    scaled: Scores
    retrieved: Scores
    totals: Scores
    order: tuple[int, ...]
    null: float
    decides: int
    no_answer: float

    @classmethod
    def of(cls, texts: Sequence[ReadText], mu: float) -> SpanTable:
        """The spans of texts, in their order."""
        spans = tuple((number, span) for number, text in enumerate(texts) for span in text.reading.spans)
        numbers = [number for number, _ in spans]
        scores = np.array([span.score for _, span in spans])
        scaled = scale(scores)
        retrieved = scale(np.array([text.score for text in texts]))[numbers] if spans else scores
        is_weighed = weighs_texts(texts, mu)
        totals = mu * scaled + (1 - mu) * retrieved if is_weighed else scores
        order = _order(texts, spans, totals)
        null = min((text.reading.null for text in texts), default=math.inf)
        decides, no_answer = -1, math.inf
        if order:
            first = max(order, key=lambda row: (texts[spans[row][0]].score * is_weighed, spans[row][1].score))
            decides = spans[first][0]
            no_answer = texts[decides].reading.null - spans[first][1].score
        return cls(spans, scores, scaled, retrieved, totals, order, null, decides, no_answer)

    def probabilities(self, temperature: float) -> Scores:
        """The softmax of the scores, and of that of no answer as one more, divided by the temperature."""
        logits = np.append(self.scores, self.null if math.isfinite(self.null) else -np.inf) / temperature
        weights = np.exp(logits - logits.max())
        probabilities: Scores = weights[:-1] / weights.sum()
        return probabilities


def _order(
    texts: Sequence[ReadText], spans: Sequence[tuple[int, AnswerSpan]], totals: Scores
) -> tuple[int, ...]:
    """The numbers of the spans, best first; of equal scores the later docno, then the earlier start."""
    ranks = {docno: rank for rank, docno in enumerate(sorted({text.docno for text in texts}, reverse=True))}
    keys = [
        (-total, -span.score, ranks[texts[number].docno], span.start, span.end)
        for (number, span), total in zip(spans, totals.tolist(), strict=True)
    ]
    return tuple(sorted(range(len(keys)), key=keys.__getitem__))


def weighs_texts(texts: Sequence[ReadText], mu: float) -> bool:
    """Whether the scores that retrieved the texts count: mu is below 1, and they differ."""
    return mu < 1 and len({text.score for text in texts}) > 1


def choose_answers(query: Query, texts: Sequence[ReadText], rules: AnswerRules) -> Answers:
    """The answers to a question from the texts that were read for it, best first.

    Spans that overlap are one answer, the best of them; so are spans of equal
    :func:`~telerank.evaluation.answers.overlap.answer_words`, and their documents are its sources. The
    confidence of an answer is the sum of the probabilities of its equal spans. There are none if the text
    that ranks first has none, by more than the threshold: a threshold is fitted on single texts, and the best
    span of many nearly always exceeds it.
    """
    candidates = SpanTable.of(texts, rules.mu)
    if rules.threshold is not None and candidates.no_answer > rules.threshold:
        return Answers(query, (), candidates.no_answer, len(texts))
    answers = tuple(
        Answer(
            query.qid,
            texts[group.number].docno,
            texts[group.number].text[group.span.start : group.span.end],
            group.span.start,
            score=float(candidates.totals[group.members[0]]),
            confidence=confidence,
            sources=tuple(group.sources),
            field=texts[group.number].field,
        )
        for group, confidence in merge(candidates, texts, rules)
    )
    return Answers(query, answers, candidates.no_answer, len(texts))


@dataclass
class SpanGroup:
    """An answer: the text and the span of the best, the rows of the spans equal to it, and its sources."""

    number: int
    span: AnswerSpan
    members: list[int]
    sources: list[tuple[str, int]] = field(default_factory=list)


def merge(
    candidates: SpanTable, texts: Sequence[ReadText], rules: AnswerRules
) -> list[tuple[SpanGroup, float]]:
    """The groups of spans that are one answer, best first, with their confidences."""
    groups: list[SpanGroup] = []
    by_words: dict[tuple[str, ...], int] = {}
    taken: dict[str, list[tuple[int, int, int]]] = {}  # of a document: start, end, number of the group
    for row in candidates.order:
        number, span = candidates.spans[row]
        text = texts[number]
        words = answer_words(text.text[span.start : span.end], rules.language)
        stretches = taken.setdefault(text.docno, [])
        overlapped = [group for start, end, group in stretches if start < span.end and span.start < end]
        equal = by_words.get(words)
        group = min([*overlapped, *([] if equal is None else [equal])], default=len(groups))
        if group == len(groups):
            groups.append(SpanGroup(number, span, []))
            by_words[words] = equal = group
        if group == equal:
            groups[group].members.append(row)
        if group == equal and group not in overlapped:
            groups[group].sources.append((text.docno, span.start))
            stretches.append((span.start, span.end, group))
    probabilities = candidates.probabilities(rules.temperature) if groups else np.empty(0)
    return [(group, min(1.0, float(probabilities[group.members].sum()))) for group in groups]


def answer_record(answer: Answer) -> dict[str, Any]:
    """An answer as JSON has it; its sources are objects."""
    own = {} if answer.field == "text" else {"field": answer.field}
    return {
        "text": answer.text,
        "corpus-id": answer.docno,
        **own,
        "start": answer.start,
        "score": answer.score,
        "confidence": answer.confidence,
        "sources": [{"corpus-id": docno, "start": start} for docno, start in answer.sources],
    }


def explain_answer(
    query: Query, texts: Sequence[ReadText], rules: AnswerRules, answer: Answer
) -> Explanation:
    """The parts of an answer's score, its confidence, and the score of no answer.

    Raises
    ------
    KeyError
        If the texts do not have that answer.
    """
    candidates = SpanTable.of(texts, rules.mu)
    span_of_answer = answer.docno, answer.start, answer.end
    groups = (
        (group, confidence)
        for group, confidence in merge(candidates, texts, rules)
        if (texts[group.number].docno, group.span.start, group.span.end) == span_of_answer
    )
    group, confidence = next(groups, (None, 0.0))
    if group is None:
        raise KeyError(
            f"query {query.qid}: no such answer in {count_noun(len(texts), 'text')}: "
            f"{answer.text!r} of {answer.docno}"
        )
    row = group.members[0]
    text = texts[group.number]
    shown = text.text[group.span.start : group.span.end]
    ends = (
        Explanation(group.span.start_logit, "logit of its start"),
        Explanation(group.span.end_logit, "logit of its end"),
    )
    span = Explanation(group.span.score, "score of the span, the sum of", ends)
    score: tuple[Explanation, ...] = (span,)
    if weighs_texts(texts, rules.mu):
        scaled, retrieved = float(candidates.scaled[row]), float(candidates.retrieved[row])
        score = (
            Explanation(
                rules.mu * scaled, f"{rules.mu:g} times {scaled:.6g}, scaled over all spans", (span,)
            ),
            Explanation(
                (1 - rules.mu) * retrieved,
                f"{1 - rules.mu:g} times {retrieved:.6g}, the score of {text.docno}, {text.score:.6g}, "
                f"scaled over {count_noun(len(texts), 'text')}",
            ),
        )
    more = _explain_confidence(candidates, texts, rules, group, confidence)
    return Explanation(
        float(candidates.totals[row]), f"“{shown}”, {text.docno} at {group.span.start}", (*score, *more)
    )


def _explain_confidence(
    candidates: SpanTable,
    texts: Sequence[ReadText],
    rules: AnswerRules,
    group: SpanGroup,
    confidence: float,
) -> tuple[Explanation, Explanation]:
    probabilities = candidates.probabilities(rules.temperature)
    parts = []
    for row in group.members:
        number, span = candidates.spans[row]
        words = texts[number].text[span.start : span.end]
        where = f"{texts[number].docno} at {span.start}"
        parts.append(Explanation(float(probabilities[row]), f"“{words}”, {where}, score {span.score:.6g}"))
    of_spans = (
        f"confidence: of {len(candidates.spans)} spans and no answer, at temperature {rules.temperature:g}"
    )
    always = rules.threshold is None or math.isinf(rules.threshold)
    limit = "an answer is always given" if always else f"none above {rules.threshold:g}"
    where = texts[candidates.decides].docno
    return (
        Explanation(confidence, of_spans, tuple(parts)),
        Explanation(
            candidates.no_answer,
            f"score of no answer in {where}, which decides, minus that of its best span; {limit}",
        ),
    )
