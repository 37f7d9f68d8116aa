"""Measure predicted answers against gold answers, question by question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from telerank.evaluation.answers.gold import GoldAnswers
from telerank.evaluation.answers.names import ANSWER_MEASURES, parse_answer_measures
from telerank.evaluation.answers.normalise import Normalisation, normalise_french, normalise_squad
from telerank.evaluation.answers.overlap import Overlap, character_f1, exact_match, word_f1
from telerank.evaluation.measures import Evaluation


def measure_answers(
    gold: GoldAnswers,
    predictions: Mapping[str, str],
    measures: str | Sequence[str] = ANSWER_MEASURES,
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
    overlaps = {name: _build(name, second) for name in names}
    for column, qid in enumerate(gold.questions):
        if qid in predictions:
            for row, (overlap, normalise) in enumerate(overlaps.values()):
                texts = gold_texts(gold.answers.get(qid, ()), normalise, second=second)
                table[row, column] = max(overlap(predictions[qid], text) for text in texts)
    table.flags.writeable = False
    return Evaluation(
        tuple(gold.questions),
        dict(zip(names, table, strict=True)),
        missing=tuple(qid for qid in gold.questions if qid not in predictions),
        unjudged=tuple(qid for qid in predictions if qid not in gold.questions),
    )


def gold_texts(answers: Sequence[str], normalise: Normalisation, *, second: bool) -> Sequence[str]:
    """The gold answers that count: in version 2.0 those with a word, or the empty text if there are none."""
    return ([text for text in answers if normalise(text)] or [""]) if second else answers


def _build(name: str, second: bool) -> tuple[Overlap, Normalisation]:
    if name == "F1(characters)":
        return character_f1, str.strip
    normalise = normalise_french if name.endswith("(fr)") else normalise_squad
    if name.startswith("EM"):
        return exact_match(normalise), normalise
    return word_f1(normalise, empty_is_an_answer=second), normalise
