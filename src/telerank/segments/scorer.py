"""Score the segments of documents with a pair scorer; batches fill across documents and queries."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, pairwise
from threading import Lock
from typing import TypeAlias

import numpy as np

from telerank.batches import WindowLimits
from telerank.models.inference import stream_groups
from telerank.models.pairs.pair import Passage
from telerank.reranking.scorer import Scorer
from telerank.reranking.texts import TokenizedPairs
from telerank.segments.settings import SegmentSettings
from telerank.segments.split import Segmenter, Segments
from telerank.types import Doc, Scores

# The text of a query, and a document.
Candidate: TypeAlias = tuple[str, Doc]

_WINDOW = WindowLimits(1_000_000, 4096, 1024)  # characters, documents, groups: few, for early results


@dataclass
class SegmentCounts:
    """What was scored so far, and what was cut: of titles, and behind the ``first`` segments.

    A document counts once for each query, and its tokens do.
    """

    documents: int = 0
    segments: int = 0
    cut_titles: int = 0
    left_out: int = 0
    left_out_tokens: int = 0

    def add(self, segments: Segments) -> None:
        """Count a document and its segments."""
        self.documents += 1
        self.segments += len(segments)
        self.cut_titles += segments.cut_title > 0
        self.left_out += segments.left_out > 0
        self.left_out_tokens += segments.left_out


@dataclass(eq=False)
class SegmentScorer:
    """Scores each segment of a document beside the query, with the ``scorer`` of pairs."""

    scorer: Scorer
    settings: SegmentSettings
    window: WindowLimits = _WINDOW
    most_tokens: int = 1_000_000  # of documents that are kept for other queries
    counts: SegmentCounts = field(default_factory=SegmentCounts, init=False)
    _cut: OrderedDict[str, Segments] = field(default_factory=OrderedDict, init=False, repr=False)
    _tokens: int = field(default=0, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    @cached_property
    def segmenter(self) -> Segmenter:
        """What cuts the documents; the model is loaded for it."""
        return Segmenter.of(self.scorer.reranker, self.settings)

    def score(self, query: str, doc: Doc) -> tuple[Segments, Scores]:
        """The segments of one document, and the logit of each, (segments,); they are not counted."""
        pairs, _ = self._make_pairs([(query, doc)], SegmentCounts())
        (segments,) = self._split([doc])
        return segments, self.scorer.uncounted.score_pairs(pairs)

    def stream(self, groups: Iterable[Iterable[Candidate]]) -> Iterator[list[Scores]]:
        """The logits of the segments of each candidate, by group, lazily and in order.

        The documents of a ``window`` are in memory (a million characters), for any number of groups and of
        documents in a group. While segments are scored, the next documents are cut. A document that comes
        again, for another query, is not tokenised again as long as it is among the last ``most_tokens``.
        """
        parts = stream_groups(
            self.window.cut(groups, lambda item: len(item[1].text)),
            lambda items: self._make_pairs(items, self.counts),
            lambda prepared: partial(self._score, *prepared),
        )
        yield from map(list[Scores], map(chain.from_iterable, parts))

    def _score(self, pairs: TokenizedPairs, sizes: Sequence[int]) -> list[Scores]:
        logits = self.scorer.score_pairs(pairs)
        return [logits[start:end] for start, end in pairwise(np.cumsum([0, *sizes]).tolist())]

    def _make_pairs(
        self, items: Sequence[Candidate], counts: SegmentCounts
    ) -> tuple[TokenizedPairs, list[int]]:
        """The pairs of all segments, and how many each candidate has; each text is tokenised once."""
        texts = self.segmenter.texts
        names = list(dict.fromkeys(query for query, _ in items))
        queries = {name: number for number, name in enumerate(names)}
        docs = list(dict.fromkeys(doc for _, doc in items))
        segments_of = dict(zip(docs, self._split(docs), strict=True))
        passages: list[Passage] = []
        first_of: dict[Doc, int] = {}  # the number of a document's first segment
        for doc, segments in segments_of.items():
            first_of[doc] = len(passages)
            passages += (segments.passage(number) for number in range(len(segments)))
        numbers: list[tuple[int, int]] = []
        sizes = []
        for query, doc in items:
            segments = segments_of[doc]
            counts.add(segments)
            sizes.append(len(segments))
            numbers += ((queries[query], first_of[doc] + number) for number in range(len(segments)))
        pairs = np.array(numbers, np.int64).reshape(-1, 2)
        return TokenizedPairs(texts, texts.queries(names), passages, pairs), sizes

    def _split(self, docs: Sequence[Doc]) -> list[Segments]:
        """The segments of each document; those of the last documents are kept."""
        with self._lock:  # a score may be explained while a stream is read
            kept = {doc: cut for doc in docs if (cut := self._cut.get(doc.docno)) and cut.doc == doc}
            fresh = self.segmenter.split([doc for doc in docs if doc not in kept])
            all_segments = [kept[doc] if doc in kept else next(fresh) for doc in docs]
            for segments in all_segments:
                docno = segments.doc.docno
                if docno in self._cut:
                    self._tokens -= len(self._cut.pop(docno).ids)
                self._cut[docno] = segments
                self._tokens += len(segments.ids)
                while self._tokens > self.most_tokens and len(self._cut) > 1:
                    self._tokens -= len(self._cut.popitem(last=False)[1].ids)
            return all_segments
