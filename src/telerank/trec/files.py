"""Formats of files: what each is called, how it is recognised, what reads it, and why a file has none.

Opening of text files, plain or compressed, for all readers and writers.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import re
import sys
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Generic, TextIO, TypeAlias, TypeVar, cast

from telerank.drafts import is_device, open_draft, replace_file
from telerank.errors import CollectionError, FormatError, FormatWarning, TelerankError, nearest_beside

# Whether each condition of a format holds (a truth value), and what to say if not.
#
# A condition without words is a mark that a file need not have: it only makes the format nearer.
Conditions: TypeAlias = Iterable[tuple[object, str]]
Failure = TypeVar("Failure", bound=TelerankError)
Examined = TypeVar("Examined")
Records = TypeVar("Records")
_LIST_FORMATS = "all formats: telerank data ls"


@dataclass(frozen=True)
class Format(Generic[Examined, Records]):
    """A format of collections, topics or qrels: a reader is such a record, and a line in a table of formats.

    ``conditions`` examines the path of a collection, of which it reads names and the beginning of files only,
    or the first line of topics or qrels. ``read`` takes what its table says. ``kinds`` are the kinds of files
    of which a folder may have several, so that one has to be named:
    ``smart(documents=MED.ALL, judgments=MED.REL)``; ``read`` takes such names by their kinds.
    """

    name: str
    conditions: Callable[[Examined], Conditions]
    read: Callable[..., Records]
    description: str
    kinds: tuple[str, ...] = ()

    def recognises(self, examined: Examined) -> bool:
        """Whether it has this format; conditions after the first that is not met are not examined."""
        return holds(self.conditions(examined))


def holds(conditions: Conditions) -> bool:
    """Whether all conditions are met that a format must meet."""
    return all(met for met, mismatch in conditions if mismatch)


def add_nearest(error: Failure, formats: Iterable[Format[Examined, Records]], examined: Examined) -> Failure:
    """Add notes to an error: the two formats that came nearest, why each failed, and how to list all."""
    fits: list[tuple[int, str]] = []
    for form in formats:
        results = [(bool(met), mismatch) for met, mismatch in form.conditions(examined)]
        mismatch = next((mismatch for met, mismatch in results if mismatch and not met), "")
        fits.append((sum(met for met, _ in results), f"not {form.name}: {mismatch}"))
    for _, note in sorted(fits, key=lambda fit: -fit[0])[:2]:
        error.add_note(note)
    error.add_note(_LIST_FORMATS)
    return error


def recognise_line(
    path: str | Path, number: int, kind: str, line: Examined, formats: Iterable[Format[Examined, Records]]
) -> Format[Examined, Records]:
    """The first of several formats that the first line of a file has, or FormatError."""
    form = next((form for form in formats if form.recognises(line)), None)
    if form is None:
        got = line.decode(errors="replace") if isinstance(line, bytes) else str(line)
        raise add_nearest(FormatError(path, number, f"{kind} in a known format", got), formats, line)
    return form


_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
_UNPACKERS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".xz": lzma.LZMAFile,
}
_PACKERS: dict[str, Callable[[BinaryIO], Any]] = {
    # no name and no time in the header: the same text gives the same bytes
    ".gz": lambda file: gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0),
    ".xz": partial(lzma.LZMAFile, mode="wb"),
}
BOM = b"\xef\xbb\xbf"
# Bytes of the longest line.
LONGEST = 1 << 28
_UNPACKED, _RATIO = 1 << 26, 200  # bytes, and times of the compressed size (text: about 4 to 30)
# An escape of JSON; the group has half of a surrogate pair without its other half.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u([dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_NOT_IN_AN_ID = re.compile("^\ufeff|[ \t\n\r\v\f\0]")  # splits, cuts or hides a column for trec_eval


# Called when a file is written: how that was made which it holds.
Record: TypeAlias = Callable[[], Mapping[str, Any]]


@contextmanager
def open_to_write(path: str | Path, record: Record | None = None) -> Iterator[TextIO]:
    """Open a UTF-8 text file to write, compressed if named ``.gz`` or ``.xz``; ``-`` is standard output.

    The file appears when the block ends, not if it raises (see :func:`telerank.drafts.open_draft`); then
    ``record`` is written as JSON into ``PATH.json``, unless the file is standard output or a device. An old
    record is removed first: a record is never beside another file than its own.
    """
    if str(path) == "-":
        sys.stdout.flush()
        with _write_text(sys.stdout.buffer) as text:
            yield text
        return
    target, beside, written = Path(path), Path(f"{path}.json"), ""
    if is_device(target):
        record = None
    with open_draft(target) as file:
        with open_packer(file, target) as packed, _write_text(packed) as text:
            yield text
        if record is not None:
            written = json.dumps(record(), indent=1, ensure_ascii=False) + "\n"
            beside.unlink(missing_ok=True)
    if record is not None:
        replace_file(beside, written.encode())


def open_packer(file: BinaryIO, path: Path) -> AbstractContextManager[BinaryIO]:
    """What compresses into an open file, as its name says; the same content gives the same bytes."""
    packer: AbstractContextManager[BinaryIO] = _PACKERS.get(path.suffix, nullcontext)(file)
    return packer


@contextmanager
def _write_text(file: BinaryIO) -> Iterator[TextIO]:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
    try:
        yield text
        text.flush()
    finally:
        with suppress(OSError):  # a failed flush has been reported already
            text.detach()  # its owner closes it


def check_exists(path: str | Path) -> None:
    """Raise CollectionError if there is no such file; it names the nearest one of the folder."""
    if str(path) == "-" or Path(path).exists():
        return
    raise CollectionError(f"{path}: no such file{nearest_beside(path)}")


@contextmanager
def open_bytes(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file to read its bytes, decompressed as its name says; ``-`` is standard input.

    Raises FormatError if a compressed file is damaged, or unpacks to more than 64 MiB and 200 times its size,
    as only files do that are made to fill memory or disk.
    """
    name = str(path)
    if name == "-":
        yield sys.stdin.buffer
        return
    try:
        with open(name, "rb") as file:  # noqa: PTH123
            unpack = _UNPACKERS.get(Path(name).suffix)
            stream = _Unpacked(path, unpack(file), file) if unpack else cast("io.RawIOBase", file)
            yield cast("BinaryIO", io.BufferedReader(stream, 1 << 17))  # which splits lines in C
    except _DAMAGE as error:
        raise FormatError(path, None, f"a whole {Path(name).suffix} file", str(error)) from error


def unpack_limit(size: int) -> int:
    """The most bytes that a compressed file of so many may unpack to."""
    return max(_UNPACKED, _RATIO * size)


class _Unpacked(io.RawIOBase):
    """The content of a compressed file up to its limit."""

    def __init__(self, path: str | Path, content: BinaryIO, file: BinaryIO) -> None:
        self._path, self._content, self._size = path, content, 0
        self._limit = unpack_limit(os.fstat(file.fileno()).st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._content.readinto(buffer)  # type: ignore[attr-defined]
        self._size += count
        if self._size > self._limit:
            raise FormatError(
                self._path, None, f"a file that does not unpack to more than {_RATIO} times its size"
            )
        return count


def numbered_lines(
    path: str | Path, encoding: str = "utf-8", *, blank: bool = False
) -> Iterator[tuple[int, str]]:
    r"""Read the lines of a text file with their numbers from 1, without line ends (``\n`` or ``\r\n``).

    Blank lines are skipped unless ``blank`` is set, but counted in the numbers.
    """
    for number, line in numbered_bytes(path, blank=blank):
        yield number, decode(line, path, encoding, number)


def numbered_bytes(path: str | Path, *, blank: bool = False) -> Iterator[tuple[int, bytes]]:
    """:func:`numbered_lines` without decoding, for formats with columns separated by ASCII blanks only."""
    with open_bytes(path) as file:
        for number, line in raw_lines(path, file):
            line = line.removesuffix(b"\n").removesuffix(b"\r")
            if blank or (line and not line.isspace()):
                yield number, line


def decode(content: bytes, path: str | Path, encoding: str, line: int = 1) -> str:
    """Decode a part of a file that begins at a line; an error names the line and the byte."""
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        before = content[: error.start]
        position = error.start - before.rfind(b"\n")
        byte = f"byte 0x{content[error.start]:02x} at position {position} of the line"
        hint = f'{encoding} text (for another encoding: encoding="latin-1")'
        raise FormatError(path, line + before.count(b"\n"), hint, byte) from error


def raw_lines(path: str | Path, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines of an open file, numbered, with their ends but without a byte order mark.

    Raises FormatError for a line beyond :data:`LONGEST`.
    """
    for number, line in enumerate(iter(partial(file.readline, LONGEST + 1), b""), 1):
        if len(line) > LONGEST:
            raise FormatError(path, number, f"a line of at most {LONGEST:,} bytes")
        yield number, line.removeprefix(BOM) if number == 1 else line


def check_id(name: str, what: str, where: str | Path, line: int | None = None) -> str:
    """Return ``name`` if it is valid in a column of a TREC file: not empty, and without blanks and NULs."""
    if not name or _NOT_IN_AN_ID.search(name):
        raise FormatError(where, line, f"a {what} that is not empty and has no blank", name)
    return name


def parse_json(path: str | Path, text: str, number: int = 1, what: str = "JSON") -> Any:
    r"""Parse JSON that begins at a line.

    A repeated key of an object is an error, and so is half of a surrogate pair (``\ud83d``), which UTF-8
    cannot encode.
    """
    try:
        loaded = _JSON.decode(text)
    except (ValueError, RecursionError) as error:
        line = number + getattr(error, "lineno", 1) - 1
        raise FormatError(path, line, f"{what} ({error})", None if "\n" in text.strip() else text) from error
    if "\\u" in text and (half := next(filter(None, (match[1] for match in _ESCAPE.finditer(text))), None)):
        raise FormatError(path, number, "whole characters", f"half of a surrogate pair, U+{half.upper()}")
    return loaded


def parse_object(path: str | Path, number: int, line: str) -> dict[str, Any]:
    """Parse a line that is a JSON object (see :func:`parse_json`)."""
    record = parse_json(path, line, number, "a JSON object")
    if not isinstance(record, dict):
        raise FormatError(path, number, "a JSON object", line)
    return record


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        repeated, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"the key {repeated!r} comes twice in one object")
    return record


_JSON = json.JSONDecoder(object_pairs_hook=_unique)


def describe_json(value: object) -> str:
    """A value of a JSON file for an error message, however large or deep it is."""
    return (
        "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else json.dumps(value)
    )


def first_value(record: dict[str, Any], keys: Iterable[str]) -> Any:
    """The value of the first key that is present, or None."""
    return next((record[key] for key in keys if key in record), None)


@dataclass
class Deviations:
    """Lines of a file that do not follow its format, but that trec_eval reads; refused if ``strict``.

    Of each kind it keeps the first line and how many there are.
    """

    path: str | Path
    strict: bool
    _lines: dict[str, tuple[int, int]] = field(default_factory=dict)

    def accept(self, line: int, reading: str, expected: str, got: str | None = None) -> None:
        """Note that a line is read as ``reading`` says; if strict, raise FormatError."""
        if self.strict:
            raise FormatError(self.path, line, expected, got)
        first, count = self._lines.get(reading, (line, 0))
        self._lines[reading] = first, count + 1

    def warn(self) -> None:
        """A FormatWarning for each kind."""
        for reading, (first, count) in self._lines.items():
            more = f" (and {count - 1:,} more)" if count > 1 else ""
            warnings.warn(f"{self.path}:{first}: {reading}{more}", FormatWarning, stacklevel=2)
