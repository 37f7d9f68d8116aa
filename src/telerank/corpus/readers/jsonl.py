r"""JSON lines, one document a line.

====================================================  =========================================
``docno``, ``_id``, ``id``, ``doc_id``, ``docid``     the docno, a string or a whole number
``text``, ``contents``, ``content``, ``body``         the text
``title``, ``url``                                    may be absent or null
====================================================  =========================================

Of several names for a field the first present counts; other keys are ignored. A collection is one file
(``docs.jsonl``), or a folder of such files, which may also contain ``queries.SPLIT.jsonl``,
``qrels.SPLIT.tsv`` (or ``.txt``), a README and a licence, but nothing else. This is a file format, not a data
set: source and licence are those of the texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from telerank.corpus.collection import Collection, Format
from telerank.corpus.readers.reading import (
    bind,
    check_surrogates,
    list_files,
    match_splits,
    plain_name,
    read_all,
    read_beginning,
    read_lines,
)
from telerank.errors import CollectionError, FormatError
from telerank.trec import read_qrels, read_topics
from telerank.trec.files import first_value, parse_object
from telerank.types import Doc

DOCNO_KEYS = ("docno", "_id", "id", "doc_id", "docid")
TEXT_KEYS = ("text", "contents", "content", "body")
_QUERIES = re.compile(r"queries\.(.+)\.jsonl")
_QRELS = re.compile(r"qrels\.(.+)\.(?:tsv|txt)")
_NOTES = re.compile(r"readme|licen[sc]e", re.IGNORECASE)


def read_docs(path: Path, encoding: str = "utf-8") -> Iterator[Doc]:
    r"""Read the documents of a file of JSON lines; half of a surrogate pair (``\ud83d``) is an error."""
    for number, line in read_lines(path, encoding):
        record = parse_object(path, number, line)
        check_surrogates(line, record, path, number)
        yield Doc(
            _docno(path, number, record),
            _text(path, number, record, TEXT_KEYS),
            _text(path, number, record, ("title",), optional=True),
            _text(path, number, record, ("url",), optional=True),
        )


def _docno(path: Path, number: int, record: dict[str, Any]) -> str:
    docno = first_value(record, DOCNO_KEYS)
    if isinstance(docno, bool) or not isinstance(docno, str | int):
        raise FormatError(path, number, f"a docno as {' or '.join(DOCNO_KEYS)}", json.dumps(record))
    return str(docno)


def _text(
    path: Path, number: int, record: dict[str, Any], keys: tuple[str, ...], *, optional: bool = False
) -> str:
    text = first_value(record, keys)
    if text is None and optional:
        return ""
    if not isinstance(text, str):
        raise FormatError(path, number, f"a string as {' or '.join(keys)}", json.dumps(record))
    return text


def _recognises(path: Path) -> bool:
    if path.is_file():
        return plain_name(path).endswith(".jsonl") and _starts_with_document(path)
    names = [plain_name(file) for file in list_files(path)]
    files = _doc_files(path)
    return (
        bool(files)
        and "corpus.jsonl" not in names  # BEIR's
        and all(name.endswith(".jsonl") or _QRELS.fullmatch(name) or _NOTES.match(name) for name in names)
        and _starts_with_document(files[0])
    )


def _starts_with_document(path: Path) -> bool:
    start = read_beginning(path, 1 << 16).lstrip()
    keys = re.match(r'\{\s*"', start) and re.search(rf'"(?:{"|".join(DOCNO_KEYS)})"\s*:', start)
    return bool(keys) and not _QUERIES.fullmatch(plain_name(path)) and plain_name(path) != "queries.jsonl"


def _open(path: Path, encoding: str) -> Collection:
    files = _doc_files(path) if path.is_dir() else [path]
    if not files:
        raise CollectionError(f"{path}: no file named *.jsonl")
    return Collection(
        path.name,
        JSONL.name,
        partial(read_all, read_docs, files, encoding),
        bind(read_topics, match_splits(path, _QUERIES), format="jsonl", encoding=encoding),
        bind(read_qrels, match_splits(path, _QRELS)),
    )


def _doc_files(folder: Path) -> list[Path]:
    names = ((file, plain_name(file)) for file in list_files(folder) if file.is_file())
    return [file for file, name in names if name.endswith(".jsonl") and not name.startswith("queries.")]


JSONL = Format(
    "jsonl", _recognises, _open, "JSON lines: docno (or _id, id) and text (or contents), a document each"
)
