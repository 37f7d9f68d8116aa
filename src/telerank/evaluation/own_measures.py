"""Measures that a function computes, query by query, for users to add.

A measure is a record, and a line registers it. Its name then stands wherever names of measures do, with a
cutoff (``hits@10``) or without::

    from telerank.evaluation.own_measures import OwnMeasure, register

    register(OwnMeasure("hits", lambda docnos, grades: sum(grades.get(docno, 0) > 0 for docno in docnos)))
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from telerank.errors import MeasureError, call_own, check_function
from telerank.types import Qrels


@dataclass(frozen=True)
class OwnMeasure:
    """A measure by its name; ``value`` takes the docnos of a query, best first, and its grades by docno.

    With a cutoff it gets only the first documents. ``aggregate`` is ``mean`` or ``sum``; ``empty`` is the
    value of a query without documents.
    """

    name: str
    value: Callable[[Sequence[str], Mapping[str, int]], float]
    aggregate: str = "mean"
    empty: float = 0.0
    cutoff: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise MeasureError(f"{self.name!r} is not a name of a measure: expected letters, digits and _")
        if self.aggregate not in ("mean", "sum"):
            raise MeasureError(f"{self.name}: a measure is a mean or a sum, got {self.aggregate!r}")
        if self.cutoff is not None and (not isinstance(self.cutoff, int) or self.cutoff < 1):
            raise MeasureError(f"{self.name}: a cutoff is a whole number of at least 1, got {self.cutoff!r}")

    def __matmul__(self, cutoff: int) -> OwnMeasure:
        return replace(self, cutoff=cutoff)

    def __repr__(self) -> str:
        return self.name if self.cutoff is None else f"{self.name}@{self.cutoff}"

    def value_without_results(self, grades: Mapping[str, int]) -> float:  # noqa: ARG002
        """The value of a query that has no document."""
        return self.empty


_REGISTERED: dict[str, OwnMeasure] = {}


def register(measure: OwnMeasure) -> None:
    """Make the measure known by its name. A name of ir_measures or trec_eval then stands for this measure."""
    _REGISTERED[measure.name] = measure


def measure(
    name: str, function: Callable[[list[int], list[int]], float], *, aggregate: str = "mean"
) -> OwnMeasure:
    """Make a function a measure, by its name, in what measures runs from now on.

    ``function`` takes the grades of a query's documents in the order of their ranks, 0 for those without a
    judgment, and all grades of the query, the highest first. With a cutoff, ``hits@10`` or ``hits @ 10``, it
    gets the grades of the first documents alone. A query without documents has the value 0.

    >>> hits = tr.measure("hits", lambda ranked, judged: sum(grade > 0 for grade in ranked))
    >>> tr.evaluate(runs, ["nDCG@10", hits @ 10])

    Raises
    ------
    MeasureError
        If the name is no word or a measure of ir_measures, or ``aggregate`` is neither ``mean`` nor ``sum``.
    """
    from ir_measures.measures import registry

    check_function("tr.measure", function, "ranked", "judged")
    if name in registry:
        raise MeasureError(f"{name} is a measure of ir_measures: give yours another name")

    def value(docnos: Sequence[str], grades: Mapping[str, int]) -> float:
        ranked = [grades.get(docno, 0) for docno in docnos]
        judged = sorted(grades.values(), reverse=True)
        return call_own(name, function, ranked, judged, of=f"the grades {ranked!r:.60}")

    own = OwnMeasure(name, value, aggregate)
    register(own)
    return own


def adopt(measures: Any) -> str:
    """The name of a measure; one that ir_measures defines by a function is registered."""
    if not hasattr(measures, "runtime_impl"):
        return str(measures)

    def value(docnos: Sequence[str], grades: Mapping[str, int]) -> float:
        import pandas as pd

        scores = [float(score) for score in range(len(docnos), 0, -1)]
        run = pd.DataFrame({"query_id": "query", "doc_id": list(docnos), "score": scores})
        qrels = pd.DataFrame({"query_id": "query", "doc_id": [*grades], "relevance": [*grades.values()]})
        return next(float(metric.value) for metric in whole.runtime_impl(qrels, run))

    whole = type(measures)()
    register(OwnMeasure(measures.NAME, value))
    return str(measures)


def parse_own_name(name: str) -> list[OwnMeasure]:
    """The registered measure with this name, if there is one."""
    match = re.fullmatch(r"(\w+)(?:@([1-9]\d{0,8}))?", name)
    if match is None or match[1] not in _REGISTERED:
        return []
    return [replace(_REGISTERED[match[1]], cutoff=int(match[2]) if match[2] else None)]


def own_values(
    measures: Iterable[OwnMeasure], qrels: Qrels, run: Mapping[str, Mapping[str, float]]
) -> Iterator[tuple[OwnMeasure, str, float]]:
    """Each measure, qid and value; ``run[qid][docno]`` falls with the rank, the best document first."""
    for own in measures:
        for qid, scores in run.items():
            value = own.value(tuple(scores)[: own.cutoff], qrels[qid])
            if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
                raise MeasureError(f"{own}: expected a finite number for the query {qid}, got {value!r:.60}")
            yield own, qid, float(value)
