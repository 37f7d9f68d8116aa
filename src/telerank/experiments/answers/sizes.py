"""Answers by the number of questions that a reader learns from."""

from __future__ import annotations

from telerank.experiments.analyses.answers import AnswerSizesAnalysis
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analysis import AnalysisResult
from telerank.experiments.answers.reading import SetAnswers, answer_sets, means_table, open_sets, record_of
from telerank.experiments.answers.trained import ReaderTrainer
from telerank.show.plots import line_plot


def analyse_answer_sizes(bench: Bench, spec: AnswerSizesAnalysis) -> AnalysisResult:
    """Train a reader on parts of its questions and on all of them, and measure the answers on each set.

    A size is the number of questions that are learned from, without unrelated texts; one that exceeds what
    there is is left out. Smaller parts are parts of larger ones.
    """
    trainer = ReaderTrainer(bench)
    sets, notes = open_sets(bench, spec, [spec.reader])
    whole = trainer.count_questions(spec.reader)
    answers: dict[int, dict[str, SetAnswers]] = {}
    for size in sorted({each for each in spec.questions if each < whole}):
        answers[size] = answer_sets(trainer.folders(spec.reader, size), sets, bench.data.progress)
    answers[whole] = answer_sets(trainer.folders(spec.reader), sets, bench.data.progress)
    if larger := [f"{each:,}" for each in spec.questions if each >= whole]:
        notes.append(f"{spec.reader} has {whole:,} questions to learn from: {', '.join(larger)} left out.")
    notes.append(f"{spec.reader}, trained on parts of its questions with the same settings, as many epochs.")
    named = {f"{size:,} questions": own for size, own in answers.items()}
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
