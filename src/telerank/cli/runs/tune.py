"""``telerank tune``: the best setting of a model, measured on queries that did not choose it."""

from __future__ import annotations

from typer import Option

from telerank.cli import options
from telerank.cli.runs.output import write_report


def tune(
    index: options.IndexArgument,
    collection: options.CollectionArgument,
    *,
    model: list[str] | None = Option(
        None, help="Family whose usual settings are tried; repeat for several. Default: `bm25`."
    ),
    setting: list[str] | None = Option(
        None, help="Pipeline to try, such as `bm25(k1=0.7, b=0.3)`; repeat for several."
    ),
    analyzers: str | None = Option(
        None,
        help="Analyzers to try, separated by commas; for others than the index's own the texts are "
        "indexed again.",
    ),
    measure: options.MeasureToMaximise = "nDCG@10",
    split: options.Split = None,
    test: str | None = Option(None, help="Test split, used instead of cross-validation."),
    folds: options.FoldCount = 5,
    seed: options.FoldSeed = 0,
    keep: options.Keep = None,
    form: options.TableForm = None,
    output: options.TableOutput = "-",
    format: options.FormatOption = None,  # noqa: A002
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Tune pipelines and analyzers, by cross-validation or on one split for another.

    Example: `telerank tune idx-fr dila --model dfi --measure "R@5" --folds 5`
    """
    import telerank as tr
    from telerank.verbs.tune import Folds

    result = tr.tune(
        index,
        options.open_collection(collection, format, encoding),
        model or (),
        settings=setting or (),
        analyzers=analyzers.split(",") if analyzers else (),
        measure=measure,
        split=split,
        test=test,
        folds=Folds(folds, seed),
        k=keep or 1000,
    )
    write_report(result, output, form, as_json=as_json)
