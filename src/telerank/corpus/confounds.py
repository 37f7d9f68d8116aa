"""What tells relevant documents from others besides their texts: titles, lengths, places, docnos, copies.

A model that ranks such a set may learn the property instead of relevance, and a measure on it counts that as
quality. Each property is judged by the area under its ROC curve: the share of the pairs of a relevant and
another document in which the relevant one has more of it, ties counted as halves; .5 says nothing. Three
comparisons:

``documents``
    Documents that are relevant to some query, and those that are relevant to none.
``collection``
    The relevant documents of a query, and all others of the collection; the mean over the queries. Documents
    that many queries are about count as often, so here a property says what a query does not need to.
``lists``
    The same among the documents that are judged or listed (in a pool) for the query: what a training reads.

Places, numbers and shapes of docnos tell in any order, not only by more or less: documents are grouped (into
:data:`BINS` of equal size, or by shape), and the property is the share of relevant documents of its group
among the other half of the documents, so that no document has a part in its own value.

Intervals of ``documents`` are Newcombe's for the Mann–Whitney statistic (2006, method 5), which do not
collapse where the area is 0 or 1; those of means over queries are normal, with queries about the same
document as one cluster.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.show.tables import Table
from telerank.types import Doc

# A property is warned of if it orders at least this share of the pairs in one direction, and its interval
# excludes the half.
WARN_FROM = 0.65
BINS = 20
_LEAST_GROUP = 20  # documents; smaller groups are one
_Z = 1.959964
_DIGITS = re.compile("[0-9]+")
_MOST_SHAPES = 10_000

Values: TypeAlias = npt.NDArray[np.float64]
_Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Area:
    """An area under the ROC curve with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def share(self) -> float:
        """The share of the pairs that the property orders right in its better direction."""
        return max(self.value, 1 - self.value)

    @property
    def separates(self) -> bool:
        return round(self.share, 9) >= WARN_FROM and not self.low <= 0.5 <= self.high

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True, slots=True)
class Confound:
    """A property, what it is of relevant documents and of the others, and its area in each comparison."""

    name: str
    relevant: str
    others: str
    areas: Mapping[str, Area | None]

    def warning(self) -> str:
        """A line if the property separates; else an empty text."""
        shares = [
            f"{100 * area.share:.0f} % ({name})"
            for name, area in self.areas.items()
            if area is not None and area.separates
        ]
        pairs = f"warning: of the pairs of a relevant and another document, the {self.name} alone orders"
        return f"{pairs} {', '.join(shares)}" if shares else ""


_COMPARED = {
    "documents": "relevant to some query, and to none",
    "collection": "of a query, and all others",
    "lists": "of a query, and those judged or listed for it",
}


@dataclass(frozen=True, eq=False)
class Confounds:
    """Which properties separate relevant documents from others; see :func:`find_confounds`."""

    relevant: int
    others: int
    separations: tuple[Confound, ...]

    def warnings(self) -> list[str]:
        """A line for each property that separates."""
        return [line for separation in self.separations if (line := separation.warning())]

    def table(self) -> Table:
        """A row for each property, with the warnings as notes."""
        known = [name for name in _COMPARED if any(row.areas[name] for row in self.separations)]
        rows = [
            [row.name, row.relevant, row.others, *(row.areas[name] for name in known)]
            for row in self.separations
        ]
        area = (
            "area under the ROC curve: the share of the pairs of a relevant and another document in which the"
            " relevant one has more; 0.50 says nothing; in brackets 95 % intervals"
        )
        none = f"no warning: an area is warned of from {WARN_FROM:.2f} on, and up to {1 - WARN_FROM:.2f}"
        meanings = (f"{name}: documents {_COMPARED[name]}" for name in known)
        notes = [area, *meanings, *(self.warnings() or [none])]
        counts = f"{self.relevant:,} relevant documents, {self.others:,} others"
        caption = f"what tells relevant documents, besides their texts ({counts})"
        return Table.of(("property", "relevant", "others", *known), rows, caption=caption, notes=notes)

    def record(self) -> dict[str, Any]:
        """The areas and the warnings, ready for JSON."""
        return {
            "relevant": self.relevant,
            "others": self.others,
            "warn_from": WARN_FROM,
            "properties": [asdict(separation) for separation in self.separations],
            "warnings": self.warnings(),
        }


@dataclass(eq=False)
class DocumentFacts:
    """The properties of documents, collected in the order of the collection; a row is some tens of bytes."""

    lengths: array[int] = field(default_factory=lambda: array("q"))
    title_lengths: array[int] = field(default_factory=lambda: array("q"))
    texts: array[int] = field(default_factory=lambda: array("q"))
    numbers: array[float] = field(default_factory=lambda: array("d"))
    shapes: array[int] = field(default_factory=lambda: array("q"))
    shape_names: dict[str, int] = field(default_factory=dict)

    def add(self, doc: Doc, length: int, title_length: int) -> None:
        """Add a document; the lengths of its text and its title are in tokens."""
        self.lengths.append(length)
        self.title_lengths.append(title_length)
        self.texts.append(hash(doc.text))
        runs = _DIGITS.findall(doc.docno)
        self.numbers.append(float(runs[-1]) if runs else np.nan)
        shape = _DIGITS.sub("0", doc.docno)
        known = self.shape_names
        number = known.setdefault(shape, len(known)) if len(known) < _MOST_SHAPES else known.get(shape, -1)
        self.shapes.append(number)

    def __len__(self) -> int:
        return len(self.lengths)

    def properties(self, relevant: _Mask) -> Iterator[_Property]:
        """The properties in which documents differ at all."""
        titles, size = np.array(self.title_lengths, np.float64), len(self)
        _, inverse, counts = np.unique(np.array(self.texts), return_inverse=True, return_counts=True)
        numbers = np.array(self.numbers)
        yield _Property("title", (titles > 0).astype(np.float64), share=True)
        yield _Property("length of the title", np.where(titles > 0, titles, np.nan))
        yield _Property("length of the text", np.array(self.lengths, np.float64))
        yield _Property("exact copy", (counts[inverse] > 1).astype(np.float64), share=True)
        rows = np.arange(size, dtype=np.float64)
        yield _Property("place in the collection", rows, _cross_fit(_bins(rows), relevant))
        yield _Property("number in the docno", numbers, _cross_fit(_bins(numbers), relevant))
        shapes, frequent = np.array(self.shapes), Counter(self.shapes)
        rare = np.array([frequent[shape] < _LEAST_GROUP for shape in self.shapes], np.bool_)
        names = {number: name for name, number in self.shape_names.items()}
        groups = np.where(rare, len(names), shapes) if len(shapes) else shapes
        yield _Property("shape of the docno", groups.astype(np.float64), _cross_fit(groups, relevant), names)


@dataclass(frozen=True, eq=False)
class _Property:
    """Values of documents, NaN if they have none; ``scores`` are compared in their place.

    ``names`` are those of the values, if these are categories; ``share``: they are 0 and 1.
    """

    name: str
    values: Values
    scores: Values | None = None
    names: Mapping[int, str] | None = None
    share: bool = False

    @property
    def compared(self) -> Values:
        """What is compared; NaN where the value is."""
        return self.values if self.scores is None else np.where(np.isnan(self.values), np.nan, self.scores)

    def differs(self) -> bool:
        """Whether it may tell anything; where all documents are relevant, groups cannot."""
        known = ~np.isnan(self.values)
        return bool(known.any()) and all(np.ptp(each[known]) > 0 for each in (self.values, self.compared))

    def describe(self, rows: _Mask) -> str:
        """The share or the median over some documents; of categories the most frequent one."""
        own = self.values[rows & ~np.isnan(self.values)]
        if not len(own):
            return "–"
        if self.share:
            return f"{100 * own.mean():.1f} %"
        if self.names is None:
            return f"{np.median(own):,.0f}"
        (value, count), *_ = Counter(own.tolist()).most_common(1)
        return f"{self.names.get(int(value), 'rare ones')} ({100 * count / len(own):.0f} %)"


def find_confounds(
    facts: DocumentFacts, rows: Mapping[str, int], pairs: Mapping[str, Mapping[str, bool]]
) -> Confounds | None:
    """Compare relevant documents with others by each property; None without a relevant document.

    ``rows`` has the place in ``facts`` of each document of ``pairs``, whose values say which are relevant.
    """
    judged = []
    for docnos in pairs.values():
        own = {rows[docno]: is_relevant for docno, is_relevant in docnos.items() if docno in rows}
        if any(own.values()):
            judged.append((np.array([*own]), np.array([*own.values()])))
    relevant = np.zeros(len(facts), np.bool_)
    for own_rows, are_relevant in judged:
        relevant[own_rows[are_relevant]] = True
    if not judged:
        return None
    separations = tuple(
        Confound(
            each.name,
            each.describe(relevant),
            each.describe(~relevant),
            {
                "documents": _compare_documents(each.compared, relevant),
                "collection": _compare_in_collection(each.compared, judged),
                "lists": _compare_in_lists(each.compared, judged),
            },
        )
        for each in facts.properties(relevant)
        if each.differs()
    )
    return Confounds(int(relevant.sum()), int((~relevant).sum()), separations)


_Judged: TypeAlias = Sequence[tuple[npt.NDArray[np.int64], _Mask]]


def _compare_documents(values: Values, relevant: _Mask) -> Area | None:
    known = ~np.isnan(values)
    ranks, own = rank_middle(values[known]), relevant[known]
    inside, outside = int(own.sum()), int((~own).sum())
    if not inside or not outside:
        return None
    area = area_of_ranks(ranks[own], inside + outside)
    return Area(area, *newcombe_interval(area, inside, outside))


def _compare_in_collection(values: Values, judged: _Judged) -> Area | None:
    known = ~np.isnan(values)
    ranks, size = np.full(len(values), np.nan), int(known.sum())
    ranks[known] = rank_middle(values[known])
    areas = []
    for rows, are_relevant in judged:
        own = rows[are_relevant]
        own = own[known[own]]
        if 0 < len(own) < size:
            areas.append((int(own[0]), area_of_ranks(ranks[own], size)))
    return _mean_area(areas)


def _compare_in_lists(values: Values, judged: _Judged) -> Area | None:
    areas = []
    for rows, are_relevant in judged:
        own, others = values[rows[are_relevant]], values[rows[~are_relevant]]
        own, others = own[~np.isnan(own)], others[~np.isnan(others)]
        if len(own) and len(others):
            higher = (own[:, None] > others) + (own[:, None] == others) / 2
            areas.append((int(rows[are_relevant][0]), float(higher.mean())))
    return _mean_area(areas)


def _mean_area(areas: Sequence[tuple[int, float]]) -> Area | None:
    """The mean of the queries' areas; queries about one document are a cluster."""
    if not areas:
        return None
    values = np.array([area for _, area in areas])
    mean = float(values.mean())
    _, clusters = np.unique([place for place, _ in areas], return_inverse=True)
    sums = np.bincount(clusters, weights=values - mean)
    if len(sums) < 2:
        return Area(mean, 0.0, 1.0)
    error = float(np.sqrt(np.square(sums).sum() * len(sums) / (len(sums) - 1)) / len(values))
    return Area(mean, max(0.0, mean - _Z * error), min(1.0, mean + _Z * error))


def rank_middle(values: Values) -> Values:
    """Ranks from 1, ascending; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def area_of_ranks(ranks: Values, size: int) -> float:
    """The area of the documents with these :func:`rank_middle` ranks among ``size`` documents."""
    inside = len(ranks)
    return float((ranks.sum() - inside * (inside + 1) / 2) / (inside * (size - inside)))


def newcombe_interval(area: float, inside: int, outside: int) -> tuple[float, float]:
    """The 95 % interval of an area over ``inside`` × ``outside`` pairs: Newcombe 2006, method 5."""
    half = (inside + outside) / 2 - 1

    def reach(theta: float) -> float:
        """How far from ``theta`` an area may be found."""
        spread = 1 + half * ((1 - theta) / (2 - theta) + theta / (1 + theta))
        return float(_Z * np.sqrt(theta * (1 - theta) * spread / (inside * outside)))

    def solve(end: float) -> float:
        """The value between the area and the end from which the area is just within reach."""
        near, far = area, end
        for _ in range(60):
            middle = (near + far) / 2
            near, far = (middle, far) if abs(area - middle) <= reach(middle) else (near, middle)
        return near

    return solve(0.0), solve(1.0)


def _bins(values: Values) -> npt.NDArray[np.int64]:
    """The group of each document: some of equal size by rising value, and one of those without a value."""
    known = ~np.isnan(values)
    count = max(1, min(BINS, int(known.sum()) // _LEAST_GROUP))
    groups = np.full(len(values), count, np.int64)
    groups[known] = ((rank_middle(values[known]) - 0.5) * count / max(1, int(known.sum()))).astype(np.int64)
    return groups


def _cross_fit(groups: npt.NDArray[np.int64], relevant: _Mask) -> Values:
    """For each document the share of relevant ones in its group, in the half that it is not in."""
    shares, halves = np.zeros(len(groups)), np.zeros(len(groups), np.bool_)
    generator = np.random.default_rng(0)
    for kind in (relevant, ~relevant):  # both halves have the same share of relevant documents
        rows = generator.permutation(np.flatnonzero(kind))
        halves[rows[::2]] = True
    size = int(groups.max()) + 1 if len(groups) else 0
    for half in (halves, ~halves):
        counts = np.bincount(groups[half], minlength=size)
        hits = np.bincount(groups[half], weights=relevant[half], minlength=size)
        prior = relevant[half].mean() if half.any() else 0.0
        shares[~half] = ((hits + prior) / (counts + 1))[groups[~half]]
    return shares
