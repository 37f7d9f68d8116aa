"""``telerank fuse``: several runs fused into one."""

from __future__ import annotations

from enum import StrEnum

from typer import Option

from telerank.cli import console, options
from telerank.errors import CollectionError


class Method(StrEnum):
    """How lists are fused."""

    interleave = "interleave"
    linear = "linear"
    rrf = "rrf"


def fuse(
    run: options.RunArguments,
    *,
    method: Method = Option(
        Method.rrf, help="`interleave`: in turns; `linear`: weighted min-max scores; `rrf`: reciprocal ranks."
    ),
    weights: str | None = Option(
        None, help="For `linear`: a weight for each run, `0.4,0.6`. Default: equal."
    ),
    rrf_k: float = Option(60.0, min=0, help="For `rrf`: the k of 1 / (k + rank)."),
    depth: options.Depth = 1000,
    keep: options.Keep = None,
    output: str = Option(
        "-", "--output", "-o", help="File for the run (.gz packs it); `-`: standard output."
    ),
) -> None:
    """Fuse runs into one: in turns, by weighted scores, or by ranks.

    A document that is not in a list gets 0 from it; a query that a run lacks is fused from the others. As
    many documents are kept as are taken (--depth), if -k does not say otherwise.

    Example: `telerank fuse bm25.run dfr.run --method linear --weights 0.4,0.6 -o fused.run`
    """
    from telerank.verbs.fuse import Fusion, fuse

    options.check_one_dash(run)
    if weights is not None and method is not Method.linear:
        raise CollectionError(f"--weights are for --method linear, not {method}")
    shares = () if weights is None else _parse_weights(weights, len(run))
    fusion = Fusion(method.value, shares, k=rrf_k, depth=depth, keep=keep)
    fused = fuse(run, output, fusion)
    for remark in fused.remarks:
        console.say(remark)
    if output != "-":
        console.say(f"{fused.queries:,} queries fused; run in {output}, its settings in {output}.json")


def _parse_weights(text: str, count: int) -> tuple[float, ...]:
    try:
        weights = tuple(float(piece) for piece in text.split(","))
    except ValueError:
        weights = ()
    if len(weights) != count or not all(abs(weight) < 1e30 for weight in weights):
        raise CollectionError(f"--weights: expected {count} numbers separated by commas, got {text!r}")
    return weights
