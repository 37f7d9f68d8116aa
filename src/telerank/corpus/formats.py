"""The formats of collections, opening one in any of them, and the collection in the package.

Of the ids of ``ir_datasets`` (an extra), such as ``beir/scifact/test`` and ``msmarco-passage/dev/small``, an
id with qrels is one split, named by the end of the id (``test``). An id without qrels has a split for each id
below it that has the same documents and qrels or queries (``beir/scifact`` has ``train`` and ``test``,
``msmarco-passage`` has ``dev/small``). ``ir_datasets`` downloads files when their first record is read, and
reports it. Scored documents are the pool ``SPLIT/scoreddocs``.

Source and licence are those stated by ``ir_datasets`` for each id (MacAvaney et al., Simplified Data
Wrangling with ir_datasets, SIGIR 2021).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from telerank.corpus.answers import JUDGMENTS
from telerank.corpus.collection import Collection
from telerank.corpus.derived.ranking_set import RANKING_SET
from telerank.corpus.readers.answer_selection import PARALLEL, SELQA, TRECQA, WIKIQA
from telerank.corpus.readers.by_split import ANTIQUE, BEIR, MSMARCO
from telerank.corpus.readers.car import TREC_CAR
from telerank.corpus.readers.files.formats import DOCUMENTS, FOLDER, WHOLE_DOCUMENTS
from telerank.corpus.readers.hub import PREFIX, open_hub
from telerank.corpus.readers.insuranceqa import INSURANCEQA, INSURANCEQA_TOKEN
from telerank.corpus.readers.judged import JUDGED
from telerank.corpus.readers.plain import CSV, JSONL, PASSAGES, TOPICS
from telerank.corpus.readers.smart import LISA, SMART
from telerank.corpus.readers.squad import SQUAD
from telerank.corpus.readers.trec_sgml import CRANFIELD, ROBUST04, TREC
from telerank.corpus.reading import (
    Record,
    bind_files,
    check_encoding,
    find_backups,
    list_entries,
    list_files,
    locate_data,
    nearest_data,
    read_first_line,
)
from telerank.errors import CollectionError, MissingExtra, known_names, nearest_name, shorten
from telerank.expressions import as_call, as_name, bind, parse_expression
from telerank.trec import QRELS_FORMATS, TOPICS_FORMATS, Format, add_nearest, open_bytes
from telerank.types import Doc, Qrel, Query, Ranking

# The format's name for collections that are opened by id.
IR_DATASETS = "ir_datasets"
_DATASET_ID = re.compile(r"[a-z0-9][\w.-]*(?:/[\w.-]+)*")
_FILE_SUFFIX = re.compile(r"\.[A-Za-z][A-Za-z0-9]*$|/\.\.?/")  # some ids end in a version: argsme/1.0
_FIELDS = frozenset(("doc_id", "text", "body", "title", "url"))
_UNKNOWN_HOST = re.compile(r"Failed to resolve '[^']*'")
_REASON = 200  # characters of an error of the package


def has_form_of_id(name: str) -> bool:
    """Whether a text can be an id by its form, as ``docs.jsonl`` and ``./docs`` cannot."""
    return bool(_DATASET_ID.fullmatch(name)) and not _FILE_SUFFIX.search(name)


def open_id(name: str, package: ModuleType | None = None) -> Collection:
    """Open the collection of an id; ``package`` replaces ``ir_datasets`` in tests.

    What cannot be downloaded or read raises CollectionError, when the records are read.
    """
    if package is None:
        try:
            package = import_module(IR_DATASETS)
        except ImportError as error:
            raise MissingExtra(IR_DATASETS, "ir-datasets") from error
    try:
        dataset = package.load(name)
    except KeyError as error:
        near = nearest_data(name) or nearest_name(package.registry, name)
        raise CollectionError(f"{name}: no such file or folder, and no such ir_datasets id{near}") from error
    if not dataset.has_docs():
        raise CollectionError(f"{name}: this ir_datasets id has no documents; name the id above it")
    splits = {name.rpartition("/")[2]: dataset} if dataset.has_queries() or dataset.has_qrels() else {}
    if not dataset.has_qrels():
        ids = [other for other in package.registry if other.startswith(f"{name}/")]
        below = {other.removeprefix(f"{name}/"): package.load(other) for other in ids}
        docs = dataset.docs_handler()
        splits = {
            split: part
            for split, part in below.items()
            if part.has_docs() and part.docs_handler() is docs and (part.has_queries() or part.has_qrels())
        } or splits
    queried = {split: part for split, part in splits.items() if part.has_queries()}
    judged = {split: part for split, part in splits.items() if part.has_qrels()}
    scored = {f"{split}/scoreddocs": part for split, part in queried.items() if part.has_scoreddocs()}
    # counting documents whose number the package does not state could start a download
    count = dataset.docs_metadata().get("count")
    return Collection(
        name,
        IR_DATASETS,
        partial(_read_dataset, _dataset_docs, name, dataset),
        bind_files(partial(_read_dataset, _dataset_queries, name), queried),
        bind_files(partial(_read_dataset, _dataset_qrels, name), judged),
        pools=bind_files(partial(_read_dataset, _dataset_pool, name), scored),
        size=count if isinstance(count, int) else None,
        licence="as ir_datasets names it",
        source=f"ir_datasets id {name}",
    )


def _read_dataset(read: Callable[[Any], Iterator[Record]], name: str, dataset: Any) -> Iterator[Record]:
    """The records of a dataset; CollectionError if its files cannot be downloaded or read.

    The package's bars are shown, but not what it logs: the error says it.
    """
    logger = logging.getLogger(IR_DATASETS)
    logger.addFilter(_log_nothing)
    try:
        yield from read(dataset)
    except (OSError, RuntimeError) as error:
        match error.args:
            case [_, [*_, [_, Exception() as cause]]]:  # the error of each source that was tried
                pass
            case _:
                cause = error
        unknown = _UNKNOWN_HOST.search(str(cause))
        reason = unknown[0] if unknown else shorten(" ".join(str(cause).split()), _REASON)
        what = f"ir_datasets cannot download or read its files: {type(cause).__name__}: {reason}"
        raise CollectionError(f"{name}: {what}") from error
    finally:
        logger.removeFilter(_log_nothing)


def _log_nothing(_: logging.LogRecord) -> bool:
    return False


def _dataset_docs(dataset: Any) -> Iterator[Doc]:
    for doc in dataset.docs_iter():
        url = getattr(doc, "url", None) or ""
        texts = [getattr(doc, key, None) for key in ("text", "body")]
        text = next((text for text in texts if isinstance(text, str)), None)
        columns = {name: getattr(doc, name) for name in doc._fields if name not in _FIELDS}
        if text is None:  # other fields, which the package joins, title included
            yield Doc(doc.doc_id, doc.default_text(), url=url, columns=columns)
        else:
            title = (doc.title if "title" in doc._fields else "") or ""
            yield Doc(doc.doc_id, text, title, url, columns=columns)


def _dataset_queries(dataset: Any) -> Iterator[Query]:
    return (Query(query.query_id, query.default_text()) for query in dataset.queries_iter())


def _dataset_qrels(dataset: Any) -> Iterator[Qrel]:
    return (Qrel(qrel.query_id, qrel.doc_id, int(qrel.relevance)) for qrel in dataset.qrels_iter())


def _dataset_pool(dataset: Any) -> Iterator[Ranking]:
    scored: dict[str, tuple[list[str], list[float]]] = {}
    for scored_doc in dataset.scoreddocs_iter():
        docnos, scores = scored.setdefault(scored_doc.query_id, ([], []))
        docnos.append(scored_doc.doc_id)
        scores.append(scored_doc.score)
    for query in _dataset_queries(dataset):
        if query.qid in scored:
            yield Ranking.ranked(query, *scored[query.qid])


# All formats; of formats that are equally near to an unknown file, the first is named.
FORMATS: tuple[Format[Path, Collection], ...] = (
    JSONL,
    CSV,
    TREC,
    BEIR,
    FOLDER,
    DOCUMENTS,
    WHOLE_DOCUMENTS,
    TOPICS,
    JUDGED,
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

    A name is looked for as a path, in the folders of ``TELERANK_DATA``, as ``piaf``, the collection that is
    installed with telerank, as a dataset of the hub (``mteb/scifact``), and as an id.
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
        If the format is ``ir_datasets``, or the name is of the hub, and its package is not installed.
    """
    path = locate_data(source)
    name, files = _read_format(format) if format is not None else (None, {})
    if str(source) == "-":
        return _standard_input(name or JSONL.name, encoding)
    is_missing = name != IR_DATASETS and not path.exists()
    if is_missing and name is None and str(source) == PIAF_NAME:
        return piaf()
    if is_missing and name is None and str(source).startswith(PREFIX):
        return open_hub(str(source))
    may_be_id = is_missing and name is None and has_form_of_id(str(source))
    if name == IR_DATASETS or (may_be_id and find_spec(IR_DATASETS)):
        return open_id(str(source))
    if is_missing:
        hint = "; if it is an ir_datasets id: pip install 'telerank[ir-datasets]'" if may_be_id else ""
        raise CollectionError(f"{source}: no such file or folder{nearest_data(str(source)) or hint}")
    check_encoding(encoding)
    collection = (_FORMATS[name] if name else _recognise(path)).read(path, encoding, **files)
    backups = (file.name for file in find_backups(list_entries(path)))
    return replace(collection, unread=tuple(dict.fromkeys((*collection.unread, *backups))))


def _read_format(text: str) -> tuple[str, dict[str, str]]:
    """The name of a format, and the names of files by their kinds: ``smart(documents=MED.ALL)``."""
    name = text.partition("(")[0].strip()
    if name not in (*_FORMATS, IR_DATASETS):
        known = known_names(sorted((*_FORMATS, IR_DATASETS)), name)
        raise CollectionError(f"unknown format {name!r}; {known}")
    kinds = _FORMATS[name].kinds if name in _FORMATS else ()
    return name, {
        kind: as_name(file, text)
        for kind, file in bind(as_call(parse_expression(text), text), kinds, text).items()
    }


def recognise_formats(path: Path) -> list[Format[Path, Collection]]:
    """The formats that a file or folder may have, by its layout and content."""
    return [form for form in FORMATS if form.recognises(path)]


def list_formats() -> dict[str, str]:
    """The description of each format of collections, topics and qrels that can be read, by name."""
    collections = {form.name: form.description for form in FORMATS} | {
        IR_DATASETS: "ids such as beir/scifact/test (an extra: pip install 'telerank[ir-datasets]')"
    }
    topics = {f"topics: {name}": form.description for name, form in TOPICS_FORMATS.items()}
    qrels = {f"qrels: {name}": form.description for name, form in QRELS_FORMATS.items()}
    return dict(sorted(collections.items())) | topics | qrels


def list_collections(folder: str | Path) -> dict[str, str]:
    """The formats of the collections in a folder, by file name; none if the folder is itself a collection.

    An entry that has several formats lists them as ``beir or jsonl``.
    """
    path = locate_data(folder)
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
        raise CollectionError(f"{path}: may be {names}: choose one with format=…")
    if problem := _diagnose(path):
        raise CollectionError(f"{path}: {problem}")
    if path.is_file():
        seen = f"its first line is {shorten(read_first_line(path).rstrip())}"
    else:
        entries = [shorten(file.name) for file in list_files(path)]
        seen = f"it has {', '.join(entries[:_NAMED])}{' …' if len(entries) > _NAMED else ''}"
    raise add_nearest(CollectionError(f"{path}: no known collection format; {seen}"), FORMATS, path)


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


PIAF_NAME = "piaf"
PIAF = Path(__file__).parent.parent / "data" / "piaf" / "piaf-v1.1.json.gz"


def piaf() -> Collection:
    """All of PIAF v1.1: paragraphs of the French Wikipedia, with questions that volunteers wrote about them.

    Source: piaf.etalab.studio (Etalab; Keraron et al., LREC 2020). Licence: MIT (``data/piaf/LICENSE``).
    """
    return replace(
        open_collection(PIAF, format="squad"),
        name="PIAF v1.1",
        licence="MIT",
        source="PIAF v1.1, Etalab, piaf.etalab.studio; paragraphs of the French Wikipedia",
    )
