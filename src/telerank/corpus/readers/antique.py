"""ANTIQUE: questions of Yahoo! Answers, and answers judged from 1 to 4.

``qrels`` have the grades of the files. ``relevant_from`` is 3, as its makers recommend: to measure with
(``judged``), grades 3 and 4 are relevant, and 1 and 2 become 0. A graded measure with the makers' mapping to
0..3 is ``nDCG(gains={1: 0, 2: 1, 3: 2, 4: 3})@10`` on a qrels file itself, which is measured as it is.

====================================  ===================================================
``antique-collection.txt``            docno, text
``antique-{train,test}-queries.txt``  qid, question
``antique-{train,test}.qrel``         qid, Q0 (crowd), E0 (expert) or U0 (asker), docno, grade
====================================  ===================================================

Source: ciir.cs.umass.edu/downloads/Antique (Hashemi et al. 2020). Licence as stated there: research purposes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import starmap
from pathlib import Path

from telerank.corpus.collection import Collection
from telerank.corpus.reading import (
    bind,
    find_file,
    has_file,
    read_columns,
    require_file,
    unread_files,
)
from telerank.errors import FormatError
from telerank.trec.columns import read_qrels
from telerank.trec.files import Format, check_id
from telerank.types import Doc, Qrel, Query

_DOCS = "antique-collection.txt"
_SPLITS = ("train", "test")


def read_antique_docs(path: str | Path, *, encoding: str = "utf-8") -> Iterator[Doc]:
    """Read the answers; some have no text."""
    return starmap(Doc, _pairs(Path(path), "docno", encoding))


def read_antique_queries(path: str | Path, *, encoding: str = "utf-8") -> Iterator[Query]:
    """Read the questions."""
    return starmap(Query, _pairs(Path(path), "qid", encoding))


def read_antique_qrels(path: str | Path) -> Iterator[Qrel]:
    """Read the judgments, with the grades 1 to 4 of the file."""
    for qrel in read_qrels(path):
        if not 1 <= qrel.grade <= 4:
            where = f"a grade from 1 to 4 for document {qrel.docno} of query {qrel.qid}"
            raise FormatError(path, None, where, str(qrel.grade))
        yield qrel


def _pairs(path: Path, what: str, encoding: str) -> Iterator[tuple[str, str]]:
    for number, (name, text) in read_columns(path, encoding, f"{what} text"):
        yield check_id(name, what, path, number), text


def _open(path: Path, encoding: str) -> Collection:
    docs = require_file(path, _DOCS)
    queries = {split: find_file(path, f"antique-{split}-queries.txt") for split in _SPLITS}
    qrels = {split: find_file(path, f"antique-{split}.qrel") for split in _SPLITS}
    return Collection(
        name=path.name,
        format=ANTIQUE.name,
        docs=partial(read_antique_docs, docs, encoding=encoding),
        queries=bind(read_antique_queries, queries, encoding=encoding),
        qrels=bind(read_antique_qrels, qrels),
        licence="research purposes",
        source="ciir.cs.umass.edu/downloads/Antique",
        relevant_from=3,
        unread=unread_files(path, [docs, *queries.values(), *qrels.values()]),
    )


ANTIQUE = Format(
    "antique",
    partial(has_file, name=_DOCS),
    _open,
    f"ANTIQUE: {_DOCS}, …",
)
"""A folder with the files as they are distributed, plain or compressed."""
