"""HTML pages and Markdown: the main text, with its headings.

Of a page with a ``main`` part that is read. Of another one with menus or the like, trafilatura decides which
paragraphs are the main text; the headings above them stay, too.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

from lxml.etree import ParserError, _Element
from lxml.html import HTMLParser, document_fromstring

from telerank.corpus.readers.files.elements import read_elements
from telerank.corpus.readers.files.text import (
    FileText,
    Paragraph,
    Problem,
    UnreadableFile,
    clean_line,
    join_paragraphs,
)

_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)
_HEAD = 4096  # bytes in which a page names its encoding
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DOCTYPE = re.compile(r"<!DOCTYPE\s", re.IGNORECASE)
_DECLARATIONS = re.compile(
    r"""[^<>\[]*+(\[(?>"[^"]*+"|'[^']*+'|<!--.*?-->|(?!<!--)[^]"'])*+\])\s*+>""", re.DOTALL
)
"""The rest of a document type with declarations (the group), which XHTML may have, and HTML does not know."""
_DEEPEST = 100  # lists and quotations within each other
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_TITLE = re.compile(r"^title:[ \t]*([\"']?)(.*)\1[ \t]*$", re.MULTILINE)
_AROUND = "//nav | //header | //footer | //aside"
_MENUS = re.compile(r"\b(?:menu|nav|navbar|navigation|sidebar|footer|cookies?|breadcrumbs?)\b", re.IGNORECASE)
_COMPARED = 60  # letters of a paragraph that tell whether it is part of the main text
_LEAST = 80  # letters of a main part: one without text is filled by a script
_NOT_WORDS = re.compile(r"[\W_]+")


def read_html(content: bytes) -> FileText:
    """The main text of an HTML page.

    Raises
    ------
    UnreadableFile
        If it has no text, or its elements are nested too deeply to be read.
    """
    text = _remove_declarations(decode_html(content))
    tree = _parse(text)
    main = _main_part(tree)
    paragraphs = list(read_elements(tree if main is None else main))
    kept = _keep_main(paragraphs, text) if main is None and _has_menus(tree) else paragraphs
    left_out = len(paragraphs) - len(kept)
    counts = {"paragraphs beside the main text": left_out} if left_out else {}
    stated = clean_line(tree.findtext(".//title") or "")
    return join_paragraphs(kept, _top_heading(kept) or stated, counts)


def read_markdown(text: str) -> FileText:
    """The text of a Markdown file; its title is that of its front matter, or its only highest heading.

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
    rendered = markdown.renderer.render(tokens, markdown.options, {})
    paragraphs = list(read_elements(_parse(rendered)))
    return join_paragraphs(paragraphs, clean_line(stated[2]) if stated else _top_heading(paragraphs))


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


def _main_part(tree: _Element) -> _Element | None:
    parts = tree.xpath("//main | //*[@role='main']")
    return parts[0] if len(parts) == 1 and len(_key("".join(parts[0].itertext()))) >= _LEAST else None


def _has_menus(tree: _Element) -> bool:
    """Whether a page seems to be of a site: pages that office programs write have neither menus nor feet."""
    if tree.xpath(_AROUND):
        return True
    return any(_MENUS.search(name) for name in tree.xpath("//@class | //@id"))


def _keep_main(paragraphs: Sequence[Paragraph], page: str) -> Sequence[Paragraph]:
    import trafilatura

    main = _key(trafilatura.extract(page, favor_recall=True, include_comments=False) or "")
    kept = [_key(paragraph.text)[:_COMPARED] in main for paragraph in paragraphs]
    if not main or not any(kept):
        return paragraphs
    for number in range(len(paragraphs) - 2, -1, -1):
        if paragraphs[number].level:
            kept[number] = kept[number + 1]
    return [paragraph for paragraph, own in zip(paragraphs, kept, strict=True) if own]


def _key(text: str) -> str:
    return _NOT_WORDS.sub("", text).casefold()


def _top_heading(paragraphs: Sequence[Paragraph]) -> str:
    """The heading of level 1 if there is but one."""
    tops = [clean_line(paragraph.text) for paragraph in paragraphs if paragraph.level == 1]
    return tops[0] if len(tops) == 1 else ""
