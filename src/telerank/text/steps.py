"""The steps of analyzers: a name and, for some steps, an argument.

A tokenizer is a fast pattern that finds surface tokens, and a function that cleans them. The pattern may
include too much (invisible characters, leading underscores): ``clean`` removes it, once for each distinct
token instead of for each occurrence.

``words``
    Runs of letters, digits, combining marks and underscores. Apostrophes between letters belong to the word,
    and decimal and thousands signs to the number (``3,14``, ``10.000``); acronyms lose their stops
    (``U.S.A.`` becomes ``USA``). Typographic apostrophes become ``'``; underscores at either end and
    invisible characters (soft hyphen, joiners) are removed. All else separates tokens, hyphens included.
``whitespace``
    Runs of characters other than blanks and NUL; a lone surrogate becomes U+FFFD.

``language(fr=french, en=english)``
    The tokens of analyzers that share a tokenizer, by the language of each text (:mod:`.languages`).
``python(module:name)``
    A function of the program that makes the index, which returns the tokens of a text
    (:meth:`~telerank.text.Analyzer.of`).

Steps on one token, which return "" to drop it, or several tokens.

``elision(french)``
    Removes l' m' t' qu' n' s' j' d' c' jusqu' quoiqu' lorsqu' puisqu': l'État becomes État. Other words
    with an apostrophe (aujourd'hui, prud'hommes, quelqu'un, presqu'île, entr'ouvert) stay whole.
``possessive``
    Removes the English 's at the end of a token.
``ligatures``
    Replaces œ by oe and æ by ae, as most people type them.
``stop(list)``, ``snowball(algorithm)``
    Drops the words of a list, ``english`` or ``french``, or of a file with a word on each line; stems
    (PyStemmer).
``asciifold``
    Removes the accents of Latin letters, and spells out the few letters without a base (ß, ø, þ). It should
    be last, since stop lists and stemmers need accents.
``synonyms(file)``, ``synonyms(file, index)``
    Adds the synonyms of a file in Solr's format to queries: ``voiture, auto`` are equal, ``cni => carte
    d'identité`` replaces. An entry may have several words. With ``index`` to documents, too; then each
    entry is one word.
``decompound(file)``
    Adds those words of a file that a token holds, as Lucene's DictionaryCompoundWordTokenFilter does: words
    of 2 to 15 characters in tokens of at least 5.

The entries of a file pass through the steps that stand before it. An index keeps the lines of its files.
"""

from __future__ import annotations

import re
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias

import Stemmer

from telerank.errors import AnalyzerError, call_own, known_names
from telerank.text.words import Synonyms, Terms, decompound, read_lines, read_single

LONGEST = 255  # characters of a run; longer ones are split, as in Lucene

APOSTROPHES = "'’‘‛′"  # typewriter, typographic, wrongly typographic, reversed, prime
_MODIFIER = "ʼ"  # the apostrophe that Unicode counts as a letter
_INVISIBLE = (
    "\xad\u200c\u200d\u200e\u200f\u2060\ufeff"  # soft hyphen, joiners, direction marks, word joiner, BOM
)
_BLOCKS = (range(0x300, 0x3100), range(0xA66F, 0xAC00), range(0xFE00, 0xFE30))
# Combining marks outside the ideographic blocks; \w leaves them out.
_MARKS = "".join([mark for mark in map(chr, chain(*_BLOCKS)) if unicodedata.category(mark)[0] == "M"])
_STARTS = [mark for mark, before in zip(_MARKS, f" {_MARKS}", strict=False) if ord(mark) != ord(before) + 1]
_ENDS = [mark for mark, after in zip(_MARKS, f"{_MARKS[1:]} ", strict=True) if ord(after) != ord(mark) + 1]
_RANGES = "".join(f"{start}-{end}" for start, end in zip(_STARTS, _ENDS, strict=True))  # compiled faster
_IN_WORD = f"a-z0-9{_INVISIBLE}{_RANGES}\\w"  # ASCII first: the engine then tests one bit
_LETTER = r"[^\W\d_]"
_DIGITS_GO_ON = r"(?<=\d[.,])(?=\d)"
_ACRONYM_GOES_ON = rf"(?<=(?<![{_IN_WORD}]){_LETTER}\.)(?={_LETTER}(?![{_IN_WORD}]))"
_LETTERS_GO_ON = rf"(?<![\d_][{APOSTROPHES}])(?<=[{APOSTROPHES}])(?={_LETTER})"
_JOINED = rf"[.,{APOSTROPHES}](?:{_LETTERS_GO_ON}|{_DIGITS_GO_ON}|{_ACRONYM_GOES_ON})"
_WORDS = rf"[{_IN_WORD}]{{1,{LONGEST}}}+(?:{_JOINED}[{_IN_WORD}]{{1,63}}+){{0,15}}+"

SEPARATES, BELONGS, JOINS = 0, 1, 2

_TIDY = str.maketrans(dict.fromkeys(APOSTROPHES + _MODIFIER, "'") | dict.fromkeys(_INVISIBLE, None))


class Match(NamedTuple):
    """A surface token, and its characters ``start`` to ``end`` (not included) in the text."""

    token: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """``pattern`` matches the surface tokens of a text, ``clean`` returns the token of one ("" for none).

    ``classes`` says for each byte of UTF-8 whether texts may be cut there to be analysed in parts
    (:data:`SEPARATES`), not at all (:data:`BELONGS`), or unless it is between two bytes that belong
    (:data:`JOINS`).
    """

    pattern: re.Pattern[str]
    clean: Callable[[str], str]
    classes: bytes | None

    def find(self, text: str) -> list[str]:
        """The surface tokens of a text."""
        if text.isascii() and text.isalnum() and len(text) <= LONGEST:
            return [text]  # as the pattern would: most texts are pieces that are single words
        tokens: list[str] = self.pattern.findall(text)
        return tokens

    def match(self, text: str) -> Iterator[Match]:
        """The surface tokens of a text with their places."""
        return (Match(match[0], *match.span()) for match in self.pattern.finditer(text))


@dataclass(frozen=True, slots=True)
class PythonTokenizer:
    """A function from a text to its tokens; texts are not analysed in parts."""

    function: Callable[[str], Iterable[str]]
    classes: bytes | None = None

    @property
    def name(self) -> str:
        """Module and name of the function."""
        function = self.function
        name = getattr(function, "__qualname__", type(function).__qualname__)
        return f"{getattr(function, '__module__', None) or type(function).__module__}:{name}"

    @property
    def version(self) -> str:
        """The version of the function, or of its module; empty without one."""
        module = sys.modules.get(self.name.partition(":")[0])
        return str(getattr(self.function, "__version__", "") or getattr(module, "__version__", ""))

    @property
    def is_importable(self) -> bool:
        """Whether the name finds this very function in its module, and the module is no program."""
        module, _, name = self.name.partition(":")
        return module != "__main__" and getattr(sys.modules.get(module), name, None) is self.function

    def clean(self, token: str) -> str:
        return token

    def find(self, text: str) -> list[str]:
        """The tokens of a text; raises AnalyzerError if the function gives something else."""
        given = call_own(self.name, self.function, text, of="the tokens of a text")
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise AnalyzerError(f"the tokenizer {self.name} gave {given!r:.60}, expected a list of texts")
        tokens = list(given)
        for token in tokens:
            if not isinstance(token, str):
                raise AnalyzerError(f"the tokenizer {self.name} gave {token!r:.60}, expected texts")
        return tokens

    def match(self, text: str) -> Iterator[Match]:
        """The tokens that stand in the text as they are, with their places."""
        end = 0
        for token in self.find(text):
            start = text.find(token, end)
            if token and start >= 0:
                end = start + len(token)
                yield Match(token, start, end)


def _clean_word(token: str) -> str:
    if token.isascii():  # of these characters it has one apostrophe alone
        token = token.strip("'_")
    else:
        token = token.translate(_TIDY).lstrip("'_" + _MARKS).rstrip("'_")
    if token[1:2] == "." and token[0].isalpha():  # u.s.a
        return token.replace(".", "")
    return token


def _class_of(byte: int) -> int:
    """The class of a byte for ``words``; bytes that are not ASCII are left to the pattern."""
    character = chr(byte)
    if byte >= 0x80 or character.isalnum() or character == "_":
        return BELONGS
    return JOINS if character in ".,'" else SEPARATES


TOKENIZERS: Mapping[str, Tokenizer] = {
    "words": Tokenizer(re.compile(_WORDS), _clean_word, bytes(map(_class_of, range(256)))),
    "whitespace": Tokenizer(
        re.compile(rf"[^\s\0]{{1,{LONGEST}}}"),
        partial(re.compile("[\ud800-\udfff]").sub, "\ufffd"),
        bytes(
            SEPARATES if byte == 0 or (byte < 0x80 and chr(byte).isspace()) else BELONGS
            for byte in range(256)
        ),
    ),
}


# none splits text at blanks and changes nothing.
#
# english and french follow Lucene's EnglishAnalyzer and FrenchAnalyzer, except for the differences
# listed in tests/parity/test_lucene_analysis.py. For French typed without accents: french|asciifold.
PRESETS = {
    "none": "whitespace",
    "standard": "nfkc|casefold|words",
    "english": "nfkc|casefold|words|possessive|stop(english)|snowball(porter)",
    "french": "nfkc|casefold|words|elision(french)|ligatures|stop(french)|snowball(french)",
}

PYTHON, LANGUAGE = "python", "language"
"""The steps that name a tokenizer of the program, and analyzers by language (:mod:`.languages`)."""

Function: TypeAlias = Callable[[str], str | tuple[str, ...]]
"""From a token to the token that it becomes, "" if it is dropped, or to several."""
_ARGUMENT = r"""'([^']*)'|"([^"]*)"|([^()'",|]+)"""
_WRITTEN = re.compile(rf"([a-z]+)(?:\(\s*(?:{_ARGUMENT})\s*(?:,\s*([a-z]+)\s*)?\))?")
_LANGUAGES = re.compile(rf"{LANGUAGE}\((.*)\)", re.DOTALL)
_PLAIN = re.compile(r"[\w.:-]+")


@dataclass(frozen=True, slots=True)
class Step:
    """A step; its text form is ``name`` or ``name(argument)``. If either is unknown: AnalyzerError.

    ``lines`` are those of the file that the argument names, ``mode`` is the second argument.
    """

    name: str
    argument: str = ""
    lines: tuple[str, ...] = ()
    mode: str = ""

    def __post_init__(self) -> None:
        if self.name in TOKENIZERS or self.name in TEXT_STEPS:
            known: tuple[str, ...] = ()
        elif self.name in (PYTHON, LANGUAGE):
            return
        elif self.name in TOKEN_STEPS:
            known = TOKEN_STEPS[self.name].arguments()
        else:
            names = (*PRESETS, *TEXT_STEPS, *TOKENIZERS, PYTHON, LANGUAGE, *TOKEN_STEPS)
            raise AnalyzerError(f"unknown step {self.name!r}; {known_names(names, self.name)}")
        needed = [f"one of ({', '.join(known)})"] if known else []
        needed += ["a file of words"] if self.takes_file else []
        if needed and self.argument not in known and not self.lines:
            raise AnalyzerError(f"step {self.name!r} needs {' or '.join(needed)}, got {self.argument!r}")
        if self.argument and not known and not self.lines:
            raise AnalyzerError(f"step {self.name!r} takes no argument, got {self.argument!r}")
        if self.mode and (self.name, self.mode) != ("synonyms", "index"):
            raise AnalyzerError(f"step {self.name!r} takes no second argument {self.mode!r}")

    @property
    def takes_file(self) -> bool:
        """Whether its argument may be the name of a file."""
        return self.name in TOKEN_STEPS and TOKEN_STEPS[self.name].takes_file

    @classmethod
    def parse(cls, text: str, files: Mapping[str, Sequence[str]] | None = None) -> Step:
        """Read the text form of a known step; ``files`` has the lines of files that are not on the disk."""
        if languages := _LANGUAGES.fullmatch(text.strip()):
            return cls(
                LANGUAGE,
                re.sub(r"\s*([,=])\s*", lambda sign: sign[1].replace(",", ", "), languages[1].strip()),
            )
        match = _WRITTEN.fullmatch(text.strip())
        if match is None:
            raise AnalyzerError(f"expected a step such as casefold or stop(french), got {text!r}")
        name, mode = match[1], match[5] or ""
        argument = next((each.strip() for each in match.group(2, 3, 4) if each is not None), "")
        step = TOKEN_STEPS.get(name)
        if step is None or not step.takes_file or not argument or argument in step.arguments():
            return cls(name, argument, mode=mode)
        file = Path(argument).name
        if files is not None and file in files:
            return cls(name, file, tuple(files[file]), mode)
        if step.arguments() and not Path(argument).exists():
            return cls(name, argument)  # which says what there is
        return cls(name, file, tuple(read_lines(Path(argument), text)), mode)

    @staticmethod
    def name_tokenizer(text: str) -> str:
        """The tokenizer of a program that a step names; empty if it is another step."""
        match = _WRITTEN.fullmatch(text.strip())
        is_python = match is not None and match[1] == PYTHON
        return next((each for each in match.group(2, 3, 4) if each), "") if match and is_python else ""

    def __str__(self) -> str:
        if not self.argument:
            return self.name
        if self.name == LANGUAGE:
            return f"{LANGUAGE}({self.argument})"
        quote = "" if _PLAIN.fullmatch(self.argument) else '"' if "'" in self.argument else "'"
        return f"{self.name}({quote}{self.argument}{quote}{', ' + self.mode if self.mode else ''})"


@dataclass(frozen=True, slots=True)
class TokenStep:
    """Makes the function of a token step; ``arguments`` lists those known, if any.

    ``make`` takes the step and the steps before it.
    """

    make: Callable[[Step, Terms], Function | Synonyms]
    arguments: Callable[[], tuple[str, ...]] = tuple
    takes_file: bool = False


@cache
def stop_words(name: str) -> frozenset[str]:
    """Lucene's list of stop words; the first lines of the file give source and licence."""
    text = (Path(__file__).parent / "stopwords" / f"{name}.txt").read_text(encoding="utf-8")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))


def _nfkc(text: str) -> str:
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", text.replace("™", " ").replace("℠", " "))


def _elide(token: str) -> str:
    head, apostrophe, rest = token.partition("'")
    return rest.lstrip("'") if apostrophe and head.casefold() in _ELIDED else token


def _stop(step: Step, before: Terms) -> Function:
    words = read_single(str(step), step.lines, before) if step.lines else stop_words(step.argument)
    return lambda token: "" if token in words else token


def _snowball(step: Step, _: Terms) -> Function:
    local = threading.local()  # a Stemmer must not be shared between threads

    def stem(token: str) -> str:
        if not hasattr(local, "stem"):
            local.stem = Stemmer.Stemmer(step.argument, 0).stemWord
        return str(local.stem(token))

    return stem


def fold_accents(token: str) -> str:
    """A token with Latin letters without their accents, and ligatures as two letters."""
    if token.isascii():
        return token
    if _LATIN.fullmatch(token):  # character by character, which is faster
        return token.translate(_BARE)
    return _fold(token)


def _fold(token: str) -> str:
    return unicodedata.normalize("NFC", _ACCENTED.sub(r"\1", unicodedata.normalize("NFD", token))).translate(
        _TO_ASCII
    )


# as in Lucene's FrenchAnalyzer
_ELIDED = frozenset(["l", "m", "t", "qu", "n", "s", "j", "d", "c", "jusqu", "quoiqu", "lorsqu", "puisqu"])
_LIGATURES = str.maketrans({"œ": "oe", "Œ": "Oe", "æ": "ae", "Æ": "Ae"})
_TO_ASCII = _LIGATURES | str.maketrans(
    {"ß": "ss", "ẞ": "Ss", "þ": "th", "Þ": "Th"}
    | dict(zip("øđðħıłŋŧſØĐÐĦŁŊŦ", "oddhilntsODDHLNT", strict=True))
)
_ACCENTED = re.compile("([A-Za-z" + "".join(map(chr, _TO_ASCII)) + "])[\u0300-\u036f]+")
_LATIN = re.compile("[\0-\u024f\u1e00-\u1eff]*")  # without combining marks


class _BareCharacters(dict[int, str]):
    """Characters without their accents by code point, computed when first needed."""

    def __missing__(self, code: int) -> str:
        bare = self[code] = _fold(chr(code))
        return bare


_BARE = _BareCharacters()

# Steps on a whole text: Unicode normal forms, and full case folding (ß becomes ss).
#
# nfkc replaces ™ and ℠ by blanks, since their letters would become part of the word before.
TEXT_STEPS: Mapping[str, Function] = {
    "nfc": partial(unicodedata.normalize, "NFC"),
    "nfkc": _nfkc,
    "casefold": str.casefold,
}

TOKEN_STEPS: Mapping[str, TokenStep] = {
    "elision": TokenStep(lambda *_: _elide, lambda: ("french",)),
    "possessive": TokenStep(lambda *_: lambda token: token[:-2] if token[-2:] in ("'s", "'S") else token),
    "ligatures": TokenStep(lambda *_: lambda token: token.translate(_LIGATURES)),
    "stop": TokenStep(_stop, lambda: ("english", "french"), takes_file=True),
    "snowball": TokenStep(_snowball, lambda: tuple(Stemmer.algorithms())),
    "asciifold": TokenStep(lambda *_: fold_accents),
    "synonyms": TokenStep(
        lambda step, before: Synonyms(str(step), step.lines, before, is_indexed=step.mode == "index"),
        takes_file=True,
    ),
    "decompound": TokenStep(
        lambda step, before: partial(decompound, read_single(str(step), step.lines, before)), takes_file=True
    ),
}
