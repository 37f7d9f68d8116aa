"""The text of a file with its parts, headings and pages, which is read within limits.

The kinds of files: the ends of their names, what must be installed to read them, and what reads them.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from telerank.corpus.reading import plain_name
from telerank.errors import ArgumentError, FormatError, MissingExtra, TelerankError
from telerank.trec import BOM, open_bytes


@dataclass(frozen=True)
class FileLimits:
    """Limits of one file; beyond them it is not read.

    ``bytes`` are those of the file, ``seconds`` the time that reading it may take, ``characters`` those of
    its text. ``memory`` is that of the process that reads it, in bytes, where the system can limit it (not
    on macOS).

    Raises
    ------
    ValueError
        If a limit is not positive.
    """

    bytes: int = 256 << 20
    seconds: float = 120.0
    memory: int = 4 << 30
    characters: int = 32 << 20

    def __post_init__(self) -> None:
        if min(self.bytes, self.seconds, self.memory, self.characters) <= 0:
            raise ArgumentError(f"limits of a file must be positive, got {self}")


_BETWEEN = "\n\n"
_HEADING = 200  # characters; a longer "heading" is text
_PRESENTED = re.compile("[\ufb00-\ufb06\ufb1d-\ufdff\ufe70-\ufefc]+")
_REMOVED = re.compile("[\xad\u200b\u2060\ufeff]")
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]")
_NOT_WORDS = re.compile(r"[\W_]+")
_PARAGRAPH = re.compile(r"\S.*?(?=\s*\n[^\S\n]*\n|\s*\Z)", re.DOTALL)
_SURROGATES = re.compile("[\ud800-\udfff]")


class Problem(StrEnum):
    """Why a file is not read."""

    encrypted = "encrypted"
    scanned = "scanned, without text"
    empty = "empty"
    broken = "broken"
    too_large = "too large"
    too_slow = "too slow to read"
    outside = "a link that leads out of the folder"


class UnreadableFile(TelerankError):  # noqa: N818
    """A file cannot be read: the problem, and what is known of it."""

    def __init__(self, problem: Problem, reason: str = "") -> None:
        super().__init__(f"{problem}: {reason}" if reason else str(problem))
        self.problem, self.reason = problem, reason

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.problem, self.reason)


class Paragraph(NamedTuple):
    """A paragraph, a list, a table, or a heading of ``level`` 1 (the highest) to 9; 0 is text.

    ``pages`` has the page from a character on; without any the file has no pages.
    """

    text: str
    level: int = 0
    pages: tuple[tuple[int, int], ...] = ()


class FilePart(NamedTuple):
    """Characters ``start`` to ``end`` of a file's text: a paragraph, or a heading of ``level``."""

    start: int
    end: int
    level: int = 0


@dataclass(frozen=True)
class FileText:
    """The text of a file; ``parts`` and ``pages`` (character, page) are in its order.

    ``counts`` has what the reader left out or could not read, by name. ``properties`` are what the file says
    of itself, such as ``author``, ``created``, ``keywords``: values that JSON has.
    """

    text: str
    parts: tuple[FilePart, ...]
    pages: tuple[tuple[int, int], ...] = ()
    title: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)


def join_paragraphs(
    paragraphs: Iterable[Paragraph],
    title: str = "",
    counts: Mapping[str, int] | None = None,
    properties: Mapping[str, Any] | None = None,
) -> FileText:
    """The text of paragraphs, with an empty line between two; those without a letter are left out.

    Raises
    ------
    UnreadableFile
        If nothing is left.
    """
    texts: list[str] = []
    parts: list[FilePart] = []
    pages: list[tuple[int, int]] = []
    start = 0
    for text, level, own in paragraphs:
        if not text.strip():
            continue
        texts.append(text)
        parts.append(FilePart(start, start + len(text), level if len(text) <= _HEADING else 0))
        for offset, page in own:
            if not pages or pages[-1][1] != page:
                pages.append((start + offset, page))
        start += len(text) + len(_BETWEEN)
    if not texts:
        raise UnreadableFile(Problem.empty)
    columns = {name: value for name, value in (properties or {}).items() if value not in ("", None, [])}
    return FileText(_BETWEEN.join(texts), tuple(parts), tuple(pages), title, counts or {}, columns)


def clean(text: str) -> str:
    """A text in NFC, without ligatures and presentation forms, soft hyphens and control characters."""
    text = _PRESENTED.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    text = _CONTROLS.sub(" ", _REMOVED.sub("", text))
    return _SURROGATES.sub("\ufffd", unicodedata.normalize("NFC", text))


def clean_line(text: str) -> str:
    """:func:`clean`, on one line with single blanks."""
    return " ".join(clean(text).split())


def letters(text: str) -> str:
    """The letters and digits of a text, case-folded, by which texts are compared."""
    return _NOT_WORDS.sub("", text).casefold()


# What stands in a text where a line ends with a hyphen and the word continues.
DIVISION = "\x02"
_DIVIDED = re.compile(rf"(?<![\w-])([\w-]*+){DIVISION}\s*([\w-]*)")
_WHOLE_WORDS = re.compile(r"\w[\w-]*\w")
_AFTER_NAMES = """
    je tu il elle on nous vous ils elles moi toi lui leur ce y en ci là même mêmes dessus dessous delà
"""
# French words that a hyphen joins to the word before: viendrez-vous, ceux-ci, au-dessus.
_AFTER = frozenset(_AFTER_NAMES.split())
# Those that a hyphen joins to the word after: ci-joint, peut-être.
_BEFORE = frozenset(["ci", "celui", "celle", "ceux", "celles", "peut", "rendez"])
_ACCENTS = {"´": "\u0301", "`": "\u0300", "ˆ": "\u0302", "¨": "\u0308", "¸": "\u0327", "˜": "\u0303"}
_BESIDE = re.compile("([´`ˆ¨¸˜])([A-Za-zı])")
_ONLY_BESIDE = re.compile("[´ˆ¨¸][A-Za-zı]")


def count_words(texts: Iterable[str]) -> Counter[str]:
    """How often each word stands in the texts, those that are divided left out."""
    words: Counter[str] = Counter()
    for text in texts:
        words.update(_WHOLE_WORDS.findall(_DIVIDED.sub(" ", text).casefold()))
    return words


def join_divided(text: str, words: Counter[str]) -> str:
    """The text with each divided word joined, with a hyphen if the word has one.

    The spelling that is more frequent among ``words``, the rest of the file, is chosen. If it has neither,
    a word keeps the hyphen if a syllable cannot end there, or the parts are those of a compound.
    """
    return _DIVIDED.sub(lambda match: _join_word(match[1], match[2], words), text)


def _join_word(before: str, after: str, words: Counter[str]) -> str:
    joined, hyphenated = f"{before}{after}", f"{before}-{after}"
    plain, with_hyphen = (words[word.casefold()] for word in (joined, hyphenated))
    if plain != with_hyphen:
        return joined if plain > with_hyphen else hyphenated
    return hyphenated if _is_compound(before, after) else joined


def _is_compound(before: str, after: str) -> bool:
    first, last = before.rpartition("-")[2], after.partition("-")[0]
    return (
        min(len(first), len(last)) < 2
        or not (first[-1].islower() and last[0].islower())
        or "-" in before
        or last.casefold() in _AFTER
        or first.casefold() in _BEFORE
    )


def join_accents(texts: list[str]) -> list[str]:
    """The texts with letters for accents beside letters (``´e``), which files of old TeX fonts have."""
    if not any(_ONLY_BESIDE.search(text) for text in texts):  # a grave accent alone may be a quotation mark
        return texts
    return [_BESIDE.sub(_compose, text) for text in texts]


def _compose(match: re.Match[str]) -> str:
    letter = "i" if match[2] == "ı" else match[2]
    composed = unicodedata.normalize("NFC", letter + _ACCENTS[match[1]])
    return composed if len(composed) == 1 else match[0]


def top_heading(paragraphs: Sequence[Paragraph]) -> str:
    """The heading of level 1 if there is but one."""
    tops = [clean_line(paragraph.text) for paragraph in paragraphs if paragraph.level == 1]
    return tops[0] if len(tops) == 1 else ""


def read_plain(text: str, _name: str = "") -> FileText:
    """A text as it is, character for character; its parts are stretches between empty lines.

    Raises
    ------
    UnreadableFile
        If it is blank.
    """
    parts = tuple(FilePart(*match.span()) for match in _PARAGRAPH.finditer(text))
    if not parts:
        raise UnreadableFile(Problem.empty)
    return FileText(text, parts)


@dataclass(frozen=True)
class FileKind:
    """A kind of files, by the ends of their names.

    ``reader`` is the module beside this one, and the function in it that takes the content of a file, and its
    name, and returns a :class:`~telerank.corpus.readers.files.text.FileText`. Files that are text are decoded
    for it, and may be packed (``.gz``, ``.xz``).
    """

    ends: tuple[str, ...]
    reader: tuple[str, str]
    modules: tuple[str, ...] = ()
    is_text: bool = False


_KINDS = (
    FileKind((".pdf",), ("pdf", "read_pdf"), ("pypdfium2",)),
    FileKind((".docx",), ("word", "read_docx"), ("docx",)),
    FileKind((".html", ".htm", ".xhtml"), ("web", "read_html"), ("trafilatura", "lxml")),
    FileKind((".md", ".markdown"), ("web", "read_markdown"), ("markdown_it", "lxml"), is_text=True),
    FileKind((".txt", ".text"), ("text", "read_plain"), is_text=True),
)
# The kinds of files that are read, by the end of a name.
KINDS = {end: kind for kind in _KINDS for end in kind.ends}


def file_kind(path: PurePath) -> str:
    """The end of a file's name in lower case; empty if the file is of no kind that is read."""
    packed = plain_name(Path(path))
    end = PurePath(packed).suffix.lower()
    return end if end in KINDS and (packed == path.name or KINDS[end].is_text) else ""


def is_text(path: PurePath) -> bool:
    """Whether a file is a text as it is, by its name."""
    return PurePath(plain_name(Path(path))).suffix.lower() in (".txt", ".text", ".md")


def require_modules(end: str) -> None:
    """Check that what reads a kind of files is installed.

    Raises
    ------
    MissingExtra
        If it is not; the message names the package and the extra ``files``.
    """
    for module in KINDS[end].modules if end else ():
        if find_spec(module) is None:
            raise MissingExtra(module, "files")


def read_file(path: Path, encoding: str, limits: FileLimits) -> FileText:
    """The text of a file of any kind; ``encoding`` is that of text and Markdown.

    Raises
    ------
    UnreadableFile
        If it cannot be read, or its text is beyond the limits.
    """
    kind = KINDS[file_kind(path)]
    content = _decode(path, encoding, limits) if kind.is_text else path.read_bytes()
    if not content:
        raise UnreadableFile(Problem.empty)
    module, function = kind.reader
    read = getattr(import_module(f"telerank.corpus.readers.files.{module}"), function)
    file: FileText = read(content, path.name)
    if len(file.text) > limits.characters:
        raise UnreadableFile(Problem.too_large, f"{len(file.text):,} characters of text")
    return file


def _decode(path: Path, encoding: str, limits: FileLimits) -> str:
    try:
        with open_bytes(path) as file:  # a small packed file may be a very large text
            content = file.read(limits.bytes + 1)
    except FormatError as error:
        raise UnreadableFile(Problem.broken, str(error)) from error
    if len(content) > limits.bytes:
        raise UnreadableFile(Problem.too_large, f"more than {limits.bytes >> 20:,} MiB when unpacked")
    try:
        return content.removeprefix(BOM).decode(encoding)
    except UnicodeDecodeError as error:
        hint = 'for another encoding: encoding="latin-1"'
        raise UnreadableFile(Problem.broken, f"not text in {encoding} ({hint})") from error
