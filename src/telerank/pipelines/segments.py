"""The functions of pipelines that score documents by their segments: ``firstp``, ``maxp``, …, ``birch``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from telerank.errors import ExpressionError, ModelError
from telerank.expressions import Expression, Word, wrong
from telerank.pipelines.reader import Names, PipelineReader, StageFunction
from telerank.stage import Stage

if TYPE_CHECKING:
    from telerank.reranking.stage import CrossReranker
    from telerank.segments.settings import SegmentSettings

KINDS: Mapping[str, str] = {"firstp": "first", "maxp": "max", "meanp": "mean", "sump": "sum", "kmaxp": "kmax"}
"""The aggregate of each function of one stage."""


def _window(reader: PipelineReader, tree: Expression) -> int | str:
    """A number of tokens or words, or the name of segments."""
    is_number = isinstance(tree, Word) and tree.number is not None
    return reader.whole(tree) if is_number else reader.name(tree)


def _seed(reader: PipelineReader, tree: Expression) -> int:
    value = reader.number(tree)
    if not value.is_integer() or value < 0:
        raise wrong(reader.text, tree.at, f"expected a whole number of at least 0, got {value:g}")
    return int(value)


def _flag(reader: PipelineReader, tree: Expression) -> bool:
    word = reader.name(tree)
    if word not in ("true", "false"):
        raise wrong(reader.text, tree.at, f"expected true or false, got {word!r}")
    return word == "true"


def _unit(reader: PipelineReader, tree: Expression) -> str:
    word = reader.name(tree)
    if word not in ("logit", "probability"):
        raise wrong(reader.text, tree.at, f"expected logit or probability, got {word!r}")
    return word


def _weights(reader: PipelineReader, tree: Expression) -> tuple[float, ...]:
    try:
        return tuple(map(float, reader.name(tree).replace(",", " ").split()))
    except ValueError:
        raise wrong(reader.text, tree.at, "expected weights such as '1 0.5 0.2'") from None


def _reranker(reader: PipelineReader, tree: Expression) -> CrossReranker:
    from telerank.reranking.stage import CrossReranker

    stage = reader.stage(tree)
    if not isinstance(stage, CrossReranker) or stage.k is not None:
        raise wrong(reader.text, tree.at, f"expected rerank(MODEL), uncut, got {stage!r}")
    return stage


_SEGMENTS: Mapping[str, Callable[[PipelineReader, Expression], Any]] = {
    "window": _window,
    "stride": PipelineReader.whole,
    "unit": PipelineReader.name,
    "sentences": _flag,
    "title": _flag,
    "first": PipelineReader.whole,
    "seed": _seed,
    "of": _unit,
}


def _settings(default: str, window: int | str | None, settings: Mapping[str, Any]) -> SegmentSettings:
    from telerank.segments.settings import NAMED, window_segments

    if window is None and not settings:
        return NAMED[default]
    try:
        return window_segments("whole" if window is None else window, **settings)
    except ModelError as error:
        raise ExpressionError(str(error)) from error


def _aggregated(
    kind: str, _: Names, reranker: Any, kmax: int = 1, window: Any = None, of: Any = "logit", **settings: Any
) -> Stage:
    from telerank.segments.aggregate import Aggregate
    from telerank.segments.stage import SegmentReranker

    return SegmentReranker(reranker, Aggregate(kind, kmax), _settings("whole", window, settings), of)


def _passages(_: Names, stage: Stage, reranker: Any, alpha: float, beta: float, **changes: Any) -> Stage:
    from telerank.segments.stage import passages

    return passages(stage, reranker, alpha, beta, **_changes("piaf", changes))


def _birch(_: Names, stage: Stage, reranker: Any, alpha: float, **changes: Any) -> Stage:
    from telerank.segments.stage import birch

    weights = changes.pop("weights", (1.0,))
    return birch(stage, reranker, alpha, weights, **_changes("birch", changes))


def _changes(default: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in changes.items() if name not in ("window", "of")}
    of = {"of": changes["of"]} if "of" in changes else {}
    return {"settings": _settings(default, changes.get("window"), rest), **of}


def _of_one_stage(name: str) -> StageFunction:
    own = {"reranker": _reranker} | ({"kmax": PipelineReader.whole} if name == "kmaxp" else {})
    required = ("reranker", "kmax") if name == "kmaxp" else ("reranker",)
    build = cast("Callable[..., Stage]", partial(_aggregated, KINDS[name]))
    return StageFunction(build, {**own, **_SEGMENTS}, required)


SEGMENT_FUNCTIONS: Mapping[str, StageFunction] = {
    **{name: _of_one_stage(name) for name in KINDS},
    "passages": StageFunction(
        _passages,
        {
            "stage": PipelineReader.stage,
            "reranker": _reranker,
            "alpha": PipelineReader.number,
            "beta": PipelineReader.number,
            **_SEGMENTS,
        },
        ("stage", "reranker", "alpha", "beta"),
    ),
    "birch": StageFunction(
        _birch,
        {
            "stage": PipelineReader.stage,
            "reranker": _reranker,
            "alpha": PipelineReader.number,
            "weights": _weights,
            **_SEGMENTS,
        },
        ("stage", "reranker", "alpha"),
    ),
}
"""Each takes ``rerank(MODEL)``, whose model, documents and settings it uses, and settings of segments."""
