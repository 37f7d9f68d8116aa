"""Collections: the documents, queries, qrels, answers and candidate lists of one source.

What a collection contains: its counts, and documents and queries by id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from telerank.corpus.readers.files.folder import FolderFiles
from telerank.corpus.reading import Record, Stream
from telerank.errors import CollectionError
from telerank.expressions import call_text, quote
from telerank.stage import Stage
from telerank.trec import check_exists, load_qrels
from telerank.types import Answer, Doc, Explanation, Phrase, Progress, Qrel, Qrels, Query, Ranking, silent


@dataclass(frozen=True, repr=False)
class CandidatePool(Stage):
    """The lists ``name`` of a collection's ``split``, by qid; a query without a list has no documents.

    They are read into memory when the first query comes.
    """

    collection: str
    split: str
    name: str
    streams: tuple[Callable[[], Iterator[Ranking]], ...]

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return (self._find(bare.query) for bare in stream)

    def explanation(self, query: Query, docno: str) -> Explanation:
        return Explanation(
            dict(self._find(query))[docno], Phrase("the score in {file}", file=f"{self.split}/{self.name}")
        )

    @property
    def sources(self) -> Mapping[str, object]:
        return {self.text: {"collection": self.collection, "split": self.split}}

    @property
    def text(self) -> str:
        return call_text("pool", quote(self.name))

    @cached_property
    def _lists(self) -> Mapping[str, Ranking]:
        return {ranking.query.qid: ranking for read in self.streams for ranking in read()}

    def _find(self, query: Query) -> Ranking:
        known = self._lists.get(query.qid)
        return Ranking(query) if known is None else Ranking.presorted(query, known.docnos, known.scores)


@dataclass(frozen=True, eq=False)
class Collection:
    """The records of a collection, as streams: each call of a stream starts again at its first record.

    ``docs`` is one stream; ``queries``, ``qrels`` and ``answers`` have one for each split. ``pools`` are
    candidate lists that come with a collection, by ``split/name`` (``test/500``, ``dev.small/top1000``);
    scores in them decrease by one from rank to rank, to keep the order of the file. ``candidates`` is the
    name of lists that hold every document, each for the question that it was collected for. ``size`` is the
    number of documents if it is known without reading them. ``relevant_from`` is the lowest grade that the
    collection's makers count as relevant (3 of 4 in ANTIQUE). ``notes`` counts what the reader repaired or
    left out, by name: paragraphs merged, answers moved. ``unread`` names the files beside it that are not
    read. ``moved`` has, for each split, those of the answers that stand elsewhere in their document than the
    files say, ``unlocated`` answers whose text does not occur in their document, and
    ``contexts`` the document that each question was asked about, those without an answer among them.
    ``files`` reads the documents file by file if each file is one or several.
    """

    name: str
    format: str
    docs: Stream[Doc]
    queries: Mapping[str, Stream[Query]] = field(default_factory=dict)
    qrels: Mapping[str, Stream[Qrel]] = field(default_factory=dict)
    answers: Mapping[str, Stream[Answer]] = field(default_factory=dict)
    pools: Mapping[str, Stream[Ranking]] = field(default_factory=dict)
    candidates: str = ""
    size: int | None = None
    licence: str = ""
    source: str = ""
    relevant_from: int = 1
    notes: Callable[[], Mapping[str, int]] = dict
    unread: tuple[str, ...] = ()
    unlocated: Mapping[str, Stream[Answer]] = field(default_factory=dict)
    moved: Mapping[str, Stream[Answer]] = field(default_factory=dict)
    contexts: Mapping[str, Callable[[], Mapping[str, str]]] = field(default_factory=dict)
    files: FolderFiles | None = None

    def __repr__(self) -> str:
        splits = f", splits: {', '.join(self.splits)}" if self.splits else ""
        return f"<collection {self.name} ({self.format}{splits})>"

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of all splits, in the collection's order."""
        pooled = (name.partition("/")[0] for name in self.pools)
        return tuple(dict.fromkeys((*self.queries, *self.qrels, *self.answers, *pooled)))

    def resolve_split(self, name: str | None = None) -> str:
        """Return ``name`` or, without a name, the only split; CollectionError if there is no such split.

        A name ``a+b`` is of several splits together.
        """
        known = ", ".join(self.splits)
        if name is None:
            if len(self.splits) == 1:
                return self.splits[0]
            if not self.splits:
                raise CollectionError(f"{self.name} has only documents: no queries, no qrels")
            raise CollectionError(f"{self.name} has several splits, choose one of them: {known}")
        for part in split_parts(name):
            if part not in self.splits:
                raise CollectionError(f"{self.name} has no split {part!r}; it has: {known or 'none'}")
        return name

    def read_docs(self, label: str, progress: Progress, step: int = 1000) -> Iterator[Doc]:
        """The documents; ``progress`` is called with ``label`` after every ``step`` of them."""
        for number, doc in enumerate(self.docs(), 1):
            if number % step == 0:
                progress(label, number, self.size)
            yield doc

    def expanded(self, path: str | Path) -> Collection:
        """The collection with queries that were predicted for its documents appended to their texts.

        ``path`` is a file of :func:`telerank.expand`. It is read whenever the documents are; then a warning
        (:class:`~telerank.errors.MissingQueries`) counts the documents without a line.

        >>> tr.index(data.expanded("queries.jsonl"), "idx", weights_model="my-unicoil")

        Raises
        ------
        CollectionError
            If there is no such file or, when the documents are read, if one has a column ``expansion``.
        FormatError
            When the documents are read, if a line of the file is wrong.
        """
        from telerank.corpus.derived.predicted import appending

        check_exists(path)
        return replace(self, docs=lambda: appending(self.docs(), path), files=None)

    def relevant(self, splits: Iterable[str]) -> dict[str, list[str]]:
        """The relevant documents of each query of these splits, each once."""
        relevant: dict[str, dict[str, None]] = {}
        for split in splits:
            for qrel in self.split_qrels(split):
                if qrel.grade >= self.relevant_from:
                    relevant.setdefault(qrel.qid, {})[qrel.docno] = None
        return {qid: list(docnos) for qid, docnos in relevant.items()}

    def split_queries(self, split: str | None = None) -> Iterator[Query]:
        """The queries of a split (see :meth:`resolve_split`)."""
        return self._stream("queries", self.queries, split)

    def split_qrels(self, split: str | None = None) -> Iterator[Qrel]:
        """The qrels of a split with the grades of the file; to measure, use :meth:`judged`."""
        return self._stream("qrels", self.qrels, split)

    def judged(self, split: str | None = None) -> Qrels:
        """The grades of a split for measuring: ``judged[qid][docno] -> grade``.

        Grades below :attr:`relevant_from` are 0 here, since measures count any grade above 0 as relevant.
        Raises CollectionError without such a split or qrels, FormatError if a document has two grades.
        """
        qrels = load_qrels(self.split_qrels(split))
        for grades in qrels.values() if self.relevant_from > 1 else ():
            grades.update({docno: 0 for docno, grade in grades.items() if 0 < grade < self.relevant_from})
        return qrels

    def pool(self, name: str, split: str | None = None) -> CandidatePool:
        """The candidate lists ``name`` of a split as a stage (see :meth:`resolve_split`).

        >>> data.pool("candidates", "test") >> tr.rerank("my-reranker", data)

        Raises
        ------
        CollectionError
            If there is no such split, or it has no such lists.
        """
        split = self.resolve_split(split)
        names = [f"{part}/{name}" for part in split_parts(split)]
        for pool in names:
            if pool not in self.pools:
                has = ", ".join(self.pools) or "none"
                raise CollectionError(f"{self.name} has no candidate lists {pool}; it has: {has}")
        return CandidatePool(self.name, split, name, tuple(self.pools[pool] for pool in names))

    @property
    def provenance(self) -> dict[str, Any]:
        """What a manifest says of a collection that something is made of."""
        return {name: getattr(self, name) for name in ("name", "format", "licence")} | {
            "notes": dict(self.notes())
        }

    @property
    def search_notice(self) -> str:
        """Why a search of all documents misleads; empty if it does not."""
        if not self.candidates:
            return ""
        return (
            f"{self.name}: a document is judged for its own question alone, and copies of its text count as "
            f"not relevant: rank each question's own, pool({self.candidates}), such as by "
            f"within(pool({self.candidates}), bm25)"
        )

    def _stream(
        self, kind: str, streams: Mapping[str, Stream[Record]], split: str | None
    ) -> Iterator[Record]:
        parts = split_parts(self.resolve_split(split))
        for name in parts:
            if name not in streams:
                has = ", ".join(streams) or "none"
                raise CollectionError(f"{self.name}: split {name!r} has no {kind}; splits with {kind}: {has}")
        return chain.from_iterable(streams[name]() for name in parts)


def split_parts(name: str) -> list[str]:
    """The splits that the name of several, ``a+b``, stands for."""
    return name.split("+")


def rank_in_order(query: Query, docnos: Iterable[str]) -> Ranking:
    """Rank documents that are sorted but have no scores: scores decrease by one, down to 1."""
    names = tuple(docnos)
    return Ranking(query, names, np.arange(len(names), 0, -1.0))


def count_contents(collection: Collection, *, progress: Progress = silent) -> dict[str, Any]:
    """What a collection says of itself, and its counts, ready for JSON.

    ``splits[split]`` has those of its queries, qrels and answers. The documents are read only if their number
    is not known.
    """
    documents = collection.size
    if documents is None:
        documents = sum(1 for _ in collection.read_docs("counting documents", progress))
    kinds = ("queries", "qrels", "answers")
    streams: dict[str, Mapping[str, Stream[Any]]] = {kind: getattr(collection, kind) for kind in kinds}
    return {
        **{name: getattr(collection, name) for name in ("name", "format", "licence", "source")},
        "documents": documents,
        "splits": {
            split: {kind: sum(1 for _ in own[split]()) for kind, own in streams.items() if split in own}
            for split in collection.splits
        },
        "pools": list(collection.pools),
        "notes": dict(collection.notes()),
        "unread": list(collection.unread),
    }


def find_docs(collection: Collection, docnos: Sequence[str]) -> list[Doc]:
    """Find documents by docno, in this order, or raise CollectionError; reads only until all are found."""
    docs: dict[str, Doc | None] = dict.fromkeys(docnos)
    for doc in collection.docs() if docs else ():
        if doc.docno in docs and docs[doc.docno] is None:
            docs[doc.docno] = doc
            if None not in docs.values():
                break
    if missing := [docno for docno, doc in docs.items() if doc is None]:
        raise CollectionError(f"{collection.name} has no document {', '.join(map(repr, missing))}")
    return [doc for doc in docs.values() if doc]


def find_query(collection: Collection, qid: str, split: str | None = None) -> dict[str, Any]:
    """A query by qid with its grades and answers, ready for JSON, or CollectionError.

    Without a ``split`` it is that of the first split that has it.
    """
    splits = collection.splits if split is None else (collection.resolve_split(split),)
    for name in splits:
        for query in collection.queries.get(name, tuple)():
            if query.qid == qid:
                qrels = (qrel for qrel in collection.qrels.get(name, tuple)() if qrel.qid == qid)
                answers = (answer for answer in collection.answers.get(name, tuple)() if answer.qid == qid)
                grades = {qrel.docno: qrel.grade for qrel in qrels}
                return {"split": name, **asdict(query), "qrels": grades, "answers": [*map(asdict, answers)]}
    searched = f"in {', '.join(splits)}" if splits else "(it has no queries)"
    raise CollectionError(f"{collection.name} has no query {qid!r} {searched}")
