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
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import starmap
from pathlib import Path

from telerank.corpus.collection import Collection
from telerank.corpus.docnos import check_docno, check_text
from telerank.corpus.reading import Record
from telerank.drafts import draft_folder
from telerank.errors import CollectionError
from telerank.trec import open_to_write, write_qrels
from telerank.types import Doc, Progress, Query, silent

_BREAKS = re.compile(r"[\t\n\r]+")


@dataclass(frozen=True)
class Conversion:
    """Counts of what was written; ``notes`` name what the format could not represent."""

    docs: int
    queries: int
    qrels: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Work:
    """A conversion in progress; ``changed`` counts changes of texts by their description."""

    collection: Collection
    folder: Path
    progress: Progress
    counts: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)

    def docs(self) -> Iterator[Doc]:
        docs = self.collection.read_docs("documents", self.progress)
        for number, doc in enumerate(self.count("docs", docs), 1):
            check_docno(doc.docno, number)
            check_text(f"{doc.text}{doc.title}{doc.url}", f"document {doc.docno!r}")
            if doc.marks:
                self.changed["documents lose the pages and headings of their files: the format has none"] += 1
            yield doc

    def count(self, kind: str, records: Iterable[Record]) -> Iterator[Record]:
        for record in records:
            self.counts[kind] += 1
            yield record

    def write(self, name: str, texts: Iterable[str]) -> None:
        with open_to_write(self.folder / name) as file:
            file.writelines(texts)

    def write_splits(self, queries: str, write_query: Callable[[Query], str], qrels: str) -> None:
        """Write files named by split: ``queries`` and ``qrels`` are patterns of names."""
        for split, stream in self.collection.queries.items():
            self.write(queries.format(split), map(write_query, self.count("queries", stream())))
        for split, judgments in self.collection.qrels.items():
            write_qrels(self.folder / qrels.format(split), self.count("qrels", judgments()))


def convert(collection: Collection, out: str | Path, to: str, *, progress: Progress = silent) -> Conversion:
    """Write the whole collection, all splits, into the new folder ``out``.

    Raises
    ------
    CollectionError
        If the format is unknown, ``out`` exists, or a qid has two texts in different splits.
    """
    target = Path(out)
    # names of splits that fit in names of files: dev/small is dev-small
    collection = replace(
        collection,
        queries={split.replace("/", "-"): stream for split, stream in collection.queries.items()},
        qrels={split.replace("/", "-"): stream for split, stream in collection.qrels.items()},
    )
    if to not in WRITERS:
        raise CollectionError(f"cannot write the format {to!r}; known: {', '.join(WRITERS)}")
    if target.exists():
        raise CollectionError(f"{target}: already exists")
    with draft_folder(target) as folder:
        work = _Work(collection, folder, progress)
        WRITERS[to](work)
        notes = [f"{count} {what}" for what, count in work.changed.items() if count]
        if collection.answers:
            notes.append("answers are left out: the format has none")
        if collection.pools:
            notes.append(f"pools are left out: {', '.join(collection.pools)}")
    counts = work.counts
    return Conversion(counts["docs"], counts["queries"], counts["qrels"], tuple(notes))


def _write_beir(work: _Work) -> None:
    def write_doc(doc: Doc) -> str:
        if doc.url:
            work.changed["urls are left out: the format has none"] += 1
        return _doc_json(replace(doc, url=""))

    work.write("corpus.jsonl", map(write_doc, work.docs()))
    if work.collection.qrels:
        (work.folder / "qrels").mkdir()
    judged = {}
    for split, qrels in work.collection.qrels.items():
        rows = [f"{qrel.qid}\t{qrel.docno}\t{qrel.grade}\n" for qrel in work.count("qrels", qrels())]
        judged[split] = {row.partition("\t")[0] for row in rows}
        work.write(f"qrels/{split}.tsv", ["query-id\tcorpus-id\tscore\n", *rows])
    texts: dict[str, str] = {}
    for split, queries in work.collection.queries.items():
        change = f"queries of {split} have no qrels: they are written, but belong to no split"
        for query in queries():
            if texts.setdefault(query.qid, query.text) != query.text:
                raise CollectionError(
                    f"query {query.qid!r} has two texts; a BEIR folder has one file of queries"
                )
            work.changed[change] += bool(judged) and query.qid not in judged.get(split, ())
    work.write("queries.jsonl", map(_query_json, work.count("queries", starmap(Query, texts.items()))))


def _write_jsonl(work: _Work) -> None:
    work.write("docs.jsonl", map(_doc_json, work.docs()))
    work.write_splits("queries.{}.jsonl", _query_json, "qrels.{}.txt")


def _doc_json(doc: Doc) -> str:
    record = {"_id": doc.docno, "title": doc.title, "text": doc.text} | ({"url": doc.url} if doc.url else {})
    return json.dumps(record, ensure_ascii=False) + "\n"


def _query_json(query: Query) -> str:
    return json.dumps({"_id": query.qid, "text": query.text}, ensure_ascii=False) + "\n"


def _write_msmarco(work: _Work) -> None:
    def write_row(*columns: str) -> str:
        work.changed["texts had tabs or line ends, which became blanks"] += sum(
            _BREAKS.search(column) is not None for column in columns
        )
        return "\t".join(_BREAKS.sub(" ", column) for column in columns) + "\n"

    if any(doc.title or doc.url for doc in work.collection.docs()):
        work.write(
            "msmarco-docs.tsv", (write_row(doc.docno, doc.url, doc.title, doc.text) for doc in work.docs())
        )
    else:
        work.write("collection.tsv", (write_row(doc.docno, doc.text) for doc in work.docs()))
    work.write_splits("queries.{}.tsv", lambda query: write_row(query.qid, query.text), "qrels.{}.tsv")


def _write_trec(work: _Work) -> None:
    def element(name: str, text: str) -> str:
        if text != (text.strip() if name == "TEXT" else " ".join(text.split())):
            work.changed["texts had blanks that SGML does not keep"] += 1
        return f"<{name}>{html.escape(text, quote=False)}</{name}>\n"

    def write_doc(doc: Doc) -> str:
        head = "".join(element(name, text) for name, text in (("URL", doc.url), ("TITLE", doc.title)) if text)
        return f"<DOC>\n{element('DOCNO', doc.docno)}{head}{element('TEXT', doc.text)}</DOC>\n"

    def write_query(query: Query) -> str:
        return f"<top>\n{element('num', query.qid)}{element('title', query.text)}</top>\n"

    work.write("docs.trec", map(write_doc, work.docs()))
    work.write_splits("topics.{}.trec", write_query, "qrels.{}.txt")


WRITERS: dict[str, Callable[[_Work], None]] = {
    "beir": _write_beir,
    "jsonl": _write_jsonl,
    "msmarco": _write_msmarco,
    "trec": _write_trec,
}
