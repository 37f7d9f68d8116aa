"""Groups of segments, made of groups of documents."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from telerank.training.examples.groups import FirstGroups, Group, Groups, QrelGroups, draw_position
from telerank.training.segments.selection import Choose, Key
from telerank.training.segments.table import SegmentTable


@dataclass(frozen=True, eq=False)
class _OfDocuments(Groups):
    """Groups made of groups of documents, one of each, by a table of segments."""

    groups: Groups
    table: SegmentTable

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def window(self) -> int:
        return self.groups.window

    @property
    def repeats_from(self) -> float:
        return self.groups.repeats_from


@dataclass(frozen=True, eq=False)
class SelectedSegments(_OfDocuments):
    """Each group with one segment of each of its documents instead of the document."""

    choose: Choose

    @property
    def most_pairs(self) -> float:
        return self.groups.most_pairs

    def __getitem__(self, number: int) -> Group:
        group = self.groups[number]
        texts = (self.table.text(docno, self.choose(group.qid, docno)) for docno in group.docnos)
        return replace(group, documents=tuple(texts))


@dataclass(frozen=True, eq=False)
class EverySegment(_OfDocuments):
    """Each group with all segments of its documents, which is what is scored to select one of them."""

    @property
    def most_pairs(self) -> float:
        return self.groups.most_pairs * max(map(len, self.table.segments.values()))

    def __getitem__(self, number: int) -> Group:
        group = self.groups[number]
        documents = [text for docno in group.docnos for text in self.table.texts(docno)]
        return replace(group, documents=tuple(documents), counts_relevant=True)


@dataclass(frozen=True, eq=False)
class AllSegments(Groups):
    """Segments with the labels of their documents: the first always, others with probability ``share``.

    An item is a group of segments as :func:`parts_of` makes them. Which ones there are is a function of the
    seed, the qid, the docnos and the number of the segment; all epochs have the same.
    """

    groups: Groups
    table: SegmentTable
    share: float
    seed: int
    apart: bool

    def __len__(self) -> int:
        return len(self._items)

    @property
    def most_pairs(self) -> float:
        return sum(len(group.documents) for group in self._items)

    def __getitem__(self, number: int) -> Group:
        _, position = draw_position(number, len(self), self.seed)
        return self._items[position]

    @cached_property
    def _items(self) -> list[Group]:
        return [item for number in range(len(self.groups)) for item in self._draw(self.groups[number])]

    def _draw(self, group: Group) -> Iterator[Group]:
        for part in parts_of(group, self.table, apart=self.apart):
            name = f"{self.seed} {group.qid} {' '.join(part.group.docnos)} {part.numbers}"
            if part.index == 0 or random.Random(name).random() < self.share:
                yield part.group


@dataclass(frozen=True)
class SegmentGroup:
    """Segments ``numbers`` of the documents at ``positions`` of a group; ``index`` is theirs, j."""

    group: Group
    index: int
    positions: tuple[int, ...]
    numbers: tuple[int, ...]


def parts_of(group: Group, table: SegmentTable, *, apart: bool) -> list[SegmentGroup]:
    """All segments of a group's documents, in groups of a segment of each document with the same index j.

    Where a document is shorter, its segments come again from the first one on, j modulo their number: so
    each segment of each document is learned from, and the groups keep their size. (BeST's sum over j leaves
    open what a segment is that one of both documents lacks.) ``apart`` makes a group of each segment, for a
    loss in which a segment stands alone: then none comes again.
    """
    counts = [table.count(docno) for docno in group.docnos]
    parts = []
    if apart:
        for position, docno in enumerate(group.docnos):
            alone = replace(
                group, docnos=(docno,), relevant=position == 0 and group.relevant, counts_relevant=True
            )
            for j, text in enumerate(table.texts(docno)):
                parts.append(SegmentGroup(replace(alone, documents=(text,)), j, (position,), (j,)))
        return parts
    for j in range(max(counts)):
        numbers = tuple(j % count for count in counts)
        texts = tuple(table.text(docno, n) for docno, n in zip(group.docnos, numbers, strict=True))
        own = replace(group, documents=texts)
        parts.append(SegmentGroup(own, j, tuple(range(len(counts))), numbers))
    return parts


def pairs_of(groups: Groups, last: int) -> Sequence[Key]:
    """The queries with a document in the groups before number ``last``, relevant or not, in a fixed order."""
    end = int(min(last, groups.repeats_from))
    every = (groups[number] for number in range(end))
    return sorted({(group.qid, docno) for group in every for docno in group.docnos})


def qrel_groups(groups: Groups) -> QrelGroups:
    """The groups of qrels and negatives that these are, or are the first of."""
    inner = groups.groups if isinstance(groups, FirstGroups) else groups
    if not isinstance(inner, QrelGroups):
        raise TypeError(f"expected groups of qrels and negatives, got {type(inner).__name__}")
    return inner
