"""The kinds of files: the ends of their names, what must be installed to read them, and what reads them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePath

from telerank.corpus.readers.files.text import FileLimits, FileText, Problem, UnreadableFile
from telerank.corpus.reading import plain_name
from telerank.errors import FormatError, MissingExtra
from telerank.trec.files import BOM, open_bytes


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
KINDS = {end: kind for kind in _KINDS for end in kind.ends}
"""The kinds of files that are read, by the end of a name."""


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
        hint = "for another encoding: --encoding latin-1"
        raise UnreadableFile(Problem.broken, f"not text in {encoding} ({hint})") from error
