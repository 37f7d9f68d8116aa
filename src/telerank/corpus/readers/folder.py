"""A folder of plain texts: each file is a document, its docno the path within the folder.

Files are taken in the order of their paths, by ``.txt``, ``.text`` or ``.md``, packed or not; hidden ones and
files of other names are no documents. A docno has no blanks, so that blanks, control characters and
``%`` are written as in an address: ``my notes.txt`` is ``my%20notes.txt``. A form of files, not a set:
source and licence are those of the texts.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from telerank.corpus.collection import Collection, Format
from telerank.corpus.readers.reading import check_encoding, plain_name
from telerank.errors import CollectionError, FormatError
from telerank.trec.files import open_bytes
from telerank.types import Doc

_TEXTS = (".txt", ".text", ".md")
_QUOTED = re.compile(r"[\s\x00-\x1f\x7f-\x9f%]")
_QUESTIONS = re.compile(r"(?:topics|queries|qrels)\b", re.IGNORECASE)  # a folder of these alone is no corpus
_LOOKED_AT = 1000  # files, before a folder is believed to hold nothing but texts


def read_docs(folder: Path, encoding: str = "utf-8") -> Iterator[Doc]:
    """The documents of a folder and the folders in it.

    Raises
    ------
    FormatError
        If a file is not text of that encoding: names the byte; or its name is not in UTF-8.
    """
    check_encoding(encoding)
    for path in _files(folder):
        if _is_text(path):
            yield Doc(_docno(path, folder), _text(path, encoding))


def _docno(path: Path, folder: Path) -> str:
    name = path.relative_to(folder).as_posix()
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise FormatError(ascii(str(path)), None, "a file name in UTF-8") from error
    return _QUOTED.sub(lambda found: quote(found[0]), name)


def _text(path: Path, encoding: str) -> str:
    with open_bytes(path) as file:
        held = file.read().removeprefix(b"\xef\xbb\xbf")
    try:
        return held.decode(encoding)
    except UnicodeDecodeError as error:
        line = held.count(b"\n", 0, error.start) + 1
        place = error.start - held.rfind(b"\n", 0, error.start)
        byte = f"byte 0x{held[error.start]:02x} at place {place} of the line"
        raise FormatError(path, line, f"{encoding} text (see --encoding)", byte) from error


def _files(folder: Path) -> Iterator[Path]:
    """All files that are not hidden, by path; one folder's names at a time in memory."""
    with os.scandir(folder) as entries:
        names = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    for name, is_folder in names:
        if name.startswith("."):
            continue
        if is_folder:
            yield from _files(folder / name)
        else:
            yield folder / name


def _is_text(path: Path) -> bool:
    return Path(plain_name(path)).suffix.lower() in _TEXTS


def _recognises(path: Path) -> bool:
    if not path.is_dir():
        return False
    files = list(itertools.islice(_files(path), _LOOKED_AT))
    return all(_is_text(file) for file in files) and any(not _QUESTIONS.match(file.name) for file in files)


def _open(path: Path, encoding: str) -> Collection:
    if not path.is_dir():
        raise CollectionError(f"{path}: a single file is no folder of texts")
    return Collection(path.name, FOLDER.name, functools.partial(read_docs, path, encoding))


FOLDER = Format("folder", _recognises, _open, "folder of plain texts (.txt, .md), a document each")
