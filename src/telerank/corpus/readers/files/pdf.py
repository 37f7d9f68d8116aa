"""PDF files, read by PDFium: the lines of each page with their positions, the title and the bookmarks.

PDFium gives characters in the order of the file, in which programs that lay text out write column after
column, with letters for ligatures and the logical order of text from right to left. A hyphen at the end of a
line is marked by it as :data:`~telerank.corpus.readers.files.text.DIVISION`.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import PurePath
from statistics import median
from typing import Any, NamedTuple

import pypdfium2
from pypdfium2 import raw

from telerank.columns.kinds import split_list
from telerank.corpus.readers.files.pdf_layout import Bookmark, Line, lay_out
from telerank.corpus.readers.files.text import (
    DIVISION,
    FileText,
    Problem,
    UnreadableFile,
    clean,
    clean_line,
    join_paragraphs,
)

_NAME = 256  # bytes of a font's name
_BOLD = re.compile(rb"bold|black|heavy|semib|demi", re.IGNORECASE)
_NO_TITLE = re.compile(
    r"(?:microsoft \w+ - .*|(?:untitled|sans titre|sans nom|document)[\s\d-]*|.*\.\w{2,4})", re.IGNORECASE
)
_DATE = re.compile(r"(?:D:)?([0-9]{4})([0-9]{2})([0-9]{2})")
_MARKED = 0.85  # of the size of the letters before: a smaller digit is the mark of a note
_PROTECTED = {raw.FPDF_ERR_PASSWORD: "", raw.FPDF_ERR_SECURITY: "in a way that PDFium does not know"}
_SAMPLED = 100  # letters of a page that tell how it is turned
_BEFORE_MARK = 3  # letters before it, so that cm2 stays


def read_pdf(content: bytes, name: str) -> FileText:
    """The text of a PDF file, with its pages; ``name`` is that of the file.

    Raises
    ------
    UnreadableFile
        If it is encrypted, scanned or broken.
    """
    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        if error.err_code in _PROTECTED:
            raise UnreadableFile(Problem.encrypted, _PROTECTED[error.err_code]) from error
        raise UnreadableFile(Problem.broken, "damaged, or not a PDF file") from error
    pages: dict[int, list[Line]] = {}
    unreadable = 0
    for number in range(len(document)):
        try:
            with closing(document[number]) as page:
                pages[number + 1] = list(_read_lines(page))
        except pypdfium2.PdfiumError:
            unreadable += 1
    blank = sum(not lines for lines in pages.values())
    if blank == len(pages):
        if unreadable:
            raise UnreadableFile(Problem.broken, f"{unreadable} of {len(document)} pages cannot be read")
        raise UnreadableFile(*((Problem.scanned,) if pages else (Problem.empty, "no pages")))
    title, paragraphs, left_out = lay_out(pages, list(_bookmarks(document)), _title(document, name))
    counts = {
        "pages without text": blank,
        "pages that cannot be read": unreadable,
        "repeated lines at the head or foot of pages": left_out,
    }
    counted = {what: count for what, count in counts.items() if count}
    return join_paragraphs(paragraphs, title, counted, _read_properties(document))


def _read_properties(document: pypdfium2.PdfDocument) -> dict[str, Any]:
    """What a file says of itself."""
    author, subject, keywords, created, modified = (
        clean_line(document.get_metadata_value(key))
        for key in ("Author", "Subject", "Keywords", "CreationDate", "ModDate")
    )
    return {
        "author": author,
        "subject": subject,
        "keywords": list(split_list(keywords)),
        "created": _read_date(created),
        "modified": _read_date(modified),
    }


def _read_date(stated: str) -> str:
    """The day of ``D:20240131080000+01'00'``; empty if it is none."""
    match = _DATE.match(stated)
    try:
        return date(*map(int, match.groups())).isoformat() if match else ""
    except ValueError:
        return ""


def _title(document: pypdfium2.PdfDocument, name: str) -> str:
    """The title that the file states, unless a program made it of the name of a file."""
    title = clean_line(document.get_metadata_value("Title"))
    made_up = _NO_TITLE.fullmatch(title) or title.casefold() == PurePath(name).stem.casefold()
    return "" if made_up else title


def _bookmarks(document: pypdfium2.PdfDocument) -> Iterator[Bookmark]:
    for item in document.get_toc():
        destination = item.get_dest()
        number = destination.get_index() if destination else None
        if number is not None:
            yield Bookmark(clean_line(item.get_title()), item.level + 1, number + 1)


def _read_lines(page: pypdfium2.PdfPage) -> Iterator[Line]:
    """The lines of a page, in the order of the file; read with the page turned so that they are upright."""
    text_page = page.get_textpage()
    # By how many degrees a page must be turned clockwise for most of its letters to be upright.
    count, matrix = text_page.count_chars(), raw.FS_MATRIX()
    turns: Counter[int] = Counter()
    for number in range(0, count, max(1, count // _SAMPLED)):
        if raw.FPDFText_GetMatrix(text_page.raw, number, matrix):
            turns[round(math.atan2(matrix.b, matrix.a) / (math.pi / 2)) % 4] += 1
    rotation = 90 * max(turns, key=lambda turn: (turns[turn], -turn), default=0)
    if rotation != page.get_rotation():
        text_page.close()
        page.set_rotation(rotation)
        text_page = page.get_textpage()
    with closing(text_page):
        glyphs = _Glyphs(text_page, rotation)
        start = 0
        for end in (*glyphs.line_ends(), glyphs.count):
            if line := glyphs.line(start, end):
                yield line
            start = end


class _Glyph(NamedTuple):
    """The position of a character, in points, upright as the page is shown; ``y`` grows upwards."""

    x: float
    y: float
    size: float


class _Glyphs:
    """The characters of a page and where they stand."""

    def __init__(self, text_page: pypdfium2.PdfTextPage, rotation: int) -> None:
        self._page: Any = text_page.raw
        self._rotation = rotation
        self.count = text_page.count_chars()
        read = raw.FPDFText_GetUnicode
        self._characters = [chr(min(read(self._page, n), 0x10FFFF)) for n in range(self.count)]

    def line_ends(self) -> Iterator[int]:
        return (n for n, character in enumerate(self._characters) if character in "\r\n")

    def line(self, start: int, end: int) -> Line | None:
        """The line of these characters; None if they are blank."""
        visible = [n for n in range(start, end) if not self._characters[n].isspace()]
        if not visible:
            return None
        first, middle, last = (self._glyph(visible[n]) for n in (0, len(visible) // 2, -1))
        text = "".join(self._with_spaced_notes(visible[0], visible[-1] + 1))
        # UTF-16: what lies beyond 16 bits comes in two characters
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        right = max(first.x, last.x) + last.size / 2
        size = median((first.size, middle.size, last.size))
        return Line(
            DIVISION.join(clean(part) for part in text.split(DIVISION)).strip(),
            min(first.x, last.x),
            right,
            first.y,
            last.y,
            size,
            self._is_bold(visible[len(visible) // 2]),
        )

    def _with_spaced_notes(self, start: int, end: int) -> Iterator[str]:
        """The characters, with blanks around raised numbers of notes: ``compteur 1``, ``1 Le compteur``."""
        letters = 0
        before = ""
        for n in range(start, end):
            character = self._characters[n]
            if (character.isdigit() and letters >= _BEFORE_MARK and self._is_raised(n, n - 1)) or (
                character.isalpha() and before.isdigit() and self._is_raised(n - 1, n)
            ):
                yield " "
            letters = letters + 1 if character.isalpha() else 0
            before = character
            yield character

    def _is_raised(self, number: int, beside: int) -> bool:
        own, other = self._glyph(number), self._glyph(beside)
        return own.size < _MARKED * other.size and own.y > other.y

    def _glyph(self, number: int) -> _Glyph:
        x, y, matrix = ctypes.c_double(), ctypes.c_double(), raw.FS_MATRIX()
        raw.FPDFText_GetCharOrigin(self._page, number, x, y)
        raw.FPDFText_GetMatrix(self._page, number, matrix)
        size = raw.FPDFText_GetFontSize(self._page, number) * math.hypot(matrix.c, matrix.d)
        along, up = {
            0: (x.value, y.value),
            90: (y.value, -x.value),
            180: (-x.value, -y.value),
            270: (-y.value, x.value),
        }[self._rotation]
        return _Glyph(along, up, size)

    def _is_bold(self, number: int) -> bool:
        name, flags = ctypes.create_string_buffer(_NAME), ctypes.c_int()
        raw.FPDFText_GetFontInfo(self._page, number, name, _NAME, flags)
        return _BOLD.search(name.value) is not None
