"""Long documents on disk: a BEIR folder with answers, and ``long-documents.json``: how it was made.

::

    corpus.jsonl  queries.jsonl  qrels/SPLIT.tsv
    answers/SPLIT.jsonl     where a query is answered (see :mod:`telerank.corpus.answers`)
    long-documents.json     settings, sources, counts, positions of relevance, versions

The same sets and settings give the same bytes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from telerank.corpus.answers import answer_record, write_records
from telerank.corpus.collection import Collection
from telerank.corpus.readers.beir import LONG_DOCUMENTS
from telerank.drafts import draft_folder
from telerank.errors import CollectionError
from telerank.trec.files import open_to_write
from telerank.types import Answer, Doc, Progress, Query, silent

MANIFEST = LONG_DOCUMENTS
ALIGNED = ("exact", "moved", "nearest", "absent")
"""What became of the offsets of answers: see :mod:`telerank.corpus.readers.squad`."""
_STEP = 100  # documents between two calls of progress


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


def check_target(folder: str | Path, *, overwrite: bool = False) -> None:
    """Raise CollectionError if nothing can be written to ``folder``: only such a folder is replaced."""
    target = Path(folder)
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not overwrite:
        raise CollectionError(f"{folder}: already exists; replace it with --overwrite")
    if not (target / MANIFEST).is_file():
        raise CollectionError(f"{folder}: no long documents made by telerank, so it is not overwritten")


def write_long_documents(
    folder: str | Path, documents: LongDocuments, *, overwrite: bool = False, progress: Progress = silent
) -> WrittenDocuments:
    """Write long documents, streaming; the folder appears when complete. Errors as :func:`check_target`."""
    check_target(folder, overwrite=overwrite)
    with draft_folder(Path(folder)) as draft:
        return _Writer(draft, documents, progress).write()


def describe_sources(collections: Sequence[Collection]) -> list[dict[str, Any]]:
    """What a manifest says of the sets that something is made of."""
    return [
        {"name": one.name, "format": one.format, "licence": one.licence, "notes": dict(one.notes())}
        for one in collections
    ]


@dataclass(eq=False)
class _Writer:
    """Writes a folder in one pass over the documents; qrels and answers are held until its end."""

    folder: Path
    documents: LongDocuments
    progress: Progress
    qrels: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    words_before: list[int] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def write(self) -> WrittenDocuments:
        queries = self.documents.queries
        split_of = {query.qid: split for split, own in queries.items() for query in own}
        self.qrels, self.answers = {split: [] for split in queries}, {split: [] for split in queries}
        write_records(self.folder / "corpus.jsonl", self._records(split_of))
        write_records(
            self.folder / "queries.jsonl",
            ({"_id": query.qid, "text": query.text} for own in queries.values() for query in own),
        )
        for name in ("qrels", "answers"):
            (self.folder / name).mkdir()
        for split in queries:
            with open_to_write(self.folder / "qrels" / f"{split}.tsv") as file:
                file.write("query-id\tcorpus-id\tscore\n")
                file.writelines(f"{qid}\t{docno}\t1\n" for qid, docno in self.qrels[split])
            write_records(self.folder / "answers" / f"{split}.jsonl", map(answer_record, self.answers[split]))
        manifest = self._manifest()
        text = json.dumps(manifest, ensure_ascii=False, indent=2)
        (self.folder / MANIFEST).write_text(text + "\n", "utf-8")
        return WrittenDocuments(manifest["splits"], tuple(self.words_before), manifest)

    def _records(self, split_of: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        for number, document in enumerate(self.documents.documents(), 1):
            doc = document.doc
            self.kinds["relevant" if document.relevant else "distractors"] += 1
            for qid in document.relevant:
                self.qrels[split_of[qid]].append((qid, doc.docno))
            for answer in document.answers:
                if not doc.text.startswith(answer.text, answer.start):
                    problem = f"its text does not have the answer of {answer.qid} at {answer.start}"
                    raise CollectionError(f"document {doc.docno!r}: {problem}")
                self.answers[split_of[answer.qid]].append(answer)
                self.words_before.append(len(doc.text[: answer.start].split()))
            if number % _STEP == 0:
                self.progress("documents", number, self.documents.size)
            yield {"_id": doc.docno, "title": doc.title, "text": doc.text}

    def _manifest(self) -> dict[str, Any]:
        return {
            **self.documents.record,
            "documents": dict(sorted(self.kinds.items())),
            "splits": {
                split: {
                    "queries": len(queries),
                    "relevant": len(self.qrels[split]),
                    "answers": len(self.answers[split]),
                }
                for split, queries in self.documents.queries.items()
            },
            "versions": {"telerank": version("telerank")},
        }
