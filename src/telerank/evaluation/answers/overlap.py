"""The measures of answers: how alike a predicted answer and a gold answer are.

Texts are normalised before they are compared, in one of two ways:

``squad``
    As SQuAD's evaluation scripts (Rajpurkar et al., 2016 and 2018): lower case, ASCII punctuation and the
    English articles removed. On French it joins an elided word to the next (``l'homme`` is ``lhomme``), knows
    neither ``’`` nor ``« »``, and removes the word ``a``.
``fr``
    For French: lower case, NFKC, elisions split, French articles, quotation marks and other punctuation
    removed. Accents stay: ``ou`` is not ``où``. These are the words by which a reader's answers are merged
    (:mod:`telerank.evaluation.answers.words`), without signs: SQuAD's removes ``%``, too.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from telerank.errors import MeasureError
from telerank.evaluation.answers.words import is_sign, show_word, split_words, without_articles

Normalisation: TypeAlias = Callable[[str], str]


_ASCII_PUNCTUATION = dict.fromkeys(map(ord, string.punctuation))
_ENGLISH_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def normalise_squad(text: str) -> str:
    """As ``normalize_answer`` of SQuAD's scripts; the result may be empty."""
    kept = text.lower().translate(_ASCII_PUNCTUATION)
    return " ".join(_ENGLISH_ARTICLES.sub(" ", kept).split())


def normalise_french(text: str) -> str:
    """Words without articles; the articles themselves if there is nothing else (``Un`` may be a number).

    Punctuation separates words (``dix-sept`` is ``dix sept``), but not the digits of a number: ``3,5`` and
    ``3.5`` are ``3,5``, and ``1 500`` is ``1500``. ``quelqu'un`` is one word. A text of punctuation and
    symbols alone is empty.
    """
    words = [word for word in split_words(text, "fr") if not is_sign(word)]
    return " ".join(show_word(word, "fr") for word in without_articles(words, "fr")).replace("^", "")


def exact_match(prediction: str, gold: str, _empty_is_an_answer: bool = True) -> float:
    """1 if the texts are equal, else 0."""
    return float(prediction == gold)


def word_f1(prediction: str, gold: str, empty_is_an_answer: bool = True) -> float:
    """F1 of the words of the texts, each counted as often as it occurs.

    Two texts that have no word are alike if ``empty_is_an_answer``, as in the script of SQuAD 2.0; in that of
    SQuAD 1.1 they are not.
    """
    words, gold_words = prediction.split(), gold.split()
    if words and gold_words:
        return bag_f1(words, gold_words)
    return float(empty_is_an_answer and words == gold_words)


def character_f1(prediction: str, gold: str, _empty_is_an_answer: bool = True) -> float:
    """F1 of the characters of the texts as they stand (the Piaf report, section 2.1.3).

    TP counts the characters that both texts have, each as often as it occurs in both, wherever it stands: two
    texts of the same letters have 1. Two empty texts are alike.
    """
    return bag_f1(prediction, gold) if prediction and gold else float(prediction == gold)


def bag_f1(items: Sequence[str], gold: Sequence[str]) -> float:
    """F1 of two bags that are not empty: the harmonic mean of precision and recall."""
    shared = sum((Counter(items) & Counter(gold)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(items), shared / len(gold)  # in the order of SQuAD's, to the last digit
    return 2 * precision * recall / (precision + recall)


@dataclass(frozen=True)
class AnswerMeasure:
    """A measure of answers: how alike the normalised texts are, from 0 to 1.

    ``overlap`` takes the prediction, a gold answer, and whether no answer can be right (SQuAD 2.0).
    """

    name: str
    meaning: str
    normalise: Normalisation
    overlap: Callable[[str, str, bool], float]

    def value(self, prediction: str, answers: Sequence[str], *, second: bool) -> float:
        """The overlap with the gold answer that is most alike.

        In SQuAD's version 2.0 (``second``) those with a word count, or the empty text if there are none.
        """
        texts = [self.normalise(text) for text in answers]
        counted = ([text for text in texts if text.strip()] or [""]) if second else texts
        return max(self.overlap(self.normalise(prediction), text, second) for text in counted)


ANSWER_MEASURES = {
    measure.name: measure
    for measure in (
        AnswerMeasure("EM", "exact match as SQuAD's script", normalise_squad, exact_match),
        AnswerMeasure("F1", "of words, as SQuAD's script", normalise_squad, word_f1),
        AnswerMeasure("EM(fr)", "exact match, French normalisation", normalise_french, exact_match),
        AnswerMeasure("F1(fr)", "of words, French normalisation", normalise_french, word_f1),
        AnswerMeasure(
            "F1(characters)", "of characters as they stand, as in the Piaf report (2.1.3)", str, character_f1
        ),
    )
}
"""By name; a line adds one."""


def parse_answer_measures(measures: str | Sequence[str]) -> tuple[str, ...]:
    """Names of measures of answers, given together or one by one. Raises MeasureError for any other name."""
    text = measures if isinstance(measures, str) else " ".join(measures)
    names = text.replace(",", " ").split()
    for name in names:
        if name not in ANSWER_MEASURES:
            known = ", ".join(ANSWER_MEASURES)
            raise MeasureError(f"{name!r} is not a measure of answers; they are {known}")
    if not names:
        raise MeasureError("no measure is given")
    return tuple(dict.fromkeys(names))
