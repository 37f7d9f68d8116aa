r"""JSON documents: an object a line, or in ``.json`` files an array of objects, as Anserini's JsonCollection.

====================================================  =========================================
``docno``, ``_id``, ``id``, ``doc_id``, ``docid``     the docno, a string or a whole number
``text``, ``contents``, ``content``, ``body``         the text
``title``, ``url``                                    may be absent or null
====================================================  =========================================

Of several names for a field the first present counts; other keys are ignored. A collection is one file
(``docs.jsonl``), or a folder of such files, which may also contain queries (``queries.jsonl``,
``queries.SPLIT.tsv``), qrels (``qrels.tsv``, ``qrels.SPLIT.txt``), a README and a licence, but nothing
else. Beside queries or qrels the documents may also be in one folder (``jsonl/docs.json``), as Anserini's
CACM. One file of queries beside several of qrels has the queries of all splits. This is a file format, not a
data set: source and licence are those of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from telerank.corpus.collection import Collection
from telerank.corpus.reading import (
    WHOLE,
    bind,
    group_by_split,
    is_note,
    judged_queries,
    list_files,
    plain_name,
    read_all,
    read_beginning,
    read_first_keys,
    read_text,
    unread_files,
)
from telerank.errors import CollectionError, FormatError
from telerank.trec import read_qrels, read_topics
from telerank.trec.files import (
    Conditions,
    Format,
    describe_json,
    first_value,
    numbered_lines,
    parse_json,
    parse_object,
)
from telerank.types import Doc

DOCNO_KEYS = ("docno", "_id", "id", "doc_id", "docid")
TEXT_KEYS = ("text", "contents", "content", "body")
_DOCNO, _TEXT = " or ".join(DOCNO_KEYS), " or ".join(TEXT_KEYS)
_QUERIES = re.compile(r"(?:queries|topics)(?:[._-].+)?\.(?:jsonl|tsv|txt|trec)")
_QRELS = re.compile(r"qrels(?:[._-].+)?\.(?:tsv|txt)")
_ENDINGS = (".jsonl", ".json")
_EXAMINED = 20  # files whose first keys are looked at


def read_docs(path: Path, encoding: str = "utf-8") -> Iterator[Doc]:
    r"""Read the documents of a file; half of a surrogate pair (``\ud83d``) is an error."""
    if plain_name(path).endswith(".json") and not _has_objects_in_lines(path):
        loaded = parse_json(path, read_text(path, encoding))
        for position, record in enumerate(loaded if isinstance(loaded, list) else [loaded], 1):
            if not isinstance(record, dict):
                raise FormatError(path, None, f"an object as item {position}", describe_json(record))
            yield _doc(path, None, record, f"that of item {position}")
        return
    for number, line in numbered_lines(path, encoding):
        yield _doc(path, number, parse_object(path, number, line), line)


def _has_objects_in_lines(path: Path) -> bool:
    """Whether the first line is an object, or the beginning of a very long one: neither array nor part."""
    first, line_end, _ = read_beginning(path, 1 << 16).lstrip().partition("\n")
    return first.startswith("{") and (first.rstrip().endswith("}") or not line_end)


def _doc(path: Path, number: int | None, record: dict[str, Any], source: str) -> Doc:
    docno = first_value(record, DOCNO_KEYS)
    if isinstance(docno, bool) or not isinstance(docno, str | int):
        raise FormatError(path, number, f"a docno as {_DOCNO}", source)
    text = first_value(record, TEXT_KEYS)
    title, url = (record.get(key) or "" for key in ("title", "url"))
    for name, value in ((_TEXT, text), ("title", title), ("url", url)):
        if not isinstance(value, str):
            raise FormatError(path, number, f"a string as {name}", source)
    return Doc(str(docno), text, title, url)


def _conditions(path: Path) -> Conditions:
    docs = _doc_files(path)
    examined = docs[:_EXAMINED]
    keys = {file.name: read_first_keys(file) for file in examined}
    first = next((name for name, own in keys.items() if not own & {*DOCNO_KEYS}), "")
    judged = next((name for name, own in keys.items() if {"docno", "query", "grade"} <= own), "")
    yield any(own & {*TEXT_KEYS} for own in keys.values()), ""
    objects = any(keys.values())
    yield objects, "no file of JSON objects" if path.is_dir() else "its first line is not a JSON object"
    yield objects and not first, f"the first object of {first} has no {_DOCNO}"
    yield objects and not judged, f"{judged} has judgments"
    yield docs and plain_name(docs[0]).endswith(_ENDINGS), "its name ends neither in .jsonl nor in .json"
    if path.is_dir() and any(plain_name(file) == "corpus.jsonl" for file in docs):
        yield False, "corpus.jsonl is that of a BEIR folder"
    if docs and path.is_dir() and (others := _other_files(path, docs)):
        yield False, f"{', '.join(file.name for file in others[:3])}: neither JSON nor queries nor qrels"


def _open(path: Path, encoding: str) -> Collection:
    files = _doc_files(path)
    if not files:
        raise CollectionError(f"{path}: no file named *.jsonl or *.json")
    entries = list_files(path) if path.is_dir() else []
    topics = [file for file in entries if _QUERIES.fullmatch(plain_name(file))]
    qrels = [file for file in entries if _QRELS.fullmatch(plain_name(file))]
    questions, judgments = group_by_split(topics, qrels)
    queries = bind(read_topics, questions, encoding=encoding)
    if [*questions] == [WHOLE] and WHOLE not in judgments and judgments:
        queries = bind(judged_queries, judgments, queries=topics[0], encoding=encoding)
    inner = files[0].parent if path.is_dir() else path
    beside = (f"{inner.name}/{name}" for name in unread_files(inner, files) if inner != path)
    return Collection(
        path.name,
        JSONL.name,
        partial(read_all, read_docs, files, encoding),
        queries,
        bind(read_qrels, judgments),
        unread=(*unread_files(path, [*files, inner, *topics, *qrels]), *beside),
    )


def _doc_files(path: Path) -> list[Path]:
    """The files of documents: those in a folder, or in the only folder beside its queries and qrels."""
    if not path.is_dir():
        return [] if _QUERIES.fullmatch(plain_name(path)) else [path]
    files = _json_files(path)
    folders = [entry for entry in list_files(path) if entry.is_dir()]
    beside = files or len(folders) != 1 or not any(map(_has_queries_or_qrels, list_files(path)))
    return files if beside else _json_files(folders[0])


def _json_files(folder: Path) -> list[Path]:
    files = [file for file in list_files(folder) if plain_name(file).endswith(_ENDINGS) and file.is_file()]
    return [file for file in files if not _QUERIES.fullmatch(plain_name(file))]


def _has_queries_or_qrels(file: Path) -> bool:
    return any(names.fullmatch(plain_name(file)) for names in (_QUERIES, _QRELS))


def _other_files(folder: Path, docs: list[Path]) -> list[Path]:
    """Entries of a folder of JSON documents, and of that of the documents, that would not be read."""
    inner = docs[0].parent
    entries = [*list_files(folder), *(list_files(inner) if inner != folder else ())]
    known = {*docs, inner}
    return [file for file in entries if not (file in known or is_note(file) or _has_queries_or_qrels(file))]


JSONL = Format(
    "jsonl",
    _conditions,
    _open,
    "JSON, an object a line or in an array: docno (or _id, id), text (or contents)",
)
