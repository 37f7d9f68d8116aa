"""What the library says, in the language of the page: explanations of scores, why a request is refused."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import NamedTuple

from telerank.service.page.messages import NARROW, Messages
from telerank.types import Explanation, Phrase

_ROUNDING = "rounding to float32"  # less than any digit that is shown
_OVER_WORDS = "attention over the words"
_UNREAD = ": not read, beyond {k} tokens"
_SEGMENT = "segment {n} of {of}, characters {span.start:,} to {span.end:,}{weight}: “{text}”"
_FED_BACK = (
    "{term!r}, weight {weight:.4f}: {query:.4f} from the query, {feedback:.4f} from {n} of {of} documents"
)
_WEIGHT = (
    "“{term}”, weight {weight} ({query} from the query, {feedback} from {n} of {of} documents)",
    "«~{term}~», poids {weight} ({query} de la question, {feedback} de {n} documents sur {of})",
)

PHRASES: Mapping[str, tuple[str, str]] = {
    "{term!r}: tf {tf}, df {df}, cf {cf}": (
        "“{term}”: {tf} × in this document; {df} documents have it",
        "«~{term}~»~: {tf} fois dans ce document~; documents qui l’ont~: {df}",
    ),
    "{term!r}: tf {tf}, df {df}, cf {cf}, {times} times in the query": (
        "“{term}”, {times} × in the query: {tf} × in this document; {df} documents have it",
        "«~{term}~», {times} fois dans la question~: {tf} fois dans ce document~; documents qui l’ont~: {df}",
    ),
    "{term!r}: weight {weight:g}, times {times:g} of the query": (
        "“{term}”: weight {weight} in this document, times {times} of the query",
        "«~{term}~»~: poids {weight} dans ce document, fois {times} de la question",
    ),
    "{field}: tf {tf} of {terms} terms, weight {weight:g}; counts {counted:.4f}": (
        "{field}: {tf} × in {terms} words, weight {weight}; counts {counted}",
        "{field}~: {tf} fois dans {terms} mots, poids {weight}~; compte pour {counted}",
    ),
    _FED_BACK + "; tf {tf}, df {df}, cf {cf}": (
        f"{_WEIGHT[0]}: {{tf}} × in this document; {{df}} documents have it",
        f"{_WEIGHT[1]}~: {{tf}} fois dans ce document~; documents qui l’ont~: {{df}}",
    ),
    _FED_BACK + "; not in the document (df {df})": (
        f"{_WEIGHT[0]}: not in this document; {{df}} documents have it",
        f"{_WEIGHT[1]}~: absent de ce document~; documents qui l’ont~: {{df}}",
    ),
    "{model}, by {method} of {n} documents": (
        "{model}, with terms of the first {n} documents ({method})",
        "{model}, avec des termes des {n} premiers documents ({method})",
    ),
    "{model}, terms of {docno}": ("{model}, with terms of {docno}", "{model}, avec des termes de {docno}"),
    "{weight:g} times the query's vector": (
        "{weight} times the query’s vector",
        "{weight} fois le vecteur de la question",
    ),
    "{weight:g} times the vector of {docno}": (
        "{weight} times the vector of {docno}",
        "{weight} fois le vecteur de {docno}",
    ),
    "inner product of {n} dimensions, by {model}, with the sum of": (
        "inner product in {n} dimensions, by {model}, with the sum of",
        "produit scalaire en {n} dimensions, par {model}, avec la somme de",
    ),
    "{term!r}: not in the document (df {df})": (
        "“{term}”: not in this document; {df} documents have it",
        "«~{term}~»~: absent de ce document~; documents qui l’ont~: {df}",
    ),
    "{word!r}: in the document": ("“{word}”: in this document", "«~{word}~»~: dans ce document"),
    "{word!r}: not in the document": ("“{word}”: not in this document", "«~{word}~»~: absent de ce document"),
    "{word!r}: has no term, and stands for nothing": (
        "“{word}” is too common a word to count",
        "«~{word}~» est un mot trop courant pour compter",
    ),
    "{word!r}: so is the document": ("“{word}”: so is this document", "«~{word}~»~: ce document est ainsi"),
    "{word!r}: the document is not": (
        "“{word}”: this document is not so",
        "«~{word}~»~: ce document n’est pas ainsi",
    ),
    "listed, since the query has no words that rank": (
        "listed, since the search has no words that rank",
        "listé, car la recherche n’a pas de mots qui comptent pour le classement",
    ),
    "fulfils the expression {query}": ("fulfils the expression {query}", "remplit l’expression {query}"),
    "does not fulfil the expression {query}": (
        "does not fulfil the expression {query}",
        "ne remplit pas l’expression {query}",
    ),
    "{model}: the sum of weights of terms times those of the query": (
        "{model}: the sum of weights of terms times those of the query",
        "{model}~: la somme des poids des termes, fois ceux de la question",
    ),
    "{model} of a document of {terms} terms": (
        "{model} of a document of {terms} words",
        "{model} d’un document de {terms} mots",
    ),
    "length of the query's vector": ("length of the query’s vector", "longueur du vecteur de la question"),
    "length of the document's vector": ("length of the document’s vector", "longueur du vecteur du document"),
    "cosine of the angle between them": ("cosine of the angle between them", "cosinus de leur angle"),
    "inner product of {n} dimensions, by {model}: the product of": (
        "inner product in {n} dimensions, by {model}: the product of",
        "produit scalaire en {n} dimensions, par {model}~: le produit de",
    ),
    "logit by {model}": ("score by the model {model}", "score du modèle {model}"),
    "logit by {model}, which reads {fields}": (
        "score by the model {model}, which reads {fields}",
        "score du modèle {model}, qui lit {fields}",
    ),
    "synonyms of the file {file}": ("synonyms, of the file {file}", "synonymes, du fichier {file}"),
    "what single sentences add, in all": (
        "what single sentences add, in all",
        "ce que les phrases ajoutent une à une, en tout",
    ),
    "sentence {n}, “{text}”: without it {value:.4g}": (
        "sentence {n}, “{text}” (without it: {value})",
        "phrase {n}, «~{text}~» (sans elle~: {value})",
    ),
    "sentence {n}, “{text}”": ("sentence {n}, “{text}”", "phrase {n}, «~{text}~»"),
    "sentence {n}" + _UNREAD: (
        "sentence {n}, beyond the {k} tokens that the model reads",
        "phrase {n}, au-delà des {k} tokens que lit le modèle",
    ),
    "sentences {n} to {of}" + _UNREAD: (
        "sentences {n} to {of}, beyond the {k} tokens that the model reads",
        "phrases {n} à {of}, au-delà des {k} tokens que lit le modèle",
    ),
    "{weight} times": ("{weight} times", "{weight} fois"),
    "{weight:g} times": ("{weight} times", "{weight} fois"),
    "sum of": ("sum of", "somme de"),
    "an unknown document there": ("unknown there", "inconnu dans cette liste"),
    "not among the {n} retrieved there": (
        "not among the {n} found there",
        "pas parmi les {n} trouvés dans cette liste",
    ),
    "not in this list": ("not in this list", "absent de cette liste"),
    "a candidate that {stage} lacks": ("a candidate that {stage} lacks", "un candidat absent de {stage}"),
    "rank {n}": ("rank {n}", "rang {n}"),
    "sum of 1 / ({k} + rank)": ("sum of 1 / ({k} + rank)", "somme de 1 / ({k} + rang)"),
    "1 / rank {n} of the lists in turns": (
        "rank {n} of the lists in turns",
        "rang {n} des listes prises tour à tour",
    ),
    "between the least ({least:.6g}) and the greatest ({most:.6g}) of {n} scores": (
        "scaled between the least ({least}) and the greatest ({most}) of {n} scores",
        "ramené entre le plus petit ({least}) et le plus grand ({most}) de {n} scores",
    ),
    "share of {n} scores, by softmax": (
        "as a share of the {n} scores there (softmax) of",
        "en part des {n} scores de cette liste (softmax)~:",
    ),
    "sigmoid of": ("as a probability: sigmoid of", "en probabilité~: sigmoïde de"),
    "the best of {n} passages of {file} in the ranking": (
        "the best of {n} passages of {file} in the ranking",
        "le meilleur des {n} passages de {file} dans le classement",
    ),
    "the only passage of {file} in the ranking": (
        "the only passage of {file} in the ranking",
        "le seul passage de {file} dans le classement",
    ),
    "{best} stands for the file {file}: its score is higher": (
        "{best} stands for the file {file}: its score is higher",
        "{best} représente le fichier {file}~: son score est plus élevé",
    ),
    "the score in {file}": ("the score in {file}", "le score dans {file}"),
    "the first of {n} segment{plural} by {model}": (
        "the first of {n} passages, by {model}",
        "le premier de {n} passages, par {model}",
    ),
    "the greatest of {n} segment{plural} by {model}": (
        "the best of {n} passages, by {model}",
        "le meilleur de {n} passages, par {model}",
    ),
    "the mean of {n} segment{plural} by {model}": (
        "the mean of {n} passages, by {model}",
        "la moyenne de {n} passages, par {model}",
    ),
    "the sum of {n} segment{plural} by {model}": (
        "the sum of {n} passages, by {model}",
        "la somme de {n} passages, par {model}",
    ),
    "the mean of the {k} best of {n} segment{plural} by {model}": (
        "the mean of the {k} best of {n} passages, by {model}",
        "la moyenne des {k} meilleurs de {n} passages, par {model}",
    ),
    "the weighted sum of the {k} best of {n} segment{plural} by {model}": (
        "the weighted sum of the {k} best of {n} passages, by {model}",
        "la somme pondérée des {k} meilleurs de {n} passages, par {model}",
    ),
    _SEGMENT: ("passage {n} of {of}: “{text}”", "passage {n} sur {of}~: «~{text}~»"),
    _SEGMENT + ", which counts most": (
        "passage {n} of {of}, which counts most: “{text}”",
        "passage {n} sur {of}, qui compte le plus~: «~{text}~»",
    ),
    "the best of {n} more segments": (
        "the best of {n} more passages",
        "le meilleur de {n} autres passages",
    ),
    "{weight:g} times {value:.6g}, scaled to [0, 1] over the ranking": (
        "{weight} times {value}, scaled to [0, 1] over the ranking",
        "{weight} fois {value}, ramené à [0, 1] dans le classement",
    ),
    "{weight:g} times {value:.6g}, of the first stage": (
        "{weight} times {value}, of the first stage",
        "{weight} fois {value}, de la première étape",
    ),
    "gates of episode {n}": ("gates of episode {n}", "portes de l’épisode {n}"),
    _OVER_WORDS: ("attention to the words", "attention portée aux mots"),
    "number {n} by the tokens ({error})": (
        "sentence {n} by the tokens, one of which spans several sentences",
        "phrase {n} selon les tokens, dont un couvre plusieurs phrases",
    ),
    "n-grams of {n} words of the query and of {of} words of the document": (
        "groups of {n} words of the query and of {of} words of the document",
        "groupes de {n} mots de la question et de {of} mots du document",
    ),
    "what single words of the query add, in all": (
        "what single words of the query add, in all",
        "ce que les mots de la question ajoutent un à un, en tout",
    ),
    "{weight:.4g} times {value:.4g}, the kernel at {least} (width {most})": (
        "{weight} times {value}, the kernel at {least} (width {most})",
        "{weight} fois {value}, le noyau en {least} (largeur {most})",
    ),
    "bias": ("bias", "biais"),
    "(a word without a vector)": ("(a word without a vector)", "(un mot sans vecteur)"),
    "the score is the tanh of the sum of": (
        "the score is the tanh of the sum of",
        "le score est la tanh de la somme de",
    ),
}
"""What the page says, in English and in French, by the templates of the library's descriptions."""


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


def reasons(
    explanation: Explanation, say: Messages, words: Mapping[str, str], share: float | None = None
) -> Reason:
    """An explanation in the language of the page; ``words`` are the query's by their terms."""
    values = [part.value for part in explanation.parts]
    whole = sum(map(abs, values))
    # the parts, two or more, sum to the value
    adds = len(values) > 1 and whole > 0
    adds = adds and math.isclose(sum(values), explanation.value, rel_tol=1e-4, abs_tol=1e-6)
    parts = tuple(
        reasons(part, say, words, part.value / whole if adds else None)
        for part in explanation.parts
        if part.what != _ROUNDING
    )
    what = explanation.what
    if what == _OVER_WORDS:  # its parts are words of the document
        parts = tuple(replace(part, is_foreign=False) for part in parts)
    text = describe(what, say, words)
    if isinstance(what, Phrase) and what.template.endswith(_UNREAD):
        return Reason(text or what, say("explain.unread"), None, ())
    return Reason(text or what, say.score(explanation.value), share, parts, is_foreign=text is None)


def describe(what: str, say: Messages, words: Mapping[str, str]) -> str | None:
    """A description of the library in the language of the page, or None if it is not known."""
    template, facts = (what.template, what.facts) if isinstance(what, Phrase) else (what, {})
    if template not in PHRASES:
        return None
    english, french = PHRASES[template]
    shown: dict[str, object] = {}
    for name, fact in facts.items():
        if isinstance(fact, Integral):
            shown[name] = say.number(int(fact))
        elif isinstance(fact, Real):
            shown[name] = say.score(float(fact))
        else:
            shown[name] = words.get(fact, fact) if name == "term" else fact
    return (french.replace("~", NARROW) if say.language == "fr" else english).format(**shown)


_FRENCH = (
    (r".*: a quotation mark (\S) that is not closed .*", "un guillemet {0} n’est pas fermé"),
    (r".*: expected a word after (\w+|\() .*", "il manque un mot après {0}"),
    (r".*: expected a word before (\w+|\)) .*", "il manque un mot avant {0}"),
    (r".*: '\(' without '\)' .*", "une parenthèse n’est pas fermée"),
    (r".*: expected '\(' before \) .*", "une parenthèse est fermée sans être ouverte"),
    (r"(.*): the column (\S+) is a \w+", "{0}~: la colonne {1} a d’autres valeurs"),
    (r".*: a phrase of more than (\d+) words .*", "une expression exacte a {0} mots au plus"),
    (r"more than (\d+) words and conditions", "il y a plus de {0} mots et conditions"),
    (r"(.*): is no column of the documents.*", "{0} n’est pas une colonne des documents"),
    (r"(.*): \* counts at the end of a word, .*", "{0}~: * compte à la fin d’un mot, après deux lettres"),
    (r"the query has ([\d,]+) characters, at most ([\d,]+)", "la recherche a {0} caractères, {1} au plus"),
    (r"the pipeline has ([\d,]+) characters, at most ([\d,]+)", "la méthode a {0} caractères, {1} au plus"),
    (r"page (\d+): there are pages 1 to (\d+)", "page {0}~: il y a les pages 1 à {1}"),
    (r"query.page: Input should be .*", "page~: un nombre entier à partir de 1 est attendu"),
    (r"query.group: Input should be .*", "group~: seule la valeur «~file~» est connue"),
    (r"query.docno: Field required", "docno~: il manque le numéro du document"),
    (r"grade: expected a whole number, got .*", "grade~: un nombre entier est attendu"),
    (r"query: expected a text that is not empty", "la recherche est vide"),
    (r".*: no vectors of (\S*) \(.*\).*", "cet index n’a pas de vecteurs de {0}"),
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
