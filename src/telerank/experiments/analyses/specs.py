"""The settings of analyses in the YAML file of an experiment; an unknown key is an error."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from telerank.errors import MeasureError, ModelError
from telerank.evaluation.measures import expand_measures, parse_measures
from telerank.records import Section
from telerank.sparse.similarities.families import parse_similarity

Depths: TypeAlias = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
Published: TypeAlias = dict[str, dict[str, float | None]]
"""``published[row][column]``: the values that a paper prints; null if a value cannot be read."""


def _parse_measure(text: str) -> str:
    try:
        names = parse_measures(text)
    except MeasureError as error:
        raise ValueError(str(error)) from error
    if len(names) != 1:
        raise ValueError(f"expected one measure, got {text!r}")
    return names[0]


Measure: TypeAlias = Annotated[str, AfterValidator(_parse_measure)]
"""The name of one measure, as ir_measures writes it."""
Measures: TypeAlias = Annotated[tuple[Measure, ...], Field(min_length=1)]


def _check_similarity(text: str) -> str:
    try:
        parse_similarity(text)
    except ModelError as error:
        raise ValueError(str(error)) from error
    return text


SimilarityText: TypeAlias = Annotated[str, AfterValidator(_check_similarity)]
"""The text of a sparse model: ``bm25``, ``bm25(k1=0.9, b=0.4)``."""
FAMILIES = ("bm25", "lm_dirichlet", "lm_jelinek_mercer", "dfr", "dfi")


class _AnalysisSpec(Section):
    title: str = ""
    """The caption of its first table, and its heading in the report."""
    about: str = ""
    """What a reader must know of it, in the report."""
    systems: tuple[str, ...] | None = None
    """The systems that are analysed; None: all."""
    published: dict[str, Published] = Field(default_factory=dict)
    """The values that a paper prints, by data set; without them those of the experiment."""

    @property
    def system_names(self) -> tuple[str, ...]:
        """The systems of the experiment that the settings name."""
        return self.systems or ()


class QualitySpec(_AnalysisSpec):
    """Measures of each system, and milliseconds per query."""

    kind: Literal["quality"]
    measures: Measures
    latency_queries: int = Field(100, ge=0)
    """Number of queries that are timed, drawn by the seed of the experiment; 0: none."""
    baseline: str | None = None
    """The system that the others are compared with; significant differences are marked."""
    queries_of: str | None = None
    """Measure only the queries that this system's run answers."""

    @property
    def system_names(self) -> tuple[str, ...]:
        return (*super().system_names, *filter(None, (self.baseline, self.queries_of)))


class RecallSpec(_AnalysisSpec):
    """Recall by depth."""

    kind: Literal["recall"]
    depths: Depths


class RerankingSpec(_AnalysisSpec):
    """A measure of the first n documents of each system after re-ranking, by n."""

    kind: Literal["reranking"]
    measure: Measure
    depths: Depths
    rerankers: dict[str, str] = Field(min_length=1)
    """Pipelines by name; the first that is available scores the candidates."""


class ConsistencySpec(_AnalysisSpec):
    """The share of each system's first n documents that are candidates of a reference, by n."""

    kind: Literal["consistency"]
    depths: Depths
    references: tuple[str, ...] = Field(min_length=1)
    """Systems; the first that is available is the reference."""
    reference_depth: int = Field(1000, ge=1)

    @property
    def system_names(self) -> tuple[str, ...]:
        return (*super().system_names, *self.references)


class CombinationSpec(_AnalysisSpec):
    """All ordered pairs of systems, fused."""

    kind: Literal["combination"]
    measure: Measure
    method: Literal["interleave", "linear", "rrf"] = "interleave"


class TuningSpec(_AnalysisSpec):
    """Families of sparse models under several analyzers, at their defaults and tuned."""

    kind: Literal["tuning"]
    objective: Measure
    """The measure that settings are chosen by."""
    measures: Measures
    families: Annotated[tuple[SimilarityText, ...], Field(min_length=1)] = FAMILIES
    """The grid of each is searched; the first, at its defaults under the first analyzer, is the baseline."""
    analyzers: tuple[str, ...] | None = None
    """None: that of the data, and ``none``."""
    depths: tuple[Annotated[int, Field(ge=1)], ...] = ()
    """Depths of R@k and AP@k of the tuned models; without them there are no such tables."""
    given: tuple[SimilarityText, ...] = ()
    """Settings that are measured as they are."""
    folds: int = Field(5, ge=2)
    """Folds of the cross-validation if the experiment has no ``dev`` queries."""

    @property
    def by_depth(self) -> dict[str, tuple[str, ...]]:
        """The names of R@k and AP@k at the depths."""
        return expand_measures("R AP", self.depths) if self.depths else {}

    @property
    def all_measures(self) -> tuple[str, ...]:
        """The measures, those by depth, and the objective."""
        names = (*self.measures, *itertools.chain(*self.by_depth.values()), self.objective)
        return tuple(dict.fromkeys(names))

    @model_validator(mode="after")
    def _check_systems(self) -> Self:
        if self.systems is not None:
            raise ValueError("tuning has systems of its own: leave out `systems`")
        return self


AnalysisSpec: TypeAlias = Annotated[
    QualitySpec | RecallSpec | RerankingSpec | ConsistencySpec | CombinationSpec | TuningSpec,
    Field(discriminator="kind"),
]


def select_published(published: Mapping[str, Published], data: str) -> Published:
    """The values printed for a data set; if there are none, those of the first data set, as a rough guide."""
    return published.get(data) or next(iter(published.values()), {})
