"""The file to which a service adds the judgments of its users, by one writer at a time."""

from __future__ import annotations

import hashlib
import logging
import os
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from telerank.corpus.judgments import Judgment, parse_judgment
from telerank.errors import CollectionError, FormatError
from telerank.service.errors import Unready, Unsaved
from telerank.trec.files import parse_object

if TYPE_CHECKING:
    from filelock import BaseFileLock

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

    The reader is :mod:`telerank.corpus.judgments`.
    """

    path: Path

    def check(self) -> None:
        """Check that judgments can be added.

        Raises
        ------
        CollectionError
            If the file or its folder cannot be written, or the file has something else.
        """
        if not self.path.parent.is_dir():  # a lock would make it
            raise CollectionError(f"judgments: {self.path}: cannot be written: there is no such folder")
        try:
            with self._lock():
                if self.path.exists():
                    with self.path.open("r+b") as file:
                        first = file.readline(_LONGEST).decode()
                    if first.strip():
                        parse_judgment(parse_object(self.path, 1, first), self.path, 1, first)
        except OSError as error:
            reason = error.strerror or "other processes write for too long"
            raise CollectionError(f"judgments: {self.path}: cannot be written: {reason}") from error
        except UnicodeDecodeError as error:
            raise FormatError(self.path, 1, "a judgment") from error

    def add(self, query: str, docno: str, grade: int, index: str) -> Judgment:
        """Add a judgment of now; it is on the disk when this returns.

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
        judgment = Judgment(query_id(query), query, docno, grade, now, index)
        try:
            self._append(judgment.line().encode())
        except TimeoutError as error:
            raise Unready("the judgment could not be saved: others are being saved") from error
        except OSError as error:
            _log.error("%s: a judgment could not be saved: %s", self.path, error)
            raise Unsaved(f"the judgment could not be saved: {error.strerror}") from error
        return judgment

    def _lock(self) -> BaseFileLock:
        from filelock import FileLock

        return FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=_WAIT)

    def _append(self, line: bytes) -> None:
        with self._lock(), self.path.open("a+b") as file:
            end = self._mend(file)
            try:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                os.truncate(self.path, end)  # part of a line is none
                raise

    def _mend(self, file: BinaryIO) -> int:
        """The size of the file, after its last line was ended, or removed if it is part of one."""
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _LONGEST))
        last = file.read().rpartition(b"\n")[2]
        if not last:
            return size
        try:
            text = last.decode()
            parse_judgment(parse_object(self.path, 1, text), self.path, None, text)
        except (FormatError, UnicodeDecodeError):
            _log.warning("%s: removed a line that a writer did not complete: %r", self.path, last)
            file.truncate(size - len(last))
            return size - len(last)
        file.write(b"\n")
        file.flush()
        return size + 1
