"""The kinds of files by the ends of their names, and reading the text of each."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path, PurePath

from telerank.corpus.readers.files.text import FileLimits, FilePart, FileText, Problem, UnreadableFile
from telerank.corpus.reading import plain_name
from telerank.errors import FormatError, MissingExtra
from telerank.trec.files import BOM, open_bytes

TEXTS = frozenset([".txt", ".text", ".md"])
"""Files that are texts as they are; they may be packed (``.gz``, ``.xz``)."""
_MARKDOWN = frozenset([".md", ".markdown"])
_HTML = frozenset([".html", ".htm", ".xhtml"])
KINDS = frozenset([".pdf", ".docx", *_HTML, *_MARKDOWN, *TEXTS])
"""The ends of all names that are read."""
_PACKED_KINDS = _MARKDOWN | TEXTS
_MODULES = {
    ".pdf": ("pypdfium2",),
    ".docx": ("docx",),
    **dict.fromkeys(_HTML, ("trafilatura", "lxml")),
    **dict.fromkeys(_MARKDOWN, ("markdown_it", "lxml")),
}
_PARAGRAPH = re.compile(r"\S.*?(?=\s*\n[^\S\n]*\n|\s*\Z)", re.DOTALL)


def file_kind(path: PurePath) -> str:
    """The end of a file's name in lower case; empty if the file is of no kind that is read."""
    packed = plain_name(Path(path))
    kind = PurePath(packed).suffix.lower()
    return kind if kind in KINDS and (packed == path.name or kind in _PACKED_KINDS) else ""


def is_text(path: PurePath) -> bool:
    """Whether a file is a text as it is, by its name."""
    return PurePath(plain_name(Path(path))).suffix.lower() in TEXTS


def require_modules(kind: str) -> None:
    """Check that what reads a kind of files is installed.

    Raises
    ------
    MissingExtra
        If it is not; the message names the package and the extra ``files``.
    """
    for module in _MODULES.get(kind, ()):
        if find_spec(module) is None:
            raise MissingExtra(module, "files")


def read_file(path: Path, encoding: str, limits: FileLimits) -> FileText:
    """The text of a file of any kind; ``encoding`` is that of text and Markdown.

    Raises
    ------
    UnreadableFile
        If it cannot be read, or its text is beyond the limits.
    """
    kind = file_kind(path)
    if kind in _PACKED_KINDS:
        text = _decode(path, encoding, limits)
        file = _read_markdown(text) if kind in _MARKDOWN else read_plain(text)
    else:
        file = _read_bytes(kind, path)
    if len(file.text) > limits.characters:
        raise UnreadableFile(Problem.too_large, f"{len(file.text):,} characters of text")
    return file


def _read_bytes(kind: str, path: Path) -> FileText:
    content = path.read_bytes()
    if not content:
        raise UnreadableFile(Problem.empty)
    if kind == ".pdf":
        from telerank.corpus.readers.files.pdf import read_pdf

        return read_pdf(content, path.name)
    if kind == ".docx":
        from telerank.corpus.readers.files.word import read_docx

        return read_docx(content)
    from telerank.corpus.readers.files.web import read_html

    return read_html(content)


def _read_markdown(text: str) -> FileText:
    from telerank.corpus.readers.files.web import read_markdown

    return read_markdown(text)


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
        hint = "for another encoding: --encoding latin-1"
        raise UnreadableFile(Problem.broken, f"not text in {encoding} ({hint})") from error


def read_plain(text: str) -> FileText:
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
