"""Splitting of English and French texts into sentences, in linear time.

Sentences may end at ``. ! ? …`` and at line ends; :func:`ends_sentence` decides about each mark, by lists of
abbreviations and of words that begin sentences. Abbreviations have no final stop. Those in lower case match
in any case, others as written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from telerank.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Abbreviations:
    """The word lists of one language.

    ===================  ================================================================================
    ``inside``           never end a sentence (Dr., e.g., cf.)
    ``numbered``         abbreviations if a number follows (No. 5, art. L. 123), otherwise words (I said no.)
    ``either``           end a sentence if a word of ``openers`` follows (Inc., Jan.)
    ``openers``          words in lower case that mostly begin a sentence if they are capitalised
    ``particles``        words of ``openers`` that are also parts of surnames (Le Goff)
    ``before_initials``  words in lower case after which a letter is an initial (by J. Smith)
    ``lettered``         words in lower case after which a letter is a name, which may end a sentence
                         (vitamin C.)
    ``sloppy_openers``   words that begin a sentence after a stop even in lower case, in careless writing
    ===================  ================================================================================
    """

    inside: frozenset[str]
    numbered: frozenset[str]
    either: frozenset[str]
    openers: frozenset[str]
    particles: frozenset[str]
    before_initials: frozenset[str]
    lettered: frozenset[str]
    sloppy_openers: frozenset[str]


def _set(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


ENGLISH = Abbreviations(
    inside=_set(
        "mr mrs ms mx messrs dr drs prof profs Rev Fr Hon Gen Col Lt Sgt Cpl Pvt Capt Cmdr Adm Maj Brig Gov",
        "Sen Sens Rep Reps Pres Supt Insp Msgr Atty Mt Mts Ft Amb Dir e.g i.e eg ie cf viz vs v approx ca",
        "resp incl esp aka a.k.a",
    ),
    numbered=_set(
        "no nos nr fig figs eq eqs eqn eqns sec sect secs ch chap chaps vol vols pp p pg para paras par art",
        "arts tab ref refs ver op pt pts ex app appx cl n l ll tel ext pat reg circ min max avg",
    ),
    either=_set(
        "Inc Ltd Corp Co Cos Bros LLC plc Jr Sr Esq Ave Blvd Rd St Ste Sts Dept Univ Assn Intl Natl Govt",
        "dept govt al ed eds Est Mfg jan feb Mar apr jun jul aug sep sept oct nov dec Mon Tue Tues Wed Thu",
        "Thur Thurs Fri Sat Sun Ala Ariz Ark Calif Colo Conn Del Fla Ga Ill Ind Kan Ky Mass Md Mich Minn",
        "Miss Mo Mont Neb Nev Okla Ore Pa Penn Tenn Va Vt Wash Wis Wyo hr hrs wk wks yr yrs sq cu lb lbs oz",
        "mi yd tbsp tsp spp sp subsp ssp Proc Acad Sci Biol Chem Med Bacteriol Immunol Biochem Biophys Res",
        "Commun Lett Phys Appl Mol Genet Dev Virol Pharmacol Physiol Clin Exp Opin Am Soc Assoc J",
    ),
    openers=_set(
        "the a an this that these those it its he she we they you i his her our their my your there here in",
        "on at as for from with without when while if after before during since because although though",
        "despite until under over upon once by to into among between through however moreover furthermore",
        "thus therefore hence then and but or nor so yet also besides indeed instead meanwhile nevertheless",
        "nonetheless otherwise finally later now today some many most much more several such both each",
        "every all any not none one two three another other others what who whom whose why how where which",
        "is are was were am be do does did has have had can could would should might must let please yes",
        "according additionally overall perhaps presumably usually generally often sometimes only even just",
        "like unlike using based given still everyone everything nothing nobody someone don't didn't isn't",
        "depending typically keep remember unfortunately unless further again consult thank assuming",
        "interestingly normally together always similarly think importantly recently currently regardless",
        "conversely either basically obviously rather notably surprisingly collectively likewise lastly",
        "starting specifically whereas certainly neither technically consequently naturally accordingly",
        "hopefully considering ultimately secondly whatever fortunately personally subsequently aside",
        "comparing probably essentially whenever ideally doing traditionally previously numerous eventually",
        "well results methods conclusion conclusions background",
    ),
    particles=frozenset(),
    before_initials=_set(
        "by and of with to from for near after before between against under is was as named called mr mrs",
    ),
    lettered=_set(
        "vitamin group type class category grade stage phase plan part section appendix exhibit schedule",
        "option figure table case point hepatitis influenza factor level model form line panel study",
        "protein strain variant formula step score room building gate division league unit version world",
        "war",
    ),
    sloppy_openers=_set(
        "i you we they he she it this these there if however please my your",
    ),
)

FRENCH = Abbreviations(
    inside=_set(
        "M MM mr mrs dr drs pr prs prof mgr Me mlle mme mmes mlles St Ste Sts Stes ste Gén Col Cdt Cne Lt",
        "Adj Sgt Ets Éts Sté cf p.ex ex c.-à-d c.à.d c-à-d i.e e.g env av apr boul bd bld vs éd coll dir",
        "trad ill adj resp rééd réf tél notamm spéc litt syn prép v ap",
    ),
    numbered=_set(
        "no nos n art arts al p pp pg vol t chap ch fig figs tab tabl éq sect par parag liv l n° ann alin",
        "pl f ff fol fax min max ord arr",
    ),
    either=_set(
        "etc cie sa sarl jr sr hab janv févr fév avr juill juil sept oct nov déc dép dépt univ inst assoc",
        "al suiv sq sqq ibid op cit loc",
    ),
    openers=_set(
        "le la les l' un une des du d' ce cet cette ces c' il ils elle elles on nous vous je j' tu mais et",
        "ou or donc car ni si s' en dans par pour avec sans sur sous après avant depuis pendant lors",
        "lorsque lorsqu' quand comme ainsi cependant toutefois pourtant néanmoins enfin ensuite puis alors",
        "aussi au aux à son sa ses leur leurs notre nos votre vos mon ma mes ton ta tes qui que qu' quel",
        "quelle quels quelles où comment pourquoi combien selon chez entre malgré tout tous toute toutes",
        "chaque plusieurs certains certaines cela ceci ça celui celle ceux celles bien même parmi grâce",
        "afin outre contre vers dès jusqu' là ici sont ne n' oui non de deux trois aucun aucune autre",
        "autres autrement beaucoup bref d'abord d'autres aujourd'hui hier demain puisque puisqu' parce",
        "quoique tandis voici voilà voir veuillez peut plus moins très trop peu certes effectivement",
        "également finalement généralement actuellement notamment seul seule seuls seules étant ayant a ont",
        "y lui m' t' attention durant sauf soit sinon chacun chacune au-delà vérifiez conservez être avoir",
        "se concernant contrairement uniquement auprès faire",
    ),
    particles=_set(
        "le la l' de des du d' van von",
    ),
    before_initials=_set(
        "par et de d' à avec pour chez dit selon contre entre vers sous monsieur madame m mm mme",
    ),
    lettered=_set(
        "vitamine vitamines groupe groupes type classe catégorie grade stade phase plan partie section",
        "annexe option figure tableau cas point hépatite grippe facteur niveau modèle permis ligne",
        "formulaire bâtiment division ligue unité version liste colonne case zone série souche variante",
        "protéine jour plage salle quai",
    ),
    sloppy_openers=frozenset(),
)

LANGUAGES: Mapping[str, Abbreviations] = {"en": ENGLISH, "fr": FRENCH}


class Stop(NamedTuple):
    """A mark that may end a sentence, with the text around it.

    ``mark`` is the whole mark (``...``, ``?!``, ``? !``), ``close`` the closing quotes and brackets after it;
    it is ``glued`` if a capital follows without a blank. ``before`` is the sentence before the mark from its
    first word on if it ``is_whole``, or else only its last characters; ``after`` are some characters after
    it, from the first that is not a blank, quote or bracket.
    """

    mark: str
    close: str
    glued: bool
    before: str
    is_whole: bool
    after: str


def ends_sentence(stop: Stop, words: Abbreviations) -> bool:
    """Whether the mark ends a sentence in the language of ``words``."""
    if stop.glued:
        return _ends_though_glued(stop, words)
    is_bracketed = stop.before.endswith(("(", "["))  # one […] Two, one (!) Two
    if is_bracketed or not stop.after or stop.after.startswith(_GOES_ON) or _CITED.match(stop.after):
        return False
    goes_on = stop.after[0].islower() and not _SMALL_START.match(stop.after)
    if stop.mark != ".":
        is_ellipsis = not set(stop.mark) & {"!", "?"}
        return not goes_on and not (is_ellipsis and stop.after[0].isdigit())
    if stop.before[-1:].isspace():  # tokenised text has a blank before each stop; but ". . ." is an ellipsis
        return not goes_on or not stop.before.rstrip().endswith(".")
    if goes_on:
        return not stop.close and _ends_before_lower_case(stop, words)
    return _ends_at_full_stop(stop, words)


_GOES_ON = tuple(",;:.!?…)]}»%/&=+|")
_CITED = re.compile(r"\d{1,3}(?:[,–-] ?\d{1,3})*\] ?[.,;]")  # etc. [47] . Then
# lower case that may begin a sentence: mRNA, iPhone, p53; the enumerator of "b. Then"
_SMALL_START = re.compile(r"[^\W\d_A-Z][\w-]{0,15}[A-Z0-9]|[a-z][.)] [A-ZÀ-ÖØ-Þ]")
_EDGES = re.compile(r"[\s‘“”\"«»(){}\[\]/–—]|['’](?![a-z]\Z)")  # l'art, but Newcomen's
_ENUMERATOR = re.compile(r"\d{1,3}(?:\.\d{1,3})*|[IVXLC]+|[^\W\d_]")
_STOPPED = re.compile(r"(?:[^\W\d_]{1,2}\.-?)+[^\W\d_]{1,2}")  # U.S, p.m, Ph.D, J.-C
_HYPHENATED = re.compile(r"(?!J\.-C\Z)[^\W\d_]{1,2}\.-[^\W\d_]{1,2}")  # J.-P. Dupont, not 52 av. J.-C
_LABELLED = re.compile(  # 5, II, B, S1; A and I where no verb follows
    r"[\d§]|[IVXLCDM]{2,}\b(?!['’])|[B-HJ-Z]\b(?!['’])|[A-Z]{1,4}-?\d"
    r"|[AI]\b(?!['’])(?: (?:and|or|to|et|ou|à)\b|(?! [^\W\d_A-Z]))"
)
_WORD = re.compile(r"([^\W\d_]+)(['’]|-(?=[^\W\d_]))?([^\W\d_]*)")
_IDENTIFIER = re.compile(r"[.@/\\_:=&#<>(\[]")


def _ends_at_full_stop(stop: Stop, words: Abbreviations) -> bool:
    *rest, token = _EDGES.split(stop.before)
    is_enumerator = stop.is_whole and not rest and _ENUMERATOR.fullmatch(token)  # "2. Then" begins a sentence
    if is_enumerator or _is_among(token, words.inside):
        return False
    if _is_among(token, words.numbered):
        return not _LABELLED.match(stop.after)
    if _is_among(token, words.either) or _STOPPED.fullmatch(token):
        return _opens(stop.after, words) and not _HYPHENATED.fullmatch(token)
    if len(token) == 1 and token.isalpha():
        return _ends_at_letter(token, rest[-1] if rest else "", stop.after, words)
    return True


def _ends_at_letter(letter: str, previous: str, after: str, words: Abbreviations) -> bool:
    """``Vitamin C. It``, ``Henry V. It``, but ``by C. Smith``, ``Jacques C. Le Goff``."""
    if previous.lower() in words.lettered:
        return True
    if not _opens(after, words) or words.particles.isdisjoint(_readings(after)):
        return _opens(after, words)
    is_ordinal = letter in "IVX" and previous[:1].isupper() and len(previous) > 1
    return is_ordinal or (previous.islower() and previous not in words.before_initials)


def _ends_before_lower_case(stop: Stop, words: Abbreviations) -> bool:
    """In careless writing: ``Call them. they will know``."""
    token = _EDGES.split(stop.before)[-1]
    known = words.inside | words.numbered | words.either
    is_word = len(token) >= 4 and token.isalpha() and not _is_among(token, known)
    return is_word and not words.sloppy_openers.isdisjoint(_readings(stop.after))


def _ends_though_glued(stop: Stop, words: Abbreviations) -> bool:
    """Without a blank, as in ``the body.More of it``; addresses and identifiers look similar."""
    written = stop.before.rsplit(None, 1)[-1] if stop.before.strip() else ""
    if stop.close or not written[-1:].islower() or not written[-3:].isalpha() or _IDENTIFIER.search(written):
        return False
    match = _WORD.match(stop.after)
    if match is None or len(match[0]) < 2 or not match[0][1:].islower():
        return False
    if not stop.after[match.end() :].startswith((" ", ",", "\u00a0")):
        return False
    return stop.mark != "." or not words.openers.isdisjoint(_readings(stop.after))


def _opens(after: str, words: Abbreviations) -> bool:
    """Whether the text begins with a word that begins sentences, not with an initial (J. A. Smith)."""
    match = _WORD.match(after)
    if match is None or after[match.end() : match.end() + 1] == ".":
        return False
    return not words.openers.isdisjoint(_readings(after))


def _readings(after: str) -> tuple[str, ...]:
    """The first word in lower case, and its first part: ``s'il`` and ``s'``, ``peut-être`` and ``peut``."""
    match = _WORD.match(after)
    if match is None:
        return ()
    head, joint = match[1].lower(), (match[2] or "").replace("’", "'")
    return (head + joint + match[3].lower(), head + joint, head)


def _is_among(token: str, known: frozenset[str]) -> bool:
    return token in known or (len(token) > 1 and token.lower() in known)


# Version of the rules, incremented when any text is split elsewhere; stored features depend on it.
RULES = 1


class Span(NamedTuple):
    """Characters ``start`` to ``end`` (not included) of a text."""

    start: int
    end: int


def split_sentences(text: str, language: str = "en", *, wrapped: bool | None = None) -> list[Span]:
    """Split a text into sentences, which contain every character that is not blank exactly once.

    Sentences neither begin nor end with a blank. A line end ends a sentence; in a ``wrapped`` text, whose
    lines are broken at a width, only an empty line or a list item does (None: :func:`is_wrapped` decides for
    each paragraph). With ``wrapped`` given, splitting a sentence gives that sentence.

    Raises ValueError if the language is neither ``en`` nor ``fr``.
    """
    if language not in LANGUAGES:
        raise ArgumentError(f"sentences are split in {', '.join(LANGUAGES)}, got language {language!r}")
    words = LANGUAGES[language]
    return [span for block in _blocks(text, wrapped) for span in _split_block(text, block, words)]


def cover_sentences(text: str, span: Span, language: str = "en") -> Span:
    """The sentences that a span is in, as one span; the span itself where there are only blanks."""
    start, end = span
    for sentence in split_sentences(text, language):
        if sentence.start < span.end and span.start < sentence.end:
            start, end = min(start, sentence.start), max(end, sentence.end)
    return Span(start, end)


def is_wrapped(paragraph: str) -> bool:
    """Whether the lines seem to be broken at a width of 40 to 132 characters.

    Of the lines that do not end a sentence, two in three must have no room for the next word, or be longer
    than half the width and continue in lower case.
    """
    lines = [line.rstrip() for line in paragraph.splitlines() if not line.isspace() and line]
    width = max(map(len, lines), default=0)
    if not 40 <= width <= 132 or len(lines) < 3:
        return False
    pairs = [(line, after.lstrip()) for line, after in pairwise(lines) if not line.endswith(_ENDINGS)]
    full = sum(_runs_on(len(line), after, width) for line, after in pairs)
    return full > 0 and full * 3 >= len(pairs) * 2


def _runs_on(length: int, after: str, width: int) -> bool:
    return length + 1 + len(after.split(None, 1)[0]) > width or (2 * length > width and after[0].islower())


_ENDINGS = tuple(".!?…:;”»)")
_LINE_END = "(?>\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])"
_ITEM = r"[^\S\n\r]*(?:[-*•‣◦▪–—]|\(?(?:\d{1,3}|[a-z])[.)])[^\S\n\r]"
_LINE_ENDS = re.compile(_LINE_END)
_PARAGRAPH_ENDS = re.compile(rf"{_LINE_END}(?:[^\S\n\r]*{_LINE_END})+")
_ITEM_STARTS = re.compile(rf"(?<=[.:;!?…]){_LINE_END}(?={_ITEM})")


def _blocks(text: str, wrapped: bool | None) -> Iterator[Span]:
    """Spans that no sentence crosses: lines, or paragraphs and list items of wrapped text."""
    for start, end in _between(_PARAGRAPH_ENDS, text, Span(0, len(text))):
        is_soft = is_wrapped(text[start:end]) if wrapped is None else wrapped
        yield from _between(_ITEM_STARTS if is_soft else _LINE_ENDS, text, Span(start, end))


def _between(ends: re.Pattern[str], text: str, span: Span) -> Iterator[Span]:
    start = span.start
    for match in ends.finditer(text, *span):
        yield Span(start, match.start())
        start = match.end()
    yield Span(start, span.end)


_OPENING = r"\s\"'“”‘«‹(\[{¿¡*_#>•–—-"
_ONWARD = re.compile(rf"[{_OPENING}]*+(?:(?:…|\.{{3}})[\])]?[{_OPENING}]*+)?")
_TO_WORD = re.compile(r"[\W_]*+")
_BLANKS = re.compile(r"\s*+")
_CANDIDATE = re.compile(
    r"(?<![.!?…])(?P<mark>[.!?…]++(?:[ \u00a0\u202f][!?]++)*+)"
    r"(?P<close>(?:[\"'”’»›)\]}*_]|[ \u00a0\u202f]»|\[\d{1,3}\])*+)"
    r"(?:(?=\s|\Z)|(?<=[.!?])(?P<glued>(?=[A-ZÀ-ÖØ-Þ])))"
)
_SEEN_BEFORE, _SEEN_AFTER = 48, 24  # characters


def _split_block(text: str, block: Span, words: Abbreviations) -> Iterator[Span]:
    end = block.start + len(text[block.start : block.end].rstrip())
    start = _skip(_BLANKS, text, block.start, end)
    core = _skip(_TO_WORD, text, start, end)
    for match in _CANDIDATE.finditer(text, start, end):
        if core < match.start() and match.end() < end and ends_sentence(_stop(text, match, core, end), words):
            yield Span(start, match.end())
            start = _skip(_BLANKS, text, match.end(), end)
            core = _skip(_TO_WORD, text, start, end)
    if start < end:
        yield Span(start, end)


def _stop(text: str, match: re.Match[str], core: int, end: int) -> Stop:
    before = text[max(core, match.start() - _SEEN_BEFORE) : match.start()]
    onward = _skip(_ONWARD, text, match.end(), end)
    return Stop(
        mark=match["mark"],
        close=match["close"],
        glued=match["glued"] is not None,
        before=before,
        is_whole=len(before) == match.start() - core,
        after=text[onward : min(end, onward + _SEEN_AFTER)],
    )


def _skip(what: re.Pattern[str], text: str, start: int, end: int) -> int:
    match = what.match(text, start, end)
    return match.end() if match else start
