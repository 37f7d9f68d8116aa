"""``telerank evaluate``, ``compare``, ``depth``, ``consistency``: the worth of runs and predicted answers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Le

from telerank.cli import options
from telerank.cli.commands import derive
from telerank.cli.options import JudgedOptions, open_collection
from telerank.errors import MeasureError
from telerank.parameters import FieldsOf, Flags, Help, Measures, RelevanceLevel
from telerank.verbs import evaluate as verbs

if TYPE_CHECKING:
    from telerank.evaluation.measures import MeasureNames
    from telerank.verbs.evaluate import AnswerEvaluations

_RUN_MEASURES = "RR@10 R@1000 AP nDCG@10 P@1"


@derive
def evaluate(
    runs: options.JudgedOptions,
    *,
    measures: Annotated[
        str | None,
        Flags("-m"),
        Help(
            "Measures by the names of ir_measures or trec_eval (`map`, `P_10`, `official`, `all_trec`). "
            "Default: `RR@10 R@1000 AP nDCG@10 P@1`; with --depths `R AP`; of answers, all there are."
        ),
    ] = None,
    relevance_level: RelevanceLevel = 1,
    groups: Annotated[
        bool, Help("Of answers: show means by question word and by answer length too.")
    ] = False,
    no_answer: Annotated[
        str | None,
        Flags("--no-answer", "FILE"),
        Help("Of answers: a value of no-answer for each question, as JSON, higher for no answer."),
    ] = None,
    threshold: Annotated[
        float, Help("Of answers: questions whose value of no-answer is above this have none.")
    ] = 1.0,
    per_query: Annotated[bool, Help("Show the values of each query too.")] = False,
    depths: Annotated[
        str | None, Help("Compute measures, named without cutoff, at depths such as `1,3,…,15`.")
    ] = None,
    report: options.PlottedReportOptions,
) -> None:
    """Measure runs over all queries of the qrels, or predicted answers over all questions of a collection.

    A query without results, or a question without a prediction, counts 0. Predictions are SQuAD's JSON
    (question ids to texts) or lines; they are measured by EM and F1 as SQuAD's script does, the same for
    French, and F1 of characters.

    Example: `telerank evaluate scifact bm25.run --split test -m "nDCG@10 RR@10 R@100" --json`

    Example: `telerank evaluate fquad reader.json other.json --groups`

    Example: `telerank evaluate qrels.txt bm25.run dfi.run -m "R AP" --depths 1,3,…,15 --plot depth.png`
    """
    from telerank.verbs.evaluate import are_predictions

    if are_predictions(runs.run):
        refuse_of_runs(depths=depths, plot=report.plot, strict=runs.strict)
        answers = measure_predictions(runs, measures, (no_answer, threshold))
        options.ReportOptions.write(report, replace(answers, groups=groups, per_query=per_query))
        return
    if groups or no_answer is not None:
        raise MeasureError("--groups and --no-answer are for predicted answers, and these are runs")
    cuts = [] if depths is None else options.parse_depths(depths)
    if measures is not None:  # before the files are read
        verbs.expand_measures(measures, cuts) if cuts else verbs.parse_measures(measures, relevance_level)
    if report.plot is not None and not cuts:
        raise MeasureError("--plot draws measures by depth: give --depths, such as 1,3,…,15")
    evaluations = verbs.evaluate(runs.open(), measures, depths=cuts, relevance_level=relevance_level)
    report.write(replace(evaluations, per_query=per_query))


@derive
def compare(
    runs: options.JudgedOptions,
    *,
    measures: Measures = _RUN_MEASURES,
    changes: Annotated[int, Ge(0), Le(10), Help("Show only N of the queries that changed most.")] = 10,
    report: options.ReportOptions,
    **settings: Annotated[Any, FieldsOf(verbs.compare, ("qrels",))],
) -> None:
    """Compare runs with baselines: paired t-test with Holm's correction, effect size, bootstrap interval.

    Example: `telerank compare scifact bm25.run lmd.run --baseline bm25.run -m "nDCG@10 AP"`

    Example: `telerank compare qrels.txt bm25.run dfi.run dfr.run -b bm25 -b dfi -o table.tex`

    Files of predicted answers are compared in the same way.
    """
    from telerank.verbs.evaluate import are_predictions, compare_answers

    if are_predictions(runs.run):
        refuse_of_runs(strict=runs.strict)
        answers = measure_predictions(runs, None if measures == _RUN_MEASURES else measures)
        compared = compare_answers(answers, settings["baseline"] or (), level=settings["level"])
    else:
        compared = verbs.compare(runs.open(), measures=measures, **settings)
    report.write(compared.with_changes(changes))


@derive
def depth(
    runs: options.JudgedOptions,
    *,
    reranker: Annotated[
        str,
        Flags("--reranker", "-r"),
        Help("A run with a re-ranker's scores for the candidates of all runs."),
    ],
    measures: Annotated[
        str, Flags("-m"), Help("Measure of the re-ranked lists, as ir_measures names it.")
    ] = "RR@10",
    depths: Annotated[str, Help("Depths n of the first stage.")] = "5,10,50,500,1000",
    report: options.PlottedReportOptions,
) -> None:
    """Re-rank the first n documents of each run by a re-ranker's scores, and measure at each depth n.

    The other runs are compared with the first. Recall by depth is printed by `evaluate -m R --depths`.

    Example: `telerank depth scifact bm25.run dfr.run --split test --reranker lmd.run --plot depths.png`
    """
    from telerank.verbs.candidates import depth

    cuts = options.parse_depths(depths)
    report.write(depth(runs.open(reranker), reranker, measures, cuts))


@derive
def consistency(
    reference: Annotated[
        str, Flags("REFERENCE"), Help("The run whose candidates a re-ranker was trained on.")
    ],
    run: options.Runs,
    *,
    depths: Annotated[str, Help("Depths n of the runs.")] = "1,5,10,50,100,500,1000",
    reference_depth: Annotated[int, Ge(1), Help("Documents of the reference that are candidates.")] = 1000,
    report: options.PlottedReportOptions,
) -> None:
    """Consistency factor C(f, n): the mean share of a run's first n that is among the reference's candidates.

    If it is low, a re-ranker trained on the reference's candidates meets documents unlike them.

    Example: `telerank consistency bm25.run dfr.run lmd.run --depths 1,10,100,1000 --plot consistency.png`
    """
    from telerank.verbs.candidates import consistency

    options.check_one_dash([reference, *run])
    cuts = options.parse_depths(depths)
    report.write(consistency(reference, run, cuts, reference_depth=reference_depth))


def measure_predictions(
    given: JudgedOptions, measures: MeasureNames | None, values: tuple[str | None, float] = (None, 1.0)
) -> AnswerEvaluations:
    """The evaluations of files of predictions; ``values`` are the file of no-answer, and the threshold."""
    from telerank.verbs.evaluate import ANSWER_MEASURES, evaluate_answers

    data = open_collection(given.qrels, given.format, given.encoding)
    no_answer, threshold = values
    chosen = tuple(ANSWER_MEASURES) if measures is None else measures
    return evaluate_answers(
        given.run, data, chosen, split=given.split, no_answer=no_answer, threshold=threshold
    )


def refuse_of_runs(**given: object) -> None:
    """Raise MeasureError if an option is set that predicted answers do not have."""
    for name, value in given.items():
        if value not in (None, False):
            raise MeasureError(f"--{name} is for runs, and these are predicted answers")
