"""MS MARCO passage and document ranking: collection, queries, qrels, candidate lists, triples.

===============================================  ====================================================
``collection.tsv``                               pid, passage
``msmarco-docs.tsv``                             docid, url, title, body
``queries.SPLIT.tsv``                            qid, query (and ``msmarco-docdev-queries.tsv``, …)
``qrels.SPLIT.tsv``                              TREC's four columns (and ``msmarco-docdev-qrels.tsv``, …)
``top1000.SPLIT.tsv``, ``top20.SPLIT.tsv``, …    qid, pid, query, passage: a pool
``msmarco-docdev-top100``, …                     a run: a pool
``triples.train.small.tsv``                      query, relevant text, other text (:func:`read_triples`)
``qidpidtriples.train.full.2.tsv``               the same by qid, pid, pid (:func:`read_triples`)
``answers.jsonl``                                where relevant text stands, of the queries of all splits
===============================================  ====================================================

All may be compressed. The last is none of MS MARCO's: ``telerank data align-passages`` makes it. Pools are
named ``SPLIT/topN``. Lists named ``dev`` and ``eval`` are of ``dev.small`` and ``eval.small``, whose queries
they have. Their scores decrease by one from line to line; the order in the official ``top1000.dev.tsv`` is
not that of BM25.

Source: Nguyen et al., MS MARCO: A Human Generated MAchine Reading COmprehension Dataset, 2016
(microsoft.github.io/msmarco). Licence: MS MARCO terms, non-commercial research only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from telerank.corpus.answers import read_answers
from telerank.corpus.collection import Collection, rank_in_order
from telerank.corpus.reading import (
    Stream,
    bind,
    find_file,
    list_few,
    list_files,
    match_splits,
    plain_name,
    read_columns,
    unread_files,
)
from telerank.errors import CollectionError, FormatError
from telerank.trec import read_qrels, read_run, read_topics
from telerank.trec.files import Conditions, Format
from telerank.types import Answer, Doc, Query, Ranking

_PASSAGES, _DOCUMENTS, _ANSWERS = "collection.tsv", "msmarco-docs.tsv", "answers.jsonl"
_QUERIES = re.compile(
    r"queries\.(.+)\.tsv|msmarco-(?:doc)?(train|dev|test\d+)-queries\.tsv|doc(leaderboard)-queries\.tsv"
)
_QRELS = re.compile(r"qrels\.(.+)\.tsv|msmarco-doc(train|dev)-qrels\.tsv|(\d+)qrels-(?:pass|docs)\.txt")
_LISTS = re.compile(
    r"(top\d+)\.(.+)\.(?:tsv|txt)|msmarco-(?:passage|doc)?(train|dev|test\d+)-(top\d+)(?:\.tsv)?"
)
_TRIPLES = re.compile(r"(?:qidpid)?triples\..+")


class Triple(NamedTuple):
    """A query, a relevant and a non-relevant text; in ``qidpidtriples`` their ids."""

    query: str
    positive: str
    negative: str


def read_passages(path: Path, encoding: str = "utf-8") -> Iterator[Doc]:
    """Read the passages of ``collection.tsv``; all after the first tab is text."""
    for _, (docno, text) in read_columns(path, encoding, "pid passage"):
        yield Doc(docno, text)


def read_documents(path: Path, encoding: str = "utf-8") -> Iterator[Doc]:
    """Read the documents of ``msmarco-docs.tsv``; all after the third tab is text."""
    for _, (docno, url, title, body) in read_columns(path, encoding, "docid url title body"):
        yield Doc(docno, body, title, url)


def read_triples(path: Path, encoding: str = "utf-8") -> Iterator[Triple]:
    """Read the training triples of a file, of texts or of ids, streaming."""
    return (Triple(*columns) for _, columns in read_columns(path, encoding, "query positive negative"))


def read_pool(path: Path, encoding: str = "utf-8") -> Iterator[Ranking]:
    """Read the candidate lists of a file: qid, pid, query, passage; queries in order of first appearance.

    The lines of a query need not be contiguous; memory holds the ids, ten bytes a line.
    """
    lists: dict[str, tuple[str, bytearray]] = {}
    for _, (qid, docno, text, _passage) in read_columns(path, encoding, "qid pid query passage"):
        lists.setdefault(qid, (text, bytearray()))[1].extend(f"{docno}\n".encode())
    for qid, (text, lines) in lists.items():
        docnos = tuple(lines.decode().split("\n")[:-1])
        if len(set(docnos)) < len(docnos):
            raise FormatError(path, None, f"each document once in the list of query {qid}")
        yield rank_in_order(Query(qid, text), docnos)


def read_split_answers(queries: Path, answers: Path, encoding: str = "utf-8") -> Iterator[Answer]:
    """The answers of a file that are of queries of another."""
    qids = {query.qid for query in read_topics(queries, format="tsv", encoding=encoding)}
    return (answer for answer in read_answers(answers) if answer.qid in qids)


def count_unplaced(queries: Iterable[Path], answers: Path, encoding: str = "utf-8") -> dict[str, int]:
    """How many answers of a file are of queries in none of the others, by the name of the note."""
    known = {query.qid for file in queries for query in read_topics(file, format="tsv", encoding=encoding)}
    return {"answers_of_unknown_queries": sum(answer.qid not in known for answer in read_answers(answers))}


def _corpora(path: Path) -> list[tuple[Path, Callable[[Path, str], Iterator[Doc]]]]:
    readers = {_PASSAGES: read_passages, _DOCUMENTS: read_documents}
    files = [find_file(path, name) for name in readers] if path.is_dir() else [path]
    return [(file, readers[plain_name(file)]) for file in files if file and plain_name(file) in readers]


def _conditions(path: Path) -> Conditions:
    yield any(_QUERIES.fullmatch(plain_name(file)) for file in list_few(path)), ""
    yield _corpora(path), f"no {_PASSAGES} and no {_DOCUMENTS} (or .gz, .xz)"


def _open(path: Path, encoding: str) -> Collection:
    corpora = _corpora(path)
    if len(corpora) != 1:
        names = " and ".join(file.name for file, _ in corpora)
        problem = (
            f"both {names}: which" if corpora else f"no {_PASSAGES} and no {_DOCUMENTS} (or .gz, .xz): what"
        )
        raise CollectionError(f"{path}: {problem} is the collection?")
    file, read = corpora[0]
    queries, qrels = _by_split(path, _QUERIES), _by_split(path, _QRELS)
    answers = find_file(path, _ANSWERS) if path.is_dir() else None
    known = (_LISTS, _TRIPLES)  # triples are for training (read_triples)
    others = [
        entry for entry in list_files(path) if any(names.fullmatch(plain_name(entry)) for names in known)
    ]
    return Collection(
        path.name,
        MSMARCO.name,
        partial(read, file, encoding),
        bind(read_topics, queries, format="tsv", encoding=encoding),
        bind(read_qrels, qrels),
        bind(read_split_answers, queries if answers else {}, answers=answers, encoding=encoding),
        pools=_pools(path, encoding, queries),
        notes=partial(count_unplaced, queries.values(), answers, encoding) if answers else dict,
        licence="MS MARCO terms: non-commercial research",
        source="microsoft.github.io/msmarco",
        unread=unread_files(path, [file, answers, *queries.values(), *qrels.values(), *others]),
    )


def _by_split(path: Path, names: re.Pattern[str]) -> dict[str, Path]:
    files = match_splits(path, names)
    return {f"test{split}" if split.isdecimal() else split: file for split, file in files.items()}


def _pools(path: Path, encoding: str, queries: dict[str, Path]) -> dict[str, Stream[Ranking]]:
    pools: dict[str, Stream[Ranking]] = {}
    for file in list_files(path):
        if match := _LISTS.fullmatch(plain_name(file)):
            split, name = match[2] or match[3], match[1] or match[4]
            if f"{split}.small" in queries:
                split = f"{split}.small"
            is_run = match[3] and not plain_name(file).endswith(".tsv")
            pools[f"{split}/{name}"] = (
                partial(read_run, file) if is_run else partial(read_pool, file, encoding)
            )
    return pools


MSMARCO = Format(
    "msmarco",
    _conditions,
    _open,
    f"MS MARCO: {_PASSAGES} or {_DOCUMENTS}, queries.*.tsv, qrels.*.tsv",
)
