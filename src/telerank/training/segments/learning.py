"""What a training learns from segments: reads the documents, cuts them, and selects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from telerank.corpus.collection import Collection
from telerank.errors import CollectionError
from telerank.models.rerankers.reranker import Reranker
from telerank.segments.split import Segmenter
from telerank.training.examples.groups import Groups
from telerank.training.examples.reading import Reading
from telerank.training.segments.groups import AllSegments, SelectedSegments, documents_of
from telerank.training.segments.selection import Drawn, Gold, choose_first
from telerank.training.segments.settings import SegmentTraining
from telerank.training.segments.table import DocumentScores, SegmentTable, SegmentTokens, read_docs
from telerank.training.segments.truth import Truth, align
from telerank.types import Answer, Doc, Progress, silent

_NOTHING = Truth({}, 0, 0)


@dataclass(frozen=True, eq=False)
class SegmentLearning:
    """A training's segments; ``reading`` keeps only the pairs that can be learned from."""

    settings: SegmentTraining
    reading: Reading
    truth: Truth = _NOTHING
    tokens: SegmentTokens = field(default_factory=SegmentTokens)

    @classmethod
    def open(cls, settings: SegmentTraining, reading: Reading) -> SegmentLearning:
        """Read the known passages of the training split if they are learned from.

        Raises CollectionError if there are none, or none is found in its document.
        """
        if settings.select != "gold":
            return cls(settings, reading)
        truth = read_truth(settings, reading.collection, reading.data.split, progress=reading.progress)
        if not truth.spans:
            where = f"{reading.collection.name}: split {reading.data.split!r}"
            raise CollectionError(
                f"{where} has no known passage that is in its document: select gold needs them"
            )
        reading.counts.update(truth.describe())
        return cls(settings, replace(reading, keeps=truth.spans.keys()), truth)

    def cut(self, groups: Groups, reranker: Reranker) -> SegmentTable:
        """The segments of all documents of the groups, in the re-ranker's tokens.

        All of them, where known passages are learned from; otherwise the leading ones.
        """
        reading = self.reading
        docs = read_docs(reading.collection.docs(), documents_of(groups).keys(), reading.progress)
        settings = self.settings.learned(reading.seed, whole=self.settings.select == "gold")
        table = SegmentTable.cut(Segmenter.of(reranker, settings), docs, self.tokens)
        if self.settings.select == "gold" and self.settings.leading:
            first = self.settings.leading
            kept = {docno for _, docno in self.truth.spans}
            cut = {docno: own if docno in kept else own.first(first) for docno, own in table.segments.items()}
            table = SegmentTable(cut, self.tokens, table.record)
        reading.counts.update(table.counts())
        return table

    def select(self, groups: Groups, table: SegmentTable, *, apart: bool) -> Groups:
        """Groups of segments, as the settings say; those of BeST are selected elsewhere.

        ``apart``: the loss takes each segment alone.
        """
        seed, settings = self.reading.seed, self.settings
        drawn = Drawn(table, seed)
        match settings.select:
            case "all":
                return AllSegments(groups, table, settings.others, seed, apart)
            case "gold":
                return SelectedSegments(groups, table, Gold(self.truth, drawn))
            case "random":
                return SelectedSegments(groups, table, drawn)
            case _:
                return SelectedSegments(groups, table, choose_first)

    def scores(self, reranker: Reranker, documents: Mapping[str, str]) -> DocumentScores:
        """Scores documents, ``documents[docno]`` are the texts that stand for them, by their segments."""
        collection = self.reading.collection
        return document_scores(self.settings, collection, reranker, documents, self.tokens)


def document_scores(
    settings: SegmentTraining,
    collection: Collection,
    reranker: Reranker,
    documents: Mapping[str, str],
    tokens: SegmentTokens,
) -> DocumentScores:
    """Scores documents by all of their segments; ``documents[docno]`` are the texts that stand for them."""
    docs = read_docs(collection.docs(), documents.keys())
    segmenter = Segmenter.of(reranker, settings.ranked)
    return DocumentScores(segmenter, settings.score, {documents[doc.docno]: doc for doc in docs}, tokens)


def read_truth(
    settings: SegmentTraining,
    collection: Collection,
    split: str,
    docs: Sequence[Doc] | None = None,
    progress: Progress = silent,
) -> Truth:
    """The known passages of a split, aligned with ``docs``; by default with all documents that they name.

    Without answers there are none.
    """
    answers = list(_answers(settings, collection, split))
    if docs is None:
        docs = read_docs(collection.docs(), {answer.docno for answer in answers}, progress) if answers else []
    return align(answers, {doc.docno: doc for doc in docs})


def _answers(settings: SegmentTraining, collection: Collection, split: str) -> Iterator[Answer]:
    if settings.answers is not None:
        from telerank.corpus.answers import read_answers

        qids = {query.qid for query in collection.split_queries(split)}
        yield from (answer for answer in read_answers(settings.answers) if answer.qid in qids)
        return
    for part in split.split("+"):
        yield from collection.answers[part]() if part in collection.answers else ()
