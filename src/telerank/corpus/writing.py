"""Writing of collections: one in another format, and long documents; a folder appears only when complete.

===========  ==================================================================================
``beir``     ``corpus.jsonl``, ``queries.jsonl``, ``qrels/SPLIT.tsv``
``jsonl``    ``docs.jsonl``, ``queries.SPLIT.jsonl``, ``qrels.SPLIT.txt``
``msmarco``  ``collection.tsv``, or ``msmarco-docs.tsv`` if any document has a title or url;
             ``queries.SPLIT.tsv``, ``qrels.SPLIT.tsv``
``trec``     ``docs.trec``, ``topics.SPLIT.trec``, ``qrels.SPLIT.txt``
===========  ==================================================================================

The notes of the result name everything that a format cannot represent: tabs and line ends in the columns of
MS MARCO, blanks around texts in SGML, urls in BEIR, and in all of them answers and pools.

Long documents on disk: a BEIR folder with answers, and ``long-documents.json``: how it was made.

::

    corpus.jsonl  queries.jsonl  qrels/SPLIT.tsv
    answers/SPLIT.jsonl     where a query is answered (see :mod:`telerank.corpus.answers`)
    long-documents.json     settings, sources, counts, positions of relevance, versions

The same sets and settings give the same bytes.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from itertools import chain, starmap
from pathlib import Path
from typing import Any

from telerank.corpus.answers import write_answers, write_records
from telerank.corpus.collection import Collection
from telerank.corpus.docnos import check_docno, check_text
from telerank.corpus.lengths import check_answer
from telerank.corpus.readers.by_split import LONG_DOCUMENTS
from telerank.corpus.reading import Record
from telerank.drafts import draft_folder
from telerank.errors import CollectionError, known_names
from telerank.trec import open_to_write, write_qrels
from telerank.types import Answer, Doc, Progress, Query, columns_record, silent

MANIFEST = LONG_DOCUMENTS
# What became of the offsets of answers: see `telerank.corpus.readers.squad`.
ALIGNED = ("exact", "moved", "nearest", "absent")
_BREAKS = re.compile(r"[\t\n\r]+")
_NO_COLUMNS = "documents lose their columns: the format has none"
_BEIR_HEADER = "query-id\tcorpus-id\tscore\n"
_STEP = 100  # documents between two calls of progress


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
        for number, doc in enumerate(
            self.count("docs", self.collection.read_docs("documents", self.progress)), 1
        ):
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
        raise CollectionError(f"cannot write the format {to!r}; {known_names(WRITERS, to)}")
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
    def write_doc(doc: Doc) -> dict[str, Any]:
        if doc.url:
            work.changed["urls are left out: the format has none"] += 1
        return doc_record(replace(doc, url=""))

    write_records(work.folder / "corpus.jsonl", map(write_doc, work.docs()))
    if work.collection.qrels:
        (work.folder / "qrels").mkdir()
    judged = {}
    for split, qrels in work.collection.qrels.items():
        rows = [f"{qrel.qid}\t{qrel.docno}\t{qrel.grade}\n" for qrel in work.count("qrels", qrels())]
        judged[split] = {row.partition("\t")[0] for row in rows}
        work.write(f"qrels/{split}.tsv", [_BEIR_HEADER, *rows])
    texts: dict[str, str] = {}
    for split, queries in work.collection.queries.items():
        change = f"queries of {split} have no qrels: they are written, but belong to no split"
        for query in queries():
            if texts.setdefault(query.qid, query.text) != query.text:
                raise CollectionError(
                    f"query {query.qid!r} has two texts; a BEIR folder has one file of queries"
                )
            work.changed[change] += bool(judged) and query.qid not in judged.get(split, ())
    write_records(
        work.folder / "queries.jsonl", map(query_record, work.count("queries", starmap(Query, texts.items())))
    )


def _write_jsonl(work: _Work) -> None:
    write_records(work.folder / "docs.jsonl", map(doc_record, work.docs()))
    work.write_splits(
        "queries.{}.jsonl",
        lambda query: json.dumps(query_record(query), ensure_ascii=False) + "\n",
        "qrels.{}.txt",
    )


def doc_record(doc: Doc) -> dict[str, Any]:
    record: dict[str, Any] = {"_id": doc.docno, "title": doc.title, "text": doc.text}
    record |= {"metadata": columns_record(doc.columns)} if doc.columns else {}
    return record | {"url": doc.url} if doc.url else record


def query_record(query: Query) -> dict[str, str]:
    return {"_id": query.qid, "text": query.text}


def _write_msmarco(work: _Work) -> None:
    def note_columns(doc: Doc) -> Doc:
        work.changed[_NO_COLUMNS] += bool(doc.columns)
        return doc

    def write_row(*columns: str) -> str:
        work.changed["texts had tabs or line ends, which became blanks"] += sum(
            _BREAKS.search(column) is not None for column in columns
        )
        return "\t".join(_BREAKS.sub(" ", column) for column in columns) + "\n"

    if any(doc.title or doc.url for doc in work.collection.docs()):
        work.write(
            "msmarco-docs.tsv",
            (write_row(doc.docno, doc.url, doc.title, doc.text) for doc in map(note_columns, work.docs())),
        )
    else:
        work.write(
            "collection.tsv", (write_row(doc.docno, doc.text) for doc in map(note_columns, work.docs()))
        )
    work.write_splits("queries.{}.tsv", lambda query: write_row(query.qid, query.text), "qrels.{}.tsv")


def _write_trec(work: _Work) -> None:
    def element(name: str, text: str) -> str:
        if text != (text.strip() if name == "TEXT" else " ".join(text.split())):
            work.changed["texts had blanks that SGML does not keep"] += 1
        return f"<{name}>{html.escape(text, quote=False)}</{name}>\n"

    def write_doc(doc: Doc) -> str:
        work.changed[_NO_COLUMNS] += bool(doc.columns)
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


@dataclass(frozen=True, slots=True)
class LongDocument:
    """A document, the queries that it is relevant to, and the spans of it that answer them."""

    doc: Doc
    relevant: tuple[str, ...] = ()
    answers: tuple[Answer, ...] = ()


@dataclass(frozen=True, eq=False)
class LongDocuments:
    """A set of long documents that can be written: its documents as a stream, its queries by split.

    ``record`` is what the manifest says besides the counts; ``size`` the number of documents.
    """

    documents: Callable[[], Iterator[LongDocument]]
    queries: Mapping[str, Sequence[Query]]
    size: int
    record: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class WrittenDocuments:
    """What was written: counts by split, words before the relevant text of each answer, the manifest."""

    counts: Mapping[str, Mapping[str, int]]
    words_before: tuple[int, ...]
    manifest: Mapping[str, Any]


def check_folder(manifest: str, what: str, folder: str | Path, *, overwrite: bool = False) -> None:
    """Raise CollectionError if ``folder`` cannot be written: only one with ``manifest`` is replaced."""
    target = Path(folder)
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not overwrite:
        raise CollectionError(f"{folder}: already exists; replace it with overwrite=True")
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
    write_records(folder / "corpus.jsonl", (doc_record(replace(doc, url="")) for doc in docs))
    write_records(folder / "queries.jsonl", map(query_record, queries))
    for name in ("qrels", "answers"):
        (folder / name).mkdir()
    for split, pairs in positives.items():
        with open_to_write(folder / "qrels" / f"{split}.tsv") as file:
            file.write(_BEIR_HEADER)
            file.writelines(f"{qid}\t{docno}\t1\n" for qid, docno in pairs)
        write_answers(folder / "answers" / f"{split}.jsonl", answers[split])


def write_manifest(path: Path, record: Mapping[str, Any]) -> None:
    """Write how a folder was made."""
    path.write_text(json.dumps(record, ensure_ascii=False, indent=2) + "\n", "utf-8")


# Raise CollectionError if nothing can be written to a folder: only such a folder is replaced.
check_target = partial(check_folder, MANIFEST, "no long documents made by telerank")


def write_long_documents(
    folder: str | Path, documents: LongDocuments, *, overwrite: bool = False, progress: Progress = silent
) -> WrittenDocuments:
    """Write long documents, streaming; the folder appears when complete. Errors as :func:`check_target`."""
    check_target(folder, overwrite=overwrite)
    queries = documents.queries
    split_of = {query.qid: split for split, own in queries.items() for query in own}
    positives: dict[str, list[tuple[str, str]]] = {split: [] for split in queries}
    answers: dict[str, list[Answer]] = {split: [] for split in queries}
    words_before: list[int] = []
    kinds: Counter[str] = Counter()

    def read_docs() -> Iterator[Doc]:
        for number, document in enumerate(documents.documents(), 1):
            doc = document.doc
            kinds["relevant" if document.relevant else "distractors"] += 1
            for qid in document.relevant:
                positives[split_of[qid]].append((qid, doc.docno))
            for answer in document.answers:
                check_answer(answer, doc.text)
                answers[split_of[answer.qid]].append(answer)
                words_before.append(len(doc.text[: answer.start].split()))
            if number % _STEP == 0:
                progress("documents", number, documents.size)
            yield doc

    with draft_folder(Path(folder)) as draft:
        write_beir(draft, read_docs(), chain.from_iterable(queries.values()), positives, answers)
        counts = {
            split: {"queries": len(own), "relevant": len(positives[split]), "answers": len(answers[split])}
            for split, own in queries.items()
        }
        manifest = {
            **documents.record,
            "documents": dict(sorted(kinds.items())),
            "splits": counts,
            "versions": {"telerank": version("telerank")},
        }
        write_manifest(draft / MANIFEST, manifest)
    return WrittenDocuments(counts, tuple(words_before), manifest)
