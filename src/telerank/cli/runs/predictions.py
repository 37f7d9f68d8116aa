"""Predicted answers in the commands that measure and compare runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from telerank.cli.options import JudgedOptions, open_collection
from telerank.errors import MeasureError

if TYPE_CHECKING:
    from telerank.evaluation.measures import MeasureNames
    from telerank.verbs.evaluate import AnswerEvaluations


def measure_predictions(
    given: JudgedOptions, measures: MeasureNames | None, values: tuple[str | None, float] = (None, 1.0)
) -> AnswerEvaluations:
    """The evaluations of files of predictions; ``values`` are the file of no-answer, and the threshold."""
    from telerank.verbs.evaluate import ANSWER_MEASURES, evaluate_answers

    data = open_collection(given.qrels, given.format, given.encoding)
    no_answer, threshold = values
    chosen = tuple(ANSWER_MEASURES) if measures is None else measures
    return evaluate_answers(
        given.run, data, chosen, split=given.split, no_answer=no_answer, threshold=threshold
    )


def refuse_of_runs(**given: object) -> None:
    """Raise MeasureError if an option is set that predicted answers do not have."""
    for name, value in given.items():
        if value not in (None, False):
            raise MeasureError(f"--{name} is for runs, and these are predicted answers")
