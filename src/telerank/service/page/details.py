"""What the service says of a request that it refuses, in the language of the page as far as it is known."""

from __future__ import annotations

import re
from typing import NamedTuple

from telerank.service.page.messages import NARROW, Messages

_FRENCH = (
    (r"the query has ([\d,]+) characters, at most ([\d,]+)", "la recherche a {0} caractères, {1} au plus"),
    (r"the pipeline has ([\d,]+) characters, at most ([\d,]+)", "la méthode a {0} caractères, {1} au plus"),
    (r"page (\d+): there are pages 1 to (\d+)", "page {0}~: il y a les pages 1 à {1}"),
    (r"query.page: Input should be .*", "page~: un nombre entier à partir de 1 est attendu"),
    (r"query.docno: Field required", "docno~: il manque le numéro du document"),
    (r"grade: expected a whole number, got .*", "grade~: un nombre entier est attendu"),
    (r"query: expected a text that is not empty", "la recherche est vide"),
    (r".*: no vectors of (.*) \(there are: none\).*", "cet index n’a pas de vecteurs de {0}"),
    (r"no pipeline of that name is saved with the index (.*)", "l’index {0} n’a pas de méthode de ce nom"),
    (
        r"the pipeline (.*) ends in read: its answers are no ranking",
        "{0} donne des réponses, et non un classement",
    ),
)
_KNOWN = tuple((re.compile(pattern, re.DOTALL), text.replace("~", NARROW)) for pattern, text in _FRENCH)


class Detail(NamedTuple):
    """A line about a request; empty if there is none. ``is_foreign``: it is not in the page's language."""

    text: str
    is_foreign: bool = False


def describe_detail(text: str, say: Messages) -> Detail:
    """What the service says, in English, for a page: what has no translation stays as it is."""
    if not text or say.language == "en":
        return Detail(text)
    for pattern, french in _KNOWN:
        if match := pattern.fullmatch(text):
            return Detail(french.format(*(group.replace(",", NARROW) for group in match.groups())))
    return Detail(text, is_foreign=True)
