"""``telerank rerank``, ``fuse``, ``tune-fusion``, ``combine``, ``tune``: runs made of runs, and tuning."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Annotated, Any, Literal

from annotated_types import Ge

from telerank.cli import console, options
from telerank.cli.commands import derive
from telerank.cli.console import say_run
from telerank.computing import PairComputing
from telerank.errors import CollectionError, ModelError, count_noun
from telerank.model_names import RERANKER
from telerank.parameters import (
    Check,
    FieldsOf,
    Flags,
    FoldCount,
    FoldSeed,
    Help,
    Level,
    Measures,
    MeasureToMaximise,
    Split,
    check_finite,
)

Method = Literal["interleave", "linear", "rrf"]
Depth = Annotated[int, Ge(1), Help("Documents taken from each run for each query.")]
_DRAWN = {"simplex": 3, "square": 2}  # the most runs whose weights can be drawn


@derive
def fuse(
    run: options.Runs,
    *,
    method: Annotated[
        Method,
        Help("`interleave`: in turns; `linear`: weighted min-max scores; `rrf`: reciprocal ranks."),
    ] = "rrf",
    weights: Annotated[
        str | None, Help("For `linear`: a weight for each run, `0.4,0.6`. Default: equal.")
    ] = None,
    rrf_k: Annotated[float, Ge(0), Check(check_finite), Help("For `rrf`: the k of 1 / (k + rank).")] = 60.0,
    depth: Depth = 1000,
    keep: options.Kept = None,
    output: options.RunFile = "-",
) -> None:
    """Fuse runs into one: in turns, by weighted scores, or by ranks.

    A document that is not in a list gets 0 from it; a query that a run lacks is fused from the others. As
    many documents are kept as are taken (--depth), if -k does not say otherwise.

    Example: `telerank fuse bm25.run dfr.run --method linear --weights 0.4,0.6 -o fused.run`
    """
    from telerank.verbs.fuse import fuse

    options.check_one_dash(run)
    if weights is not None and method != "linear":
        raise CollectionError(f"--weights are for --method linear, not {method}")
    shares = () if weights is None else _parse_weights(weights, len(run))
    fused = fuse(run, method, weights=shares, rrf_k=rrf_k, depth=depth, k=keep)
    fused.save(output)
    for remark in fused.remarks:
        console.say(remark)
    say_run(f"{count_noun(fused.queries, 'query')} fused", output)


def _parse_weights(text: str, count: int) -> tuple[float, ...]:
    try:
        weights = tuple(float(piece) for piece in text.split(","))
    except ValueError:
        weights = ()
    if len(weights) != count or not all(abs(weight) < 1e30 for weight in weights):
        raise CollectionError(f"--weights: expected {count} numbers separated by commas, got {text!r}")
    return weights


@derive
def tune_fusion(
    runs: options.JudgedOptions,
    *,
    measures: MeasureToMaximise = "nDCG@10",
    grid: Annotated[
        Literal["simplex", "square"],
        Help("Weights to try: `simplex`: they sum to 1; `square`: each from 0 to 1."),
    ] = "simplex",
    step: Annotated[str, Help("Step of the weights: `0.1`, `0.05`, `1/3`.")] = "0.1",
    folds: FoldCount = 5,
    seed: FoldSeed = 0,
    depth: Depth = 1000,
    report: options.PlottedReportOptions,
) -> None:
    """Tune the weights of `fuse --method linear` over a grid, by cross-validation.

    A plot can be drawn for two runs, and for three on the simplex.

    Example: `telerank tune-fusion scifact bm25.run dfr.run --split test --measures AP --plot weights.png`
    """
    from telerank.verbs.fuse import tune_fusion

    if report.plot is not None and len(runs.run) > _DRAWN[grid]:
        raise CollectionError(
            f"--plot cannot draw the weights of {count_noun(len(runs.run), 'run')} on the {grid}"
        )
    judged = replace(runs.open(), depth=depth)
    report.write(tune_fusion(judged, measures, grid=grid, step=step, folds=folds, seed=seed))


@derive
def combine(
    runs: options.JudgedOptions,
    *,
    measures: Measures = "RR@10 R@1000",
    method: Annotated[Method, Help("How two lists are fused; `linear` has equal weights.")] = "interleave",
    depth: Depth = 1000,
    level: Level = 0.05,
    report: options.ReportOptions,
) -> None:
    """Fuse all ordered pairs of runs, and show what each run adds to each other.

    A row is the first run, a column the second; the change is from the first run alone. Fused lists are cut
    to --depth too.

    Example: `telerank combine scifact bm25.run dfr.run lmd.run --split test -m "RR@10 R@1000"`
    """
    from telerank.verbs.fuse import combine

    report.write(combine(runs.open(), measures, method=method, depth=depth, level=level))


@derive
def tune(
    index: options.IndexName,
    data: options.JudgedCollectionOptions,
    *,
    model: Annotated[
        list[str] | None,
        Help("Family whose usual settings are tried; repeat for several. Default: `bm25`."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        Help("Pipeline to try, such as `bm25(k1=0.7, b=0.3)`; repeat for several."),
    ] = None,
    analyzers: Annotated[
        str | None,
        Help(
            "Analyzers to try, separated by commas; for others than the index's own the texts are indexed "
            "again."
        ),
    ] = None,
    measures: MeasureToMaximise = "nDCG@10",
    split: Split = None,
    test: Annotated[str | None, Help("Test split, used instead of cross-validation.")] = None,
    filter: options.FilterText = None,  # noqa: A002
    folds: FoldCount = 5,
    seed: FoldSeed = 0,
    keep: options.Kept = None,
    report: options.ReportOptions,
) -> None:
    """Tune pipelines and analyzers, by cross-validation or on one split for another.

    Example: `telerank tune idx-fr dila --model dfi --measures "R@5" --folds 5`
    """
    import telerank as tr

    result = tr.tune(
        index,
        data.open(),
        model or (),
        settings=setting or (),
        analyzers=analyzers.split(",") if analyzers else (),
        measures=measures,
        split=split,
        test=test,
        where=filter,
        folds=folds,
        seed=seed,
        k=keep or 1000,
    )
    report.write(result)


@derive
def rerank(
    run: Annotated[
        str,
        Flags("RUN"),
        Help("Run file of candidates; `-`: standard input; `pool(NAME)`: candidate lists of the collection."),
    ],
    *,
    model: Annotated[
        str,
        Flags("--model"),
        Help(
            "The folder OUTPUT/model of `telerank train reranker`, or a cross-encoder on the hub. Default: "
            "the French and English one that comes with telerank (extra `e5`)."
        ),
    ] = RERANKER,
    index: Annotated[str | None, Flags("-i"), Help("The index that has the documents.")] = None,
    collection: Annotated[
        str | None,
        Flags("-c"),
        Help("The collection that has the queries, and the documents unless --index is given."),
    ] = None,
    queries: Annotated[
        str | None,
        Help("File of queries: TREC, TSV or JSONL, instead of the collection's."),
    ] = None,
    split: Split = None,
    depth: Annotated[int | None, Ge(1), Help("Documents of each query to score. Default: all.")] = None,
    keep: options.Kept = None,
    output: options.RunFile = "-",
    dev: Annotated[
        str | None,
        Help(
            "For int8: a run over other queries of the collection. One half calibrates, the other measures "
            "what it loses."
        ),
    ] = None,
    dev_split: Annotated[
        str | None, Help("Split of the queries and qrels of --dev. Default: the only one.")
    ] = None,
    fields: Annotated[
        str | None, Help("Fields that the model reads, such as title,topics. Default: title and text.")
    ] = None,
    format: options.Format = None,  # noqa: A002
    encoding: options.Texts = "utf-8",
    as_json: options.PrintJson = False,
    **settings: Annotated[Any, FieldsOf(PairComputing)],
) -> None:
    """Score the documents of a run again with a re-ranker, and write the new run.

    Under `torchrun` the processes share the queries, on a GPU each.

    Example: `telerank rerank bm25.run --model my-reranker -c scifact --split test --depth 2 -o reranked.run`

    Example: `telerank rerank bm25.run --model my-reranker -i idx --queries scifact/queries.jsonl -k 1`
    """
    if queries is None and collection is None:
        raise CollectionError("rerank: the queries' texts are missing: give --queries or --collection")
    if index is None and collection is None:
        raise CollectionError("rerank: the documents' texts are missing: give --index or --collection")
    if dev is not None and collection is None:
        raise ModelError("rerank: --dev needs --collection, which has its queries and qrels")
    options.check_one_dash([run, *([dev] if dev else [])])
    import telerank as tr
    from telerank.corpus.readers.plain import open_topics
    from telerank.verbs.rerank import DevRun, rerank_run
    from telerank.verbs.train import is_first_process

    data = options.open_collection(collection, format, encoding) if collection else None
    reranked = rerank_run(
        run,
        model,
        tr.open(index) if index is not None else data,
        open_topics(queries, encoding=encoding) if queries is not None else data,
        split=split if queries is None else None,
        depth=depth,
        k=keep,
        dev=DevRun(dev, data, dev_split) if dev and data else None,
        fields=fields or (),
        **settings,
    )
    if not is_first_process():
        deque(reranked, maxlen=0)  # its share; the first process writes
        return
    reranked.save(output, as_json=as_json)
    for remark in reranked.remarks:
        console.say(remark)
