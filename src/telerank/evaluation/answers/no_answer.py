"""SQuAD 2.0's measures: with and without an answer, at a threshold of no-answer, and at the best ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from telerank.evaluation.answers.gold import GoldAnswers
from telerank.evaluation.measures import Evaluation


@dataclass(frozen=True)
class AnsweredPart:
    """A part of the questions, and the means over it, by measure."""

    questions: int
    means: Mapping[str, float]


@dataclass(frozen=True)
class BestThreshold:
    """The highest mean of a measure that a threshold reaches, and the least such threshold, as the script has
    it.

    A question whose value of no-answer is above the threshold has no answer.
    """

    mean: float
    threshold: float


@dataclass(frozen=True)
class NoAnswerScores:
    """The figures of SQuAD 2.0's script, from 0 to 1: all questions, HasAns, NoAns, and the best thresholds.

    A part without questions is None. ``best`` is empty without values of no-answer.
    """

    total: AnsweredPart
    has_answer: AnsweredPart | None
    no_answer: AnsweredPart | None
    best: Mapping[str, BestThreshold]


def apply_threshold(
    gold: GoldAnswers, evaluation: Evaluation, no_answer: Mapping[str, float], threshold: float
) -> Evaluation:
    """The evaluation if questions whose value of no-answer is above ``threshold`` had no answer.

    Raises ValueError if a question has no value.
    """
    _check_values(evaluation, no_answer)
    above = np.array([no_answer[qid] > threshold for qid in evaluation.qids])
    empty = np.array([float(not gold.answers.get(qid)) for qid in evaluation.qids])
    values = {name: np.where(above, empty, own) for name, own in evaluation.values.items()}
    return Evaluation(evaluation.qids, values, evaluation.missing, unjudged=evaluation.unjudged)


def score_no_answer(
    gold: GoldAnswers,
    predictions: Mapping[str, str],
    evaluation: Evaluation,
    no_answer: Mapping[str, float] | None = None,
    *,
    threshold: float = 1.0,
) -> NoAnswerScores:
    """SQuAD 2.0's figures of an evaluation; ``no_answer`` has a value for each question, higher for no
    answer.

    ``predictions`` are those that were evaluated. Best thresholds are searched among all values, as the
    script does: of equal values it may stop between two.

    Raises ValueError if a question has no value.
    """
    final, best = evaluation, {}
    if no_answer is not None:
        final = apply_threshold(gold, evaluation, no_answer, threshold)
        best = {
            name: _best_threshold(gold, predictions, evaluation.of(name), no_answer)
            for name in evaluation.measures
        }
    has, none = (
        [qid for qid in gold.questions if bool(gold.answers.get(qid)) is kind] for kind in (True, False)
    )
    total = AnsweredPart(len(final.qids), final.mean)
    return NoAnswerScores(total, _part(final, has), _part(final, none), best)


def _part(evaluation: Evaluation, qids: list[str]) -> AnsweredPart | None:
    return AnsweredPart(len(qids), evaluation.select(qids).mean) if qids else None


def _best_threshold(
    gold: GoldAnswers,
    predictions: Mapping[str, str],
    values: Mapping[str, float],
    no_answer: Mapping[str, float],
) -> BestThreshold:
    """Answer no question, then one after another, those first whose value of no-answer is lowest."""
    score = best = float(len(gold.unanswerable))
    threshold = 0.0
    for qid in sorted(no_answer, key=lambda qid: no_answer[qid]):
        if qid not in predictions or qid not in gold.questions:
            continue
        score += values[qid] if gold.answers.get(qid) else -float(bool(predictions[qid]))
        if score > best:
            best, threshold = score, no_answer[qid]
    return BestThreshold(best / len(values), threshold)


def _check_values(evaluation: Evaluation, no_answer: Mapping[str, float]) -> None:
    lacking = [qid for qid in evaluation.qids if qid not in no_answer]
    if lacking:
        more = f" (and {len(lacking) - 1} more)" if len(lacking) > 1 else ""
        raise ValueError(f"question {lacking[0]!r}{more} has no value of no-answer")
