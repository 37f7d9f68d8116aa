"""What is made of parts of its own kind: stages, and the stages that they are made of."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from telerank.types import Docs


class StagePart(ABC):  # noqa: B024 — a stage has the abstract methods
    """A stage, as far as what walks through it knows; stages made of others are dataclasses."""


P = TypeVar("P", bound=StagePart)


def inner_stages(stage: P) -> dict[str, P | tuple[P, ...]]:
    """The stages that a stage is made of, by the name of the field."""
    values = ((name, getattr(stage, name)) for name in getattr(stage, "__dataclass_fields__", ()))
    return {name: value for name, value in values if isinstance(value, StagePart) or _are_parts(value)}


def walk_stages(stage: P) -> Iterator[P]:
    """The stage, and every stage that it is made of."""
    yield stage
    for part in inner_parts(stage):
        yield from walk_stages(part)


def inner_parts(stage: P) -> Iterator[P]:
    """The stages that a stage is made of, in their order."""
    for inner in inner_stages(stage).values():
        yield from inner if isinstance(inner, tuple) else (inner,)


def change_stages(stage: P, change: Callable[[P], P]) -> P:
    """The stage with ``change`` applied to every stage that it is made of, and then to the result."""
    return change(map_inner(stage, lambda part: change_stages(part, change)))


def map_inner(stage: P, change: Callable[[P], P]) -> P:
    """The stage with ``change`` applied to each stage that it is made of; itself if there is none."""
    changed = {
        name: tuple(map(change, inner)) if isinstance(inner, tuple) else change(inner)
        for name, inner in inner_stages(stage).items()
    }
    return replace(stage, **changed) if changed else stage  # type: ignore[type-var]


def find_docs(stage: StagePart) -> Docs | None:
    """The documents that the last part of a pipeline that knows any looks up, by docno."""
    docs: Docs | None = None
    for part in walk_stages(stage):
        docs = docs if getattr(part, "docs", None) is None else part.docs  # type: ignore[attr-defined]
    return docs


def _are_parts(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and all(isinstance(part, StagePart) for part in value)
