"""Groups of questions: by question word, English and French, and by the length of the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from telerank.evaluation.answers.gold import GoldAnswers
from telerank.evaluation.measures import Evaluation

OTHER = "other"
_FORMS = {
    "how many": r"how (?:many|much|often|old|long|far|tall|big|large|high)",
    "who": "who|whom|whose",
    "what": "what",
    "which": "which",
    "when": "when",
    "where": "where",
    "why": "why",
    "how": "how",
    "quel": r"quel(?:le)?s?|(?:au|du|le)quel|laquelle|(?:aux|des|les)quel(?:le)?s",
    "combien": "combien",
    "comment": "comment",
    "pourquoi": "pourquoi",
    "quand": "quand",
    "où": "où|^ou",
    "qui": "qui",
    "que": r"que|qu(?=')|quoi",
}
"""Question words with the forms that count as them; the first that fits is taken where several do."""
_RELATIVE = {"who", "which", "when", "where", "qui", "que", "où", "quand"}
"""Words that are often no question words further inside a sentence."""
_BEGINNING = 2
"""The first words of a question, where any of them asks: ``Depuis quand``."""
_WORD = re.compile(
    r"(?<![\w-])(?:" + "|".join(f"(?P<g{n}>{form})" for n, form in enumerate(_FORMS.values())) + r")(?!\w)",
    re.IGNORECASE,
)
_IS_IT = re.compile("est-ce[ -]qu(?:e |')", re.IGNORECASE)
_LABELS = tuple(_FORMS)
QUESTION_WORDS = (*_LABELS, OTHER)

LENGTHS = ("no answer", "1 word", "2 words", "3–5 words", "6–10 words", "11 words or more")


class GroupMeans(NamedTuple):
    """The number of questions of a group, and the means over them, by measure."""

    questions: int
    means: Mapping[str, float]


def question_word(question: str) -> str:
    """The question word of a question, ``other`` if it has none.

    That is the first question word of its first two words, or the first further inside that is not also a
    relative pronoun or a conjunction, or else the first.
    """
    text = _IS_IT.sub("est-ce ", re.sub("[’ʼ‘]", "'", question))
    matches = [(len(text[: match.start()].split()), _label(match)) for match in _WORD.finditer(text)]
    for position, label in matches:
        if position < _BEGINNING or label not in _RELATIVE:
            return label
    return matches[0][1] if matches else OTHER


def _label(match: re.Match[str]) -> str:
    return _LABELS[int(str(match.lastgroup)[1:])]


def length_group(answers: tuple[str, ...]) -> str:
    """The group of a question by the words of its first gold answer, one of :data:`LENGTHS`."""
    if not answers:
        return LENGTHS[0]
    words = len(answers[0].split())
    return LENGTHS[(words > 0) + (words > 1) + (words > 2) + (words > 5) + (words > 10)]


def by_question_word(gold: GoldAnswers, evaluation: Evaluation) -> dict[str, GroupMeans]:
    """The means of each question word that occurs, the English ones first."""
    return _means(evaluation, lambda qid: question_word(gold.questions[qid]), QUESTION_WORDS)


def by_answer_length(gold: GoldAnswers, evaluation: Evaluation) -> dict[str, GroupMeans]:
    """The means by length of the first gold answer, the short ones first."""
    return _means(evaluation, lambda qid: length_group(gold.answers.get(qid, ())), LENGTHS)


def _means(
    evaluation: Evaluation, group_of: Callable[[str], str], order: tuple[str, ...]
) -> dict[str, GroupMeans]:
    groups: dict[str, list[str]] = {label: [] for label in order}
    for qid in evaluation.qids:
        groups[group_of(qid)].append(qid)
    return {
        label: GroupMeans(len(qids), evaluation.select(qids).mean) for label, qids in groups.items() if qids
    }
