"""``telerank tune``: the best setting of a model, measured on queries that did not choose it."""

from __future__ import annotations

from typing import Annotated

from telerank.cli import options
from telerank.cli.derive import derive
from telerank.parameters import FoldCount, FoldSeed, Help, MeasureToMaximise, Split


@derive
def tune(
    index: options.IndexName,
    data: options.CollectionOptions,
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
    measure: MeasureToMaximise = "nDCG@10",
    split: Split = None,
    test: Annotated[str | None, Help("Test split, used instead of cross-validation.")] = None,
    folds: FoldCount = 5,
    seed: FoldSeed = 0,
    keep: options.Kept = None,
    report: options.ReportOptions,
) -> None:
    """Tune pipelines and analyzers, by cross-validation or on one split for another.

    Example: `telerank tune idx-fr dila --model dfi --measure "R@5" --folds 5`
    """
    import telerank as tr
    from telerank.verbs.tune import Folds

    result = tr.tune(
        index,
        data.open(),
        model or (),
        settings=setting or (),
        analyzers=analyzers.split(",") if analyzers else (),
        measure=measure,
        split=split,
        test=test,
        folds=Folds(folds, seed),
        k=keep or 1000,
    )
    report.write(result)
