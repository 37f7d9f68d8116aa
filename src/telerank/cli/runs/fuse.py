"""``telerank fuse``, ``tune-fusion`` and ``combine``: runs fused, with tuned weights, in all pairs."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from typer import Option

from telerank.cli import console, options
from telerank.cli.runs.output import open_runs, say_run, write_plot, write_report
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
    rrf_k: float = Option(
        60.0, min=0, callback=options.check_finite, help="For `rrf`: the k of 1 / (k + rank)."
    ),
    depth: options.Depth = 1000,
    keep: options.Keep = None,
    output: options.RunOutput = "-",
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
    fused = fuse(run, fusion)
    fused.save(output)
    for remark in fused.remarks:
        console.say(remark)
    say_run(f"{fused.queries:,} queries fused", output)


def _parse_weights(text: str, count: int) -> tuple[float, ...]:
    try:
        weights = tuple(float(piece) for piece in text.split(","))
    except ValueError:
        weights = ()
    if len(weights) != count or not all(abs(weight) < 1e30 for weight in weights):
        raise CollectionError(f"--weights: expected {count} numbers separated by commas, got {text!r}")
    return weights


class GridName(StrEnum):
    """Which weights are tried."""

    simplex = "simplex"
    square = "square"


_DRAWN = {GridName.simplex: 3, GridName.square: 2}  # the most runs whose weights can be drawn


def tune_fusion(
    qrels: options.QrelsArgument,
    run: options.RunArguments,
    *,
    measure: options.MeasureToMaximise = "nDCG@10",
    grid: GridName = Option(
        GridName.simplex, help="Weights to try: `simplex`: they sum to 1; `square`: each from 0 to 1."
    ),
    step: str = Option("0.1", help="Step of the weights: `0.1`, `0.05`, `1/3`."),
    folds: options.FoldCount = 5,
    seed: options.FoldSeed = 0,
    depth: options.Depth = 1000,
    plot: options.PlotFile = None,
    split: options.Split = None,
    form: options.TableForm = None,
    output: options.TableOutput = "-",
    format: options.FormatOption = None,  # noqa: A002
    encoding: options.Encoding = "utf-8",
    strict: options.Strict = False,
    as_json: options.AsJson = False,
) -> None:
    """Tune the weights of `fuse --method linear` over a grid, by cross-validation.

    A plot can be drawn for two runs, and for three on the simplex.

    Example: `telerank tune-fusion scifact bm25.run dfr.run --split test --measure nDCG@10 --plot weights.png`
    """
    from telerank.verbs.fuse import Folds, WeightGrid, tune_fusion

    if plot is not None and len(run) > _DRAWN[grid]:
        raise CollectionError(f"--plot cannot draw the weights of {len(run)} runs on the {grid}")
    opened = open_runs(qrels, run, split, format=format, encoding=encoding, strict=strict)
    judged = replace(opened, depth=depth)
    points, parts = WeightGrid(grid.value, step), Folds(folds, seed)
    tuning = tune_fusion(judged, measure, grid=points, folds=parts)
    write_plot(tuning.plot, plot)
    write_report(tuning, output, form, as_json=as_json)


def combine(
    qrels: options.QrelsArgument,
    run: options.RunArguments,
    *,
    measures: options.Measures = "RR@10 R@1000",
    method: Method = Option(Method.interleave, help="How two lists are fused; `linear` has equal weights."),
    depth: options.Depth = 1000,
    level: options.Level = 0.05,
    split: options.Split = None,
    form: options.TableForm = None,
    output: options.TableOutput = "-",
    format: options.FormatOption = None,  # noqa: A002
    encoding: options.Encoding = "utf-8",
    strict: options.Strict = False,
    as_json: options.AsJson = False,
) -> None:
    """Fuse all ordered pairs of runs, and show what each run adds to each other.

    A row is the first run, a column the second; the change is from the first run alone. Fused lists are cut
    to --depth too.

    Example: `telerank combine scifact bm25.run dfr.run lmd.run --split test -m "RR@10 R@1000"`
    """
    from telerank.verbs.fuse import Fusion, combine

    judged = open_runs(qrels, run, split, format=format, encoding=encoding, strict=strict)
    fusion = Fusion(method.value, depth=depth)
    matrix = combine(judged, measures, fusion=fusion, level=level)
    write_report(matrix, output, form, as_json=as_json)
