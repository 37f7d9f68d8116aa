"""Writing of a collection in another format, as a folder that appears only when complete.

===========  ==================================================================================
``beir``     ``corpus.jsonl``, ``queries.jsonl``, ``qrels/SPLIT.tsv``
``jsonl``    ``docs.jsonl``, ``queries.SPLIT.jsonl``, ``qrels.SPLIT.txt``
``msmarco``  ``collection.tsv``, or ``msmarco-docs.tsv`` if any document has a title or url;
             ``queries.SPLIT.tsv``, ``qrels.SPLIT.tsv``
``trec``     ``docs.trec``, ``topics.SPLIT.trec``, ``qrels.SPLIT.txt``
===========  ==================================================================================

The notes of the result name everything that a format cannot represent: tabs and line ends in the columns of
MS MARCO, blanks around texts in SGML, urls in BEIR, and in all of them answers and pools.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from telerank.corpus.collection import Collection
from telerank.corpus.docnos import check_docno, check_text
from telerank.errors import CollectionError
from telerank.trec import open_to_write, write_qrels
from telerank.types import Doc, Progress, Qrel, Query, silent

_BREAKS = re.compile(r"[\t\n\r]+")
_STEP = 1000  # documents between two calls of progress


@dataclass(frozen=True)
class Conversion:
    """Counts of what was written; ``notes`` name what the format could not represent."""

    docs: int
    queries: int
    qrels: int
    notes: tuple[str, ...]


@dataclass
class _Work:
    """A conversion in progress; ``changed`` counts changes of texts by their description."""

    collection: Collection
    folder: Path
    progress: Progress
    docs: int = 0
    queries: int = 0
    qrels: int = 0
    changed: Counter[str] = field(default_factory=Counter)

    def each_doc(self) -> Iterator[Doc]:
        for doc in self.collection.docs():
            self.docs += 1
            check_docno(doc.docno, self.docs)
            check_text(f"{doc.text}{doc.title}{doc.url}", f"document {doc.docno!r}")
            if self.docs % _STEP == 0:
                self.progress("documents", self.docs, self.collection.size)
            yield doc

    def each_query(self, queries: Iterable[Query]) -> Iterator[Query]:
        for query in queries:
            self.queries += 1
            yield query

    def each_qrel(self, qrels: Iterable[Qrel]) -> Iterator[Qrel]:
        for qrel in qrels:
            self.qrels += 1
            yield qrel


def convert(collection: Collection, out: str | Path, to: str, *, progress: Progress = silent) -> Conversion:
    """Write the whole collection, all splits, into the new folder ``out``.

    Raises
    ------
    CollectionError
        If the format is unknown, ``out`` exists, or a qid has two texts in different splits.
    """
    target = Path(out)
    if any("/" in split for split in collection.splits):
        collection = _with_plain_splits(collection)
    if to not in WRITERS:
        raise CollectionError(f"cannot write the format {to!r}; known: {', '.join(WRITERS)}")
    if target.exists():
        raise CollectionError(f"{target}: already exists")
    with _new_folder(target) as folder:
        work = _Work(collection, folder, progress)
        WRITERS[to](work)
        notes = [f"{count} {what}" for what, count in work.changed.items()]
        if collection.answers:
            notes.append("answers are left out: the format has none")
        if collection.pools:
            notes.append(f"pools are left out: {', '.join(collection.pools)}")
    return Conversion(work.docs, work.queries, work.qrels, tuple(notes))


def _with_plain_splits(collection: Collection) -> Collection:
    """The collection with splits whose names fit in file names: ``dev/small`` is ``dev-small``."""
    return replace(
        collection,
        queries={split.replace("/", "-"): stream for split, stream in collection.queries.items()},
        qrels={split.replace("/", "-"): stream for split, stream in collection.qrels.items()},
    )


@contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    part.mkdir(parents=True)
    try:
        yield part
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write_beir(work: _Work) -> None:
    _write_docs(work, "corpus.jsonl", urls=False)
    judged = {split: set[str]() for split in work.collection.qrels}
    (work.folder / "qrels").mkdir()
    for split, qrels in work.collection.qrels.items():
        with open_to_write(work.folder / "qrels" / f"{split}.tsv") as file:
            file.write("query-id\tcorpus-id\tscore\n")
            for qrel in work.each_qrel(qrels()):
                judged[split].add(qrel.qid)
                file.write(f"{qrel.qid}\t{qrel.docno}\t{qrel.grade}\n")
    if not judged:
        (work.folder / "qrels").rmdir()
    with open_to_write(work.folder / "queries.jsonl") as file:
        for query in work.each_query(_queries_of_all_splits(work, judged)):
            file.write(f"{_json({'_id': query.qid, 'text': query.text})}\n")


def _queries_of_all_splits(work: _Work, judged: dict[str, set[str]]) -> Iterator[Query]:
    """Each query once; queries without qrels belong to no split of a BEIR folder with qrels."""
    texts: dict[str, str] = {}
    for split, queries in work.collection.queries.items():
        change = f"queries of {split} have no qrels: they are written, but belong to no split"
        for query in queries():
            if texts.setdefault(query.qid, query.text) != query.text:
                raise CollectionError(
                    f"query {query.qid!r} has two texts; a BEIR folder has one file of queries"
                )
            if judged and query.qid not in judged.get(split, ()):
                work.changed[change] += 1
    yield from (Query(qid, text) for qid, text in texts.items())


def _write_jsonl(work: _Work) -> None:
    _write_docs(work, "docs.jsonl", urls=True)
    for split, queries in work.collection.queries.items():
        with open_to_write(work.folder / f"queries.{split}.jsonl") as file:
            for query in work.each_query(queries()):
                file.write(f"{_json({'_id': query.qid, 'text': query.text})}\n")
    _write_qrels(work, "txt")


def _write_docs(work: _Work, name: str, *, urls: bool) -> None:
    with open_to_write(work.folder / name) as file:
        for doc in work.each_doc():
            record = {"_id": doc.docno, "title": doc.title, "text": doc.text}
            if doc.url and urls:
                record["url"] = doc.url
            elif doc.url:
                work.changed["urls are left out: the format has none"] += 1
            file.write(f"{_json(record)}\n")


def _json(record: dict[str, str]) -> str:
    return json.dumps(record, ensure_ascii=False)


def _write_msmarco(work: _Work) -> None:
    wide = any(doc.title or doc.url for doc in work.collection.docs())
    with open_to_write(work.folder / ("msmarco-docs.tsv" if wide else "collection.tsv")) as file:
        for doc in work.each_doc():
            columns = (doc.docno, doc.url, doc.title, doc.text) if wide else (doc.docno, doc.text)
            file.write("\t".join(_join_lines(work, column) for column in columns) + "\n")
    for split, queries in work.collection.queries.items():
        with open_to_write(work.folder / f"queries.{split}.tsv") as file:
            for query in work.each_query(queries()):
                file.write(f"{query.qid}\t{_join_lines(work, query.text)}\n")
    _write_qrels(work, "tsv")


def _join_lines(work: _Work, text: str) -> str:
    if not _BREAKS.search(text):
        return text
    work.changed["texts had tabs or line ends, which became blanks"] += 1
    return _BREAKS.sub(" ", text)


def _write_trec(work: _Work) -> None:
    with open_to_write(work.folder / "docs.trec") as file:
        for doc in work.each_doc():
            file.write(f"<DOC>\n<DOCNO>{html.escape(doc.docno, quote=False)}</DOCNO>\n")
            for name, text in (("URL", doc.url), ("TITLE", doc.title)):
                if text:
                    file.write(f"<{name}>{_sgml(work, text, folded=True)}</{name}>\n")
            file.write(f"<TEXT>{_sgml(work, doc.text)}</TEXT>\n</DOC>\n")
    for split, queries in work.collection.queries.items():
        with open_to_write(work.folder / f"topics.{split}.trec") as file:
            for query in work.each_query(queries()):
                qid, text = html.escape(query.qid, quote=False), _sgml(work, query.text, folded=True)
                file.write(f"<top>\n<num>{qid}</num>\n<title>{text}</title>\n</top>\n")
    _write_qrels(work, "txt")


def _sgml(work: _Work, text: str, *, folded: bool = False) -> str:
    if text != (" ".join(text.split()) if folded else text.strip()):
        work.changed["texts had blanks that SGML does not keep"] += 1
    return html.escape(text, quote=False)


def _write_qrels(work: _Work, extension: str) -> None:
    for split, qrels in work.collection.qrels.items():
        write_qrels(work.folder / f"qrels.{split}.{extension}", work.each_qrel(qrels()))


WRITERS: dict[str, Callable[[_Work], None]] = {
    "beir": _write_beir,
    "jsonl": _write_jsonl,
    "msmarco": _write_msmarco,
    "trec": _write_trec,
}
