"""What a recipe's YAML may say; an unknown key is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from telerank.errors import FormatError, MeasureError
from telerank.evaluate.measures import parse_measures
from telerank.yaml_files import read_yaml

Depths: TypeAlias = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
Published: TypeAlias = dict[str, dict[str, float | None]]
"""``published[row or system][column]``: what the paper prints; null where it cannot be read."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Data(_Strict):
    """A collection that a recipe can run on, found by its folder's name."""

    name: str
    about: str
    """What it is and, where it is not the paper's, what its figures mean."""
    split: str
    analyzer: str = "english"
    of_paper: bool = False
    made_of: tuple[str, ...] = ()
    """Question-answering sets that it is made of where it is not there (``data make-ranking-set``)."""


class System(_Strict):
    """A first stage, by exactly one of its keys."""

    model: str | None = None
    """A sparse model's text form."""
    dense: str | None = None
    """A bi-encoder: a name such as ``minilm``, or a folder."""
    run: str | None = None
    """A run file."""
    pool: str | None = None
    """A candidate list that the collection ships."""
    with_relevant: bool = False
    """After the first ``depth`` of the list come the relevant documents that it lacks."""
    fuse: tuple[str, ...] | None = None
    """Systems named above it, made one by ``method``."""
    given: str | None = None
    """What the user must give, as ``--system NAME=PATH``: a run file, or a bi-encoder's folder."""
    method: Literal["interleave", "linear", "rrf"] = "interleave"
    weights: tuple[float, ...] | Literal["tuned"] | None = None
    """Of the method linear: one for each, or ``tuned``, for each fold of the queries on the others."""
    rerank: str | None = None
    """A system named above it: its first ``depth`` documents are ordered anew by a re-ranker."""
    depth: Annotated[int, Field(ge=1)] | None = None
    reranker: str | None = None
    """The re-ranker: a folder, or a name on the hub."""
    train: dict[str, Any] | None = None
    """Instead: what ``telerank train reranker`` is told, over what the recipe's ``training`` says."""
    seeds: tuple[int, ...] | None = None
    """Of the trainings, instead of the recipe's."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        known = ("model", "dense", "run", "pool", "fuse", "given", "rerank")
        kinds = [name for name in known if getattr(self, name)]
        if len(kinds) != 1:
            raise ValueError(f"exactly one of {', '.join(known)}; got {kinds or 'none'}")
        short = isinstance(self.weights, tuple) and len(self.weights) != len(self.fuse or ())
        if self.weights is not None and (self.method != "linear" or short):
            raise ValueError("weights are for the method linear, one for each of the fused")
        if (self.rerank is None) != (self.reranker is None and self.train is None):
            raise ValueError("rerank goes with one of reranker and train")
        if self.reranker is not None and self.train is not None:
            raise ValueError("a reranker that is there is not trained: give one of reranker and train")
        return self


def _one_measure(text: str) -> str:
    try:
        names = parse_measures(text)
    except MeasureError as error:
        raise ValueError(str(error)) from error
    if len(names) != 1:
        raise ValueError(f"one measure is asked for, got {text!r}")
    return names[0]


Measure: TypeAlias = Annotated[str, AfterValidator(_one_measure)]


class _Analysis(_Strict):
    published: Published = {}
    """What the paper prints, beside which the measured values stand."""


class Quality(_Analysis):
    """Measures of each system and, beside them, milliseconds a query (table 1)."""

    kind: Literal["quality"]
    measures: Annotated[tuple[Measure, ...], Field(min_length=1)]
    latency_queries: int = Field(100, ge=1)
    """Queries that are timed, one after the other, drawn by the recipe's seed."""


class Recall(_Analysis):
    """Recall by depth (figure 1a)."""

    kind: Literal["recall"]
    depths: Depths


class Reranking(_Analysis):
    """Accuracy by depth of what a re-ranker makes of the first stages (table 2, figure 1b)."""

    kind: Literal["reranking"]
    measure: Measure
    depths: Depths
    rerankers: dict[str, System]
    """The first that can be had re-ranks: a retriever scores the candidates, a run holds their scores."""


class Consistency(_Analysis):
    """Consistency factor by depth (figure 2)."""

    kind: Literal["consistency"]
    depths: Depths
    references: tuple[str, ...]
    """Systems whose candidates are compared with; the first that can be had."""
    reference_depth: int = Field(1000, ge=1)


class Combination(_Analysis):
    """All ordered pairs of systems, fused (tables 3 and 4)."""

    kind: Literal["combination"]
    measure: Measure
    method: Literal["interleave", "linear", "rrf"] = "interleave"


AnalysisSpec: TypeAlias = Annotated[
    Quality | Recall | Reranking | Consistency | Combination, Field(discriminator="kind")
]


class Recipe(_Strict):
    """One table or figure of a paper: data, systems, and what is measured of them."""

    title: str
    source: str
    data: tuple[Data, ...] = Field(min_length=1)
    """In order of preference: the first that is there is used."""
    systems: dict[str, System] = Field(min_length=1)
    analysis: AnalysisSpec
    depth: int = Field(1000, ge=1)
    """Documents retrieved for each query."""
    queries: int | None = Field(None, ge=1)
    """So many of the judged queries, drawn by the seed; without it all."""
    training: dict[str, Any] = {}
    """What all systems with ``train`` are told; a run there may be a system's name."""
    seeds: tuple[int, ...] = Field((0,), min_length=1)
    """Of trainings: each system is trained with each, and the tables have mean and standard deviation."""
    seed: int = 0

    @property
    def trained(self) -> tuple[str, ...]:
        """The names of the systems that it trains."""
        return tuple(name for name, system in self.systems.items() if system.train is not None)

    def with_seeds(self, seeds: tuple[int, ...]) -> Self:
        """The same, each of its systems trained with these."""
        systems = {name: system.model_copy(update={"seeds": None}) for name, system in self.systems.items()}
        return self.model_copy(update={"systems": systems, "seeds": seeds})

    @field_validator("systems")
    @classmethod
    def _fused_above(cls, systems: dict[str, System]) -> dict[str, System]:
        above: set[str] = set()
        for name, system in systems.items():
            parts = system.fuse or ((system.rerank,) if system.rerank else ())
            if unknown := [one for one in parts if one not in above]:
                raise ValueError(f"{name} needs {unknown[0]!r}, which is no system above it")
            above.add(name)
        return systems

    @model_validator(mode="after")
    def _references_are_systems(self) -> Self:
        for name in self.analysis.references if isinstance(self.analysis, Consistency) else ():
            if name not in self.systems:
                raise ValueError(f"the reference {name!r} is none of the systems")
        return self


def read_recipe(path: str | Path) -> Recipe:
    """The recipe in a YAML file.

    Raises
    ------
    FormatError
        where it is no YAML, lacks a key, or has one that recipes do not have.
    """
    record = _with_text_keys(read_yaml(path))
    try:
        return Recipe.model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(one) for one in first["loc"]) or "recipe"
        raise FormatError(
            path, None, f"a recipe: {where}: {first['msg'].removeprefix('Value error, ')}"
        ) from error


def _with_text_keys(value: Any) -> Any:
    """Keys of mappings may be numbers (depths)."""
    if isinstance(value, dict):
        return {str(key): _with_text_keys(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_text_keys(one) for one in value]
    return value
