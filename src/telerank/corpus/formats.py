"""The formats that telerank reads, and opening a collection in any of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from telerank.corpus.collection import Collection
from telerank.corpus.judgments import JUDGMENTS
from telerank.corpus.ranking_sets.ranking_set import RANKING_SET
from telerank.corpus.readers.answer_selection import PARALLEL, TRECQA, WIKIQA
from telerank.corpus.readers.antique import ANTIQUE
from telerank.corpus.readers.beir import BEIR
from telerank.corpus.readers.car import TREC_CAR
from telerank.corpus.readers.csv_files import CSV, PASSAGES
from telerank.corpus.readers.files.formats import DOCUMENTS, FOLDER, WHOLE_DOCUMENTS
from telerank.corpus.readers.insuranceqa import INSURANCEQA, INSURANCEQA_TOKEN
from telerank.corpus.readers.ir_datasets_ids import IR_DATASETS, has_form_of_id, open_id
from telerank.corpus.readers.jsonl import JSONL
from telerank.corpus.readers.lisa import LISA
from telerank.corpus.readers.msmarco import MSMARCO
from telerank.corpus.readers.selqa import SELQA
from telerank.corpus.readers.smart import SMART
from telerank.corpus.readers.squad import SQUAD
from telerank.corpus.readers.topics_qrels import TOPICS
from telerank.corpus.readers.trec_sgml import CRANFIELD, ROBUST04, TREC
from telerank.corpus.reading import (
    check_encoding,
    find_backups,
    list_entries,
    list_files,
    read_first_lines,
)
from telerank.errors import CollectionError, shorten
from telerank.expressions import as_call, as_name, bind, parse_expression
from telerank.trec.columns import QRELS_FORMATS
from telerank.trec.files import Format, add_nearest, open_bytes
from telerank.trec.topics import TOPICS_FORMATS
from telerank.types import Doc

FORMATS: tuple[Format[Path, Collection], ...] = (
    JSONL,
    CSV,
    TREC,
    BEIR,
    FOLDER,
    DOCUMENTS,
    WHOLE_DOCUMENTS,
    TOPICS,
    MSMARCO,
    SMART,
    SQUAD,
    WIKIQA,
    TRECQA,
    SELQA,
    PARALLEL,
    LISA,
    ANTIQUE,
    CRANFIELD,
    ROBUST04,
    INSURANCEQA,
    INSURANCEQA_TOKEN,
    PASSAGES,
    RANKING_SET,
    TREC_CAR,
    JUDGMENTS,
)
"""All formats; of formats that are equally near to an unknown file, the first is named."""
_FORMATS = {form.name: form for form in FORMATS}
_NAMED = 5  # entries of an unknown folder that are named


_UNREADABLE = (
    ((b"\xff\xfe", b"\xfe\xff"), "text in UTF-16, which cannot be read: convert it to UTF-8"),
    (b"\x1f\x8b", "compressed by gzip: its name must end in .gz"),
    (b"\xfd7zXZ\x00", "compressed by xz: its name must end in .xz"),
    (b"PK\x03\x04", "a zip archive: unpack it"),
)
_OTHER_FILES = (
    (
        re.compile(rb"\s*<top(?:ic)?\b.*", re.IGNORECASE),
        "topics, not a collection; to be opened as one: topics.NAME",
    ),
    (
        re.compile(rb"\s*\S+\s+Q0\s+\S+\s+\d+\s+\S+\s+\S+\s*"),
        "a run (qid Q0 docno rank score tag), not a collection",
    ),
    (re.compile(rb"\s*\S+(?:\s+\S+){1,2}\s+-?\d+(?:\.\d+)?\s*"), "judgments (qrels), not a collection"),
)


def open_collection(source: str | Path, *, format: str | None = None, encoding: str = "utf-8") -> Collection:  # noqa: A002
    """Open the collection in a folder or a file, or of an ``ir_datasets`` id (``beir/scifact/test``).

    The format is recognised from layout and content unless ``format`` is given. Where a folder has several
    files of a kind, the format names one: ``smart(documents=MED.ALL, judgments=MED.REL)``. ``-`` reads JSON
    lines from standard input, which is possible once.

    Raises
    ------
    CollectionError
        If there is no such file, folder or id, or no format or several are recognised.
    ExpressionError
        If the format has no files of a kind that is named.
    FormatError
        If a file does not follow its format (often later, when it is read).
    MissingExtra
        If the format is ``ir_datasets``, which is not installed.
    """
    path = Path(source)
    name, files = _read_format(format) if format is not None else (None, {})
    if str(source) == "-":
        return _standard_input(name or JSONL.name, encoding)
    is_missing = name != IR_DATASETS and not path.exists()
    may_be_id = is_missing and name is None and has_form_of_id(str(source))
    if name == IR_DATASETS or (may_be_id and find_spec(IR_DATASETS)):
        return open_id(str(source))
    if is_missing:
        hint = "; if it is an ir_datasets id: pip install 'telerank[ir-datasets]'" if may_be_id else ""
        raise CollectionError(f"{source}: no such file or folder{hint}")
    check_encoding(encoding)
    collection = (_FORMATS[name] if name else _recognise(path)).read(path, encoding, **files)
    backups = (file.name for file in find_backups(list_entries(path)))
    return replace(collection, unread=tuple(dict.fromkeys((*collection.unread, *backups))))


def _read_format(text: str) -> tuple[str, dict[str, str]]:
    """The name of a format, and the names of files by their kinds: ``smart(documents=MED.ALL)``."""
    name = text.partition("(")[0].strip()
    if name not in (*_FORMATS, IR_DATASETS):
        known = ", ".join(sorted((*_FORMATS, IR_DATASETS)))
        raise CollectionError(f"unknown format {name!r}; known: {known}")
    kinds = _FORMATS[name].kinds if name in _FORMATS else ()
    files = bind(as_call(parse_expression(text), text), kinds, text)
    return name, {kind: as_name(file, text) for kind, file in files.items()}


def recognise_formats(path: Path) -> list[Format[Path, Collection]]:
    """The formats that a file or folder may have, by its layout and content."""
    return [form for form in FORMATS if form.recognises(path)]


def list_formats() -> dict[str, str]:
    """The description of each format of collections, topics and qrels that can be read, by name."""
    ids = "ids such as beir/scifact/test (an extra: pip install 'telerank[ir-datasets]')"
    collections = {form.name: form.description for form in FORMATS} | {IR_DATASETS: ids}
    topics = {f"topics: {name}": form.description for name, form in TOPICS_FORMATS.items()}
    qrels = {f"qrels: {name}": form.description for name, form in QRELS_FORMATS.items()}
    return dict(sorted(collections.items())) | topics | qrels


def list_collections(folder: str | Path) -> dict[str, str]:
    """The formats of the collections in a folder, by file name; none if the folder is itself a collection.

    An entry that has several formats lists them as ``beir or jsonl``.
    """
    path = Path(folder)
    if not path.is_dir() or recognise_formats(path):
        return {}
    entries = (entry for entry in sorted(path.iterdir()) if not entry.name.startswith("."))
    known = {entry.name: recognise_formats(entry) for entry in entries}
    return {name: " or ".join(form.name for form in forms) for name, forms in known.items() if forms}


def _recognise(path: Path) -> Format[Path, Collection]:
    candidates = recognise_formats(path)
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        names = ", ".join(form.name for form in candidates)
        raise CollectionError(f"{path}: may be {names}: choose one with format= (--format)")
    if problem := _diagnose(path):
        raise CollectionError(f"{path}: {problem}")
    problem = f"no known collection format; {_describe(path)}"
    raise add_nearest(CollectionError(f"{path}: {problem}"), FORMATS, path)


def _describe(path: Path) -> str:
    if path.is_file():
        return f"its first line is {shorten(next(iter(read_first_lines(path)), ''))}"
    names = [file.name for file in list_files(path)]
    return f"it has {', '.join(map(shorten, names[:_NAMED]))}{' …' if len(names) > _NAMED else ''}"


def _diagnose(path: Path) -> str:
    """Why a file or folder is not a collection, if that is easy to see."""
    if path.is_dir():
        if (path / "manifest.json").is_file() and (path / "segments").is_dir():
            return "an index, not a collection"
        return "" if any(path.iterdir()) else "an empty folder"
    with open_bytes(path) as file:  # raises if the file cannot be read or decompressed
        start = file.read(1 << 16)
    if not start:
        return "an empty file"
    problem = next((problem for mark, problem in _UNREADABLE if start.startswith(mark)), "")
    first = next((line for line in start.split(b"\n") if line.strip()), b"")
    return problem or next((what for form, what in _OTHER_FILES if form.fullmatch(first)), "")


def _standard_input(form: str, encoding: str) -> Collection:
    if form != JSONL.name:
        raise CollectionError(f"standard input (-) is read as {JSONL.name}, not as {form}")
    collection = JSONL.read(Path("-"), encoding)
    unread = [collection.docs]

    def docs() -> Iterator[Doc]:
        if not unread:
            raise CollectionError("standard input (-) can be read once only")
        return unread.pop()()

    return replace(collection, name="standard input", docs=docs)
