"""The answers of an experiment's readers in the texts that questions are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import stdev
from typing import Any

import numpy as np

from telerank.answers.calibration import Confidences, measure_confidences
from telerank.answers.scorer import SpanReader
from telerank.errors import count_noun
from telerank.evaluation.answers.measures import measure_answers
from telerank.evaluation.answers.overlap import ANSWER_MEASURES
from telerank.evaluation.answers.report import (
    NoAnswerScores,
    by_answer_length,
    by_question_word,
    group_table,
    no_answer_tables,
    score_no_answer,
)
from telerank.evaluation.compare import compare_evaluations
from telerank.evaluation.measures import Evaluation, average_evaluations
from telerank.evaluation.statistics import bootstrap_intervals
from telerank.experiments.analyses.answers import AnswersAnalysis, AnswerSizesAnalysis
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analysis import AnalysisResult, Unavailable
from telerank.experiments.comparison import plain_name
from telerank.show.plots import line_plot
from telerank.show.tables import Table
from telerank.training.reader.config import ArticleShares
from telerank.training.reader.questions import QuestionSet, read_questions
from telerank.training.reader.train import ReadQuestions, read_sets
from telerank.types import Progress

_MEASURES = tuple(ANSWER_MEASURES)


@dataclass(frozen=True, eq=False)
class SetAnswers:
    """What a reader of each seed answers on a set: an evaluation and no-answer scores of each, and
    confidences.

    ``evaluation`` has the mean over seeds for each question; ``read`` and ``confidences`` are of the first.
    """

    seeds: tuple[Evaluation, ...]
    evaluation: Evaluation
    no_answer: tuple[NoAnswerScores, ...]
    confidences: Confidences
    read: ReadQuestions

    @property
    def spread(self) -> dict[str, float]:
        """The standard deviation over seeds of the mean of each measure; 0 of one seed."""
        if len(self.seeds) < 2:
            return dict.fromkeys(self.evaluation.measures, 0.0)
        return {name: stdev(own.mean[name] for own in self.seeds) for name in self.evaluation.measures}


def analyse_answers(bench: Bench, spec: AnswersAnalysis) -> AnalysisResult:
    """Train the readers, and measure the answers of each on each set that is here."""
    trainer = bench.runner.readers
    sets, notes = open_sets(bench, spec, spec.readers)
    answers: dict[str, dict[str, SetAnswers]] = {}
    for name in spec.readers:
        folders = trainer.folders(name)
        if lacking := trainer.lacking(name):
            notes.append(f"{name} was trained without {', '.join(lacking)}, which are not here.")
        answers[name] = answer_sets(folders, sets, bench.data.progress)
    caption = spec.title or "Answers in given texts, held-out articles"
    tables = [means_table(answers, caption), *_detail_tables(answers)]
    record = {name: {title: record_of(own) for title, own in sets.items()} for name, sets in answers.items()}
    plots = {
        f"confidences-{plain_name(name)}-{plain_name(title)}": own.confidences.plot()
        for name, sets in answers.items()
        for title, own in sets.items()
        if len(own.confidences.values)
    }
    return AnalysisResult(tuple(tables), record, plots, tuple(notes))


def open_sets(
    bench: Bench, spec: AnswersAnalysis | AnswerSizesAnalysis, readers: Sequence[str]
) -> tuple[dict[str, QuestionSet], list[str]]:
    """The sets that are here, with a note for each that is not.

    Raises
    ------
    Unavailable
        If none is here.
    CollectionError
        If a reader was trained on other parts of articles.
    """
    trainer, shares = bench.runner.readers, ArticleShares.model_validate(spec.articles)
    for name in readers:
        trainer.require_shares(name, shares)
    sets, notes = {}, []
    for title, record in spec.sets.items():
        try:
            source = trainer.source(title, record)
        except Unavailable as reason:
            notes.append(f"Not measured: {reason}.")
            continue
        sets[title] = read_questions(source, shares, bench.seed, bench.data.progress)
    if not sets:
        raise Unavailable(" ".join(notes))
    return sets, notes


def answer_sets(
    folders: Sequence[str | Path], sets: Mapping[str, QuestionSet], progress: Progress
) -> dict[str, SetAnswers]:
    """The answers of a reader, which has a folder for each seed, to the questions of each set."""
    import torch

    precision = "bfloat16" if torch.cuda.is_available() else "float32"
    readers = [SpanReader(folder, precision=precision) for folder in folders]
    return {title: _answer(readers, questions, progress) for title, questions in sets.items()}


def _answer(readers: Sequence[SpanReader], questions: QuestionSet, progress: Progress) -> SetAnswers:
    """Read the questions with the reader of each seed; the confidences are those of the first."""
    evaluations, no_answer = [], []
    by_seed = [(read_sets(reader, [questions], progress), reader.rules()) for reader in readers]
    for read, rules in by_seed:
        always = read.predict(replace(rules, threshold=None))
        threshold = float("inf") if rules.threshold is None else rules.threshold
        no_answer.append(
            score_no_answer(
                read.gold,
                always,
                measure_answers(read.gold, always, "EM F1 F1(fr)"),
                read.no_answer(rules),
                threshold=threshold,
            )
        )
        predictions = read.predict(rules) if read.gold.unanswerable else always
        evaluations.append(measure_answers(read.gold, predictions, _MEASURES))
    read, rules = by_seed[0]
    always = read.predict(replace(rules, threshold=None))
    exact = measure_answers(read.gold, always, "EM(fr)").values["EM(fr)"]
    return SetAnswers(
        tuple(evaluations),
        average_evaluations(evaluations),
        tuple(no_answer),
        measure_confidences(read.questions, exact, rules),
        read,
    )


def means_table(answers: Mapping[str, Mapping[str, SetAnswers]], caption: str) -> Table:
    """The means of readers on each set with intervals; those are marked that differ from the first reader."""
    rows = []
    baseline = next(iter(answers))
    for name, sets in answers.items():
        for title, own in sets.items():
            evaluation, marks = own.evaluation, set[str]()
            if name != baseline:
                pair = {baseline: answers[baseline][title].evaluation, name: evaluation}
                differences = compare_evaluations(pair, [baseline]).differences
                marks = {row.measure for row in differences if row.p_holm < 0.05}
            intervals = bootstrap_intervals([evaluation.values[m] for m in evaluation.measures])
            row = [title, name, f"{len(own.read.questions):,}"]
            for (measure, mean), (low, high) in zip(evaluation.mean.items(), intervals, strict=True):
                spread = f" ±{100 * own.spread[measure]:.1f}" if len(own.seeds) > 1 else ""
                mark = "*" if measure in marks else ""
                row.append(f"{100 * mean:.1f} [{100 * low:.1f}, {100 * high:.1f}]{spread}{mark}")
            rows.append(row)
    notes = [f"{name}: {measure.meaning}." for name, measure in ANSWER_MEASURES.items()]
    notes.append(
        "In percent; brackets: 95 % bootstrap interval over questions, of the mean over seeds; ±: over seeds."
    )
    if len(answers) > 1:
        notes.append(f"*: differs from {baseline} (paired t-test, Holm over measures, p < 0.05).")
    return Table.of(
        ("set", "reader", "questions", *ANSWER_MEASURES), rows, caption=caption, notes=notes, left=2
    )


def _detail_tables(answers: Mapping[str, Mapping[str, SetAnswers]]) -> list[Table]:
    """By question word, by answer length, with and without an answer, and calibration, for each set."""
    tables = []
    for title in dict.fromkeys(title for sets in answers.values() for title in sets):
        for what, group in (("question word", by_question_word), ("answer length", by_answer_length)):
            means = {
                name: group(sets[title].read.gold, sets[title].evaluation) for name, sets in answers.items()
            }
            tables.append(replace(group_table(means, what), caption=f"{title}: by {what}"))
        if any(sets[title].read.gold.unanswerable for sets in answers.values()):
            scores = {name: sets[title].no_answer for name, sets in answers.items()}
            tables += [
                replace(table, caption=f"{title}: {table.caption}") for table in no_answer_tables(scores)
            ]
    rows = []
    for name, sets in answers.items():
        for title, own in sets.items():
            confidences = own.confidences
            coverage, risk = confidences.risk_coverage()
            half = float(risk[int(np.searchsorted(coverage, 0.5))]) if len(risk) else float("nan")
            rows.append((title, name, confidences.calibration_error, confidences.area, half))
    note = (
        "Of the first seed, by EM(fr): expected calibration error of the confidences (temperature fitted on "
        "dev), area under the risk–coverage curve, and risk (share of wrong answers) of the confident half."
    )
    columns = ("set", "reader", "calibration error", "area", "risk at half")
    return [*tables, Table.of(columns, rows, caption="Confidences", notes=[note], left=2)]


def record_of(own: SetAnswers) -> dict[str, Any]:
    """Every value, for JSON."""
    return {
        "questions": len(own.read.questions),
        "mean": own.evaluation.mean,
        "spread": own.spread,
        "seeds": [seed.mean for seed in own.seeds],
        "calibration error": own.confidences.calibration_error,
        "risk-coverage area": own.confidences.area,
    }


def analyse_answer_sizes(bench: Bench, spec: AnswerSizesAnalysis) -> AnalysisResult:
    """Train a reader on parts of its questions and on all of them, and measure the answers on each set.

    A size is the number of questions that are learned from, without unrelated texts; one that exceeds what
    there is is left out. Smaller parts are parts of larger ones.
    """
    trainer = bench.runner.readers
    sets, notes = open_sets(bench, spec, [spec.reader])
    whole = trainer.count_questions(spec.reader)
    answers: dict[int, dict[str, SetAnswers]] = {}
    for size in sorted({each for each in spec.questions if each < whole}):
        answers[size] = answer_sets(trainer.folders(spec.reader, size), sets, bench.data.progress)
    answers[whole] = answer_sets(trainer.folders(spec.reader), sets, bench.data.progress)
    if larger := [f"{each:,}" for each in spec.questions if each >= whole]:
        notes.append(
            f"{spec.reader} has {count_noun(whole, 'question')} to learn from: {', '.join(larger)} left out."
        )
    notes.append(f"{spec.reader}, trained on parts of its questions with the same settings, as many epochs.")
    named = {f"{count_noun(size, 'question')}": own for size, own in answers.items()}
    table = means_table(named, spec.title or "Questions learned from against quality")
    panels = {
        measure: {title: [own[title].evaluation.mean[measure] for own in answers.values()] for title in sets}
        for measure in spec.measures
    }
    plot = line_plot(panels, list(answers), x_label="questions learned from", logarithmic=True)
    record = {
        size: {title: record_of(own) for title, own in by_set.items()} for size, by_set in answers.items()
    }
    return AnalysisResult((table,), {"questions": record}, {"answer-sizes": plot}, tuple(notes))
