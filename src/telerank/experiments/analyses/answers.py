"""The analyses of readers: answers in given texts, by questions learned from, and of whole systems."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from telerank.errors import MeasureError
from telerank.evaluation.answers.overlap import parse_answer_measures
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analysis import Analysis, AnalysisResult, AnswerMeasures


def _parse_single(measure: str) -> str:
    try:
        (name,) = parse_answer_measures(measure)
    except (MeasureError, ValueError) as error:
        raise ValueError(f"expected one measure of answers, got {measure!r}") from error
    return name


class _QuestionSetsSpec(Analysis):
    """What analyses of answers in given texts share.

    Attributes
    ----------
    sets
        Sets of questions by the names that tables have; each is a set as `telerank train reader` takes it,
        with `collection` by its name among the data, and usually `part: test`.
    articles
        Which articles are of which part: as in the trainings of the readers, or it is an error.
    """

    needs_systems: ClassVar[bool] = False
    sets: dict[str, dict[str, Any]] = Field(min_length=1)
    articles: dict[str, Any] = Field(default_factory=dict)


class AnswersAnalysis(_QuestionSetsSpec):
    """Answers of readers in the texts that the questions are about.

    EM and F1 with bootstrap intervals over questions, by question word and by answer length, with and without
    an answer, and how well confidences are calibrated.

    Attributes
    ----------
    readers
        Models of the experiment that are trained as readers, or given; the first is the baseline of tests.
    """

    kind: Literal["answers"]
    readers: Annotated[tuple[str, ...], Field(min_length=1)]

    def analyse(self, bench: Bench) -> AnalysisResult:
        from telerank.experiments.answers.reading import analyse_answers

        return analyse_answers(bench, self)


class AnswerSizesAnalysis(_QuestionSetsSpec):
    """Answers of a reader by the number of questions that it learns from, in the texts they are about.

    Attributes
    ----------
    reader
        A model of the experiment that is trained as a reader, from one set.
    questions
        Numbers of questions to learn from, drawn by the seed; all are learned from besides.
    measures
        Measures that are drawn, each in a panel; measures of answers.
    """

    kind: Literal["answer-sizes"]
    reader: str
    questions: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    measures: AnswerMeasures = ("F1(fr)", "EM(fr)")

    def analyse(self, bench: Bench) -> AnalysisResult:
        from telerank.experiments.answers.reading import analyse_answer_sizes

        return analyse_answer_sizes(bench, self)


class EndToEndAnalysis(Analysis):
    """Answers from the first documents of each system, over the queries that measure.

    Both denominators of the Piaf report (2.1.3), the share of questions whose document was read, the recall
    of answers in the first k documents, and the weight of the reader beside the system chosen on folds.

    Attributes
    ----------
    reader
        A model of the experiment that is trained as a reader, or given.
    documents
        Documents that are read for a question.
    depths
        Depths at which recall of answers is computed.
    measures
        The measure that chooses the reader's weight mu; a measure of answers.
    folds
        Folds of the queries: the mu of each is chosen on the others.
    examples
        Questions whose answers are shown with their documents.
    """

    kind: Literal["end-to-end"]
    reader: str
    documents: int = Field(5, ge=1)
    depths: tuple[Annotated[int, Field(ge=1)], ...] = (1, 5, 20)
    measures: Annotated[str, AfterValidator(_parse_single)] = "F1(fr)"
    folds: int = Field(5, ge=2)
    examples: int = Field(5, ge=0)

    def analyse(self, bench: Bench) -> AnalysisResult:
        from telerank.experiments.answers.end_to_end import analyse_end_to_end

        return analyse_end_to_end(bench, self)
