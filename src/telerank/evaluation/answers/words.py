"""The words of an answer: what two texts may differ in and still be the same answer.

Case, punctuation, articles, forms of letters and the spelling of numbers do not count. What changes the
meaning of a word or a number is a word of its own, a *sign*: those of units and amounts (``%``, ``€``),
of calculating (``+``, ``<``), a minus before a number or at the end of a word (``-5``, ``AB-``), and ``#``,
``&``, ``@``, ``§``, ``°``. The French normalisation
(:func:`~telerank.evaluation.answers.overlap.normalise_french`) is these words without signs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

ARTICLES: Mapping[str, frozenset[str]] = {
    "en": frozenset(["a", "an", "the"]),
    "fr": frozenset(["le", "la", "les", "un", "une", "des", "du", "au", "aux"]),
}
"""Articles by language, contracted ones among them; French ``l'`` is known by its apostrophe."""

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
_SIGN_KINDS = frozenset(["Sc", "Sm"])
"""Categories of Unicode: currencies and mathematics."""

_ARTICLE_L = "\N{WORD JOINER}l"
_POINT, _APOSTROPHE, _RAISED = "\N{INVISIBLE SEPARATOR}", "\N{INVISIBLE TIMES}", "\N{INVISIBLE PLUS}"
"""Characters that no folded text has: the article ``l``, which is no letter as in ``50 l``; in a number; in
``quelqu'un``; before an exponent."""
_MINUS_SIGN, _SLASH = "\N{MINUS SIGN}", "\N{FRACTION SLASH}"
"""Characters that no folded text has, either, and that are signs."""


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
        plain = _ELISION.sub(_split_elision, _ONE_WORD.sub(rf"\1{_APOSTROPHE}", plain))
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


def _split_elision(match: re.Match[str]) -> str:
    return f"{_ARTICLE_L if match[1] == 'l' else match[1]} "


def _separate(character: str) -> str:
    """A sign by itself, a blank for any other punctuation and symbol."""
    if is_sign(character):
        return f" {character} "
    return " " if unicodedata.category(character)[0] in "PSZ" else character
