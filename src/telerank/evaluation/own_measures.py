"""Measures that a function computes, query by query, for users to add.

A measure is a record, and a line registers it. Its name then stands wherever names of measures do, with a
cutoff (``hits@10``) or without::

    from telerank.evaluation.own_measures import OwnMeasure, register

    register(OwnMeasure("hits", lambda docnos, grades: sum(grades.get(docno, 0) > 0 for docno in docnos)))
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from telerank.errors import MeasureError
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
        if not self.name.isidentifier():
            raise MeasureError(f"{self.name!r} is not a name of a measure: expected letters, digits and _")

    def __repr__(self) -> str:
        return self.name if self.cutoff is None else f"{self.name}@{self.cutoff}"

    def value_without_results(self, grades: Mapping[str, int]) -> float:  # noqa: ARG002
        """The value of a query that has no document."""
        return self.empty


_REGISTERED: dict[str, OwnMeasure] = {}


def register(measure: OwnMeasure) -> None:
    """Make the measure known by its name. A name of ir_measures or trec_eval then stands for this measure."""
    _REGISTERED[measure.name] = measure


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
    for measure in measures:
        for qid, scores in run.items():
            yield measure, qid, measure.value(tuple(scores)[: measure.cutoff], qrels[qid])
