"""The names of the measures of answers, apart from what computes them."""

from __future__ import annotations

from collections.abc import Sequence

from telerank.errors import MeasureError

ANSWER_MEASURES = ("EM", "F1", "EM(fr)", "F1(fr)", "F1(characters)")
"""Exact match and F1 as SQuAD's scripts compute them; both with the French normalisation; the Piaf report's
F1."""
MEANINGS = {
    "EM": "exact match as SQuAD's script",
    "F1": "of words, as SQuAD's script",
    "EM(fr)": "exact match, French normalisation",
    "F1(fr)": "of words, French normalisation",
    "F1(characters)": "of characters as they stand, as in the Piaf report (2.1.3)",
}


def is_answer_measure(name: str) -> bool:
    """Whether a measure is one of answers, not of rankings."""
    return name in ANSWER_MEASURES


def parse_answer_measures(measures: str | Sequence[str]) -> tuple[str, ...]:
    """Names of measures of answers, given together or one by one. Raises MeasureError for any other name."""
    text = measures if isinstance(measures, str) else " ".join(measures)
    names = text.replace(",", " ").split()
    for name in names:
        if not is_answer_measure(name):
            known = ", ".join(ANSWER_MEASURES)
            raise MeasureError(f"{name!r} is not a measure of answers; they are {known}")
    if not names:
        raise MeasureError("no measure is given")
    return tuple(dict.fromkeys(names))
