"""Every format that telerank reads, in one place, and the opening of a collection in any of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from telerank.corpus.collection import Collection, Format
from telerank.corpus.ranking_sets.ranking_set import RANKING_SET
from telerank.corpus.readers.antique import ANTIQUE
from telerank.corpus.readers.beir import BEIR
from telerank.corpus.readers.car_folder import TREC_CAR
from telerank.corpus.readers.cranfield import CRANFIELD
from telerank.corpus.readers.csv_files import CSV, PASSAGES
from telerank.corpus.readers.folder import FOLDER
from telerank.corpus.readers.insuranceqa import INSURANCEQA, INSURANCEQA_TOKEN
from telerank.corpus.readers.ir_datasets_ids import IR_DATASETS, open_id
from telerank.corpus.readers.jsonl import JSONL
from telerank.corpus.readers.msmarco import MSMARCO
from telerank.corpus.readers.squad import SQUAD
from telerank.corpus.readers.topics_qrels import TOPICS
from telerank.corpus.readers.trec_sgml import TREC
from telerank.errors import CollectionError
from telerank.trec.files import open_bytes
from telerank.types import Doc

FORMATS: tuple[Format, ...] = (
    ANTIQUE,
    BEIR,
    CRANFIELD,
    CSV,
    FOLDER,
    INSURANCEQA,
    INSURANCEQA_TOKEN,
    JSONL,
    MSMARCO,
    PASSAGES,
    RANKING_SET,
    SQUAD,
    TOPICS,
    TREC,
    TREC_CAR,
)


_STARTS = (
    (b"\xff\xfe", "text in UTF-16, which is not read here: convert it to UTF-8"),
    (b"\xfe\xff", "text in UTF-16, which is not read here: convert it to UTF-8"),
    (b"\x1f\x8b", "packed by gzip: its name must end in .gz"),
    (b"\xfd7zXZ\x00", "packed by xz: its name must end in .xz"),
    (b"PK\x03\x04", "a zip archive: unpack it"),
)


def open_collection(where: str | Path, *, format: str | None = None, encoding: str = "utf-8") -> Collection:  # noqa: A002
    """The collection in a folder or a file, or of an ``ir_datasets`` id (``beir/scifact/test``).

    Its format is recognised by layout and content, or forced with ``format``. ``-`` stands for JSON lines on
    standard input, which can be read once.

    Raises
    ------
    CollectionError
        If nothing is there, or no format, or more than one, is recognised.
    FormatError
        If a file turns out not to follow its format (often later, while it is read).
    MissingExtra
        If an id is given and ``ir_datasets`` is not installed.
    """
    path = Path(where)
    known = {one.name: one for one in FORMATS}
    if format is not None and format not in (*known, IR_DATASETS):
        raise CollectionError(f"unknown format {format!r}; known: {', '.join((*known, IR_DATASETS))}")
    if str(where) == "-":
        return _standard_input(format or JSONL.name, encoding)
    if format == IR_DATASETS or (format is None and not path.exists()):
        return open_id(str(where))
    if not path.exists():
        raise CollectionError(f"{where}: no such file or folder")
    return (known[format] if format else _recognised(path)).open(path, encoding)


def _recognised(path: Path) -> Format:
    found = [one for one in FORMATS if one.recognises(path)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(one.name for one in found)
        raise CollectionError(f"{path}: may be {names}: force one with format= (--format)")
    _refuse_plainly(path)
    looked = "; ".join(f"{one.name} ({one.description})" for one in FORMATS)
    raise CollectionError(f"{path}: no known collection format; looked for: {looked}")


def _refuse_plainly(path: Path) -> None:
    """Say what is wrong with what is no collection of any format, where that is plain to see."""
    told = ""
    if path.is_dir():
        if (path / "manifest.json").is_file() and (path / "segments").is_dir():
            told = "an index, not a collection"
        elif not any(path.iterdir()):
            told = "an empty folder"
    else:
        with open_bytes(path) as file:  # what cannot be read or unpacked says so
            start = file.read(1 << 16)
        told = next(
            (said for mark, said in _STARTS if start.startswith(mark)), "" if start else "an empty file"
        )
    if told:
        raise CollectionError(f"{path}: {told}")


def _standard_input(format_: str, encoding: str) -> Collection:
    if format_ != JSONL.name:
        raise CollectionError(f"standard input (-) is read as {JSONL.name}, not as {format_}")
    opened = JSONL.open(Path("-"), encoding)
    unread = [opened.docs]

    def docs() -> Iterator[Doc]:
        if not unread:
            raise CollectionError("standard input (-) can be read once only")
        return unread.pop()()

    return replace(opened, name="standard input", docs=docs)
