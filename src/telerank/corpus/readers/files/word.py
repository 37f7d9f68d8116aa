"""DOCX files, opened by python-docx: paragraphs with outline levels, lists, tables and notes.

Text of content controls, of text boxes and of insertions is read, deleted text is not; heads and feet of
pages are not part of the text. Pages are those of a program that lays the text out: a file has none.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Container, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

import docx
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.exceptions import PackageNotFoundError
from docx.oxml.ns import qn
from docx.oxml.parser import parse_xml
from lxml.etree import XMLSyntaxError, _Element

from telerank.columns.kinds import split_list
from telerank.corpus.readers.files.text import (
    FileText,
    Paragraph,
    Problem,
    UnreadableFile,
    clean,
    clean_line,
    join_paragraphs,
    top_heading,
)

_UNPACKED = 256 << 20  # bytes of all parts together
# What a broken package raises; NotImplementedError: zipfile does not know its version or its method.
_BROKEN = (
    PackageNotFoundError,
    KeyError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    XMLSyntaxError,
)
_LOCKED = 1  # the flag of a part that needs a password
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_HEADING = re.compile("heading ([1-9])")
_P, _T, _TABLE, _ROW, _CELL, _TEXT_BOX = (
    qn(f"w:{name}") for name in ("p", "t", "tbl", "tr", "tc", "txbxContent")
)
_STYLE, _ID, _NAME, _BASE, _VALUE = (
    qn(f"w:{name}") for name in ("style", "styleId", "name", "basedOn", "val")
)
_PROPERTIES, _OUTLINE, _NUMBERING = (qn(f"w:{name}") for name in ("pPr", "outlineLvl", "numPr"))
_CHARACTERS = {qn("w:tab"): "\t", qn("w:br"): "\n", qn("w:cr"): "\n", qn("w:noBreakHyphen"): "-"}
_SKIPPED = frozenset(
    [
        *(qn(f"w:{name}") for name in ("del", "moveFrom", "pPr", "rPr", "sectPr", "instrText")),
        "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback",
    ]
)
_NOTES = (RELATIONSHIP_TYPE.FOOTNOTES, RELATIONSHIP_TYPE.ENDNOTES)


class _Style(NamedTuple):
    """What a paragraph is: a heading of ``level``, an item of a list, the title; 0 is text."""

    level: int = 0
    is_item: bool = False
    is_title: bool = False


def read_docx(content: bytes, _name: str = "") -> FileText:
    """The text of a DOCX file; its title is the one it states, a paragraph styled so, or its only heading 1.

    Raises
    ------
    UnreadableFile
        If it is encrypted, broken, an old DOC file, or larger than 256 MiB when unpacked.
    """
    if content.startswith(_OLE):
        if _ENCRYPTED in content:
            raise UnreadableFile(Problem.encrypted)
        raise UnreadableFile(Problem.broken, "an old DOC file, not DOCX")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = archive.infolist()
    except _BROKEN as error:
        raise UnreadableFile(Problem.broken, str(error)) from error
    if any(part.flag_bits & _LOCKED for part in parts):
        raise UnreadableFile(Problem.encrypted)
    unpacked = sum(part.file_size for part in parts)
    if unpacked > _UNPACKED:
        raise UnreadableFile(Problem.too_large, f"{unpacked >> 20:,} MiB when unpacked")
    try:
        document = docx.Document(io.BytesIO(content))
    except _BROKEN as error:
        raise UnreadableFile(Problem.broken, str(error)) from error
    reader = _WordReader(document)
    paragraphs = [*reader.read(document.element.body), *reader.notes()]
    stated = clean_line(document.core_properties.title or "")
    title = stated or reader.title or top_heading(paragraphs)
    return join_paragraphs(paragraphs, title, properties=_read_properties(document))


def _read_properties(document: Any) -> dict[str, Any]:
    """What a document says of itself; a property that cannot be read is left out."""
    core = document.core_properties
    properties: dict[str, Any] = {}
    for name in ("author", "subject", "category", "keywords", "created", "modified"):
        with suppress(*_BROKEN, TypeError):
            value = getattr(core, name)
            properties[name] = value.isoformat() if isinstance(value, datetime) else clean_line(value or "")
    properties["keywords"] = list(split_list(properties.get("keywords", "")))
    return properties


class _WordReader:
    """Reads the paragraphs of a document's elements; ``title`` is that of the first one styled as a title."""

    def __init__(self, document: Any) -> None:
        self._document = document
        # The styles by their ids; a style without an outline level has that of the one it is based on.
        elements = {style.get(_ID): style for style in document.styles.element.findall(_STYLE)}
        read = {}
        for key, style in elements.items():
            name = _value(style, _NAME).lower()
            heading, based, seen = _HEADING.fullmatch(name), style, set[str | None]()
            level = int(heading[1]) if heading else _outline_level(style)
            while not level and (base := _value(based, _BASE)) in elements and base not in seen:
                seen.add(base)
                based = elements[base]
                level = _outline_level(based)
            read[str(key)] = _Style(level, name.startswith("list "), name == "title")
        self._styles = read
        self.title = ""

    def read(self, parent: _Element) -> Iterator[Paragraph]:
        """The paragraphs, lists and tables of an element."""
        items: list[str] = []
        for element in _descend(parent, (_P, _TABLE)):
            style = _Style() if element.tag == _TABLE else self._style(element)
            text = "\n".join(_rows(element)) if element.tag == _TABLE else clean(_text(element)).strip()
            if items and not style.is_item:
                yield Paragraph("\n".join(items))
                items = []
            if style.is_title and not self.title:
                self.title = clean_line(text)
            if style.is_item:
                items += [f"- {text}"] if text else []
            else:
                yield Paragraph(text, style.level)
            for box in _descend(element, (_TEXT_BOX,)) if element.tag == _P else ():
                yield from self.read(box)
        yield Paragraph("\n".join(items))

    def notes(self) -> Iterator[Paragraph]:
        """Footnotes and endnotes."""
        for relationship in self._document.part.rels.values():
            if relationship.reltype in _NOTES and not relationship.is_external:
                yield from self.read(parse_xml(relationship.target_part.blob))

    def _style(self, paragraph: Any) -> _Style:
        """The style of a paragraph, with the outline level and the numbering of its own."""
        style = self._styles.get(paragraph.style or "", _Style())
        level = _outline_level(paragraph) or style.level
        is_numbered = paragraph.find(f"{_PROPERTIES}/{_NUMBERING}") is not None
        return _Style(level, (is_numbered or style.is_item) and not level, style.is_title)


def _outline_level(element: _Element) -> int:
    """The outline level that an element states, from 1; 0 is text."""
    level = element.find(f"{_PROPERTIES}/{_OUTLINE}")
    value = "" if level is None else level.get(_VALUE, "")
    return int(value) + 1 if re.fullmatch("[0-8]", value) else 0


def _value(element: _Element, name: str) -> str:
    child = element.find(name)
    return "" if child is None else str(child.get(_VALUE, ""))


def _descend(parent: _Element, tags: Container[str]) -> Iterator[_Element]:
    """The elements of these names below an element, in order, without those within one of them."""
    waiting = list(reversed(parent))
    while waiting:
        element = waiting.pop()
        if element.tag in tags:
            yield element
        elif element.tag not in _SKIPPED:
            waiting.extend(reversed(element))


def _rows(table: _Element) -> Iterator[str]:
    """The rows of a table, a line each; a table within a cell is part of its line."""
    for row in _descend(table, (_ROW,)):
        cells = [" ".join(map(_text, cell.iter(_P))) for cell in _descend(row, (_CELL,))]
        if any(cells):
            yield " | ".join(map(clean_line, cells))


def _text(paragraph: _Element) -> str:
    """The text of a paragraph, without that of text boxes in it."""
    return "".join(
        (element.text or "") if element.tag == _T else _CHARACTERS[element.tag]
        for element in _descend(paragraph, (_T, _TEXT_BOX, *_CHARACTERS))
        if element.tag != _TEXT_BOX
    )
