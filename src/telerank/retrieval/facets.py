"""Facets: how many of the documents that a query finds have each value of a column.

=================  ====================================================================================
``type``           texts, lists and truth values: the most frequent values
``date``           dates: by year; ``date:month`` and ``date:year`` say which
``price``          numbers: each value, or up to ten ranges of equal width if there are more than twenty
=================  ====================================================================================
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt

from telerank.columns.filters import FIELDS, Value, quote_column, value_text
from telerank.errors import ArgumentError, known_names
from telerank.expressions import number_text
from telerank.sparse.index import SparseIndex
from telerank.sparse.query_words import matching_rows
from telerank.sparse.retriever import SparseRetriever, count_terms
from telerank.stage import Stage
from telerank.syntax.listing import Listing
from telerank.syntax.stage import SimpleSyntax
from telerank.types import Query

Mask = npt.NDArray[np.bool_]
VALUES = 10  # of a facet that are kept
DEPTH = 1000  # documents that are counted where matches are not known
_MOST_BINS, _FEW_NUMBERS = 10, 20


@dataclass(frozen=True)
class FacetValue:
    """A value, or a year, a month or a range by its first value; ``filter`` finds the documents with it."""

    value: Value
    count: int
    text: str
    filter: str


@dataclass(frozen=True)
class Facet:
    """The counts of a column over the documents that a query finds.

    ``documents`` were counted, of which ``missing`` have no value, and ``others`` further values are left
    out. ``is_exact``: these are all that match; else they are the first so many of the ranking.
    """

    column: str
    kind: str
    by: str
    values: tuple[FacetValue, ...]
    documents: int
    missing: int
    others: int
    is_exact: bool


def count_facets(
    index: SparseIndex, stage: Stage, query: Query, columns: Sequence[str], *, values: int, depth: int
) -> list[Facet]:
    """The facets of columns, such as ``type`` and ``date:month``, over what a stage finds for a query.

    Raises
    ------
    ArgumentError
        If there is no such column, or it cannot be counted so; the message names the nearest.
    """
    parsed = [_parse(index, column) for column in columns]
    rows, is_exact = _find_rows(index, stage, query, depth)
    documents = sum(int(np.count_nonzero(mask)) for mask in rows)
    facets = []
    for name, kind, by in parsed:
        counts, missing = _count(index, rows, name, kind, by)
        shown, others = _show(name, kind, by, counts, values)
        facets.append(Facet(name, kind, by, tuple(shown), documents, missing, others, is_exact))
    return facets


def has_column(kinds: Mapping[str, str], text: str) -> bool:
    """Whether documents of these columns can be counted by a text such as ``date:month``."""
    return text in kinds or text.rpartition(":")[0] in kinds


def _parse(index: SparseIndex, text: str) -> tuple[str, str, str]:
    """The name, the kind and the step of a column."""
    kinds = {**FIELDS, **index.columns}
    name, _, by = (text, "", "") if text in kinds else text.rpartition(":")
    if name not in kinds:
        raise ArgumentError(f"facets: unknown column {text!r}; {known_names(kinds, name or text)}")
    kind = kinds[name]
    if by and (kind != "date" or by not in ("year", "month")):
        raise ArgumentError(f"facets: {text!r}: only dates are counted by year or month; {name} is a {kind}")
    return name, kind, by or ("year" if kind == "date" else "")


def _find_rows(index: SparseIndex, stage: Stage, query: Query, depth: int) -> tuple[list[Mask], bool]:
    """For each segment the rows that are counted, and whether these are all matches."""
    if isinstance(stage, SimpleSyntax):
        read = stage.read(query)
        stage, query = read.restrict(stage.stage), Query(query.qid, read.words)
    if isinstance(stage, Listing):
        return [~hidden for hidden in index.docs.hidden(stage.chosen)], True
    if isinstance(stage, SparseRetriever) and stage.weigh is count_terms:
        return matching_rows(index, query.text, stage.chosen, stage.similarity), True
    rows = [np.zeros(len(segment), np.bool_) for segment in index.segments]
    docs = index.docs
    for docno in (stage % depth).search(query).docnos:
        number, row = docs.locate(docno)
        rows[number][row] = True
    return rows, False


def _count(
    index: SparseIndex, rows: Iterable[Mask], name: str, kind: str, by: str
) -> tuple[Counter[Any], int]:
    """How many of the rows have each value, and how many have none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    counts: Counter[Any] = Counter()
    missing = 0
    for segment, mask in zip(index.segments, rows, strict=True):
        column = segment.docs.column(name)
        if column is None:
            missing += int(np.count_nonzero(mask))
            continue
        values = column.filter(pa.array(mask))
        missing += values.null_count
        if kind == "list":
            lists = values.combine_chunks()
            pairs = pa.table({"row": pc.list_parent_indices(lists), "value": lists.flatten()})
            values = pairs.group_by(["row", "value"]).aggregate([]).column("value")
        elif kind == "date":
            years = pc.year(values)
            values = years if by == "year" else pc.add(pc.multiply(years, 100), pc.month(values))
        for each in pc.value_counts(values.drop_null()).to_pylist():
            counts[each["values"]] += each["counts"]
    return counts, missing


def _show(name: str, kind: str, by: str, counts: Counter[Any], most: int) -> tuple[list[FacetValue], int]:
    """The values that are shown, and how many are not."""
    column = quote_column(name)
    if kind == "date":
        return [_show_date(column, by, value, count) for value, count in sorted(counts.items())], 0
    if kind == "number":
        if len(counts) > _FEW_NUMBERS:
            return list(_show_ranges(column, counts)), 0
        values = sorted(counts.items())
        return [
            FacetValue(value, count, number_text(value), f"{column} == {number_text(value)}")
            for value, count in values
        ], 0
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0])))
    shown = []
    for value, count in ordered[:most]:
        text = value_text(value)
        test = f"{text} in {column}" if kind == "list" else f"{column} == {text}"
        shown.append(FacetValue(value, count, str(value).lower() if kind == "boolean" else value, test))
    return shown, max(len(ordered) - most, 0)


def _show_date(column: str, by: str, value: int, count: int) -> FacetValue:
    year, month = (value, 1) if by == "year" else divmod(value, 100)
    first = date(year, month, 1)
    text = f"{year:04d}" if by == "year" else f"{year:04d}-{month:02d}"
    bounds = f"{column} >= {first.isoformat()}"
    months = year * 12 + month - 1 + (12 if by == "year" else 1)
    if months < 12 * 10_000:
        bounds += f" and {column} < {date(months // 12, months % 12 + 1, 1).isoformat()}"
    return FacetValue(first, count, text, bounds)


def _show_ranges(column: str, counts: Counter[float]) -> Iterable[FacetValue]:
    """Ranges of equal width, which is 1, 2 or 5 times a power of ten."""
    lowest, highest = min(counts), max(counts)
    least = (highest - lowest) / _MOST_BINS
    power = 10.0 ** math.floor(math.log10(least))
    width = next(factor * power for factor in (1, 2, 5, 10, 20) if _bins(lowest, highest, factor * power))
    bins: Counter[int] = Counter()
    for value, count in counts.items():
        bins[math.floor(value / width)] += count
    for number, count in sorted(bins.items()):
        low, high = (number_text(float(f"{edge * width:.12g}")) for edge in (number, number + 1))
        test = f"{column} >= {low} and {column} < {high}"
        yield FacetValue(float(low), count, f"{low} – {high}", test)


def _bins(lowest: float, highest: float, width: float) -> bool:
    return math.floor(highest / width) - math.floor(lowest / width) < _MOST_BINS
