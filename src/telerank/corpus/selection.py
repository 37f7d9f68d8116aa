"""The rows of a docstore that pass a filter, from its columns at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from telerank.columns.filters import AllOf, AnyOf, Holds, IsNull, Not, OneOf, RowTest, Test, Tree, ValueTest
from telerank.corpus.docstore import Docstore

Mask = npt.NDArray[np.bool_]
_COMPARE = {
    "==": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def select_rows(docs: Docstore, tree: Tree) -> Mask:
    """Which documents (rows,) pass a bound filter (:meth:`telerank.columns.filters.Filter.bind`)."""
    match tree:
        case Not(part):
            return ~select_rows(docs, part)
        case AllOf(parts):
            return np.asarray(np.logical_and.reduce([select_rows(docs, part) for part in parts]))
        case AnyOf(parts):
            return np.asarray(np.logical_or.reduce([select_rows(docs, part) for part in parts]))
        case RowTest():
            return np.asarray(tree.select(docs.folder), np.bool_)
    return _test(docs, tree)


def _test(docs: Docstore, test: Test) -> Mask:
    column = docs.column(test.column)
    if column is None:
        return np.full(len(docs), isinstance(test, IsNull))
    match test:
        case IsNull():
            hits = pc.is_null(column)
        case ValueTest(_, operator, value):
            hits = pc.fill_null(_COMPARE[operator](column, pa.scalar(value, column.type)), False)
        case OneOf() | Holds():
            values = test.values if isinstance(test, OneOf) else (test.value,)
            if pa.types.is_list(column.type):
                return np.concatenate([_hold_one(chunk, values) for chunk in column.chunks])
            hits = pc.is_in(column, value_set=pa.array(values, column.type))
    return np.asarray(hits.to_numpy(), np.bool_)


def _hold_one(lists: pa.ListArray, values: tuple[Any, ...]) -> Mask:
    """Which lists hold one of the values."""
    mask = np.zeros(len(lists), np.bool_)
    hits = pc.is_in(lists.flatten(), value_set=pa.array(values, pa.string()))
    parents = pc.list_parent_indices(lists).to_numpy()
    mask[parents[hits.to_numpy(zero_copy_only=False)]] = True
    return mask
