r"""Plain files: documents as JSON, CSV or TSV, passages, and topics and qrels without documents.

JSON documents are an object a line, or in ``.json`` files an array of objects, as Anserini's JsonCollection.

====================================================  =========================================
``docno``, ``_id``, ``id``, ``doc_id``, ``docid``     the docno, a string or a whole number
``text``, ``contents``, ``content``, ``body``         the text
``title``, ``url``                                    may be absent or null
====================================================  =========================================

Of several names for a field the first present counts. Other keys, and those of an object ``metadata``, are
columns of the document (:mod:`telerank.columns.kinds`). A collection is one file
(``docs.jsonl``), or a folder of such files, which may also contain queries (``queries.jsonl``,
``queries.SPLIT.tsv``), qrels (``qrels.tsv``, ``qrels.SPLIT.txt``), a README and a licence, but nothing
else. Beside queries or qrels the documents may also be in one folder (``jsonl/docs.json``), as Anserini's
CACM. One file of queries beside several of qrels has the queries of all splits. This is a file format, not a
data set: source and licence are those of the texts.

CSV and TSV files with a header, one document a line; and ``passages.tsv`` without a header.

The header names the columns like the keys of JSON, in any case and order: ``docno`` (``_id``,
``id``, …), ``text`` (``contents``, ``body``, …), ``title``, ``url``; others are columns of the document. In
CSV, columns are separated by commas, semicolons or tabs, as the header shows; fields may be quoted and
contain these signs and line ends. In TSV, quotes have no meaning and fields contain no tab. A collection is
one file, or a folder of such files only.

``passages.tsv`` has no header and three columns: number, source, text. The source becomes the document's url,
which is not searched. These are file formats, not data sets: source and licence are those of the texts.

Topics and qrels without documents: ``topics.SPLIT.txt``, ``queries.SPLIT.tsv``, ``qrels.SPLIT.txt``.

For searching and evaluating with documents that are indexed already. A collection is one such file, or a
folder of such files only. This is a file format, not a data set: source and licence are those of the topics.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from telerank.columns.kinds import UntypedText, flatten
from telerank.corpus.collection import Collection
from telerank.corpus.readers.judged import JUDGED
from telerank.corpus.reading import (
    WHOLE,
    bind_files,
    find_file,
    group_by_split,
    is_note,
    judged_queries,
    list_files,
    locate_data,
    plain_name,
    read_all,
    read_beginning,
    read_columns,
    read_first_keys,
    read_first_lines,
    read_text,
    require_file,
    unread_files,
)
from telerank.errors import CollectionError, FormatError, known_names
from telerank.trec import (
    LONGEST,
    TOPICS_FORMATS,
    Conditions,
    Format,
    check_exists,
    decode,
    describe_json,
    first_value,
    numbered_lines,
    open_bytes,
    parse_json,
    parse_object,
    raw_lines,
    read_qrels,
    read_topics,
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
            yield _json_doc(path, None, record, f"that of item {position}")
        return
    for number, line in numbered_lines(path, encoding):
        yield _json_doc(path, number, parse_object(path, number, line), line)


def _has_objects_in_lines(path: Path) -> bool:
    """Whether the first line is an object, or the beginning of a very long one: neither array nor part."""
    first, line_end, _ = read_beginning(path, 1 << 16).lstrip().partition("\n")
    return first.startswith("{") and (first.rstrip().endswith("}") or not line_end)


def _json_doc(path: Path, number: int | None, record: dict[str, Any], source: str) -> Doc:
    docno = first_value(record, DOCNO_KEYS)
    if isinstance(docno, bool) or not isinstance(docno, str | int):
        raise FormatError(path, number, f"a docno as {_DOCNO}", source)
    text = first_value(record, TEXT_KEYS)
    title, url = (record.get(key) or "" for key in ("title", "url"))
    keys = ([key for key in names if record.get(key) is not None][:1] for names in (DOCNO_KEYS, TEXT_KEYS))
    columns = flatten(record, frozenset(("title", "url", *chain.from_iterable(keys))))
    for name, value in ((_TEXT, text), ("title", title), ("url", url)):
        if not isinstance(value, str):
            raise FormatError(path, number, f"a string as {name}", source)
    return Doc(str(docno), text, title, url, columns=columns)


def _json_conditions(path: Path) -> Conditions:
    docs = _doc_files(path)
    keys = {file.name: read_first_keys(file) for file in docs[:_EXAMINED]}
    first = next((name for name, own in keys.items() if own.isdisjoint(DOCNO_KEYS)), "")
    judged = next((name for name, own in keys.items() if {"docno", "query", "grade"} <= own), "")
    yield not all(own.isdisjoint(TEXT_KEYS) for own in keys.values()), ""
    objects = any(keys.values())
    yield objects, "no file of JSON objects" if path.is_dir() else "its first line is not a JSON object"
    yield objects and not first, f"the first object of {first} has no {_DOCNO}"
    yield objects and not judged, f"{judged} has judgments"
    yield docs and plain_name(docs[0]).endswith(_ENDINGS), "its name ends neither in .jsonl nor in .json"
    if path.is_dir() and any(plain_name(file) == "corpus.jsonl" for file in docs):
        yield False, "corpus.jsonl is that of a BEIR folder"
    if docs and path.is_dir() and (others := _other_files(path, docs)):
        yield False, f"{', '.join(file.name for file in others[:3])}: neither JSON nor queries nor qrels"


def _open_json(path: Path, encoding: str) -> Collection:
    files = _doc_files(path)
    if not files:
        raise CollectionError(f"{path}: no file named *.jsonl or *.json")
    entries = list_files(path) if path.is_dir() else []
    topics, qrels = _named(_QUERIES, entries), _named(_QRELS, entries)
    questions, judgments = group_by_split(topics, qrels)
    queries = bind_files(read_topics, questions, encoding=encoding)
    if [*questions] == [WHOLE] and WHOLE not in judgments and judgments:
        queries = {
            split: partial(judged_queries, partial(read_qrels, file), topics[0], encoding, file.name)
            for split, file in judgments.items()
        }
    inner = files[0].parent if path.is_dir() else path
    beside = (f"{inner.name}/{name}" for name in unread_files(inner, files) if inner != path)
    return Collection(
        path.name,
        JSONL.name,
        partial(read_all, read_docs, files, encoding),
        queries,
        bind_files(read_qrels, judgments),
        unread=(*unread_files(path, [*files, inner, *topics, *qrels]), *beside),
    )


def _doc_files(path: Path) -> list[Path]:
    """The files of documents: those in a folder, or in the only folder beside its queries and qrels."""
    if not path.is_dir():
        return [path] if not _named(_QUERIES, [path]) else []
    entries = list_files(path)
    files = _json_files(path)
    folders = [entry for entry in entries if entry.is_dir()]
    beside = files or len(folders) != 1 or not (_named(_QUERIES, entries) or _named(_QRELS, entries))
    return files if beside else _json_files(folders[0])


def _json_files(folder: Path) -> list[Path]:
    files = [file for file in list_files(folder) if plain_name(file).endswith(_ENDINGS) and file.is_file()]
    return [file for file in files if not _QUERIES.fullmatch(plain_name(file))]


def _other_files(folder: Path, docs: list[Path]) -> list[Path]:
    """Entries of a folder of JSON documents, and of that of the documents, that would not be read."""
    inner = docs[0].parent
    entries = [*list_files(folder), *(list_files(inner) if inner != folder else ())]
    known = {*docs, inner, *_named(_QUERIES, entries), *_named(_QRELS, entries)}
    return [file for file in entries if file not in known and not is_note(file)]


JSONL = Format(
    "jsonl",
    _json_conditions,
    _open_json,
    "JSON, an object a line or in an array: docno (or _id, id), text (or contents)",
)


_NAMES = {"docno": DOCNO_KEYS, "text": TEXT_KEYS, "title": ("title",), "url": ("url",)}
_HEADER = f"a header with a column {' or '.join(DOCNO_KEYS)} and a column {' or '.join(TEXT_KEYS)}"


def read_table(path: Path, encoding: str = "utf-8") -> Iterator[Doc]:
    """Read the documents of a CSV or TSV file with a header."""
    if _suffix(path) == ".csv":
        rows = _csv_rows(path, encoding)
    else:
        rows = ((number, line.split("\t")) for number, line in numbered_lines(path, encoding))
    number, header = next(rows, (1, []))
    columns = _columns(header)
    if not _names_a_document(header):
        raise FormatError(path, number, _HEADER, ", ".join(header))
    others = _other_columns(path, number, header, columns)
    for number, row in rows:
        if len(row) != len(header):
            raise FormatError(path, number, f"{len(header)} columns as in the header", ", ".join(row))
        fields = {field: row[column] for field, column in columns.items()}
        own = {name: UntypedText(row[column]) for name, column in others}
        yield Doc(
            fields["docno"], fields["text"], fields.get("title", ""), fields.get("url", ""), columns=own
        )


def _csv_rows(path: Path, encoding: str) -> Iterator[tuple[int, list[str]]]:
    """Rows with the number of their last line; blank lines are skipped."""
    csv.field_size_limit(LONGEST)  # the default, 128 KiB, holds for the whole process
    with open_bytes(path) as file:
        lines = (decode(line, path, encoding, number) for number, line in raw_lines(path, file))
        first = next(lines, "")
        reader = csv.reader(chain([first], lines), delimiter=_delimiter(first), strict=True)
        try:
            for row in reader:
                if row:
                    yield reader.line_num, row
        except csv.Error as error:
            raise FormatError(path, reader.line_num, f"CSV ({error})") from error


def _columns(header: list[str]) -> dict[str, int]:
    """The column of each field of a document; of several names the first in the header counts."""
    columns = {name.strip().lower(): column for column, name in reversed([*enumerate(header)])}
    fields = {field: first_value(columns, names) for field, names in _NAMES.items()}
    return {field: column for field, column in fields.items() if column is not None}


def _other_columns(
    path: Path, number: int, header: list[str], columns: dict[str, int]
) -> list[tuple[str, int]]:
    """The names and numbers of the columns that are no field of a document, without those without a name.

    Raises FormatError if two of them have one name.
    """
    others = [(name.strip(), column) for column, name in enumerate(header) if column not in columns.values()]
    others = [(name, column) for name, column in others if name]
    names = [name for name, _ in others]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise FormatError(path, number, "each column once", twice)
    return others


def _names_a_document(header: list[str]) -> bool:
    return _columns(header).keys() >= {"docno", "text"}


def _csv_conditions(path: Path) -> Conditions:
    files = list_files(path)
    tables = _tables(path)
    other = next((file.name for file in files if file not in tables), "")
    plain = next((file.name for file in tables or files if not _has_header(file)), "")
    yield (
        any(sign in line for file in files[:1] for line in read_first_lines(file)[:1] for sign in "\t,;"),
        "",
    )
    yield not plain, f"the first line of {plain} does not name docno (or id) and text (or contents)"
    yield tables, "no file in it ends in .csv or .tsv"
    if other:
        yield False, f"{other}: its name ends neither in .csv nor in .tsv"


def _tables(path: Path) -> list[Path]:
    return [file for file in list_files(path) if file.is_file() and _suffix(file) in {".csv", ".tsv"}]


def _suffix(path: Path) -> str:
    return Path(plain_name(path)).suffix.lower()


def _has_header(path: Path) -> bool:
    first = next(iter(read_beginning(path).splitlines()), "")
    return _names_a_document(
        first.split("\t") if _suffix(path) == ".tsv" else _split_header(first, _delimiter(first))
    )


def _delimiter(header: str) -> str:
    """The sign that gives the header its columns; a comma if none does."""
    return next((sign for sign in ",;\t" if _names_a_document(_split_header(header, sign))), ",")


def _split_header(header: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([header.rstrip("\r\n")], delimiter=delimiter), [])
    except csv.Error:  # a zero byte, or a field beyond the limit
        return []


def _open_csv(path: Path, encoding: str) -> Collection:
    files = _tables(path)
    if not files or len(files) < len(list_files(path)):
        raise CollectionError(f"{path}: expected a .csv or .tsv file, or a folder of such files only")
    return Collection(path.name, CSV.name, partial(read_all, read_table, files, encoding))


_PASSAGES = "passages.tsv"


def _passages_conditions(path: Path) -> Conditions:
    file = path if plain_name(path) == _PASSAGES else find_file(path, _PASSAGES)
    yield file, f"no {_PASSAGES} (or .gz, .xz)"
    yield file and not _has_header(file), "passages.tsv has a header"


def _open_passages(path: Path, encoding: str) -> Collection:
    file = path if plain_name(path) == _PASSAGES else require_file(path, _PASSAGES)

    def docs() -> Iterator[Doc]:
        columns = read_columns(file, encoding, "number source text")
        return (Doc(number, text, url=source) for _, (number, source, text) in columns)

    return Collection(path.name, PASSAGES.name, docs, unread=unread_files(path, [file]))


CSV = Format(
    "csv",
    _csv_conditions,
    _open_csv,
    "CSV or TSV with a header that names docno (or id) and text (or contents)",
)
PASSAGES = Format("passages", _passages_conditions, _open_passages, "passages.tsv: number, source, text")


_TOPICS_NAME = re.compile(r"(?:topics|queries)\b.*", re.IGNORECASE)
_QRELS_NAME = re.compile(r"qrels\b.*", re.IGNORECASE)


def open_topics(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002
    encoding: str = "utf-8",
) -> Collection:
    """A file of queries as a collection with one split and no documents; ``-`` is standard input.

    ``format`` is one of :func:`~telerank.trec.read_topics`; raises CollectionError if it is another. A table
    of judged questions (:mod:`.judged`) is recognised, too.
    """
    if format is None and str(path) != "-" and JUDGED.recognises(Path(path)):
        return JUDGED.read(Path(path), encoding)
    if format is not None and format not in TOPICS_FORMATS:
        raise CollectionError(f"unknown format {format!r} of topics; {known_names(TOPICS_FORMATS, format)}")
    if str(path) != "-":
        path = locate_data(path)
        check_exists(path)
    return Collection(
        str(path),
        TOPICS.name,
        partial(_no_docs, Path(path)),
        {"all": partial(read_topics, path, format=format, encoding=encoding)},
        size=0,
    )


def _topics_conditions(path: Path) -> Conditions:
    files = list_files(path)
    known = [*_named(_TOPICS_NAME, files), *_named(_QRELS_NAME, files)]
    other = next((file.name for file in files if file not in known or not file.is_file()), "")
    if path.is_file() and JUDGED.recognises(path):
        yield False, f"{path.name} has judged questions"
    yield known, ""
    yield known and not other, f"{other}: its name begins neither with topics (or queries) nor with qrels"


def _named(names: re.Pattern[str], files: list[Path]) -> list[Path]:
    """The files whose names, but for what packed them, match."""
    return [file for file in files if names.fullmatch(plain_name(file))]


def _open_files(path: Path, encoding: str) -> Collection:
    files = list_files(path)
    topics, qrels = group_by_split(_named(_TOPICS_NAME, files), _named(_QRELS_NAME, files))

    return Collection(
        path.name,
        TOPICS.name,
        partial(_no_docs, path),
        bind_files(read_topics, topics, encoding=encoding),
        bind_files(read_qrels, qrels),
        size=0,
    )


def _no_docs(path: Path) -> Iterator[Doc]:
    raise CollectionError(f"{path} has only topics and qrels: no documents")


TOPICS = Format("topics", _topics_conditions, _open_files, "only topics.* and qrels.*, without documents")
