"""BEIR folders: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``, plain or compressed.

Qrels may also be beside them, as ``qrels.tsv`` or ``qrels.SPLIT.tsv``, and may have no header. A folder may
have answers, too: ``answers/SPLIT.jsonl`` (see :mod:`telerank.corpus.answers`), as the long documents that
telerank makes have them. Queries that qrels name and ``queries.jsonl`` lacks are left out with their
judgments, with a warning that counts them.

Source: Thakur et al., BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval
Models, NeurIPS 2021 (github.com/beir-cellar/beir). Each set has the licence of its own source; the
folder does not state it.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from telerank.corpus.answers import read_answers, write_answers, write_records
from telerank.corpus.collection import Collection
from telerank.corpus.readers.jsonl import read_docs
from telerank.corpus.reading import (
    WHOLE,
    Stream,
    bind,
    find_file,
    has_file,
    match_splits,
    require_file,
    unread_files,
)
from telerank.errors import CollectionError, FormatError, FormatWarning
from telerank.trec import open_to_write, read_qrels, read_topics
from telerank.trec.files import Conditions, Format
from telerank.types import Answer, Doc, Qrel, Query

_QRELS = re.compile(r"(.+)\.(?:tsv|txt)")
_ANSWERS = re.compile(r"(.+)\.jsonl")
LONG_DOCUMENTS = "long-documents.json"
"""The manifest of a folder of long documents (:mod:`telerank.corpus.long_documents`)."""
_NAMED = 3  # missing queries
_FLAT = re.compile(r"qrels(?:[._-](.+))?\.(?:tsv|txt)")


def _conditions(path: Path) -> Conditions:
    yield from has_file(path, "corpus.jsonl")
    yield (path / "qrels").is_dir(), ""
    yield path.is_dir() and find_file(path, "queries.jsonl"), ""
    if (path / "ranking-set.json").exists():
        yield False, "a ranking set"  # which has a reader of its own


def _open(path: Path, encoding: str) -> Collection:
    corpus, queries = require_file(path, "corpus.jsonl"), find_file(path, "queries.jsonl")
    flat = match_splits(path, _FLAT)
    qrels = match_splits(path / "qrels", _QRELS) | flat
    answers = match_splits(path / "answers", _ANSWERS)
    questions = bind(read_topics, {WHOLE: queries}, format="jsonl", encoding=encoding)
    judgments = bind(read_qrels, qrels)
    if qrels and queries is None:
        questions = dict.fromkeys(qrels, partial(_lack_queries, path))
    elif qrels and queries:
        qids = cache(lambda: frozenset(query.qid for query in read_topics(queries, encoding=encoding)))
        judgments = bind(_read_qrels, qrels, queries=queries, qids=qids)
        questions = {
            split: partial(_read_judged, stream, queries, encoding) for split, stream in judgments.items()
        }
    unread = [f"qrels/{name}" for name in unread_files(path / "qrels", qrels.values())]
    unread += [f"answers/{name}" for name in unread_files(path / "answers", answers.values())]
    folders = [path / "qrels", path / LONG_DOCUMENTS, *([path / "answers"] if answers else [])]
    return Collection(
        path.name,
        BEIR.name,
        partial(read_docs, corpus, encoding),
        questions,
        judgments,
        bind(read_answers, answers),
        source="a BEIR folder (github.com/beir-cellar/beir names the source of each set)",
        unread=(
            *unread_files(path, [corpus, queries, *folders, *flat.values()]),
            *unread,
        ),
    )


def _read_judged(qrels: Stream[Qrel], queries: Path, encoding: str) -> Iterator[Query]:
    """The queries that are judged, in the order of a file that has those of all splits."""
    judged = {qrel.qid for qrel in qrels()}
    return (query for query in read_topics(queries, encoding=encoding) if query.qid in judged)


def _read_qrels(path: Path, queries: Path, qids: Callable[[], frozenset[str]]) -> Iterator[Qrel]:
    """The judgments of the queries that have a text; FormatError if no query has one."""
    known, missing = set[str](), dict[str, None]()
    for qrel in read_qrels(path):
        if qrel.qid not in qids():
            missing[qrel.qid] = None
            continue
        known.add(qrel.qid)
        yield qrel
    if not missing:
        return
    some = f"{', '.join([*missing][:_NAMED])}{' …' if len(missing) > _NAMED else ''}"
    count, total = len(missing), len(missing) + len(known)
    if not known:
        raise FormatError(queries, None, f"the queries of {path.name}; all {count:,} are missing ({some})")
    line = f"{queries}: {count:,} of the {total:,} queries that {path.name} judges are missing, and left out"
    # one place for queries and qrels, so that it is shown once
    warnings.warn(f"{line}: {some}", FormatWarning, stacklevel=1)


def _lack_queries(path: Path) -> Iterator[Query]:
    raise CollectionError(f"{path}: qrels but no queries.jsonl (or .gz, .xz)")


BEIR = Format("beir", _conditions, _open, "BEIR folder: corpus.jsonl, queries.jsonl, qrels/*.tsv")


def check_target(manifest: str, what: str, folder: str | Path, *, overwrite: bool = False) -> None:
    """Raise CollectionError if ``folder`` cannot be written: only one with ``manifest`` is replaced."""
    target = Path(folder)
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not overwrite:
        raise CollectionError(f"{folder}: already exists; replace it with --overwrite")
    if not (target / manifest).is_file():
        raise CollectionError(f"{folder}: {what}, so it is not overwritten")


def write_beir(
    folder: Path,
    docs: Iterable[Doc],
    queries: Iterable[Query],
    positives: Mapping[str, Iterable[tuple[str, str]]],
    answers: Mapping[str, Iterable[Answer]],
) -> None:
    """Write a BEIR folder with answers; ``positives`` are pairs of qid and docno, of grade 1, by split.

    The documents are read first: what comes after them may be collected meanwhile.
    """
    records = ({"_id": doc.docno, "title": doc.title, "text": doc.text} for doc in docs)
    write_records(folder / "corpus.jsonl", records)
    write_records(folder / "queries.jsonl", ({"_id": query.qid, "text": query.text} for query in queries))
    for name in ("qrels", "answers"):
        (folder / name).mkdir()
    for split, pairs in positives.items():
        with open_to_write(folder / "qrels" / f"{split}.tsv") as file:
            file.write("query-id\tcorpus-id\tscore\n")
            file.writelines(f"{qid}\t{docno}\t1\n" for qid, docno in pairs)
        write_answers(folder / "answers" / f"{split}.jsonl", answers[split])


def write_manifest(path: Path, record: Mapping[str, Any]) -> None:
    """Write how a folder was made."""
    path.write_text(json.dumps(record, ensure_ascii=False, indent=2) + "\n", "utf-8")
