"""Measures of runs and of answers: in the mean, per query and by depth, and their significance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

from telerank.corpus.answers import is_predictions_file, read_no_answer, read_predictions
from telerank.corpus.collection import Collection, split_parts
from telerank.corpus.formats import open_collection
from telerank.errors import ByName, CollectionError, agree, count_noun, known_names
from telerank.evaluation.answers.measures import GoldAnswers, measure_answers
from telerank.evaluation.answers.overlap import ANSWER_MEASURES, parse_answer_measures
from telerank.evaluation.answers.report import AnswerEvaluations
from telerank.evaluation.compare import (
    Comparison,
    compare_evaluations,
    depth_table,
    describe_gaps,
    evaluations_frame,
    means_table,
    query_table,
)
from telerank.evaluation.measures import (
    Evaluation,
    MeasureNames,
    expand_measures,
    measure,
    parse_measures,
    require_means,
)
from telerank.parameters import Flags, Help, Level, Measures, RelevanceLevel
from telerank.show.plots import line_plot
from telerank.show.progress import show_progress
from telerank.show.report import Report
from telerank.show.tables import Table
from telerank.trec import check_exists
from telerank.types import ProgressSetting
from telerank.verbs.judge import JudgedRuns, JudgmentSource, Runs, judge_runs, name_files

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = [
    "ANSWER_MEASURES",
    "AnswerEvaluations",
    "PredictionSources",
    "RunEvaluations",
    "are_predictions",
    "compare",
    "compare_answers",
    "evaluate",
    "evaluate_answers",
    "expand_measures",
    "measure_runs",
    "parse_measures",
    "read_gold",
]

MEASURES = "RR@10 R@1000 AP nDCG@10 P@1"
MEASURES_BY_DEPTH = "R AP"
Baseline = Annotated[
    Sequence[str | Path] | str | Path,
    Flags("--baseline", "-b"),
    Help("One of the runs, by file or name; repeat for several. Default: the first."),
]


@dataclass(frozen=True, eq=False)
class RunEvaluations(Report):
    """The evaluations of runs by name.

    By depth, ``expanded`` holds the names of each measure at each of ``depths``. With ``per_query`` the
    report shows the values of each query too.
    """

    title: ClassVar[str] = "Evaluation"
    evaluations: Mapping[str, Evaluation]
    source: str
    depths: tuple[int, ...] = ()
    expanded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    per_query: bool = False

    @property
    def curves(self) -> dict[str, dict[str, list[float]]]:
        """``curves[run][measure]``: the mean at each depth."""
        return {
            run: {family: [evaluation.mean[name] for name in cut] for family, cut in self.expanded.items()}
            for run, evaluation in self.evaluations.items()
        }

    def to_pandas(self) -> pd.DataFrame:
        """A row for each system and query, a column for each measure; needs pandas."""
        return evaluations_frame(self.evaluations)

    def tables(self) -> list[Table]:
        caption = f"Means over {count_noun(len(next(iter(self.evaluations.values())).qids), 'query')}"
        means = means_table(self.evaluations, caption=caption)
        if self.depths:
            means = depth_table(self.curves, self.depths, caption=caption)
        return [query_table(self.evaluations), means] if self.per_query else [means]

    @property
    def remarks(self) -> list[str]:
        return describe_gaps(self.evaluations)

    def record(self) -> dict[str, Any]:
        return {
            "qrels": self.source,
            "queries": len(next(iter(self.evaluations.values())).qids),
            **({"depths": self.depths} if self.depths else {}),
            "runs": [
                {
                    "run": name,
                    **({"by_depth": self.curves[name]} if self.depths else {"mean": evaluation.mean}),
                    "missing": evaluation.missing,
                    "unanswerable": evaluation.unanswerable,
                    "unjudged": evaluation.unjudged,
                    **({"per_query": evaluation.by_query()} if self.per_query else {}),
                }
                for name, evaluation in self.evaluations.items()
            ],
        }

    def plot(self) -> Figure:
        """Plot each measure by depth, a line for each run."""
        return line_plot(
            {family: {run: own[family] for run, own in self.curves.items()} for family in self.expanded},
            self.depths,
        )


def evaluate(
    runs: JudgedRuns | Runs,
    measures: MeasureNames | None = None,
    *,
    qrels: JudgmentSource | None = None,
    depths: Sequence[int] = (),
    relevance_level: RelevanceLevel = 1,
    progress: ProgressSetting = None,
) -> RunEvaluations:
    """Measure runs over all queries of the qrels; a query without results counts 0.

    ``runs`` are those that :func:`telerank.judge` returns, or what it takes, with ``qrels``. With ``depths``,
    ``measures`` are named without a cutoff and computed at each depth. Default measures: :data:`MEASURES`,
    with depths :data:`MEASURES_BY_DEPTH`. Grades from ``relevance_level`` up are relevant for measures that
    take a level and do not name one (``AP``, but not ``AP(rel=3)`` and ``nDCG``).

    Raises
    ------
    CollectionError
        If the qrels judge no query of a run.
    MeasureError
        If the name of a measure is invalid.
    """
    runs = judge_runs(runs, qrels)
    if measures is None:
        measures = MEASURES_BY_DEPTH if depths else MEASURES
    expanded = expand_measures(measures, depths, relevance_level) if depths else {}
    names = [*chain(*expanded.values())] if depths else parse_measures(measures, relevance_level)
    return RunEvaluations(measure_runs(runs, names, progress=progress), runs.source, tuple(depths), expanded)


def compare(
    runs: JudgedRuns | Runs,
    baseline: Baseline = (),
    measures: Measures = MEASURES,
    *,
    qrels: JudgmentSource | None = None,
    level: Level = 0.05,
    relevance_level: RelevanceLevel = 1,
    progress: ProgressSetting = None,
) -> Comparison:
    """Compare runs with baselines, given by name or file (default: the first run).

    A difference is significant if its p, after Holm's correction, is below ``level``.
    Grades from ``relevance_level`` up are relevant for measures that take a level and do not name one.

    Raises
    ------
    CollectionError
        If there are fewer than two runs, a baseline is not one of them, or the qrels judge no query of a run.
    MeasureError
        If the name of a measure is invalid, or the measure is not a mean over queries.
    """
    runs = judge_runs(runs, qrels)
    names = parse_measures(measures, relevance_level)
    require_means(names)
    runs.require_two("compare")
    return compare_evaluations(
        measure_runs(runs, names, progress=progress),
        _find_baselines([str(each) for each in _as_list(baseline)], runs),
        level=level,
    )


def _as_list(values: str | Path | Sequence[str | Path]) -> Sequence[str | Path]:
    return [values] if isinstance(values, str | Path) else values


def _find_baselines(baselines: Sequence[str], runs: JudgedRuns) -> list[str]:
    if not baselines:
        return list(runs.runs)[:1]
    files = {str(run): name for name, run in runs.runs.items() if isinstance(run, str | Path)}
    names = files | {name: name for name in runs.runs}
    for baseline in baselines:
        if baseline not in names:
            raise CollectionError(f"there is no run {baseline!r}; {known_names(runs.runs, baseline)}")
    return list(dict.fromkeys(names[baseline] for baseline in baselines))


def measure_runs(
    runs: JudgedRuns, measures: Sequence[str], *, progress: ProgressSetting = None
) -> dict[str, Evaluation]:
    """The evaluation of each run by name."""
    evaluations = {}
    for name in runs.runs:
        with show_progress(progress) as shown:
            evaluation = measure(runs.read(name), runs.qrels, measures, progress=shown)
        runs.check_judged(
            name,
            judged=len(evaluation.qids) - len(evaluation.missing),
            first=next(iter(evaluation.unjudged), None),
        )
        evaluations[name] = evaluation
    return ByName("run", evaluations)


# Files of predictions, named by their files, or by name; or texts by qid.
PredictionSources: TypeAlias = Sequence[str | Path] | Mapping[str, str | Path | Mapping[str, str]]


def evaluate_answers(
    predictions: PredictionSources,
    data: str | Path | Collection | GoldAnswers,
    measures: str | Sequence[str] = tuple(ANSWER_MEASURES),
    *,
    split: str | None = None,
    no_answer: str | Path | Mapping[str, float] | None = None,
    threshold: float = 1.0,
) -> AnswerEvaluations:
    """Measure predicted answers: SQuAD's EM and F1, both for French, and the Piaf report's F1 of characters.

    Predictions are files (SQuAD's JSON, or lines), or texts by question id, the empty text being no answer;
    ``data`` has the gold answers. ``no_answer`` has values of no-answer, higher for no answer, if there is
    only one system; questions above ``threshold`` have no answer.

    >>> print(tr.evaluate_answers(["reader.json"], "fquad"))

    Raises
    ------
    CollectionError
        If the collection has no answers or no such split, or a system predicts no question of it, or a
        question lacks its value of no-answer.
    MeasureError
        If a measure is none of answers.
    FormatError
        If a file does not follow its format.
    """
    names = parse_answer_measures(measures)
    gold = data if isinstance(data, GoldAnswers) else read_gold(data, split)
    if not isinstance(predictions, Mapping):
        predictions = name_files(predictions, _stem, "a file of predictions")
        for file in predictions.values():
            check_exists(file)
    texts = {
        name: source if isinstance(source, Mapping) else read_predictions(source)
        for name, source in predictions.items()
    }
    values = _read_values(no_answer, texts, gold)
    evaluations = {name: measure_answers(gold, own, names) for name, own in texts.items()}
    for name, evaluation in evaluations.items():
        if len(evaluation.missing) == len(evaluation.qids):
            first = next(iter(texts[name]), None)
            raise CollectionError(f"{name}: it answers no question of these (its first is {first!r})")
    return AnswerEvaluations(gold, evaluations, texts, values, threshold)


def compare_answers(
    evaluations: AnswerEvaluations, baseline: Baseline = (), *, level: float = 0.05
) -> Comparison:
    """The differences of the systems from baselines (default: the first), with their significance.

    Raises CollectionError if there is only one system, or a baseline is none of them.
    """
    known = list(evaluations.evaluations)
    if len(known) < 2:
        raise CollectionError("there is nothing to compare: give two files of predictions or more")
    chosen = {}
    for name in map(str, _as_list(baseline)):
        if _stem(name) not in known and name not in known:
            raise CollectionError(f"there is no system {name!r}; {known_names(known, name)}")
        chosen[name if name in known else _stem(name)] = True
    return compare_evaluations(evaluations.final, list(chosen) or known[:1], level=level)


def read_gold(data: str | Path | Collection, split: str | None = None) -> GoldAnswers:
    """The questions and answers of a split, or of the only one; a question without answer is unanswerable.

    Raises CollectionError if the collection has no such split, or no answers in it.
    """
    collection = data if isinstance(data, Collection) else open_collection(data)
    chosen = collection.resolve_split(split)
    parts = split_parts(chosen)
    if not any(part in collection.answers for part in parts):
        raise CollectionError(f"{collection.name}: split {chosen!r} has no answers")
    streams = (own.get(part) for own in (collection.answers, collection.unlocated) for part in parts)
    return GoldAnswers.of(
        collection.split_queries(chosen),
        chain.from_iterable(stream() for stream in streams if stream is not None),
    )


def are_predictions(files: Sequence[str | Path]) -> bool:
    """Whether these are files of predictions, no runs. Raises CollectionError if only some of them are."""
    kinds = [is_predictions_file(file) for file in files]
    if any(kinds) and not all(kinds):
        raise CollectionError(
            f"{files[kinds.index(False)]} holds no predictions, {files[kinds.index(True)]} does"
        )
    return all(kinds)


def _stem(file: str | Path) -> str:
    name = Path(file).name.removesuffix(".gz").removesuffix(".xz")
    return name.removesuffix(".jsonl").removesuffix(".json")


def _read_values(
    no_answer: str | Path | Mapping[str, float] | None,
    texts: Mapping[str, Mapping[str, str]],
    gold: GoldAnswers,
) -> dict[str, Mapping[str, float]]:
    if no_answer is None:
        return {}
    if len(texts) > 1:
        raise CollectionError("values of no-answer are of one system: measure the systems one by one")
    values = no_answer if isinstance(no_answer, Mapping) else read_no_answer(no_answer)
    if lacking := [qid for qid in gold.questions if qid not in values]:
        raise CollectionError(
            f"{count_noun(len(lacking), 'question')}, as {lacking[0]!r}, "
            f"{agree(len(lacking), 'has', 'have')} no value of no-answer"
        )
    return {next(iter(texts)): values}
