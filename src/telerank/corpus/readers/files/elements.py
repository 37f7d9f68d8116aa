"""From the elements of an HTML tree to paragraphs: lists, tables and preformatted text are one each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from lxml.etree import _Element, iterwalk

from telerank.corpus.readers.files.text import Paragraph, clean

_LEVELS = {f"h{level}": level for level in range(1, 7)}
_SKIPPED_NAMES = """
    script style noscript template head title svg math iframe object select button nav
"""
_SKIPPED = frozenset(_SKIPPED_NAMES.split())
_BLOCKS_NAMES = """
    address article aside blockquote body caption center dd details dialog div dl dt fieldset figcaption
    figure footer form h1 h2 h3 h4 h5 h6 header hr li main ol p pre section summary table td th tr ul
"""
_BLOCKS = frozenset(_BLOCKS_NAMES.split())
_LISTS, _CELLS = frozenset(["ul", "ol", "dl"]), frozenset(["td", "th"])
_GROUPS = frozenset([*_LISTS, "table", "pre"])
_IN_LAYOUT = "(.//table | .//h1 | .//h2 | .//h3 | .//h4 | .//ul | .//ol)[1]"
_BLANKS = re.compile(r"[ \t\n\r\f\v]+")
_SPACES = re.compile(" {2,}")
_BREAK = "\x0b"  # of a line, among blanks that count for nothing
_ITEM, _CELL = "- ", " | "
_BEFORE_NOTE = re.compile(r"(?:[^\W\d_]{3}|[.,;:!?»)])\Z")  # m2 is no note


class _TextLine(NamedTuple):
    text: str
    level: int
    group: int


def read_elements(root: _Element) -> Iterator[Paragraph]:
    """The paragraphs of an element, in its order, without scripts and menus.

    Items of a list and rows of a table are lines of one paragraph. A table that holds headings, lists or
    tables only places them on the page.
    """
    lines = _Lines()
    for (level, _), own in groupby(lines.read(root), key=lambda line: (line.level, line.group)):
        yield Paragraph("\n".join(line.text for line in own), level)


class _Lines:
    """Reads the lines of elements; those of a list, of a table and of preformatted text are a group."""

    def __init__(self) -> None:
        self._held: list[str] = []
        self._groups: list[tuple[_Element, int]] = []  # around the text that is read
        self._count = 0
        self._row: _Element | None = None
        self._level = 0

    def read(self, root: _Element) -> Iterator[_TextLine]:
        walk = iterwalk(root, events=("start", "end"))
        for event, element in walk:
            tag = element.tag if isinstance(element.tag, str) else ""
            if event == "start":
                if tag in _SKIPPED or element.get("hidden") is not None:
                    walk.skip_subtree()
                    continue
                yield from self._start(element, tag)
                self._add(element.text)
            else:
                if not (tag in _SKIPPED or element.get("hidden") is not None):
                    yield from self._end(element, tag)
                if element is not root:
                    self._add(element.tail)
        yield from self._flush()

    def _start(self, element: _Element, tag: str) -> Iterator[_TextLine]:
        if tag == "br":
            self._held.append(_BREAK)
        if tag == "sup" and self._held and _BEFORE_NOTE.search(self._held[-1]):
            self._held.append(" ")
        if self._row is not None:  # all that is in a cell is part of its row's line
            self._held.append(_CELL if tag in _CELLS and element.getprevious() is not None else " ")
            return
        if tag not in _BLOCKS:
            return
        yield from self._flush()
        if tag in _GROUPS and not self._groups and not _is_layout(element, tag):
            self._count += 1
            self._groups.append((element, self._count))
        if tag == "tr" and self._groups:
            self._row = element
        if tag == "li":
            self._held.append(_ITEM)
        self._level = _LEVELS.get(tag, 0)

    def _end(self, element: _Element, tag: str) -> Iterator[_TextLine]:
        if self._row is not None and element is not self._row:
            return
        if tag in _BLOCKS:
            yield from self._flush()
            self._row, self._level = None, 0
        if self._groups and self._groups[-1][0] is element:
            self._groups.pop()

    def _add(self, text: str | None) -> None:
        if text:
            pre = self._groups and self._groups[-1][0].tag == "pre"
            self._held.append(text.replace("\n", _BREAK) if pre else _BLANKS.sub(" ", text))

    def _flush(self) -> Iterator[_TextLine]:
        if "".join(self._held) in (_ITEM, f"{_ITEM} "):  # whose text is in an element of its own
            return
        text = "".join(self._held)
        self._held.clear()
        if not self._groups:
            self._count += 1
        for line in text.split(_BREAK):
            pre = self._groups and self._groups[-1][0].tag == "pre"
            plain = clean(line.rstrip() if pre else _SPACES.sub(" ", line).strip())
            if plain.strip(" -|"):
                group = self._groups[-1][1] if self._groups else self._count
                yield _TextLine(plain, self._level, group)


def _is_layout(element: _Element, tag: str) -> bool:
    return tag == "table" and (element.get("role") == "presentation" or bool(element.xpath(_IN_LAYOUT)))
