"""Follow-ups: a question that needs the one before it is completed from it, by rules, in French and English.

=============  ===============================================================================================
``as typed``   nothing refers back: no "et …", "and …", "what about …" at the beginning, and no pronoun or
               possessive without a noun of its own before it ("Est-il ouvert ?", "Where does it flow?")
``replaced``   "et …" and no question of its own: a phrase with a preposition that the earlier question has
               takes the place of that one ("un passeport pour un adulte", "et pour un mineur ?"); a phrase
               with a name that of its last name ("le coéquipier de Prost", "et de Garnier ?")
``appended``   any other phrase stands behind the earlier question
``topic``      what has a question of its own or a possessive keeps it, and the names of the earlier question
               stand before it, or its other content words if it has no name ("Vizzavona : sa longueur ?")
=============  ===============================================================================================

Nothing is known of words but those that are listed here and in the stop words: no dictionary, no model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from telerank.text.steps import stop_words

Language: TypeAlias = Literal["fr", "en"]
Rule: TypeAlias = Literal["as typed", "replaced", "appended", "topic"]
# Questions before that are looked at.
KEPT = 5
_WORD = re.compile(r"[^\W_]+(?:[-.][^\W_]+)*")
_END = " \u00a0\u202f?.!…;,:"


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A question as it was ``typed``, and ``text``, which is completed from ``earlier`` by ``rule``."""

    typed: str
    text: str
    rule: Rule = "as typed"
    earlier: str = ""


@dataclass(frozen=True)
class _LanguageRules:
    """What the rules know of a language; expressions are of lower-case texts."""

    stop: frozenset[str]
    marker: re.Pattern[str]
    asks: re.Pattern[str]
    refers: re.Pattern[str]
    objects: re.Pattern[str]
    impersonal: re.Pattern[str]
    articles: frozenset[str]
    prepositions: frozenset[str]
    joins: frozenset[str]  # words within a name
    colon: str
    mark: str


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _any(*words: str) -> str:
    return rf"(?<![\w-])(?:{'|'.join(words)})(?![\w-])"


_FRENCH = _LanguageRules(
    stop_words("french") | _set("quel quelle quels quelles quand comment combien pourquoi où"),
    re.compile(r"(?:(?:et|mais)(?: puis| alors)?|qu['’]en est-il(?= d| p))(?![\w'’-])[\s,]*"),
    re.compile(
        _any(
            *("quels?", "quelles?", "qui", "que", "quoi", "où", "quand", "comment", "combien", "pourquoi"),
            *("lequel", "laquelle", "lesquels", "est-ce", r"[\w-]+-(?:ils?|elles?|on)"),
        )
        + r"|(?<![\w-])qu['’]"
    ),
    re.compile(
        _any(
            *(
                "ils?",
                "elles?",
                r"[\w-]+-(?:ils?|elles?)",
                "leurs?",
                "son",
                "sa",
                "ses",
                "cet",
                "cette",
                "ces",
            ),
            *("cel(?:le|ui)s?(?:-ci)?", "ceux(?:-ci)?", "cela", "ça"),
        )
    ),
    re.compile(_any("lui", "y", r"en (?=est|sont|a|ont|était|étaient|avait|fait)", r"[\w-]+-(?:la|le|les)")),
    re.compile(r"\bil faut|\bil y a|\bfaut-il|\by a-t-il|\bs['’]agit-il|\bcoûte-t-il (?=d[e'’])"),
    _set("le la les l un une du au aux mon ma mes notre nos votre vos"),
    _set("pour sur avec sans dans en à chez contre depuis pendant avant après entre vers par sous au aux"),
    _set("de du des d la le les l et en"),
    " : ",
    " ?",
)
_ENGLISH = _LanguageRules(
    stop_words("english") | _set("i what which who whom whose when where why how"),
    re.compile(r"(?:(?:and|but)(?: what about| how about| then)?|what about|how about)(?![\w'’-])[\s,]*"),
    re.compile(
        _any("what", "which", "who", "whom", "whose", "when", "where", "why", "how")
        + r"|^(?:is|are|was|were|do|does|did|can|could|has|have|had|will|would|should|must)\b"
    ),
    re.compile(_any("it", "its", "he", "his", "she", "hers?", "they", "theirs?", "this", "these", "those")),
    re.compile(_any("him", "them")),
    re.compile(r"\b(?:is|was) it (?=possible|necessary|true|legal|allowed)|\b(?:does )?it takes?\b"),
    _set("the a an my our your"),
    _set("for in on with without to at from by during before after since between against about under over"),
    _set("of the and de la van von"),
    ": ",
    "?",
)
_LANGUAGES: dict[Language, _LanguageRules] = {"fr": _FRENCH, "en": _ENGLISH}


def follow_up(question: str, history: Sequence[str], language: Language | None = None) -> FollowUp:
    """A question completed from those before it, the last one last; as typed if it needs none.

    Of the ``history`` the last five count, each completed from those before it. ``language`` None: the one of
    which the questions have more stop words.
    """
    earlier = ""
    for before in history[-KEPT:]:
        earlier = _complete(before, earlier, language).text
    return _complete(question, earlier, language)


def _complete(question: str, earlier: str, language: Language | None) -> FollowUp:
    words = _LANGUAGES[language or _guess(f"{earlier} {question}")]
    typed = " ".join(question.split())
    marker = words.marker.match(typed.lower())
    rest = typed[marker.end() :] if marker else typed
    content = [word for word in _content(rest, words) if word.lower() not in _lower(earlier)]
    if not earlier or not (marker or _refers(typed, words)) or (marker and not _WORD.search(rest)):
        return FollowUp(question, typed)
    if marker and not words.asks.search(rest.lower()) and not words.refers.search(rest.lower()):
        if not content:
            return FollowUp(question, typed)
        replaced = _replace(earlier, rest, words)
        text = replaced or f"{earlier.rstrip(_END)} {rest.rstrip(_END)}{words.mark}"
        return FollowUp(question, text, "replaced" if replaced else "appended", earlier)
    topic = find_topic(earlier, words, _lower(rest))
    first = (_WORD.findall(rest) or [""])[0]
    is_small = first.lower() in words.stop or words.asks.search(first.lower())
    if not marker and is_small and not _is_acronym(first):
        rest = rest[0].lower() + rest[1:]
    text = f"{topic}{words.colon}{rest}" if topic else typed
    return FollowUp(question, text, "topic" if topic else "as typed", earlier if topic else "")


def find_topic(question: str, words: _LanguageRules, known: frozenset[str]) -> str:
    """The names of a question without those that are ``known``, or else its other content words."""
    names = [name for name in _names(question, words) if not _lower(name) <= known]
    others = (word for word in _content(question, words) if word.lower() not in known and len(word) > 1)
    return ", ".join(names) or " ".join(others)


def _guess(text: str) -> Language:
    lower = _lower(text)
    return "en" if len(lower & _ENGLISH.stop) > len(lower & _FRENCH.stop) else "fr"


def _lower(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(text))


def _content(text: str, words: _LanguageRules) -> list[str]:
    """The words that are neither stop words nor those that ask, each once."""
    every = dict.fromkeys(_WORD.findall(text))
    return [word for word in every if word.lower() not in words.stop and not words.asks.search(word.lower())]


def _names(text: str, words: _LanguageRules) -> list[str]:
    """Runs of words with capitals, small words such as "du" between them.

    The first word of a sentence is only one if another follows, or a colon.
    """
    names: list[str] = []
    start = end = -1
    matches = list(_WORD.finditer(text))
    for number, match in enumerate(matches):
        is_first = number == 0 or text[: match.start()].rstrip()[-1:] in ".?!"
        follows = text[match.end() :].lstrip().startswith(":")  # as a topic stands before a follow-up
        follows = follows or (number + 1 < len(matches) and matches[number + 1][0][0].isupper())
        small = match[0].lower() in words.stop or words.asks.search(match[0].lower())
        begins = start >= 0 or not small or len(match[0]) > 1  # "I" is no name, but the end of one
        if match[0][0].isupper() and begins and not (is_first and (small or not follows)):
            start = match.start() if start < 0 else start
            end = match.end()
        elif start >= 0 and (match[0].lower() not in words.joins or "," in text[end : match.start()]):
            names.append(text[start:end])
            start = -1
    return [*names, text[start:end]] if start >= 0 else names


def _refers(question: str, words: _LanguageRules) -> bool:
    """Whether a pronoun or a possessive refers to what an earlier question names."""
    lower = words.impersonal.sub(lambda match: " " * len(match[0]), question.lower())
    for pattern, needs_article in ((words.refers, True), (words.objects, False)):
        pronouns = pattern.finditer(lower)
        if not question.isupper():  # "IT security"
            pronouns = (each for each in pronouns if not _is_acronym(question[slice(*each.span())]))
        if match := next(pronouns, None):
            before = question[: match.start()]
            has_noun = needs_article and _lower(before) & words.articles
            if not has_noun and not _names(before, words):
                return True
    return False


def _is_acronym(word: str) -> bool:
    return len(word) > 1 and word.isupper()


def _replace(earlier: str, rest: str, words: _LanguageRules) -> str:
    """The earlier question with a phrase of it replaced by the new one; empty if no rule fits."""
    phrase, matches = rest.rstrip(_END), list(_WORD.finditer(earlier))
    first = (_WORD.findall(phrase) or [""])[0].lower()
    if first in words.prepositions:
        for number in reversed(range(1, len(matches))):
            if matches[number][0].lower() == first:
                behind = (each for each in matches[number + 1 :] if each[0].lower() in words.prepositions)
                end = next(behind, None)
                stop = len(earlier.rstrip(_END)) if end is None else end.start()
                tail = earlier[stop:]
                return f"{earlier[: matches[number].start()]}{phrase}{' ' if end else ''}{tail}"
    if first in words.prepositions | words.joins:
        phrase = phrase[len(first) :].lstrip(" '’")
    new, old = _names(f"x {phrase}", words), _names(earlier, words)
    if new and old:
        at = earlier.rindex(old[-1])
        return f"{earlier[:at]}{phrase}{earlier[at + len(old[-1]) :]}"
    return ""
