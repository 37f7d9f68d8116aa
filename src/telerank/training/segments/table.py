"""The segments of the documents that a training reads, and the pairs that a model reads of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from telerank.models.pairs.pair import Pair
from telerank.models.rerankers.reranker import Reranker
from telerank.reranking.texts import TextPair, make_pairs
from telerank.segments.settings import Aggregate
from telerank.segments.split import Segmenter, Segments
from telerank.training.parallel import Processes
from telerank.training.reranker.outcome import BEHIND
from telerank.training.reranker.pair_logits import CutCounts, EndToEnd, PairScores, share_scores
from telerank.types import Doc, Progress, silent

_DOCUMENTS = 512  # whose segments are in memory, where documents are ranked


@dataclass(eq=False)
class SegmentTokens:
    """Makes pairs of a query and a segment with the tokens that ranking gives it; the text names the segment.

    A text that names none is tokenised as any other.
    """

    known: dict[str, tuple[Segments, int]] = field(default_factory=dict)

    def add(self, segments: Segments, number: int) -> str:
        """The text of a segment, title first; from now on it stands for the segment's tokens."""
        title, text = segments.kept_title, segments.text(number)
        text = f"{title} {text}" if title else text
        self.known.setdefault(text, (segments, number))
        return text

    def __call__(self, reranker: Reranker, pairs: Sequence[TextPair]) -> list[Pair]:
        """The tokens of each pair; each distinct query is tokenised once."""
        others = iter(make_pairs(reranker, [pair for pair in pairs if pair[1] not in self.known]))
        names = list(dict.fromkeys(query for query, text in pairs if text in self.known))
        queries = dict(zip(names, reranker.texts.queries(names), strict=True))
        result = []
        for query, text in pairs:
            segments, number = self.known.get(text, (None, 0))
            if segments is None:
                result.append(next(others))
            else:
                result.append(reranker.texts.pair(queries[query], segments.passage(number)))
        return result


@dataclass(eq=False)
class SegmentTable:
    """The segments of documents by docno; their texts stand for their tokens in ``tokens``."""

    segments: Mapping[str, Segments]
    tokens: SegmentTokens
    record: Mapping[str, Any] = field(default_factory=dict)
    """Everything that decides the segments, for JSON."""

    @classmethod
    def cut(cls, segmenter: Segmenter, docs: Sequence[Doc], tokens: SegmentTokens) -> SegmentTable:
        """Cut documents."""
        segments = {own.doc.docno: own for own in segmenter.split(docs)}
        return cls(segments, tokens, segmenter.record)

    def count(self, docno: str) -> int:
        """Number of a document's segments: at least one."""
        return len(self.segments[docno])

    def text(self, docno: str, number: int) -> str:
        """The text of a segment."""
        return self.tokens.add(self.segments[docno], number)

    def texts(self, docno: str) -> list[str]:
        """The texts of all of a document's segments."""
        return [self.text(docno, number) for number in range(self.count(docno))]

    def counts(self) -> dict[str, int]:
        """What was cut, by description."""
        every = self.segments.values()
        return {
            "documents cut into segments": len(self.segments),
            "segments to learn from": sum(map(len, every)),
            f"documents with text {BEHIND}": sum(s.left_out > 0 for s in every),
            f"tokens {BEHIND}": sum(own.left_out for own in every),
            "documents whose title was cut": sum(own.cut_title > 0 for own in every),
        }


@dataclass(eq=False)
class DocumentScores:
    """Scores documents by their segments, whose pairs ``scorer`` scores.

    ``docs`` has each document by the text that stands for it.
    """

    scorer: PairScores
    segmenter: Segmenter
    aggregate: Aggregate
    docs: Mapping[str, Doc]
    tokens: SegmentTokens

    def score(self, pairs: Sequence[TextPair], progress: Progress = silent) -> list[float]:
        return [self.aggregate(scores) for _, scores in self._scored(pairs, progress)]

    def share(self, pairs: Sequence[TextPair], processes: Processes, progress: Progress) -> list[float]:
        """As :meth:`PairScores.share`, but the first process alone reads features of a frozen encoder.

        Which pairs to encode is known only when their documents are cut.
        """
        if not isinstance(self.scorer, EndToEnd):
            return processes.alone(lambda: self.score(pairs, progress), [])

        def score(own: Sequence[TextPair], docs: Mapping[str, Doc]) -> list[float]:
            return replace(self, docs=docs).score(own, progress)

        return share_scores(processes, pairs, score, self.docs)

    def best(self, pairs: Sequence[TextPair], progress: Progress = silent) -> list[tuple[Segments, int]]:
        """The segments of each pair's document, and the number of the best one."""
        return [(segments, int(np.argmax(scores))) for segments, scores in self._scored(pairs, progress)]

    def count_cut(self, pairs: Sequence[TextPair], progress: Progress) -> tuple[CutCounts, int | None]:
        """A document is cut if it has text behind the segments that are read; segments cut titles, too."""
        texts = list(dict.fromkeys(text for _, text in pairs))
        segments = dict(zip(texts, self.segmenter.split([self.docs[text] for text in texts]), strict=True))
        cut, _ = self.scorer.count_cut([(query, "") for query, _ in pairs], progress)
        cut.passages = sum(segments[text].left_out > 0 for _, text in pairs)
        return cut, sum(segments[text].cut_title > 0 for _, text in pairs)

    def _scored(self, pairs: Sequence[TextPair], progress: Progress) -> Iterable[tuple[Segments, np.ndarray]]:
        """The segments of each pair's document with their scores, (segments,); some documents at a time."""
        before = set(self.tokens.known)
        for part in _windows([text for _, text in pairs]):
            docs = [self.docs[pairs[row][1]] for row in part]
            docnos = [doc.docno for doc in docs]
            different = {doc.docno: doc for doc in docs}
            table = SegmentTable.cut(self.segmenter, list(different.values()), self.tokens)
            queried = [
                (pairs[row][0], text)
                for row, docno in zip(part, docnos, strict=True)
                for text in table.texts(docno)
            ]
            scores = np.array(self.scorer.score(queried, progress), np.float64)
            ends = np.cumsum([table.count(docno) for docno in docnos])
            for docno, own in zip(docnos, np.split(scores, ends[:-1]), strict=True):
                yield table.segments[docno], own
            for text in set(self.tokens.known) - before:
                del self.tokens.known[text]


def _windows(texts: Sequence[str]) -> Iterable[range]:
    """The rows in parts of at most so many different documents, in order."""
    start, seen = 0, set[str]()
    for row, text in enumerate(texts):
        seen.add(text)
        if len(seen) > _DOCUMENTS:
            yield range(start, row)
            start, seen = row, {text}
    if start < len(texts):
        yield range(start, len(texts))


def read_docs(docs: Iterable[Doc], docnos: Collection[str], progress: Progress = silent) -> list[Doc]:
    """The documents with these docnos, read in one pass; those that are not there are left out."""
    kept: list[Doc] = []
    if not docnos:
        return kept
    for number, doc in enumerate(docs, 1):
        if doc.docno in docnos:
            kept.append(doc)
        if number % 10_000 == 0:
            progress("reading documents", number, None)
    return kept
