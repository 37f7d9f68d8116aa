"""Normalisations of answers: what two texts may differ in and still be the same answer.

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
from collections.abc import Callable, Mapping

from telerank.evaluation.answers.words import is_sign, show_word, split_words, without_articles

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


Normalisation = Callable[[str], str]

NORMALISATIONS: Mapping[str, Normalisation] = {"squad": normalise_squad, "fr": normalise_french}
"""The normalisations by name."""
