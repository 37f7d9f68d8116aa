"""What an index keeps of the files that it was made from: hashes of contents, and what was not read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from telerank.corpus.readers.files.text import Problem
from telerank.stored import Manifest

_NAMED = 5  # files that a line names


@dataclass(frozen=True)
class FileRecord:
    """A file as it was read: the SHA-256 of its content, its size in bytes and its number of documents.

    ``problem`` and ``reason`` say why it was not read, and ``counts`` what of it was not. A file that is too
    large has no hash.
    """

    sha256: str
    bytes: int
    documents: int = 0
    problem: str = ""
    reason: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_final(self) -> bool:
        """Whether reading the same content again gives the same; time may not be short every time."""
        return self.problem != Problem.too_slow


def _parse_records(entries: Mapping[str, Mapping[str, Any]]) -> dict[str, FileRecord]:
    return {name: FileRecord(**entry) for name, entry in entries.items()}


@dataclass(frozen=True)
class FolderRecord(Manifest):
    """The files of an index, by their paths in the folder, and how they are read."""

    collection_format: str
    encoding: str
    files: Mapping[str, FileRecord] = field(default_factory=dict)
    kind: str | None = "files"
    format: int = 1
    parsers: ClassVar[Mapping[str, Callable[[Any], object]]] = {"files": _parse_records}


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
