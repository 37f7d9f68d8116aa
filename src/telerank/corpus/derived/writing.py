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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from telerank.corpus.answers import write_answers, write_records
from telerank.corpus.derived.positions import check_answer
from telerank.corpus.readers.by_split import LONG_DOCUMENTS
from telerank.drafts import draft_folder
from telerank.errors import CollectionError
from telerank.trec import open_to_write
from telerank.types import Answer, Doc, Progress, Query, silent

MANIFEST = LONG_DOCUMENTS
# What became of the offsets of answers: see `telerank.corpus.readers.squad`.
ALIGNED = ("exact", "moved", "nearest", "absent")
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


def check_folder(manifest: str, what: str, folder: str | Path, *, overwrite: bool = False) -> None:
    """Raise CollectionError if ``folder`` cannot be written: only one with ``manifest`` is replaced."""
    target = Path(folder)
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not overwrite:
        raise CollectionError(f"{folder}: already exists; replace it with --overwrite")
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
    write_records(
        folder / "corpus.jsonl", ({"_id": doc.docno, "title": doc.title, "text": doc.text} for doc in docs)
    )
    write_records(folder / "queries.jsonl", ({"_id": query.qid, "text": query.text} for query in queries))
    for name in ("qrels", "answers"):
        (folder / name).mkdir()
    for split, pairs in positives.items():
        with open_to_write(folder / "qrels" / f"{split}.tsv") as file:
            file.write("query-id\tcorpus-id\tscore\n")
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
        write_beir(
            draft, read_docs(), (query for own in queries.values() for query in own), positives, answers
        )
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
