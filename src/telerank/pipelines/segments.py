"""The functions of pipelines that score documents by their segments: ``firstp``, ``maxp``, …, ``birch``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from telerank.errors import ExpressionError, ModelError
from telerank.parameters import Check, FieldsOf
from telerank.segments.settings import Aggregate, Unit
from telerank.stage import Stage

if TYPE_CHECKING:
    from telerank.segments.settings import SegmentSettings

# The aggregate of each function of one stage, besides ``kmaxp``.
KINDS: Mapping[str, str] = {"firstp": "first", "maxp": "max", "meanp": "mean", "sump": "sum"}


def _check_reranker(stage: Stage) -> None:
    from telerank.reranking.stage import CrossReranker

    if not isinstance(stage, CrossReranker) or stage.k is not None:
        raise ValueError(f"expected rerank(MODEL), uncut, got {stage!r}")


Reranker = Annotated[Any, Check(_check_reranker)]  # a CrossReranker, whose class needs torch
Window = int | str | None
Settings = Annotated[Any, FieldsOf("telerank.segments.settings:SegmentSettings", ("length",))]


def _settings(default: str, window: Window, settings: Mapping[str, Any]) -> SegmentSettings:
    from telerank.segments.settings import NAMED, window_segments

    if window is None and not settings:
        return NAMED[default]
    try:
        return window_segments("whole" if window is None else window, **settings)
    except ModelError as error:
        raise ExpressionError(str(error)) from error


def by_best_segments(
    kind: str, reranker: Reranker, window: Window = None, *, of: Unit = "logit", **settings: Settings
) -> Stage:
    """Score each document by the first, the best, the mean or the sum of its segments."""
    return _aggregated(Aggregate(kind), reranker, window, of, settings)


def kmaxp(
    reranker: Reranker, kmax: int, window: Window = None, *, of: Unit = "logit", **settings: Settings
) -> Stage:
    """Score each document by the mean of its ``kmax`` best segments."""
    return _aggregated(Aggregate("kmax", kmax), reranker, window, of, settings)


def _aggregated(
    aggregate: Aggregate, reranker: Any, window: Window, of: Unit, settings: Mapping[str, Any]
) -> Stage:
    from telerank.segments.stage import SegmentReranker

    return SegmentReranker(reranker, aggregate, _settings("whole", window, settings), of)


def passages(
    stage: Stage,
    reranker: Reranker,
    alpha: float,
    beta: float,
    window: Window = None,
    *,
    of: Unit = "probability",
    **settings: Settings,
) -> Stage:
    """Add the mean score of a document's passages to its scaled score: the Piaf report's equation 21."""
    from telerank.segments import stage as segments

    cut = _settings("piaf", window, settings)
    return segments.passages(stage, reranker, alpha, beta, settings=cut, of=of)


def birch(
    stage: Stage,
    reranker: Reranker,
    alpha: float,
    weights: tuple[float, ...] = (1.0,),
    window: Window = None,
    *,
    of: Unit = "probability",
    **settings: Settings,
) -> Stage:
    """Add the weighted scores of the best sentences to that of the document, as Birch does."""
    from telerank.segments import stage as segments

    cut = _settings("birch", window, settings)
    return segments.birch(stage, reranker, alpha, weights, settings=cut, of=of)


# Each takes ``rerank(MODEL)``, whose model, documents and settings it uses, and settings of segments.
SEGMENT_FUNCTIONS: Mapping[str, Callable[..., Stage]] = {
    **{name: partial(by_best_segments, kind) for name, kind in KINDS.items()},
    "kmaxp": kmaxp,
    "passages": passages,
    "birch": birch,
}
