"""The measures of answers: how alike a predicted answer and a gold answer are.

Texts are normalised before they are compared, in one of two ways:

``squad``
    As SQuAD's evaluation scripts (Rajpurkar et al., 2016 and 2018): lower case, ASCII punctuation and the
    English articles removed. On French it joins an elided word to the next (``l'homme`` is ``lhomme``), knows
    neither ``’`` nor ``« »``, and removes the word ``a``.
``fr``
    For French: lower case, NFKC, elisions split, French articles, quotation marks and other punctuation
    removed. Accents stay: ``ou`` is not ``où``. These are the words by which a reader's answers are merged
    (:func:`answer_words`), without signs: SQuAD's removes ``%``, too.

In words of answers case, punctuation, articles, forms of letters and the spelling of numbers do not count.
What changes the meaning of a word or a number is a word of its own, a *sign*: those of units and amounts
(``%``, ``€``), of calculating (``+``, ``<``), a minus before a number or at the end of a word (``-5``,
``AB-``), and ``#``, ``&``, ``@``, ``§``, ``°``.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from telerank.errors import MeasureError

# Articles by language, contracted ones among them; French ``l'`` is known by its apostrophe.
ARTICLES: Mapping[str, frozenset[str]] = {
    "en": frozenset(["a", "an", "the"]),
    "fr": frozenset(["le", "la", "les", "un", "une", "des", "du", "au", "aux"]),
}

_LETTERS = str.maketrans(
    {**dict.fromkeys("’‘‛ʼʹ′´`＇", "'"), "œ": "oe", "æ": "ae", "−": "-", "⁄": "/", "‐": "-", "‑": "-"}
)
_ELISION = re.compile(r"\b(jusqu|lorsqu|puisqu|quoiqu|qu|[cdjlmnst])'(?=\W*\w)")
_ONE_WORD = re.compile(
    r"\b(quelqu(?='une?\b)|aujourd(?='hui\b)|presqu(?='îles?\b)|prud(?='hom)|entr(?='\w))'"
)
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:[ \u00a0\u2009\u202f]\d{3})+(?!\d)")
_COMMAS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_DECIMAL = {"en": re.compile(r"(?<=\d)\.(?=\d)"), "fr": re.compile(r"(?<=\d)[.,](?=\d)")}
_POWER = re.compile(r"(?<=\d)(?=[⁰¹²³⁴-⁹])")
_MINUS = re.compile(r"(?<![^\s(\[«“\"'=<>±~/])[-–](?=[^\w\s]?\d)|(?<=[^\W\d_])-(?=$|[)\].,;:»”\"])")
_FRACTION = re.compile(r"(?<=\d)/(?=\d)")

_SIGNS = frozenset("%‰‱#&@§°")
# Categories of Unicode: currencies and mathematics.
_SIGN_KINDS = frozenset(["Sc", "Sm"])

_ARTICLE_L = "\N{WORD JOINER}l"
# Characters that no folded text has: the article ``l``, which is no letter as in ``50 l``; in a number; in
# ``quelqu'un``; before an exponent.
_POINT, _APOSTROPHE, _RAISED = "\N{INVISIBLE SEPARATOR}", "\N{INVISIBLE TIMES}", "\N{INVISIBLE PLUS}"
# Characters that no folded text has, either, and that are signs.
_MINUS_SIGN, _SLASH = "\N{MINUS SIGN}", "\N{FRACTION SLASH}"


def answer_words(text: str, language: str = "en") -> tuple[str, ...]:
    """The words and signs by which two answers are equal: without case, punctuation and articles.

    A text of articles or punctuation alone is its own.

    >>> answer_words("L’Homme", "fr"), answer_words("- 5 %", "fr"), answer_words("−5", "fr")
    (('homme',), ('5', '%'), ('−', '5'))
    """
    words = without_articles(split_words(text, language), language)
    return tuple(show_word(word, language) for word in words) or tuple(text.lower().split())


def split_words(text: str, language: str) -> list[str]:
    """The folded words of a text, signs and articles among them; :func:`show_word` shows them as text."""
    lower = "".join(c for c in text.lower().translate(_LETTERS) if unicodedata.category(c) != "Cf")
    joined = _POWER.sub(_RAISED, _THOUSANDS.sub(lambda match: "".join(match[0].split()), lower))
    plain = unicodedata.normalize("NFKC", joined).lower().translate(_LETTERS)
    if language == "fr":
        plain = _ELISION.sub(
            lambda match: f"{_ARTICLE_L if match[1] == 'l' else match[1]} ",
            _ONE_WORD.sub(rf"\1{_APOSTROPHE}", plain),
        )
    else:
        plain = _COMMAS.sub(lambda match: match[0].replace(",", ""), plain)
    signed = _FRACTION.sub(_SLASH, _MINUS.sub(_MINUS_SIGN, plain))
    return "".join(map(_separate, _DECIMAL[language].sub(_POINT, signed))).split()


def without_articles(words: Sequence[str], language: str) -> Sequence[str]:
    """The words that are no articles; all of them if there is nothing else (``Un`` may be a number)."""
    return [word for word in words if word not in ARTICLES[language] and word != _ARTICLE_L] or words


def is_sign(word: str) -> bool:
    """Whether a word of :func:`split_words` is a sign."""
    return word in _SIGNS or (len(word) == 1 and unicodedata.category(word) in _SIGN_KINDS)


def show_word(word: str, language: str) -> str:
    """A word of :func:`split_words` as it is read: ``3,5`` in French, ``3.5`` in English."""
    plain = "l" if word == _ARTICLE_L else word
    point = "," if language == "fr" else "."
    return plain.replace(_POINT, point).replace(_APOSTROPHE, "'").replace(_RAISED, "^")


def _separate(character: str) -> str:
    """A sign by itself, a blank for any other punctuation and symbol."""
    if is_sign(character):
        return f" {character} "
    return " " if unicodedata.category(character)[0] in "PSZ" else character


Normalisation: TypeAlias = Callable[[str], str]


_ASCII_PUNCTUATION = dict.fromkeys(map(ord, string.punctuation))
_ENGLISH_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def normalise_squad(text: str) -> str:
    """As ``normalize_answer`` of SQuAD's scripts; the result may be empty."""
    return " ".join(_ENGLISH_ARTICLES.sub(" ", text.lower().translate(_ASCII_PUNCTUATION)).split())


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


# By name; a line adds one.
ANSWER_MEASURES = {
    measure.name: measure
    for measure in (
        AnswerMeasure("EM", "exact match as SQuAD's script", normalise_squad, exact_match),
        AnswerMeasure("F1", "of words, as SQuAD's script", normalise_squad, word_f1),
        AnswerMeasure("EM(fr)", "exact match, French normalisation", normalise_french, exact_match),
        AnswerMeasure("F1(fr)", "of words, French normalisation", normalise_french, word_f1),
        AnswerMeasure(
            "EM(literal)", "exact match as it stands, as in the Piaf report (2.1.3)", str, exact_match
        ),
        AnswerMeasure(
            "F1(characters)", "of characters as they stand, as in the Piaf report (2.1.3)", str, character_f1
        ),
    )
}


def parse_answer_measures(measures: str | Sequence[str]) -> tuple[str, ...]:
    """Names of measures of answers, given together or one by one. Raises MeasureError for any other name."""
    names = (measures if isinstance(measures, str) else " ".join(measures)).replace(",", " ").split()
    for name in names:
        if name not in ANSWER_MEASURES:
            known = ", ".join(ANSWER_MEASURES)
            raise MeasureError(f"{name!r} is not a measure of answers; they are {known}")
    if not names:
        raise MeasureError("no measure is given")
    return tuple(dict.fromkeys(names))
