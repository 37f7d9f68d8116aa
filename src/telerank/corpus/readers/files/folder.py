"""The files of a folder, their contents' hashes, and the documents that each of them is.

Files are read in the order of their paths; hidden files, and those of other kinds, are ignored. Since a docno
has no blanks, blanks, control characters and ``%`` are encoded as in a URL: ``my notes.txt`` is
``my%20notes.txt``. A file that is not cut is ``guide.pdf``, and a passage of one that is cut is named by its
heading and its text, ``guide.pdf#chauffage-3f2a9c01``: see :func:`name_passages`.
"""

from __future__ import annotations

import os
import re
import stat
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import tee
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from unicodedata import combining, normalize
from urllib.parse import quote

from telerank.corpus.readers.files.processes import BELOW, FilePassage
from telerank.corpus.readers.files.text import FileLimits, Problem, file_kind, is_text
from telerank.corpus.reading import read_text
from telerank.errors import FormatError, UnreadFiles
from telerank.stored import Manifest, file_checksum
from telerank.types import PASSAGE, Doc, Mark

_NAMED = 5  # files that a line names


@dataclass(frozen=True)
class FileRecord:
    """A file as it was read: the SHA-256 of its content, its size in bytes and its number of documents.

    ``passages`` has the names of its passages in their order, if it is cut.
    ``problem`` and ``reason`` say why it was not read, and ``counts`` what of it was not. A file that is too
    large has no hash.
    """

    sha256: str
    bytes: int
    documents: int = 0
    problem: str = ""
    reason: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    passages: tuple[str, ...] = ()

    @property
    def is_final(self) -> bool:
        """Whether reading the same content again gives the same; time may not be short every time."""
        return self.problem != Problem.too_slow


@dataclass(frozen=True)
class FolderRecord(Manifest):
    """The files of an index, by their paths in the folder, and how they are read."""

    collection_format: str
    encoding: str
    files: Mapping[str, FileRecord] = field(default_factory=dict)
    kind: str | None = "files"
    format: int = 1


def describe_problems(files: Mapping[str, FileRecord]) -> Iterator[str]:
    """Lines that count and name the files that were not read, or not whole."""
    unread: dict[str, list[str]] = defaultdict(list)
    in_part: dict[str, dict[str, int]] = defaultdict(dict)
    for name, file in files.items():
        if file.problem:
            unread[file.problem].append(f"{name} ({file.reason})" if file.reason else name)
        for what, count in file.counts.items():
            in_part[what][name] = count
    for problem, names in unread.items():
        yield f"{len(names):,} not read, {problem}: {_name(names)}"
    for what, counts in in_part.items():
        yield f"left out, {what}: {sum(counts.values()):,} ({_name(list(counts))})"


def _name(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")


_LONGEST_SLUG, _FIRST = 24, 200  # characters of a name, and of a text that may name it
_WORDS = re.compile(r"[^\W_]+")
_QUOTED = re.compile(r"[\s\x00-\x1f\x7f-\x9f%]")


class ScannedFile(NamedTuple):
    """A file by its path and its name in the folder, with a record that has no documents yet."""

    path: Path
    name: str
    record: FileRecord


class FileContents(NamedTuple):
    """The documents of a file, none if there is a problem with it."""

    name: str
    record: FileRecord
    docs: tuple[Doc, ...]


@dataclass(frozen=True)
class FolderFiles:
    """The files of a folder that are read, within ``limits`` of each.

    ``is_plain`` takes texts as they are; otherwise files are read in processes of their own, and cut into
    passages of ``words``, if it is not None. ``encoding`` is that of text and Markdown.
    """

    folder: Path
    encoding: str = "utf-8"
    words: int | None = None
    is_plain: bool = False
    limits: FileLimits = field(default_factory=FileLimits)
    processes: int | None = None

    def scan(self) -> Iterator[ScannedFile]:
        """Every file with the hash of its content, or the problem that it cannot be opened."""
        root = self.folder.resolve()
        for path in list_files(self.folder):
            if is_text(path) if self.is_plain else file_kind(path):
                yield self._scan(path, root)

    def _scan(self, path: Path, root: Path) -> ScannedFile:
        name = path.relative_to(self.folder).as_posix()
        try:
            name.encode()
        except UnicodeEncodeError as error:
            if self.is_plain:
                raise FormatError(ascii(str(path)), None, "a file name in UTF-8") from error
            name = os.fsencode(name).decode("utf-8", "backslashreplace")
            return ScannedFile(path, name, _refuse(Problem.broken, "its name is not UTF-8"))
        try:
            return ScannedFile(path, name, self._examine(path, root))
        except OSError as error:
            return ScannedFile(path, name, _refuse(Problem.broken, error.strerror or str(error)))

    def _examine(self, path: Path, root: Path) -> FileRecord:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):
            return _refuse(Problem.broken, "not a file")
        if not self.is_plain and not path.resolve().is_relative_to(root):
            return _refuse(Problem.outside)
        if not self.is_plain and state.st_size > self.limits.bytes:
            return _refuse(Problem.too_large, f"{state.st_size >> 20:,} MiB", size=state.st_size)
        return FileRecord(file_checksum(path), state.st_size)

    def read(self, files: Iterable[ScannedFile]) -> Iterator[FileContents]:
        """The documents of files, in their order.

        Raises
        ------
        FormatError
            If a plain text has other bytes than its encoding.
        """
        return map(self._read_plain, files) if self.is_plain else self._read_files(files)

    def docs(self) -> Iterator[Doc]:
        """The documents of all files; at the end warnings (UnreadFiles) count and name what was not read."""
        records = {}
        for name, record, docs in self.read(self.scan()):
            records[name] = record
            yield from docs
        warn_unread(records)

    def _read_plain(self, file: ScannedFile) -> FileContents:
        if file.record.problem:
            return FileContents(file.name, file.record, ())
        return FileContents(
            file.name,
            replace(file.record, documents=1),
            (
                Doc(
                    file_docno(file.name),
                    read_text(file.path, self.encoding),
                    file=file.name,
                    columns=file_columns(file),
                ),
            ),
        )

    def _read_files(self, files: Iterable[ScannedFile]) -> Iterator[FileContents]:
        from telerank.corpus.readers.files.processes import FileProcesses

        requested, kept = tee(files)
        with FileProcesses(self.limits, self.processes) as processes:
            settings = {"encoding": self.encoding, "words": self.words}
            requests = (
                None if file.record.problem else {"path": str(file.path), **settings} for file in requested
            )
            for file, answer in zip(kept, processes.read(requests), strict=True):
                yield _contents(file, answer)


def list_files(folder: Path) -> Iterator[Path]:
    """All files that are not hidden, sorted by path, with the names of one folder at a time in memory."""
    with os.scandir(folder) as entries:
        names = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    for name, is_folder in names:
        if name.startswith("."):
            continue
        if is_folder:
            yield from list_files(folder / name)
        else:
            yield folder / name


def file_docno(name: str) -> str:
    """The docno of a file by its name in the folder."""
    return _QUOTED.sub(lambda match: quote(match[0]), name)


# What a file does not say of itself: its place decides who may see it.
OF_FILES = frozenset(("docno", "text", "title", "url", "file", "folders", "heading"))


def file_columns(file: ScannedFile) -> dict[str, Any]:
    """The columns of a file that its place and its time give: ``folders`` and ``modified``."""
    columns: dict[str, Any] = folders_column(file.name)
    with suppress(OSError, OverflowError, ValueError):  # it may be gone by now
        columns["modified"] = datetime.fromtimestamp(file.path.stat().st_mtime, UTC).date()
    return columns


def folders_column(name: str) -> dict[str, Any]:
    """The folders that a file is in, the outermost first: ``rh``, ``rh/congés``; none at the top."""
    folders = tuple(str(parent) for parent in PurePosixPath(name).parents)[-2::-1]
    return {"folders": folders} if folders else {}


def heading_column(marks: tuple[Mark, ...]) -> dict[str, Any]:
    """The heading that a passage begins with or stands under."""
    return {"heading": marks[0].heading} if marks and marks[0].heading else {}


def name_passages(passages: Iterable[FilePassage]) -> list[str]:
    """The names of the passages of a file, each different: a heading or first words, and a hash of the text.

    The heading is the nearest one at the beginning of the passage. It is written in lower case with hyphens,
    without the accents of Latin letters, and cut to 24 characters. The hash is the first eight hexadecimal
    digits of the SHA-256 of the text with single blanks. So a passage keeps its name while its text and its
    heading stay, wherever it stands. Of equal ones the second is ``chauffage-3f2a9c01-2``, and so on in their
    order: which of them goes when one of them is removed makes no difference.
    """
    counts: Counter[str] = Counter()
    names = []
    for passage in passages:
        heading = passage.marks[0].heading.rpartition(BELOW)[2] if passage.marks else ""
        name = name_text(heading, passage.text)
        counts[name] += 1
        names.append(name if counts[name] == 1 else f"{name}-{counts[name]}")
    return names


def name_text(heading: str, text: str) -> str:
    """The words of a heading, or else the first ones of a text, and a hash of the text."""
    words = _slug(heading[:_FIRST]) or _slug(text[:_FIRST]) or "text"
    return f"{words}-{sha256(' '.join(text.split()).encode()).hexdigest()[:8]}"


def _slug(text: str) -> str:
    """The words of a text with hyphens between, as many as fit, or the beginning of the first."""
    letters = "".join(letter for letter in normalize("NFKD", text.casefold()) if not combining(letter))
    joined = "-".join(_WORDS.findall(normalize("NFC", letters)))
    if len(joined) <= _LONGEST_SLUG:
        return joined
    return joined[: _LONGEST_SLUG + 1].rpartition("-")[0] or joined[:_LONGEST_SLUG]


def warn_unread(records: Mapping[str, FileRecord]) -> None:
    """Warn (UnreadFiles) of the files that were not read, or not whole."""
    for line in describe_problems(records):
        warnings.warn(line, UnreadFiles, stacklevel=3)


def _refuse(problem: Problem, reason: str = "", size: int = 0) -> FileRecord:
    return FileRecord("", size, 0, problem, reason)


def _contents(file: ScannedFile, answer: Mapping[str, Any]) -> FileContents:
    if not answer:
        return FileContents(file.name, file.record, ())
    if "problem" in answer:
        record = replace(file.record, problem=str(answer["problem"]), reason=answer["reason"])
        return FileContents(file.name, record, ())
    base = file_docno(file.name)
    passages = [
        FilePassage(title, text, tuple(Mark(*mark) for mark in marks))
        for title, text, marks in answer["passages"]
    ]
    names = name_passages(passages) if len(passages) > 1 else []
    docnos = [f"{base}{PASSAGE}{name}" for name in names] or [base]
    stated = {name: value for name, value in answer["properties"].items() if name not in OF_FILES}
    columns = {**file_columns(file), **stated}
    docs = tuple(
        Doc(docno, text, title, file=file.name, marks=marks, columns=columns | heading_column(marks))
        for docno, (title, text, marks) in zip(docnos, passages, strict=True)
    )
    record = replace(file.record, documents=len(docs), passages=tuple(names), counts=answer["counts"])
    return FileContents(file.name, record, docs)
