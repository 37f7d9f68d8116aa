"""Explain an answer: what its score and its confidence are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence

from telerank.answers.combine import AnswerRules, ReadText, SpanGroup, SpanTable, merge, weighs_texts
from telerank.answers.spans import AnswerSpan
from telerank.types import Answer, Explanation, Query


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
    for group, confidence in merge(candidates, texts, rules):
        if (texts[group.number].docno, group.span.start, group.span.end) == _where(answer):
            return _explanation(candidates, texts, rules, group, confidence)
    raise KeyError(
        f"query {query.qid}: no such answer in {len(texts)} texts: {answer.text!r} of {answer.docno}"
    )


def _where(answer: Answer) -> tuple[str, int, int]:
    return answer.docno, answer.start, answer.end


def _explanation(
    candidates: SpanTable,
    texts: Sequence[ReadText],
    rules: AnswerRules,
    group: SpanGroup,
    confidence: float,
) -> Explanation:
    row = group.members[0]
    text = texts[group.number]
    shown = text.text[group.span.start : group.span.end]
    span = _explain_span(group.span)
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
                f"scaled over {len(texts)} texts",
            ),
        )
    more = _explain_confidence(candidates, texts, rules, group, confidence)
    return Explanation(
        float(candidates.totals[row]), f"“{shown}”, {text.docno} at {group.span.start}", (*score, *more)
    )


def _explain_span(span: AnswerSpan) -> Explanation:
    ends = (
        Explanation(span.start_logit, "logit of its start"),
        Explanation(span.end_logit, "logit of its end"),
    )
    return Explanation(span.score, "score of the span, the sum of", ends)


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
