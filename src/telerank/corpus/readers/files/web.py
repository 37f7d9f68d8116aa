"""HTML pages and Markdown: the main text, with its headings; a list or a table is a paragraph.

Of a page with a ``main`` part that is read. Of another one with menus or the like, trafilatura decides which
paragraphs are the main text; the headings above them stay, too.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from lxml.etree import ParserError, _Element, iterwalk
from lxml.html import HTMLParser, document_fromstring

from telerank.columns.kinds import is_name, split_list
from telerank.corpus.readers.files.text import (
    FileText,
    Paragraph,
    Problem,
    UnreadableFile,
    clean,
    clean_line,
    join_paragraphs,
    letters,
    top_heading,
)
from telerank.yaml_files import parse_yaml

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
    for (level, _), own in groupby(_Lines().read(root), key=lambda line: (line.level, line.group)):
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
                yield _TextLine(plain, self._level, self._groups[-1][1] if self._groups else self._count)


def _is_layout(element: _Element, tag: str) -> bool:
    return tag == "table" and (element.get("role") == "presentation" or bool(element.xpath(_IN_LAYOUT)))


_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)
_HEAD = 4096  # bytes in which a page names its encoding
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DOCTYPE = re.compile(r"<!DOCTYPE\s", re.IGNORECASE)
# The rest of a document type with declarations (the group), which XHTML may have, and HTML does not know.
_DECLARATIONS = re.compile(
    r"""[^<>\[]*+(\[(?>"[^"]*+"|'[^']*+'|<!--.*?-->|(?!<!--)[^]"'])*+\])\s*+>""", re.DOTALL
)
_DEEPEST = 100  # lists and quotations within each other
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_TITLE = re.compile(r"^title:[ \t]*([\"']?)(.*)\1[ \t]*$", re.MULTILINE)
# The columns that a page's metas are, by the first that is there.
_METAS = {
    "author": ("author", "dc.creator", "article:author"),
    "created": ("date", "dc.date", "dcterms.created", "article:published_time"),
    "modified": ("dcterms.modified", "article:modified_time", "last-modified"),
    "keywords": ("keywords", "dc.subject"),
    "subject": ("subject",),
}
# Columns that the reader of a folder gives.
_OF_FILES = frozenset(("docno", "text", "url", "file", "folders", "heading"))
_MOST_KEYS = 100  # of a front matter
_AROUND = "//nav | //header | //footer | //aside"
_MENUS = re.compile(r"\b(?:menu|nav|navbar|navigation|sidebar|footer|cookies?|breadcrumbs?)\b", re.IGNORECASE)
_COMPARED = 60  # letters of a paragraph that tell whether it is part of the main text
_LEAST = 80  # letters of a main part: one without text is filled by a script


def read_html(content: bytes, _name: str = "") -> FileText:
    """The main text of an HTML page.

    Raises
    ------
    UnreadableFile
        If it has no text, or its elements are nested too deeply to be read.
    """
    text = _remove_declarations(decode_html(content))
    tree = _parse(text)
    parts = tree.xpath("//main | //*[@role='main']")
    main = parts[0] if len(parts) == 1 and len(letters("".join(parts[0].itertext()))) >= _LEAST else None
    paragraphs = list(read_elements(tree if main is None else main))
    kept = _keep_main(paragraphs, text) if main is None and _has_menus(tree) else paragraphs
    left_out = len(paragraphs) - len(kept)
    return join_paragraphs(
        kept,
        top_heading(kept) or clean_line(tree.findtext(".//title") or ""),
        {"paragraphs beside the main text": left_out} if left_out else {},
        _read_metas(tree),
    )


def _read_metas(tree: _Element) -> dict[str, Any]:
    """What a page says of itself in its head."""
    metas = {
        (meta.get("name") or meta.get("property") or "").lower(): clean_line(meta.get("content") or "")
        for meta in tree.xpath("//head//meta[@content]")
    }
    values = {
        column: next((metas[name] for name in names if metas.get(name)), "")
        for column, names in _METAS.items()
    }
    return {**values, "keywords": list(split_list(values["keywords"]))}


def read_markdown(text: str, _name: str = "") -> FileText:
    """The text of a Markdown file; its title is that of its front matter, or its only highest heading.

    The other keys of the front matter are its properties.

    Raises
    ------
    UnreadableFile
        If it has no text, or lists or quotations are nested too deeply to be read.
    """
    from markdown_it import MarkdownIt

    text = text.replace("\r\n", "\n")
    front = _FRONT.match(text)
    stated = _FRONT_TITLE.search(front[1]) if front else None
    body = text[front.end() :] if front else text
    markdown = MarkdownIt("commonmark", {"maxNesting": _DEEPEST}).enable(["table", "strikethrough"])
    tokens = markdown.parse(body)
    if any(token.nesting == 1 and token.level >= _DEEPEST - 1 for token in tokens):
        raise UnreadableFile(Problem.broken, "lists or quotations nested too deeply")  # whose text is lost
    paragraphs = list(read_elements(_parse(markdown.renderer.render(tokens, markdown.options, {}))))
    title = clean_line(stated[2]) if stated else top_heading(paragraphs)
    properties, left_out = _read_front(front[1]) if front else ({}, 0)
    counts = {"parts of a front matter": left_out} if left_out else {}
    return join_paragraphs(paragraphs, title, counts, properties)


def _read_front(text: str) -> tuple[dict[str, Any], int]:
    """The properties in a front matter, and how many cannot be read; one that is not YAML counts as one."""
    try:
        front = parse_yaml(text)
    except ValueError:
        return {}, 1
    if not isinstance(front, dict):
        return {}, int(front is not None)
    front.pop("title", None)
    named = [(key, value) for key, value in front.items() if is_name(key) and key not in _OF_FILES]
    kept = named[:_MOST_KEYS]
    plain: dict[str, Any] = json.loads(json.dumps(dict(kept), default=str))  # dates as texts
    return plain, len(front) - len(kept)


def decode_html(content: bytes) -> str:
    """The text of a page: UTF-8, or else the encoding that it names, or else Windows-1252, as browsers do."""
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return content.decode(encoding, "replace")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        named = _CHARSET.search(content[:_HEAD])
    encoding = named[1].decode("ascii").lower() if named else "cp1252"
    try:
        return content.decode("cp1252" if encoding in ("iso-8859-1", "utf-8") else encoding, "replace")
    except LookupError:
        return content.decode("cp1252", "replace")


def _remove_declarations(text: str) -> str:
    doctype = _DOCTYPE.search(text)
    match = _DECLARATIONS.match(text, doctype.end()) if doctype else None
    return f"{text[: match.start(1)]}{text[match.end(1) :]}" if match else text


def _parse(text: str) -> _Element:
    if not text.strip():
        raise UnreadableFile(Problem.empty)
    parser = HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    content = text.replace("\0", " ").encode()  # as bytes: a text may not declare an encoding
    try:
        tree = document_fromstring(content, parser=parser, ensure_head_body=True)
    except ParserError as error:
        raise UnreadableFile(Problem.empty) from error
    if any("Excessive depth" in entry.message for entry in parser.error_log):
        raise UnreadableFile(Problem.broken, "elements nested too deeply")
    return tree


def _has_menus(tree: _Element) -> bool:
    """Whether a page seems to be of a site: pages that office programs write have neither menus nor feet."""
    if tree.xpath(_AROUND):
        return True
    return any(_MENUS.search(name) for name in tree.xpath("//@class | //@id"))


def _keep_main(paragraphs: Sequence[Paragraph], page: str) -> Sequence[Paragraph]:
    import trafilatura

    main = letters(trafilatura.extract(page, favor_recall=True, include_comments=False) or "")
    kept = [letters(paragraph.text)[:_COMPARED] in main for paragraph in paragraphs]
    if not main or not any(kept):
        return paragraphs
    for number in range(len(paragraphs) - 2, -1, -1):
        if paragraphs[number].level:
            kept[number] = kept[number + 1]
    return [paragraph for paragraph, own in zip(paragraphs, kept, strict=True) if own]
