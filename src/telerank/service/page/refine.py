"""What a page shows to refine a search: the filters that hold, as chips, and the counts of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from telerank.columns.filters import (
    AllOf,
    AnyOf,
    Filter,
    Holds,
    OneOf,
    Tree,
    ValueTest,
    quote_column,
    value_text,
)
from telerank.retrieval.facets import Facet
from telerank.service.page.render import Inquiry, Links

LEAST, MOST = "from:", "to:"  # what the names of fields of ranges begin with
_SIGNS = {"==": ":", ">=": "≥", "<=": "≤", ">": ">", "<": "<"}
Values = dict[str, Any]


def read_ranges(chosen: str | None, given: Mapping[str, str], kinds: Mapping[str, str]) -> str | None:
    """The filter of an address with the ranges that a form sent; None if nothing is filtered.

    A bound replaces those that the filter has for the column; one that is empty removes them.

    Raises
    ------
    FilterError
        If a bound is no value of its column.
    """
    parts = [*_parts(chosen)]
    for name, value in given.items():
        prefix = next((prefix for prefix in (LEAST, MOST) if name.startswith(prefix)), "")
        column = name.removeprefix(prefix)
        if not prefix or column not in kinds:
            continue
        signs = (">=", ">") if prefix == LEAST else ("<=", "<")
        parts = [
            part
            for part in parts
            if not (isinstance(part, ValueTest) and part.column == column and part.operator in signs)
        ]
        if value.strip():
            bound = value_text(value.strip()) if kinds[column] == "date" else value.strip()
            parts += _parts(f"{quote_column(column)} {signs[0]} {bound}")
    return _join(parts)


def list_chips(inquiry: Inquiry, links: Links) -> list[Values]:
    """The parts of the filter that hold, each with the address of the search without it."""
    parts = _parts(inquiry.filter)
    return [
        {
            "text": _describe(part),
            "href": links.search(
                replace(inquiry, filter=_join([*parts[:number], *parts[number + 1 :]])), page=1
            ),
        }
        for number, part in enumerate(parts)
    ]


def list_facets(facets: Sequence[Facet], inquiry: Inquiry, links: Links) -> list[Values]:
    """The counts of columns, each value with the address of the search within it.

    ``least`` and ``most`` are the bounds of a date or a number that the filter has.
    """
    parts = _parts(inquiry.filter)
    listed = []
    for facet in facets:
        values = []
        for value in facet.values:
            own = _parts(value.filter)
            is_chosen = all(part in parts for part in own)
            chosen = _join([*(part for part in parts if part not in own), *(() if is_chosen else own)])
            href = links.search(replace(inquiry, filter=chosen), page=1)
            values.append({"text": value.text, "count": value.count, "href": href, "is_chosen": is_chosen})
        bounds = {
            part.operator: value_text(part.value)
            for part in parts
            if isinstance(part, ValueTest) and part.column == facet.column
        }
        listed.append(
            {
                "column": facet.column,
                "kind": facet.kind,
                "values": values,
                "others": facet.others,
                "missing": facet.missing,
                "documents": facet.documents,
                "is_exact": facet.is_exact,
                "least": bounds.get(">=", ""),
                "most": bounds.get("<=", ""),
            }
        )
    return listed


def _parts(chosen: str | None) -> Sequence[Tree]:
    """The parts that hold together; none of a filter that cannot be read."""
    if chosen is None:
        return ()
    tree = Filter.parse(chosen).tree
    return [*map(_bare, tree.parts if isinstance(tree, AllOf) else (tree,))]


def _bare(part: Tree) -> Tree:
    """A part without its place in a text, so that equal ones are equal."""
    return replace(part, at=0) if isinstance(part, ValueTest | OneOf | Holds) else part


def _join(parts: Sequence[Tree]) -> str | None:
    if not parts:
        return None
    return str(AllOf(tuple(parts)) if len(parts) > 1 else parts[0])


def _describe(part: Tree) -> str:
    match part:
        case ValueTest(column, operator, value):
            text = value if isinstance(value, str) else value_text(value)
            return f"{column}{'' if operator == '==' else ' '}{_SIGNS[operator]} {text}"
        case Holds(column, value):
            return f"{column}: {value}"
        case AnyOf():
            return f"({part})"
    return str(part)
