"""BEIR folders: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``, plain or compressed.

Source: Thakur et al., BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval
Models, NeurIPS 2021 (github.com/beir-cellar/beir). Each set has the licence of its own source; the
folder does not state it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from telerank.corpus.collection import Collection, Format
from telerank.corpus.readers.jsonl import read_docs
from telerank.corpus.readers.reading import WHOLE, bind, find_file, match_splits, require_file
from telerank.errors import CollectionError, FormatError
from telerank.trec import read_qrels, read_topics
from telerank.types import Query

_QRELS = re.compile(r"(.+)\.tsv")


def _recognises(path: Path) -> bool:
    ranking_set = path / "ranking-set.json"  # has a reader of its own
    return find_file(path, "corpus.jsonl") is not None and not ranking_set.exists()


def _open(path: Path, encoding: str) -> Collection:
    corpus, queries = require_file(path, "corpus.jsonl"), find_file(path, "queries.jsonl")
    qrels = match_splits(path / "qrels", _QRELS)
    if qrels and not queries:
        raise CollectionError(f"{path}: qrels but no queries.jsonl (or .gz, .xz)")
    judged = bind(_judged_queries, qrels, queries=queries, encoding=encoding)
    return Collection(
        path.name,
        BEIR.name,
        partial(read_docs, corpus, encoding),
        judged or bind(read_topics, {WHOLE: queries}, format="jsonl", encoding=encoding),
        bind(read_qrels, qrels),
        source="a BEIR folder (github.com/beir-cellar/beir names the source of each set)",
    )


def _judged_queries(qrels: Path, queries: Path, encoding: str) -> Iterator[Query]:
    """The queries that a split judges, in the order of ``queries.jsonl``, which has those of all splits."""
    missing = {qrel.qid for qrel in read_qrels(qrels)}
    for query in read_topics(queries, format="jsonl", encoding=encoding):
        if query.qid in missing:
            missing.remove(query.qid)
            yield query
    if missing:
        some = ", ".join(sorted(missing)[:3])
        raise FormatError(queries, None, f"every query of {qrels.name}; {len(missing)} are missing ({some})")


BEIR = Format("beir", _recognises, _open, "BEIR folder: corpus.jsonl, queries.jsonl, qrels/*.tsv")
