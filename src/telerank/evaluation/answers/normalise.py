"""Normalisations of answers: what two texts may differ in and still be the same answer.

``squad``
    As SQuAD's evaluation scripts (Rajpurkar et al., 2016 and 2018): lower case, ASCII punctuation and the
    English articles removed. On French it joins an elided word to the next (``l'homme`` is ``lhomme``), knows
    neither ``’`` nor ``« »``, and removes the word ``a``.
``fr``
    For French: lower case, NFKC, elisions split, French articles, quotation marks and other punctuation
    removed. Accents stay: ``ou`` is not ``où``.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable, Mapping

_ASCII_PUNCTUATION = dict.fromkeys(map(ord, string.punctuation))
_ENGLISH_ARTICLES = re.compile(r"\b(?:a|an|the)\b")

FRENCH_ARTICLES = frozenset(["le", "la", "les", "un", "une", "des", "du", "au", "aux"])
"""Articles, contracted ones among them; ``l'`` is known by its apostrophe."""
_LETTERS = str.maketrans(dict.fromkeys("’‘‛ʼʹ′´`＇", "'") | {"œ": "oe", "æ": "ae"})
_ELISION = re.compile(r"\b(jusqu|lorsqu|puisqu|quoiqu|qu|[cdjlmnst])'(?=\W*\w)")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:[ \u00a0\u2009\u202f]\d{3})+(?!\d)")
_DECIMAL = re.compile(r"(?<=\d)[.,](?=\d)")
_MARK = "\N{WORD JOINER}"
"""A character that no text has here: before the article ``l``, which is no letter as in ``50 l``; in a
number."""


def normalise_squad(text: str) -> str:
    """As ``normalize_answer`` of SQuAD's scripts; the result may be empty."""
    kept = text.lower().translate(_ASCII_PUNCTUATION)
    return " ".join(_ENGLISH_ARTICLES.sub(" ", kept).split())


def normalise_french(text: str) -> str:
    """Words without articles; the articles themselves if there is nothing else (``Un`` may be a number).

    Punctuation separates words (``dix-sept`` is ``dix sept``), but not the digits of a number: ``3,5`` and
    ``3.5`` are ``3,5``, and ``1 500`` is ``1500``. A text of punctuation alone is empty.
    """
    lower = "".join(c for c in text.lower().translate(_LETTERS) if unicodedata.category(c) != "Cf")
    plain = unicodedata.normalize("NFKC", _THOUSANDS.sub(_join_digits, lower)).translate(_LETTERS)
    split = _ELISION.sub(lambda match: f"{_mark_article(match[1])} ", plain)
    words = "".join(map(_space, _DECIMAL.sub(_MARK, split))).split()
    kept = [word for word in words if word not in FRENCH_ARTICLES and word != _MARK + "l"]
    return " ".join(kept or words).replace(_MARK + "l", "l").replace(_MARK, ",")


Normalisation = Callable[[str], str]

NORMALISATIONS: Mapping[str, Normalisation] = {"squad": normalise_squad, "fr": normalise_french}
"""The normalisations by name."""


def _join_digits(match: re.Match[str]) -> str:
    return "".join(match[0].split())


def _mark_article(word: str) -> str:
    return f"{_MARK}l" if word == "l" else word


def _space(character: str) -> str:
    """A blank for punctuation and for symbols, which SQuAD removes, too, if they are ASCII."""
    return " " if unicodedata.category(character)[0] in "PSZ" else character
