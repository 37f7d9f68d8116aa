"""The file to which a service adds the judgments of its users, by one writer at a time."""

from __future__ import annotations

import hashlib
import logging
import os
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path

from filelock import BaseFileLock, FileLock

from telerank.corpus.answers import Judgment, parse_judgment, read_judgments
from telerank.corpus.reading import PACKED
from telerank.errors import CollectionError, FormatError
from telerank.service.errors import Unready, Unsaved
from telerank.trec.files import parse_object

_log = logging.getLogger(__name__)
_WAIT = 5.0  # seconds for other writers
_LONGEST = 1 << 20  # bytes of a line that a killed writer may have left


def query_id(text: str) -> str:
    """The qid of a query: the same for texts that differ in case, blanks or Unicode forms alone."""
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return f"q{hashlib.blake2b(plain.encode(), digest_size=8).hexdigest()}"


@dataclass(frozen=True)
class JudgmentFile:
    """Judgments in a file that several processes add to; it is made with the first.

    The reader is :mod:`telerank.corpus.answers`.
    """

    path: Path

    def check(self) -> None:
        """Check that judgments can be added.

        Raises
        ------
        CollectionError
            If the file or its folder cannot be written, or its name says that it is compressed.
        FormatError
            If the file has lines, but no judgment.
        """
        if self.path.suffix in PACKED:
            raise CollectionError(f"judgments: {self.path}: expected a file that is not compressed")
        if not self.path.parent.is_dir():  # a lock would make it
            raise CollectionError(f"judgments: {self.path}: cannot be written: there is no such folder")
        try:
            with self._lock():
                if self.path.exists():
                    with self.path.open("r+b"):
                        next(read_judgments(self.path), None)
        except OSError as error:
            raise CollectionError(
                f"judgments: {self.path}: cannot be written: "
                f"{error.strerror or 'other processes write for too long'}"
            ) from error

    def add(self, query: str, docno: str, grade: int, index: str, rank: int = 0) -> Judgment:
        """Add a judgment, or a click on a rank, of now; it is on the disk when this returns.

        Raises
        ------
        ValueError
            If the grade is beyond the limits, the docno is empty or has a blank, or the query has half of a
            surrogate pair.
        Unready
            If other processes write for too long.
        Unsaved
            If the file cannot be written, such as on a full disk.
        """
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        judgment = Judgment(query_id(query), query, docno, grade, now, index, rank)
        try:
            self._append(judgment.line().encode())
        except TimeoutError as error:
            raise Unready("the judgment could not be saved: others are being saved") from error
        except OSError as error:
            _log.error("%s: a judgment could not be saved: %s", self.path, error)
            raise Unsaved(f"the judgment could not be saved: {error.strerror}") from error
        return judgment

    def _lock(self) -> BaseFileLock:
        return FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=_WAIT)

    def _append(self, line: bytes) -> None:
        with self._lock(), self.path.open("a+b", buffering=0) as file:
            end, last = self._mend(file)
            left = b"\n" + line if last else line  # what is left to be written
            try:
                while left:  # written whole at once, unless the disk is full
                    left = left[file.write(left) :]
                os.fsync(file.fileno())
            except OSError:
                file.truncate(end)  # part of a line is none
                raise

    def _mend(self, file: FileIO) -> tuple[int, bytes]:
        """The size of the file and its last line if that has no end; part of a line is removed before."""
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _LONGEST))
        last = file.read().rpartition(b"\n")[2]
        try:
            if last:
                parse_judgment(parse_object(self.path, 1, last.decode()), self.path, None, last.decode())
        except (FormatError, UnicodeDecodeError):
            _log.warning("%s: removed a line that a writer did not complete: %r", self.path, last)
            return file.truncate(size - len(last)), b""
        return size, last
