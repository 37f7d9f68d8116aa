"""Segments of documents: those that a training reads, groups of them, and scoring documents by them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from telerank.models.pairs.pair import Pair
from telerank.models.rerankers.reranker import Reranker
from telerank.reranking.texts import TextPair, make_pairs
from telerank.segments.settings import Aggregate
from telerank.segments.split import Segmenter, Segments
from telerank.training.examples.groups import FirstGroups, Group, Groups, QrelGroups
from telerank.training.parallel import Processes
from telerank.training.reranker.scoring import CutCounts, EndToEnd, PairScores, share_scores
from telerank.types import Doc, Progress, silent

BEHIND = "behind the last segment to learn from"
"""What is left out, where only the leading segments are learned from, in the counts of a training."""
_DOCUMENTS = 512  # whose segments are in memory, where documents are ranked
Choose: TypeAlias = Callable[[str, str], int]
"""The number of the segment of a query's document, by qid and docno."""


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


@dataclass(frozen=True)
class SegmentGroup:
    """Segments ``numbers`` of the documents at ``positions`` of a group; ``index`` is theirs, j."""

    group: Group
    index: int
    positions: tuple[int, ...]
    numbers: tuple[int, ...]


@dataclass(eq=False)
class SegmentTable:
    """The segments of documents by docno; their texts stand for their tokens in ``tokens``.

    ``record`` is everything that decides the segments, for JSON.
    """

    segments: Mapping[str, Segments]
    tokens: SegmentTokens
    record: Mapping[str, Any] = field(default_factory=dict)

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

    def select(self, groups: Groups, choose: Choose) -> Groups:
        """Groups with one segment of each document instead of the document."""

        def selected(group: Group) -> Group:
            texts = (self.text(docno, choose(group.qid, docno)) for docno in group.docnos)
            return replace(group, documents=tuple(texts))

        return SegmentGroups(groups, selected)

    def spread(self, groups: Groups) -> Groups:
        """Groups with all segments of their documents, which is what is scored to select one of them."""

        def spread(group: Group) -> Group:
            texts = tuple(text for docno in group.docnos for text in self.texts(docno))
            return replace(group, documents=texts, counts_relevant=True)

        return SegmentGroups(groups, spread, max(map(len, self.segments.values())))

    def sample(self, groups: Groups, share: float, seed: int, *, apart: bool) -> Groups:
        """Groups of :meth:`parts`: the first segments always, others with probability ``share``.

        Which ones is a function of the seed, the qid, the docnos and the number of the segment; all epochs
        have the same.
        """
        items = []
        for number in range(len(groups)):
            for part in self.parts(groups[number], apart=apart):
                name = f"{seed} {part.group.qid} {' '.join(part.group.docnos)} {part.numbers}"
                if part.index == 0 or random.Random(name).random() < share:
                    items.append(part.group)
        return ShuffledGroups(items, seed)

    def parts(self, group: Group, *, apart: bool) -> list[SegmentGroup]:
        """All segments of a group's documents, in groups of a segment of each with the same index j.

        Where a document is shorter, its segments come again from the first one on, j modulo their number: so
        each segment of each document is learned from, and the groups keep their size. (BeST's sum over j
        leaves open what a segment is that one of both documents lacks.) ``apart`` makes a group of each
        segment, for a loss in which a segment stands alone: then none comes again.
        """
        parts = []
        if apart:
            for position, docno in enumerate(group.docnos):
                alone = replace(
                    group, docnos=(docno,), relevant=position == 0 and group.relevant, counts_relevant=True
                )
                for j, text in enumerate(self.texts(docno)):
                    parts.append(SegmentGroup(replace(alone, documents=(text,)), j, (position,), (j,)))
            return parts
        counts = [self.count(docno) for docno in group.docnos]
        for j in range(max(counts)):
            numbers = tuple(j % count for count in counts)
            own = replace(group, documents=tuple(map(self.text, group.docnos, numbers)))
            parts.append(SegmentGroup(own, j, tuple(range(len(counts))), numbers))
        return parts


@dataclass(frozen=True, eq=False)
class SegmentGroups(Groups):
    """Other groups with segments in the place of their documents, of each at most ``most``."""

    groups: Groups
    replace_documents: Callable[[Group], Group]
    most: int = 1

    def __getitem__(self, number: int) -> Group:
        return self.replace_documents(self.groups[number])

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def window(self) -> int:
        return self.groups.window

    @property
    def repeats_from(self) -> float:
        return self.groups.repeats_from

    @property
    def most_pairs(self) -> float:
        return self.groups.most_pairs * self.most


@dataclass(frozen=True, eq=False)
class ShuffledGroups(Groups):
    """Given groups, in another order in each epoch."""

    groups: Sequence[Group]
    seed: int

    def __getitem__(self, number: int) -> Group:
        return self.groups[self.draw_position(number, self.seed)[1]]

    def __len__(self) -> int:
        return len(self.groups)


def qrel_groups(groups: Groups) -> QrelGroups:
    """The groups of qrels and negatives that these are, or are the first of."""
    inner = groups.groups if isinstance(groups, FirstGroups) else groups
    if not isinstance(inner, QrelGroups):
        raise TypeError(f"expected groups of qrels and negatives, got {type(inner).__name__}")
    return inner


@dataclass(eq=False)
class DocumentScores(PairScores):
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

    def count_cut(self, pairs: Sequence[TextPair], progress: Progress = silent) -> CutCounts:
        """A document is cut if it has text behind the segments that are read; segments cut titles, too."""
        texts = list(dict.fromkeys(text for _, text in pairs))
        segments = dict(zip(texts, self.segmenter.split([self.docs[text] for text in texts]), strict=True))
        cut = self.scorer.count_cut([(query, "") for query, _ in pairs], progress)
        cut.passages = sum(segments[text].left_out > 0 for _, text in pairs)
        cut.titles = sum(segments[text].cut_title > 0 for _, text in pairs)
        return cut

    def _scored(self, pairs: Sequence[TextPair], progress: Progress) -> Iterable[tuple[Segments, np.ndarray]]:
        """The segments of each pair's document with their scores, (segments,); some documents at a time."""
        before = set(self.tokens.known)
        for part in _windows([text for _, text in pairs]):
            docs = [self.docs[pairs[row][1]] for row in part]
            different = {doc.docno: doc for doc in docs}
            table = SegmentTable.cut(self.segmenter, list(different.values()), self.tokens)
            texts = [table.texts(doc.docno) for doc in docs]
            queried = [(pairs[row][0], text) for row, own in zip(part, texts, strict=True) for text in own]
            scores = np.array(self.scorer.score(queried, progress), np.float64)
            parts = np.split(scores, np.cumsum(list(map(len, texts)))[:-1])
            for doc, own in zip(docs, parts, strict=True):
                yield table.segments[doc.docno], own
            for text in set(self.tokens.known) - before:
                del self.tokens.known[text]


def _windows(texts: Sequence[str]) -> Iterator[range]:
    """The rows in parts of at most so many different documents, in order."""
    start, seen = 0, set[str]()
    for row, text in enumerate(texts):
        seen.add(text)
        if len(seen) > _DOCUMENTS:
            yield range(start, row)
            start, seen = row, {text}
    if start < len(texts):
        yield range(start, len(texts))
