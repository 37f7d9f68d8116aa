"""A folder of TREC-CAR files as a collection.

Files are recognised by their content (``.cbor`` in the name) or their name (qrels, topics):

- files of paragraphs are the documents, one file after the other;
- a file of outlines is a split, named by the part of its name before ``.cbor``
  (``test.pages.cbor-outlines.cbor`` is ``test.pages``); without outlines, pages are used;
- so is a file of TREC's topics (``topics.car17v2.0.benchmarkY1test.txt``);
- a file of qrels belongs to the split of the same name. Hierarchical judgments have just this name; those on
  pages and on top-level sections are the splits ``test.pages-article`` and ``test.pages-toplevel``, whose
  queries are pages and top-level sections.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from telerank.corpus.collection import Collection, Format
from telerank.corpus.readers.car import (
    OUTLINES,
    PAGES,
    PARAGRAPHS,
    detect_kind,
    read_outlines,
    read_paragraphs,
)
from telerank.corpus.readers.reading import plain_name
from telerank.errors import CollectionError
from telerank.trec.qrels import read_qrels
from telerank.trec.topics import read_topics
from telerank.types import Doc, Query

_QRELS = re.compile(r"^qrels\.|\.qrels$")
_TOPICS = re.compile(r"^topics\.")
_LEVEL = re.compile(r"[.-](hierarchical|toplevel|article)(?=\.|$)")
_STEPS = {"article": 0, "toplevel": 1}  # slashes in a qid


def _recognises(path: Path) -> bool:
    return any(_car_kind(file) is not None for file in _inside(path))


def _open(path: Path, encoding: str) -> Collection:
    del encoding  # CBOR's text is UTF-8
    files = [(file, _car_kind(file)) for file in _inside(path)]
    if not any(kind is not None for _, kind in files):
        raise CollectionError(f"{path}: expected TREC-CAR files of paragraphs or outlines (.cbor)")
    readers = {_stem(file): partial(read_outlines, file) for file, kind in files if kind == PAGES}
    readers |= {_stem(file): partial(read_outlines, file) for file, kind in files if kind == OUTLINES}
    readers |= {
        _stem(file): partial(read_topics, file, format="car")
        for file, kind in files
        if kind is None and _TOPICS.search(plain_name(file))
    }
    judged = [(file, *_split(file)) for file, _ in files if _QRELS.search(plain_name(file))]
    levels = {split: (stem, level) for _, split, stem, level in judged} | {
        stem: (stem, "") for stem in readers
    }
    return Collection(
        name=path.name if path.is_dir() else _stem(path),
        format=TREC_CAR.name,
        docs=partial(_docs, tuple(file for file, kind in files if kind == PARAGRAPHS)),
        queries={
            split: partial(_queries_of_level, readers[stem], level)
            for split, (stem, level) in sorted(levels.items())
            if stem in readers
        },
        qrels={split: partial(read_qrels, file) for file, split, _, _ in judged},
        licence="CC BY-SA 3.0",
        source="trec-car.cs.unh.edu",
    )


def _inside(path: Path) -> list[Path]:
    return sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]


def _car_kind(file: Path) -> int | None:
    qrels = _QRELS.search(plain_name(file))
    return detect_kind(file) if ".cbor" in file.name and not qrels else None


def _stem(file: Path) -> str:
    name = plain_name(file)
    for affix in ("topics.", "qrels."):
        name = name.removeprefix(affix)
    return _LEVEL.sub("", name.partition(".cbor")[0].removesuffix(".txt").removesuffix(".qrels"))


def _split(qrels: Path) -> tuple[str, str, str]:
    """Split, stem and level of a file of judgments."""
    match, stem = _LEVEL.search(plain_name(qrels)), _stem(qrels)
    level = match[1] if match and match[1] in _STEPS else ""
    return f"{stem}-{level}" if level else stem, stem, level


def _docs(files: tuple[Path, ...]) -> Iterator[Doc]:
    return (doc for file in files for doc in read_paragraphs(file))


def _queries_of_level(read: Callable[[], Iterator[Query]], level: str) -> Iterator[Query]:
    return (query for query in read() if not level or query.qid.count("/") == _STEPS[level])


TREC_CAR = Format("trec-car", _recognises, _open, "TREC-CAR: CBOR files of paragraphs and outlines")
"""A file of paragraphs or outlines, or a folder of them with their qrels."""
