"""Measure a reader on questions that it does not learn from, and fit its threshold and temperature there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from telerank.answers.calibration import DevQuestion, ReaderFit, fit_reader
from telerank.answers.combine import AnswerRules, ReadText, choose_answers
from telerank.answers.scorer import SpanReader
from telerank.evaluation.answers.measures import GoldAnswers, measure_answers
from telerank.evaluation.measures import Evaluation
from telerank.models.readers import Reader
from telerank.training.parallel import ALONE, Processes, share_by_length
from telerank.training.reader.questions import QuestionSet, TextQuestion
from telerank.types import Progress, silent


@dataclass(frozen=True, eq=False)
class ReadQuestions:
    """Questions and what a reader says of the text of each; qids of several sets are told apart by the
    set.
    """

    questions: tuple[TextQuestion, ...]
    names: tuple[str, ...]
    read: tuple[ReadText, ...]

    @cached_property
    def dev_questions(self) -> list[DevQuestion]:
        """The questions as fitting takes them."""
        return [
            DevQuestion(
                replace(question.query, qid=name),
                [text],
                tuple(answer.text for answer in question.answers),
            )
            for question, name, text in zip(self.questions, self.names, self.read, strict=True)
        ]

    @cached_property
    def gold(self) -> GoldAnswers:
        """The gold answers of the questions."""
        own = self.dev_questions
        return GoldAnswers(
            {question.query.qid: question.query.text for question in own},
            {question.query.qid: question.answers for question in own},
        )

    def predict(self, rules: AnswerRules) -> dict[str, str]:
        """The text of each question's answer, empty if there is none."""
        return {
            question.query.qid: choose_answers(question.query, question.texts, rules).text
            for question in self.dev_questions
        }

    def no_answer(self, rules: AnswerRules) -> dict[str, float]:
        """The score of no answer minus that of the best span, for each question."""
        always = replace(rules, threshold=None)
        return {
            question.query.qid: choose_answers(question.query, question.texts, always).no_answer
            for question in self.dev_questions
        }


def read_sets(
    reader: SpanReader,
    sets: Sequence[QuestionSet],
    progress: Progress = silent,
    processes: Processes = ALONE,
) -> ReadQuestions:
    """Read the text of each question of these sets; several processes read a share of the first one's."""
    questions = tuple(question for own in sets for question in own.questions)
    names = tuple(
        f"{number}:{question.query.qid}{'/unrelated' if question.unrelated else ''}"
        for number, own in enumerate(sets)
        for question in own.questions
    )
    readings = share_by_length(
        processes,
        lambda pairs: reader.read(pairs, progress=progress),
        [(question.query.text, question.doc.text) for question in questions],
        lambda pair: len(pair[0]) + len(pair[1]),
    )
    read = tuple(
        ReadText(question.doc.docno, question.doc.text, reading)
        for question, reading in zip(questions, readings, strict=True)
    )
    return ReadQuestions(questions, names, read)


@dataclass(frozen=True, eq=False)
class ReaderDevSet:
    """Dev questions, the measure that decides, and how they are computed.

    Processes that are not the first have no questions, and read a share of its questions.
    """

    sets: tuple[QuestionSet, ...]
    measure: str
    precision: str
    device: str
    processes: Processes = ALONE

    def read(self, reader: Reader, progress: Progress = silent) -> ReadQuestions:
        """What the reader says of the questions; the model is in training mode again afterwards."""
        training = reader.model.training
        try:
            own = SpanReader(reader, precision=self.precision, device=self.device)
            return read_sets(own, self.sets, progress, self.processes)
        finally:
            reader.model.train(training)

    def value(self, reader: Reader, progress: Progress = silent) -> float:
        """The measure's mean over the questions.

        If some of them have no answer, a threshold of 0 decides whether there is one.
        """
        read, language = self.read(reader, progress), reader.settings.language
        return self.processes.first(lambda: self.evaluate(read, language).mean[self.measure])

    def evaluate(self, read: ReadQuestions, language: str) -> Evaluation:
        """The evaluation of the dev questions by the measure."""
        rules = AnswerRules(threshold=0.0 if read.gold.unanswerable else None, language=language)
        return measure_answers(read.gold, read.predict(rules), self.measure)

    def fit(self, reader: Reader, progress: Progress = silent) -> tuple[Reader, ReaderFit]:
        """The reader with the threshold and the temperature that fit the questions best."""
        read, rules = self.read(reader, progress), AnswerRules(language=reader.settings.language)
        fitted = self.processes.first(lambda: fit_reader(read.dev_questions, rules))
        threshold, temperature = fitted.rules.threshold, float(np.float64(fitted.rules.temperature))
        return reader.with_settings(threshold=threshold, temperature=temperature), fitted
