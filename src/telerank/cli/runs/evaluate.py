"""``telerank evaluate``, ``compare``, ``depth`` and ``consistency``: what runs are worth."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer
from typer import Option

from telerank.cli import options
from telerank.cli.runs.output import open_runs, write_plot, write_report
from telerank.cli.runs.predictions import measure_predictions, refuse_of_runs
from telerank.errors import MeasureError

_RUN_MEASURES = "RR@10 R@1000 AP nDCG@10 P@1"


def evaluate(
    qrels: options.QrelsArgument,
    run: options.RunArguments,
    *,
    measures: str | None = Option(
        None,
        "--measures",
        "-m",
        help="Measures by the names of ir_measures or trec_eval (`map`, `P_10`, `official`, `all_trec`). "
        "Default: `RR@10 R@1000 AP nDCG@10 P@1`; with --depths `R AP`; of answers, all there are.",
    ),
    relevance: options.RelevanceLevel = 1,
    split: options.Split = None,
    groups: bool = Option(
        False, "--groups", help="Of answers: show means by question word and by answer length too."
    ),
    no_answer: str | None = Option(
        None,
        "--no-answer",
        metavar="FILE",
        help="Of answers: a value of no-answer for each question, as JSON, higher for no answer.",
    ),
    threshold: float = Option(
        1.0, help="Of answers: questions whose value of no-answer is above this have none."
    ),
    per_query: bool = Option(False, "--per-query", help="Show the values of each query too."),
    depths: str | None = Option(
        None, help="Compute measures, named without cutoff, at depths such as `1,3,…,15`."
    ),
    plot: options.PlotFile = None,
    form: options.TableForm = None,
    output: options.TableOutput = "-",
    format: options.FormatOption = None,  # noqa: A002
    encoding: options.Encoding = "utf-8",
    strict: options.Strict = False,
    as_json: options.AsJson = False,
) -> None:
    """Measure runs over all queries of the qrels, or predicted answers over all questions of a collection.

    A query without results, or a question without a prediction, counts 0. Predictions are SQuAD's JSON
    (question ids to texts) or lines; they are measured by EM and F1 as SQuAD's script does, the same for
    French, and F1 of characters.

    Example: `telerank evaluate scifact bm25.run --split test -m "nDCG@10 RR@10 R@100" --json`

    Example: `telerank evaluate fquad reader.json other.json --groups`

    Example: `telerank evaluate qrels.txt bm25.run dfi.run -m "R AP" --depths 1,3,…,15 --plot depth.png`
    """
    from telerank.verbs.answers.evaluate import are_predictions

    if are_predictions(run):
        refuse_of_runs(depths=depths, plot=plot, strict=strict)
        answers = measure_predictions(
            qrels,
            run,
            split,
            format=format,
            encoding=encoding,
            measures=measures,
            values=(no_answer, threshold),
        )
        write_report(replace(answers, groups=groups, per_query=per_query), output, form, as_json=as_json)
        return
    if groups or no_answer is not None:
        raise MeasureError("--groups and --no-answer are for predicted answers, and these are runs")
    from telerank.verbs.evaluate import evaluate, expand_measures, parse_measures

    cuts = [] if depths is None else options.parse_depths(depths)
    if measures is not None:  # before the files are read
        expand_measures(measures, cuts) if cuts else parse_measures(measures, relevance)
    if plot is not None and not cuts:
        raise MeasureError("--plot draws measures by depth: give --depths, such as 1,3,…,15")
    judged = open_runs(qrels, run, split, format=format, encoding=encoding, strict=strict)
    evaluations = evaluate(judged, measures, depths=cuts, relevance_level=relevance)
    write_plot(evaluations.plot, plot)
    write_report(replace(evaluations, per_query=per_query), output, form, as_json=as_json)


def compare(
    qrels: options.QrelsArgument,
    run: options.RunArguments,
    *,
    baseline: list[str] | None = Option(
        None,
        "--baseline",
        "-b",
        help="One of the runs, by file or name; repeat for several. Default: the first.",
    ),
    measures: options.Measures = _RUN_MEASURES,
    relevance: options.RelevanceLevel = 1,
    split: options.Split = None,
    level: options.Level = 0.05,
    queries: int = Option(10, min=0, max=10, help="Show only N of the queries that changed most."),
    form: options.TableForm = None,
    output: options.TableOutput = "-",
    format: options.FormatOption = None,  # noqa: A002
    encoding: options.Encoding = "utf-8",
    strict: options.Strict = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare runs with baselines: paired t-test with Holm's correction, effect size, bootstrap interval.

    Example: `telerank compare scifact bm25.run lmd.run --baseline bm25.run -m "nDCG@10 AP"`

    Example: `telerank compare qrels.txt bm25.run dfi.run dfr.run -b bm25 -b dfi -o table.tex`

    Files of predicted answers are compared in the same way.
    """
    from telerank.verbs.answers.evaluate import are_predictions, compare_answers

    if are_predictions(run):
        refuse_of_runs(strict=strict)
        chosen = None if measures == _RUN_MEASURES else measures
        answers = measure_predictions(qrels, run, split, format=format, encoding=encoding, measures=chosen)
        compared = compare_answers(answers, baseline or (), level=level)
        write_report(compared.with_changes(queries), output, form, as_json=as_json)
        return
    from telerank.verbs.evaluate import compare

    judged = open_runs(qrels, run, split, format=format, encoding=encoding, strict=strict)
    comparison = compare(judged, baseline or (), measures, level=level, relevance_level=relevance)
    write_report(comparison.with_changes(queries), output, form, as_json=as_json)


def depth(
    qrels: options.QrelsArgument,
    run: options.RunArguments,
    *,
    reranker: str = Option(
        ..., "--reranker", "-r", help="A run with a re-ranker's scores for the candidates of all runs."
    ),
    measure: str = Option(
        "RR@10", "--measure", "-m", help="Measure of the re-ranked lists, as ir_measures names it."
    ),
    depths: str = Option("5,10,50,500,1000", help="Depths n of the first stage."),
    plot: options.PlotFile = None,
    split: options.Split = None,
    form: options.TableForm = None,
    output: options.TableOutput = "-",
    format: options.FormatOption = None,  # noqa: A002
    encoding: options.Encoding = "utf-8",
    strict: options.Strict = False,
    as_json: options.AsJson = False,
) -> None:
    """Re-rank the first n documents of each run by a re-ranker's scores, and measure at each depth n.

    The other runs are compared with the first. Recall by depth is printed by `evaluate -m R --depths`.

    Example: `telerank depth scifact bm25.run dfr.run --split test --reranker lmd.run --plot depths.png`
    """
    from telerank.verbs.candidates import depth

    options.check_one_dash([qrels, *run, reranker])
    cuts = options.parse_depths(depths)
    judged = open_runs(qrels, run, split, format=format, encoding=encoding, strict=strict)
    curves = depth(judged, reranker, measure, cuts)
    write_plot(curves.plot, plot)
    write_report(curves, output, form, as_json=as_json)


def consistency(
    reference: Annotated[
        str, typer.Argument(metavar="REFERENCE", help="The run whose candidates a re-ranker was trained on.")
    ],
    run: options.RunArguments,
    *,
    depths: str = Option("1,5,10,50,100,500,1000", help="Depths n of the runs."),
    reference_depth: int = Option(1000, min=1, help="Documents of the reference that are candidates."),
    plot: options.PlotFile = None,
    form: options.TableForm = None,
    output: options.TableOutput = "-",
    as_json: options.AsJson = False,
) -> None:
    """Consistency factor C(f, n): the mean share of a run's first n that is among the reference's candidates.

    If it is low, a re-ranker trained on the reference's candidates meets documents unlike them.

    Example: `telerank consistency bm25.run dfr.run lmd.run --depths 1,10,100,1000 --plot consistency.png`
    """
    from telerank.verbs.candidates import consistency

    options.check_one_dash([reference, *run])
    cuts = options.parse_depths(depths)
    curves = consistency(reference, run, cuts, reference_depth=reference_depth)
    write_plot(curves.plot, plot)
    write_report(curves, output, form, as_json=as_json)
