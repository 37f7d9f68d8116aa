"""BEIR folders: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``, plain or compressed.

Qrels may also be beside them, as ``qrels.tsv`` or ``qrels.SPLIT.tsv``, and may have no header. A folder may
have answers, too: ``answers/SPLIT.jsonl`` (see :mod:`telerank.corpus.answers`), as the long documents that
telerank makes have them.

Source: Thakur et al., BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval
Models, NeurIPS 2021 (github.com/beir-cellar/beir). Each set has the licence of its own source; the
folder does not state it.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from telerank.corpus.answers import read_answers
from telerank.corpus.collection import Collection, Format
from telerank.corpus.readers.jsonl import read_docs
from telerank.corpus.readers.reading import (
    WHOLE,
    bind,
    find_file,
    has_file,
    judged_queries,
    match_splits,
    require_file,
    unread_files,
)
from telerank.errors import CollectionError
from telerank.trec import read_qrels, read_topics
from telerank.trec.recognition import Conditions

_QRELS = re.compile(r"(.+)\.(?:tsv|txt)")
_ANSWERS = re.compile(r"(.+)\.jsonl")
LONG_DOCUMENTS = "long-documents.json"
"""The manifest of a folder of long documents (:mod:`telerank.corpus.long_documents`)."""
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
    if qrels and not queries:
        raise CollectionError(f"{path}: qrels but no queries.jsonl (or .gz, .xz)")
    answers = match_splits(path / "answers", _ANSWERS)
    judged = bind(judged_queries, qrels, queries=queries, encoding=encoding)
    unread = [f"qrels/{name}" for name in unread_files(path / "qrels", qrels.values())]
    unread += [f"answers/{name}" for name in unread_files(path / "answers", answers.values())]
    folders = [path / "qrels", path / LONG_DOCUMENTS, *([path / "answers"] if answers else [])]
    return Collection(
        path.name,
        BEIR.name,
        partial(read_docs, corpus, encoding),
        judged or bind(read_topics, {WHOLE: queries}, format="jsonl", encoding=encoding),
        bind(read_qrels, qrels),
        bind(read_answers, answers),
        source="a BEIR folder (github.com/beir-cellar/beir names the source of each set)",
        unread=(
            *unread_files(path, [corpus, queries, *folders, *flat.values()]),
            *unread,
        ),
    )


BEIR = Format("beir", _conditions, _open, "BEIR folder: corpus.jsonl, queries.jsonl, qrels/*.tsv")
