"""Gold answers, and predicted ones measured against them, alone and of a whole system.

The Piaf report (2.1.3) divides a reader's exact matches by the correct retrievals if it is measured alone,
and by all queries if the whole system is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from telerank.errors import ArgumentError
from telerank.evaluation.answers.overlap import (
    ANSWER_MEASURES,
    Normalisation,
    normalise_squad,
    parse_answer_measures,
)
from telerank.evaluation.measures import Evaluation, Values
from telerank.types import Answer, Query, Ranking


@dataclass(frozen=True)
class GoldAnswers:
    """Questions by id, and the texts of their answers, of which a prediction may equal any.

    A question without answers is unanswerable: no answer is right. ``paragraphs`` names, of some questions,
    the documents that hold an answer.
    """

    questions: Mapping[str, str]
    answers: Mapping[str, tuple[str, ...]]
    paragraphs: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for qid in self.answers:
            if qid not in self.questions:
                raise ArgumentError(f"answers of {qid}, which is no question")

    @classmethod
    def of(cls, queries: Iterable[Query], answers: Iterable[Answer]) -> GoldAnswers:
        """The gold answers of these queries; answers of others are left out, equal texts stay as often as
        given.

        Raises ValueError if there is no query.
        """
        questions = {query.qid: query.text for query in queries}
        if not questions:
            raise ArgumentError("there is no question")
        texts: dict[str, list[str]] = {qid: [] for qid in questions}
        paragraphs: dict[str, set[str]] = {}
        for answer in answers:
            if answer.qid in texts:
                texts[answer.qid].append(answer.text)
                paragraphs.setdefault(answer.qid, set()).add(answer.docno)
        return cls(
            questions,
            {qid: tuple(own) for qid, own in texts.items()},
            {qid: frozenset(own) for qid, own in paragraphs.items()},
        )

    @property
    def answerable(self) -> tuple[str, ...]:
        """The questions that have an answer."""
        return tuple(qid for qid in self.questions if self.answers.get(qid))

    @property
    def unanswerable(self) -> tuple[str, ...]:
        """The questions without an answer."""
        return tuple(qid for qid in self.questions if not self.answers.get(qid))

    def select(self, qids: Iterable[str]) -> GoldAnswers:
        """Some of the questions, in the given order. Raises KeyError if one is not there."""
        kept = {qid: self.questions[qid] for qid in qids}
        return GoldAnswers(
            kept,
            {qid: self.answers[qid] for qid in kept if qid in self.answers},
            {qid: self.paragraphs[qid] for qid in kept if qid in self.paragraphs},
        )


def measure_answers(
    gold: GoldAnswers,
    predictions: Mapping[str, str],
    measures: str | Sequence[str] = tuple(ANSWER_MEASURES),
) -> Evaluation:
    """The value of each measure, from 0 to 1, for each question; a question's best gold answer counts.

    ``predictions`` maps qids to texts, the empty text being no answer. Values are those of SQuAD's scripts
    divided by 100: of version 1.1 if every question has an answer, of 2.0 if not. A question without a
    prediction counts 0 (``missing``), as in version 1.1; version 2.0 leaves it out of all means. Predictions
    of other questions are ``unjudged``.

    Raises MeasureError if a measure is none of answers.
    """
    names = parse_answer_measures(measures)
    second = bool(gold.unanswerable)
    table = np.zeros((len(names), len(gold.questions)))
    for column, qid in enumerate(gold.questions):
        if qid in predictions:
            answers = gold.answers.get(qid, ())
            table[:, column] = [
                ANSWER_MEASURES[name].value(predictions[qid], answers, second=second) for name in names
            ]
    table.flags.writeable = False
    return Evaluation(
        tuple(gold.questions),
        dict(zip(names, table, strict=True)),
        missing=tuple(qid for qid in gold.questions if qid not in predictions),
        unjudged=tuple(qid for qid in predictions if qid not in gold.questions),
    )


@dataclass(frozen=True, eq=False)
class SystemAnswers:
    """``evaluation`` is over all questions; ``retrieved`` says, (questions,), whose passage the reader was
    given.
    """

    evaluation: Evaluation
    retrieved: Values

    @property
    def share(self) -> float:
        """The share of questions whose passage was retrieved: recall, the limit of the system."""
        return float(self.retrieved.mean())

    @property
    def where_retrieved(self) -> dict[str, float]:
        """The means over the questions whose passage was retrieved; NaN if there are none."""
        rows = [qid for qid, own in zip(self.evaluation.qids, self.retrieved, strict=True) if own]
        if not rows:
            return dict.fromkeys(self.evaluation.measures, float("nan"))
        return self.evaluation.select(rows).mean


def measure_system(
    gold: GoldAnswers,
    predictions: Mapping[str, str],
    rankings: Iterable[Ranking],
    measures: str | Sequence[str] = tuple(ANSWER_MEASURES),
) -> SystemAnswers:
    """Measure the first answer of a system; ``rankings`` are the passages that its reader was given.

    Raises ValueError if no paragraph of a question is known.
    """
    evaluation = measure_answers(gold, predictions, measures)
    if not gold.paragraphs:
        raise ArgumentError("the gold answers name no paragraph, so nothing can be found to be retrieved")
    given = {ranking.query.qid: set(ranking.docnos) for ranking in rankings}
    none: frozenset[str] = frozenset()
    return SystemAnswers(
        evaluation,
        np.array(
            [float(bool(gold.paragraphs.get(qid, none) & given.get(qid, set()))) for qid in evaluation.qids]
        ),
    )


def answer_recall(
    gold: GoldAnswers,
    rankings: Iterable[Ranking],
    text_of: Callable[[str], str],
    depths: Sequence[int],
    normalise: Normalisation = normalise_squad,
) -> Evaluation:
    """Whether one of the first k passages has a gold answer, as whole words, for each of ``depths``:
    ``answer@k``.

    Unlike a relevant paragraph, any passage with the words counts (Chen et al., 2017). Questions without an
    answer, or whose answers have no word, are left out; one without passages counts 0.

    Raises ValueError if no depth is given, or one is less than 1.
    """
    if not depths or min(depths) < 1:
        raise ArgumentError(f"expected depths from 1 up, got {list(depths)}")
    answers = {
        qid: [text for answer in gold.answers[qid] if (text := normalise(answer))] for qid in gold.answerable
    }
    rows = {qid: row for row, qid in enumerate(qid for qid, texts in answers.items() if texts)}
    table = np.zeros((len(depths), len(rows)))
    for ranking in rankings:
        row = rows.get(ranking.query.qid)
        if row is None:
            continue
        first = math.inf  # the position of the first text with one of the answers
        for position, docno in enumerate(ranking.docnos[: max(depths)]):
            padded = f" {normalise(text_of(docno))} "
            if any(f" {answer} " in padded for answer in answers[ranking.query.qid]):
                first = position
                break
        table[:, row] = [first < depth for depth in depths]
    return Evaluation(tuple(rows), dict(zip([f"answer@{depth}" for depth in depths], table, strict=True)))
