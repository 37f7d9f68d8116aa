"""Folders with files for each split: BEIR, MS MARCO, ANTIQUE.

BEIR has ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``, plain or compressed.

Qrels may also be beside them, as ``qrels.tsv`` or ``qrels.SPLIT.tsv``, and may have no header. A folder may
have answers, too: ``answers/SPLIT.jsonl`` (see :mod:`telerank.corpus.answers`), as the long documents that
telerank makes have them. Queries that qrels name and ``queries.jsonl`` lacks are left out with their
judgments, with a warning that counts them.

Source: Thakur et al., BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval
Models, NeurIPS 2021 (github.com/beir-cellar/beir). Each set has the licence of its own source; the
folder does not state it.

MS MARCO passage and document ranking: collection, queries, qrels, candidate lists, triples.

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

ANTIQUE: questions of Yahoo! Answers, and answers judged from 1 to 4.

``qrels`` have the grades of the files. ``relevant_from`` is 3, as its makers recommend: to measure with
(``judged``), grades 3 and 4 are relevant, and 1 and 2 become 0. A graded measure with the makers' mapping to
0..3 is ``nDCG(gains={1: 0, 2: 1, 3: 2, 4: 3})@10`` on a qrels file itself, which is measured as it is.

====================================  ===================================================
``antique-collection.txt``            docno, text
``antique-{train,test}-queries.txt``  qid, question
``antique-{train,test}.qrel``         qid, Q0 (crowd), E0 (expert) or U0 (asker), docno, grade
====================================  ===================================================

Source: ciir.cs.umass.edu/downloads/Antique (Hashemi et al. 2020). Licence as stated there: research purposes.

``antique``: A folder with the files as they are distributed, plain or compressed.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from telerank.corpus.answers import read_answers
from telerank.corpus.collection import Collection, rank_in_order
from telerank.corpus.readers.plain import read_docs
from telerank.corpus.reading import (
    WHOLE,
    Stream,
    bind_files,
    find_file,
    has_file,
    judged_queries,
    list_few,
    list_files,
    match_splits,
    plain_name,
    read_columns,
    require_file,
    unread_files,
)
from telerank.errors import CollectionError, FormatError, FormatWarning
from telerank.trec import Conditions, Format, check_id, read_qrels, read_run, read_topics
from telerank.types import Answer, Doc, Qrel, Query, Ranking

_BEIR_QRELS = re.compile(r"(.+)\.(?:tsv|txt)")
_BEIR_ANSWERS = re.compile(r"(.+)\.jsonl")
# The manifest of a folder of long documents (`telerank.corpus.derived`).
LONG_DOCUMENTS = "long-documents.json"
_NAMED = 3  # missing queries
_FLAT = re.compile(r"qrels(?:[._-](.+))?\.(?:tsv|txt)")


def _beir_conditions(path: Path) -> Conditions:
    yield from has_file(path, "corpus.jsonl")
    yield (path / "qrels").is_dir(), ""
    yield path.is_dir() and find_file(path, "queries.jsonl"), ""
    if (path / "ranking-set.json").exists():
        yield False, "a ranking set"  # which has a reader of its own


def _open_beir(path: Path, encoding: str) -> Collection:
    corpus, queries = require_file(path, "corpus.jsonl"), find_file(path, "queries.jsonl")
    flat = match_splits(path, _FLAT)
    qrels = match_splits(path / "qrels", _BEIR_QRELS) | flat
    answers = match_splits(path / "answers", _BEIR_ANSWERS)
    questions = bind_files(read_topics, {WHOLE: queries}, format="jsonl", encoding=encoding)
    judgments = bind_files(read_qrels, qrels)

    def no_queries(_: Path) -> Iterator[Query]:
        raise CollectionError(f"{path}: qrels but no queries.jsonl (or .gz, .xz)")

    if qrels and queries:
        qids = cache(lambda: frozenset(query.qid for query in read_topics(queries, encoding=encoding)))
        judgments = bind_files(_read_qrels, qrels, queries=queries, qids=qids)
        questions = bind_files(judged_queries, judgments, queries=queries, encoding=encoding)
    elif qrels:
        questions = bind_files(no_queries, qrels)
    unread = [f"qrels/{name}" for name in unread_files(path / "qrels", qrels.values())]
    unread += [f"answers/{name}" for name in unread_files(path / "answers", answers.values())]
    folders = [path / "qrels", path / LONG_DOCUMENTS, *([path / "answers"] if answers else [])]
    return Collection(
        path.name,
        BEIR.name,
        partial(read_docs, corpus, encoding),
        questions,
        judgments,
        bind_files(read_answers, answers),
        source="a BEIR folder (github.com/beir-cellar/beir names the source of each set)",
        unread=(*unread_files(path, [corpus, queries, *folders, *flat.values()]), *unread),
    )


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


BEIR = Format("beir", _beir_conditions, _open_beir, "BEIR folder: corpus.jsonl, queries.jsonl, qrels/*.tsv")


_PASSAGES, _DOCUMENTS, _ANSWERS = "collection.tsv", "msmarco-docs.tsv", "answers.jsonl"
_QUERIES = re.compile(
    r"queries\.(.+)\.tsv|msmarco-(?:doc)?(train|dev|test\d+)-queries\.tsv|doc(leaderboard)-queries\.tsv"
)
_MSMARCO_QRELS = re.compile(
    r"qrels\.(.+)\.tsv|msmarco-doc(train|dev)-qrels\.tsv|(\d+)qrels-(?:pass|docs)\.txt"
)
_LISTS = re.compile(
    r"(top\d+)\.(.+)\.(?:tsv|txt)|msmarco-(?:passage|doc)?(train|dev|test\d+)-(top\d+)(?:\.tsv)?"
)
Kind = TypeVar("Kind", Doc, Query)
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


def _msmarco_conditions(path: Path) -> Conditions:
    yield any(_QUERIES.fullmatch(plain_name(file)) for file in list_few(path)), ""
    yield _corpora(path), f"no {_PASSAGES} and no {_DOCUMENTS} (or .gz, .xz)"


def _open_msmarco(path: Path, encoding: str) -> Collection:
    corpora = _corpora(path)
    if len(corpora) != 1:
        both = f"both {' and '.join(file.name for file, _ in corpora)}: which"
        neither = f"no {_PASSAGES} and no {_DOCUMENTS} (or .gz, .xz): what"
        raise CollectionError(f"{path}: {both if corpora else neither} is the collection?")
    file, read = corpora[0]
    queries, qrels = (
        {
            f"test{split}" if split.isdecimal() else split: file
            for split, file in match_splits(path, names).items()
        }
        for names in (_QUERIES, _MSMARCO_QRELS)
    )
    answers = find_file(path, _ANSWERS) if path.is_dir() else None
    # triples are for training (read_triples)
    others = [
        entry
        for entry in list_files(path)
        if _LISTS.fullmatch(plain_name(entry)) or _TRIPLES.fullmatch(plain_name(entry))
    ]
    return Collection(
        path.name,
        MSMARCO.name,
        partial(read, file, encoding),
        bind_files(read_topics, queries, format="tsv", encoding=encoding),
        bind_files(read_qrels, qrels),
        bind_files(read_split_answers, queries if answers else {}, answers=answers, encoding=encoding),
        pools=_pools(path, encoding, queries),
        notes=partial(count_unplaced, queries.values(), answers, encoding) if answers else dict,
        licence="MS MARCO terms: non-commercial research",
        source="microsoft.github.io/msmarco",
        unread=unread_files(path, [file, answers, *queries.values(), *qrels.values(), *others]),
    )


def _pools(path: Path, encoding: str, queries: Mapping[str, Path]) -> dict[str, Stream[Ranking]]:
    pools: dict[str, Stream[Ranking]] = {}
    for file in list_files(path):
        if match := _LISTS.fullmatch(plain_name(file)):
            split, name = match[2] or match[3], match[1] or match[4]
            small = ".small" if f"{split}.small" in queries else ""
            is_run = match[3] and not plain_name(file).endswith(".tsv")
            read = partial(read_run, file) if is_run else partial(read_pool, file, encoding)
            pools[f"{split}{small}/{name}"] = read
    return pools


MSMARCO = Format(
    "msmarco",
    _msmarco_conditions,
    _open_msmarco,
    f"MS MARCO: {_PASSAGES} or {_DOCUMENTS}, queries.*.tsv, qrels.*.tsv",
)


_ANTIQUE_DOCS = "antique-collection.txt"
_ANTIQUE_SPLITS = ("train", "test")


def read_antique_qrels(path: str | Path) -> Iterator[Qrel]:
    """Read the judgments, with the grades 1 to 4 of the file."""
    for qrel in read_qrels(path):
        if not 1 <= qrel.grade <= 4:
            raise FormatError(
                path,
                None,
                f"a grade from 1 to 4 for document {qrel.docno} of query {qrel.qid}",
                str(qrel.grade),
            )
        yield qrel


def _antique(record: type[Kind], what: str, path: Path, *, encoding: str) -> Iterator[Kind]:
    """The answers (some have no text), or the questions, of a file: an id, a tab, a text."""
    for number, (name, text) in read_columns(path, encoding, f"{what} text"):
        yield record(check_id(name, what, path, number), text)


def _open_antique(path: Path, encoding: str) -> Collection:
    docs = require_file(path, _ANTIQUE_DOCS)
    queries = {split: find_file(path, f"antique-{split}-queries.txt") for split in _ANTIQUE_SPLITS}
    qrels = {split: find_file(path, f"antique-{split}.qrel") for split in _ANTIQUE_SPLITS}
    return Collection(
        name=path.name,
        format=ANTIQUE.name,
        docs=partial(_antique, Doc, "docno", docs, encoding=encoding),
        queries=bind_files(partial(_antique, Query, "qid"), queries, encoding=encoding),
        qrels=bind_files(read_antique_qrels, qrels),
        licence="research purposes",
        source="ciir.cs.umass.edu/downloads/Antique",
        relevant_from=3,
        unread=unread_files(path, [docs, *queries.values(), *qrels.values()]),
    )


ANTIQUE = Format(
    "antique",
    partial(has_file, name=_ANTIQUE_DOCS),
    _open_antique,
    f"ANTIQUE: {_ANTIQUE_DOCS}, …",
)
