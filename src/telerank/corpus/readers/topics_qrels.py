"""Topics and qrels without documents: ``topics.SPLIT.txt``, ``queries.SPLIT.tsv``, ``qrels.SPLIT.txt``.

For searching and evaluating with documents that are indexed already. A collection is one such file, or a
folder of such files only. This is a file format, not a data set: source and licence are those of the topics.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from telerank.corpus.collection import Collection
from telerank.corpus.reading import bind, group_by_split, list_files, plain_name
from telerank.errors import CollectionError
from telerank.trec import read_qrels, read_topics
from telerank.trec.files import Conditions, Format
from telerank.trec.topics import TOPICS_FORMATS
from telerank.types import Doc

_TOPICS = re.compile(r"(?:topics|queries)\b.*", re.IGNORECASE)
_QRELS = re.compile(r"qrels\b.*", re.IGNORECASE)


def open_topics(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002
    encoding: str = "utf-8",
) -> Collection:
    """A file of queries as a collection with one split and no documents; ``-`` is standard input.

    ``format`` is one of :func:`~telerank.trec.read_topics`; raises CollectionError if it is another.
    """
    if format is not None and format not in TOPICS_FORMATS:
        raise CollectionError(f"unknown format {format!r} of topics; known: {', '.join(TOPICS_FORMATS)}")
    queries = partial(read_topics, path, format=format, encoding=encoding)
    return Collection(str(path), TOPICS.name, partial(_no_docs, Path(path)), {"all": queries}, size=0)


def _conditions(path: Path) -> Conditions:
    files = list_files(path)
    known = [
        file for file in files if _TOPICS.fullmatch(plain_name(file)) or _QRELS.fullmatch(plain_name(file))
    ]
    other = next((file.name for file in files if file not in known or not file.is_file()), "")
    yield known, ""
    yield known and not other, f"{other}: its name begins neither with topics (or queries) nor with qrels"


def _open(path: Path, encoding: str) -> Collection:
    files = list_files(path)
    topics, qrels = group_by_split(
        [file for file in files if _TOPICS.fullmatch(plain_name(file))],
        [file for file in files if _QRELS.fullmatch(plain_name(file))],
    )
    return Collection(
        path.name,
        TOPICS.name,
        partial(_no_docs, path),
        bind(read_topics, topics, encoding=encoding),
        bind(read_qrels, qrels),
        size=0,
    )


def _no_docs(path: Path) -> Iterator[Doc]:
    raise CollectionError(f"{path} has only topics and qrels: no documents")


TOPICS = Format("topics", _conditions, _open, "only topics.* and qrels.*, without documents")
