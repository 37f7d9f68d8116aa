"""Explanations of scores as the page shows them: in its language, with the share that each part adds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from telerank.service.page.messages import Messages
from telerank.types import Explanation

_ROUNDING = "rounding to float32"  # less than any digit that is shown
_NUMBER = r"-?[\d.]+(?:e[+-]?\d+)?|-?inf|nan"
_TERM = r"(?:'(?P<term>.*)'|\"(?P<term2>.*)\")"
_UNREAD = r": not read, beyond (?P<k>\d+) tokens"
_SEGMENT = r"segment (?P<n>\d+) of (?P<of>\d+), characters [\d,]+ to [\d,]+(?:, times [^:]+)?: “(?P<text>.*)”"


class _Phrase(NamedTuple):
    """A pattern of the library's descriptions, and what the page says instead."""

    pattern: str
    english: str
    french: str


_PHRASES = (
    _Phrase(
        rf"{_TERM}: tf (?P<tf>\d+), df (?P<df>\d+), cf \d+",
        "“{term}”: {tf} × in this document; {df} documents have it",
        "«~{term}~»~: {tf} fois dans ce document~; documents qui l’ont~: {df}",
    ),
    _Phrase(
        rf"{_TERM}: tf (?P<tf>\d+), df (?P<df>\d+), cf \d+, (?P<times>\d+) times in the query",
        "“{term}”, {times} × in the query: {tf} × in this document; {df} documents have it",
        "«~{term}~», {times} fois dans la question~: {tf} fois dans ce document~; documents qui l’ont~: {df}",
    ),
    _Phrase(
        rf"{_TERM}: not in the document \(df (?P<df>\d+)\)",
        "“{term}”: not in this document; {df} documents have it",
        "«~{term}~»~: absent de ce document~; documents qui l’ont~: {df}",
    ),
    _Phrase(
        r"(?P<model>.+) of a document of (?P<terms>\d+) terms",
        "{model} of a document of {terms} words",
        "{model} d’un document de {terms} mots",
    ),
    _Phrase(
        r"length of the query's vector", "length of the query’s vector", "longueur du vecteur de la question"
    ),
    _Phrase(
        r"length of the document's vector",
        "length of the document’s vector",
        "longueur du vecteur du document",
    ),
    _Phrase(r"cosine of the angle between them", "cosine of the angle between them", "cosinus de leur angle"),
    _Phrase(
        r"inner product of (?P<n>\d+) dimensions, by (?P<model>.+): the product of",
        "inner product in {n} dimensions, by {model}: the product of",
        "produit scalaire en {n} dimensions, par {model}~: le produit de",
    ),
    _Phrase(r"logit by (?P<model>.+)", "score by the model {model}", "score du modèle {model}"),
    _Phrase(
        r"what single sentences add, in all",
        "what single sentences add, in all",
        "ce que les phrases ajoutent une à une, en tout",
    ),
    _Phrase(
        r"sentence (?P<n>\d+), “(?P<text>.*)”: without it (?P<value>[^:“”]+)",
        "sentence {n}, “{text}” (without it: {value})",
        "phrase {n}, «~{text}~» (sans elle~: {value})",
    ),
    _Phrase(r"sentence (?P<n>\d+), “(?P<text>.*)”", "sentence {n}, “{text}”", "phrase {n}, «~{text}~»"),
    _Phrase(
        rf"sentence (?P<n>\d+){_UNREAD}",
        "sentence {n}, beyond the {k} tokens that the model reads",
        "phrase {n}, au-delà des {k} tokens que lit le modèle",
    ),
    _Phrase(
        rf"sentences (?P<n>\d+) to (?P<of>\d+){_UNREAD}",
        "sentences {n} to {of}, beyond the {k} tokens that the model reads",
        "phrases {n} à {of}, au-delà des {k} tokens que lit le modèle",
    ),
    _Phrase(rf"(?P<weight>{_NUMBER}) times", "{weight} times", "{weight} fois"),
    _Phrase(r"sum of", "sum of", "somme de"),
    _Phrase(r"an unknown document there", "unknown there", "inconnu dans cette liste"),
    _Phrase(
        r"not among the (?P<n>\d+) retrieved there",
        "not among the {n} found there",
        "pas parmi les {n} trouvés dans cette liste",
    ),
    _Phrase(r"not in this list", "not in this list", "absent de cette liste"),
    _Phrase(r"rank (?P<n>\d+)", "rank {n}", "rang {n}"),
    _Phrase(r"sum of 1 / \((?P<k>[\d.]+) \+ rank\)", "sum of 1 / ({k} + rank)", "somme de 1 / ({k} + rang)"),
    _Phrase(
        r"1 / rank (?P<n>\d+) of the lists in turns",
        "rank {n} of the lists in turns",
        "rang {n} des listes prises tour à tour",
    ),
    _Phrase(
        rf"between the least \((?P<least>{_NUMBER})\) and the greatest \((?P<most>{_NUMBER})\) "
        r"of (?P<n>\d+) scores",
        "scaled between the least ({least}) and the greatest ({most}) of {n} scores",
        "ramené entre le plus petit ({least}) et le plus grand ({most}) de {n} scores",
    ),
    _Phrase(r"sigmoid of", "as a probability: sigmoid of", "en probabilité~: sigmoïde de"),
    _Phrase(r"the score in (?P<file>.+)", "the score in {file}", "le score dans {file}"),
    _Phrase(
        r"the first of (?P<n>\d+) segments? by (?P<model>.+)",
        "the first of {n} passages, by {model}",
        "le premier de {n} passages, par {model}",
    ),
    _Phrase(
        r"the greatest of (?P<n>\d+) segments? by (?P<model>.+)",
        "the best of {n} passages, by {model}",
        "le meilleur de {n} passages, par {model}",
    ),
    _Phrase(
        r"the mean of (?P<n>\d+) segments? by (?P<model>.+)",
        "the mean of {n} passages, by {model}",
        "la moyenne de {n} passages, par {model}",
    ),
    _Phrase(
        r"the sum of (?P<n>\d+) segments? by (?P<model>.+)",
        "the sum of {n} passages, by {model}",
        "la somme de {n} passages, par {model}",
    ),
    _Phrase(
        r"the mean of the (?P<k>\d+) best of (?P<n>\d+) segments? by (?P<model>.+)",
        "the mean of the {k} best of {n} passages, by {model}",
        "la moyenne des {k} meilleurs de {n} passages, par {model}",
    ),
    _Phrase(
        r"the weighted sum of the (?P<k>\d+) best of (?P<n>\d+) segments? by (?P<model>.+)",
        "the weighted sum of the {k} best of {n} passages, by {model}",
        "la somme pondérée des {k} meilleurs de {n} passages, par {model}",
    ),
    _Phrase(
        _SEGMENT,
        "passage {n} of {of}: “{text}”",
        "passage {n} sur {of}~: «~{text}~»",
    ),
    _Phrase(
        rf"{_SEGMENT}, which counts most",
        "passage {n} of {of}, which counts most: “{text}”",
        "passage {n} sur {of}, qui compte le plus~: «~{text}~»",
    ),
    _Phrase(
        r"the best of (?P<n>\d+) more segments",
        "the best of {n} more passages",
        "le meilleur de {n} autres passages",
    ),
    _Phrase(
        rf"(?P<weight>{_NUMBER}) times (?P<value>{_NUMBER}), scaled to \[0, 1\] over the ranking",
        "{weight} times {value}, scaled to [0, 1] over the ranking",
        "{weight} fois {value}, ramené à [0, 1] dans le classement",
    ),
    _Phrase(
        rf"(?P<weight>{_NUMBER}) times (?P<value>{_NUMBER}), of the first stage",
        "{weight} times {value}, of the first stage",
        "{weight} fois {value}, de la première étape",
    ),
    _Phrase(r"gates of episode (?P<n>\d+)", "gates of episode {n}", "portes de l’épisode {n}"),
    _Phrase(r"attention over the words", "attention to the words", "attention portée aux mots"),
    _Phrase(
        r"number (?P<n>\d+) by the tokens \(.*\)",
        "sentence {n} by the tokens, one of which spans several sentences",
        "phrase {n} selon les tokens, dont un couvre plusieurs phrases",
    ),
    _Phrase(
        rf"(?P<weight>{_NUMBER}) times (?P<value>{_NUMBER}), the kernel at (?P<least>{_NUMBER}) "
        rf"\(width (?P<most>{_NUMBER})\)",
        "{weight} times {value}, the kernel at {least} (width {most})",
        "{weight} fois {value}, le noyau en {least} (largeur {most})",
    ),
    _Phrase(r"bias", "bias", "biais"),
    _Phrase(r"\(a word without a vector\)", "(a word without a vector)", "(un mot sans vecteur)"),
    _Phrase(
        r"the score is the tanh of the sum of",
        "the score is the tanh of the sum of",
        "le score est la tanh de la somme de",
    ),
)
_OVER_WORDS = "attention over the words"
_UNREAD_PART = re.compile(rf"sentences? [\d to]+{_UNREAD}")
_COMPILED = tuple((re.compile(phrase.pattern, re.DOTALL), phrase) for phrase in _PHRASES)


@dataclass(frozen=True)
class Reason:
    """A part of a score: what it is, its value, and its share of what the parts beside it add, from -1 to 1.

    ``share`` is None if the parts do not sum to the whole. ``is_foreign`` says that the description is
    the library's own, in English.
    """

    text: str
    value: str
    share: float | None
    parts: tuple[Reason, ...]
    is_foreign: bool = False


def reasons(explanation: Explanation, say: Messages, words: Mapping[str, str]) -> Reason:
    """An explanation in the language of the page; ``words`` are the query's by their terms."""
    return _reason(explanation, say, words, None)


def describe(what: str, say: Messages, words: Mapping[str, str]) -> str | None:
    """A description of the library in the language of the page, or None if it is not known."""
    for pattern, phrase in _COMPILED:
        if match := pattern.fullmatch(what):
            text = phrase.french if say.language == "fr" else phrase.english
            values = {
                name.rstrip("2"): value for name, value in match.groupdict().items() if value is not None
            }
            if "term" in values:
                values["term"] = words.get(values["term"], values["term"])
            return text.replace("~", "\u202f").format(**_shown(values, say))
    return None


def _reason(explanation: Explanation, say: Messages, words: Mapping[str, str], share: float | None) -> Reason:
    whole = sum(abs(part.value) for part in explanation.parts)
    adds = is_sum(explanation) and whole > 0
    parts = tuple(
        _reason(part, say, words, part.value / whole if adds else None)
        for part in explanation.parts
        if part.what != _ROUNDING
    )
    if explanation.what == _OVER_WORDS:  # its parts are words of the document
        parts = tuple(replace(part, is_foreign=False) for part in parts)
    text = describe(explanation.what, say, words)
    if _UNREAD_PART.fullmatch(explanation.what):
        return Reason(text or explanation.what, say("explain.unread"), None, ())
    return Reason(
        text or explanation.what, say.score(explanation.value), share, parts, is_foreign=text is None
    )


def is_sum(explanation: Explanation) -> bool:
    """Whether the parts, two or more, sum to the value."""
    values = [part.value for part in explanation.parts]
    return len(values) > 1 and math.isclose(sum(values), explanation.value, rel_tol=1e-4, abs_tol=1e-6)


def _shown(values: Mapping[str, str], say: Messages) -> dict[str, str]:
    """Numbers in the way of the language; texts as they are."""
    shown = dict(values)
    for name in ("tf", "df", "times", "terms", "n", "of"):
        if name in shown:
            shown[name] = say.number(int(shown[name]))
    for name in ("weight", "value", "least", "most", "k"):
        if name in shown:
            shown[name] = say.score(float(shown[name])) if name != "k" else f"{float(shown[name]):g}"
    return shown
