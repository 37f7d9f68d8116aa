"""What is fitted on a dev set: the threshold of no answer, the temperature of confidences, and mu.

Everything is fitted on what was read once (:meth:`~telerank.answers.stage.ReadAnswers.read_texts`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from telerank.answers.combine import AnswerRules, ReadText, SpanTable, choose_answers, merge
from telerank.errors import ArgumentError, CollectionError, MeasureError, count_noun
from telerank.evaluation.answers.overlap import ANSWER_MEASURES, answer_words, parse_answer_measures
from telerank.evaluation.tune import Folds
from telerank.show.report import Report
from telerank.show.tables import Table
from telerank.types import Query, Scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Measure: TypeAlias = Callable[[str, Sequence[str]], float]
"""How good an answer is, 0 to 1, from its text and the correct ones; the text of no answer is empty."""

BINS = 10
_TEMPERATURES = (0.05, 50.0)
_LEAST, _MOST = 1e-6, 1 - 1e-6  # of a confidence, so that a logarithm is finite
_WEIGHTS = tuple(number / 10 for number in range(11))


@dataclass(frozen=True, eq=False)
class DevQuestion:
    """A question, the texts that were read for it, and its correct answers: none if it has no answer."""

    query: Query
    texts: Sequence[ReadText]
    answers: tuple[str, ...] = ()


def is_exact(text: str, answers: Sequence[str], language: str = "en") -> float:
    """1 if the text has the words and signs of an answer, or both are empty; else 0."""
    if not answers or not text:
        return float(not answers and not text)
    words = answer_words(text, language)
    return float(any(answer_words(answer, language) == words for answer in answers))


@dataclass(frozen=True, eq=False)
class ThresholdFit:
    """The threshold with the highest mean of a measure over dev questions, and that mean.

    ``always`` is the mean if an answer is always given.
    """

    threshold: float
    value: float
    always: float
    questions: int


def fit_threshold(no_answer: Scores, answered: Scores, silent: Scores) -> ThresholdFit:
    """The threshold that is best for questions, all (questions,), as SQuAD's script finds it.

    ``no_answer`` is :attr:`SpanTable.no_answer` of each, ``answered`` what its best answer is worth, and
    ``silent`` what no answer is worth. The threshold lies halfway between two values of ``no_answer``; of
    equally good ones the highest, which answers most.

    Raises
    ------
    CollectionError
        If there is no question.
    """
    if not len(no_answer):
        raise CollectionError("a threshold needs dev questions, and there are none")
    order = np.argsort(no_answer, kind="stable")
    values = no_answer[order]
    totals = np.append(0.0, np.cumsum(answered[order] - silent[order])) + silent.sum()
    allowed = np.append(np.append(True, values[1:] > values[:-1]), True)  # equal values fall on one side
    allowed[-1] = True
    totals = np.where(allowed, totals, -np.inf)
    last = len(totals) - 1 - int(np.argmax(totals[::-1] >= totals.max() - 1e-9))
    always = float(answered.mean())
    return ThresholdFit(_between(values, last), float(totals[last] / len(values)), always, len(values))


def _between(values: Scores, number: int) -> float:
    """A threshold that answers the ``number`` questions with the lowest values."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 0.0
    if number == 0:
        return float(finite[0] - 1)
    if number >= len(finite):
        return float(finite[-1] + 1)
    return float((values[number - 1] + values[number]) / 2)


def fit_temperature(
    questions: Sequence[DevQuestion], right: npt.NDArray[np.bool_], rules: AnswerRules
) -> float:
    """The temperature at which confidences of best answers have the least log loss (Guo et al. 2017).

    ``right`` (questions,) says whether each best answer is correct. Questions whose texts have no span
    are left out.

    Raises
    ------
    CollectionError
        If no question has a span.
    """
    groups = []
    for question, is_right in zip(questions, right.tolist(), strict=True):
        candidates = SpanTable.of(question.texts, rules.mu)
        if candidates.spans:
            best, _ = merge(candidates, question.texts, rules)[0]
            groups.append((candidates, best.members, is_right))
    if not groups:
        raise CollectionError("a temperature needs dev questions with a span, and there are none")

    def loss(logarithm: float) -> float:
        total = 0.0
        for candidates, members, is_right in groups:
            confidence = float(candidates.probabilities(math.exp(logarithm))[members].sum())
            confidence = min(max(confidence, _LEAST), _MOST)
            total -= math.log(confidence if is_right else 1 - confidence)
        return total / len(groups)

    low, high = map(math.log, _TEMPERATURES)
    grid = np.linspace(low, high, 24).tolist()
    start = min(range(len(grid)), key=[loss(point) for point in grid].__getitem__)
    bounds = grid[max(start - 1, 0)], grid[min(start + 1, len(grid) - 1)]
    return math.exp(float(minimize_scalar(loss, bounds=bounds, method="bounded").x))


@dataclass(frozen=True, eq=False)
class Confidences(Report):
    """Confidences beside how often they are right, (questions,) both: ``values`` may also be F1.

    The calibration error is the mean of |right - confidence| over ``BINS`` bins of equal width, weighted by
    their sizes (Guo et al. 2017, equation 3).
    """

    title: ClassVar[str] = "Confidences"
    confidences: Scores
    values: Scores

    @property
    def bins(self) -> list[tuple[float, float, int]]:
        """The mean confidence, the mean value and the size of each bin that is not empty."""
        numbers = np.minimum((self.confidences * BINS).astype(np.int64), BINS - 1)
        rows = []
        for number in np.unique(numbers).tolist():
            inside = numbers == number
            rows.append(
                (
                    float(self.confidences[inside].mean()),
                    float(self.values[inside].mean()),
                    int(inside.sum()),
                )
            )
        return rows

    @property
    def calibration_error(self) -> float:
        """The expected calibration error; 0 without a question."""
        differences = [abs(value - confidence) * size for confidence, value, size in self.bins]
        return sum(differences) / max(1, len(self.values))

    def risk_coverage(self) -> tuple[Scores, Scores]:
        """Coverages and risks, both (questions,): the risk is 1 - the mean value of the most confident."""
        order = np.argsort(-self.confidences, kind="stable")
        counts = np.arange(1, len(order) + 1)
        return counts / max(1, len(order)), 1 - np.cumsum(self.values[order]) / counts

    @property
    def area(self) -> float:
        """The area under the risk-coverage curve, the mean of its risks: the lower, the better."""
        _, risks = self.risk_coverage()
        return float(risks.mean()) if len(risks) else 0.0

    def tables(self) -> list[Table]:
        """The bins, and the risks at some coverages."""
        rows = [(f"{mean:.3f}", f"{value:.3f}", str(size)) for mean, value, size in self.bins]
        questions = count_noun(len(self.values), "question")
        notes = (f"expected calibration error {self.calibration_error:.4f}, {questions}",)
        columns = ("confidence", "right", "questions")
        bins = Table.of(columns, rows, caption="Confidence and how often it is right", notes=notes)
        coverages, risks = self.risk_coverage()
        shown = [max(0, math.ceil(len(coverages) * share / 10) - 1) for share in range(1, 11)]
        points = [
            (f"{coverages[n]:.2f}", f"{risks[n]:.3f}") for n in dict.fromkeys(shown) if n < len(coverages)
        ]
        notes = (f"area under the curve {self.area:.4f}",)
        caption = "Risk of the most confident answers"
        return [bins, Table.of(("coverage", "risk"), points, caption=caption, notes=notes)]

    def record(self) -> dict[str, Any]:
        coverages, risks = self.risk_coverage()
        return {
            "questions": len(self.values),
            "calibration error": self.calibration_error,
            "risk-coverage area": self.area,
            "bins": [dict(zip(("confidence", "right", "questions"), row, strict=True)) for row in self.bins],
            "coverage": coverages.tolist(),
            "risk": risks.tolist(),
        }

    def plot(self) -> Figure:
        """The bins beside the diagonal of a perfect calibration, and the risk-coverage curve."""
        from telerank.show.plots import calibration_plot

        return calibration_plot(self.bins, self.risk_coverage())


@dataclass(frozen=True, eq=False)
class ReaderFit(Report):
    """What dev questions fitted: ``rules`` with threshold and temperature; confidences before and after.

    ``measure`` names what the threshold makes highest.
    """

    title: ClassVar[str] = "Fitted on dev"
    rules: AnswerRules
    fit: ThresholdFit
    before: Confidences
    after: Confidences
    measure: str

    def tables(self) -> list[Table]:
        """What was fitted, then the confidences after it."""
        threshold = "none" if self.rules.threshold is None else f"{self.rules.threshold:.4g}"
        rows = [
            ("threshold of no answer", threshold),
            (f"{self.measure}, if an answer is always given", f"{self.fit.always:.4f}"),
            (f"{self.measure}, with the threshold", f"{self.fit.value:.4f}"),
            ("temperature", f"{self.rules.temperature:.4g}"),
            ("calibration error before", f"{self.before.calibration_error:.4f}"),
            ("calibration error after", f"{self.after.calibration_error:.4f}"),
        ]
        caption = f"Fitted on {self.fit.questions} dev questions"
        return [Table.of(("fitted", "value"), rows, caption=caption), *self.after.tables()]

    def record(self) -> dict[str, Any]:
        return {
            "threshold": self.rules.threshold,
            "temperature": self.rules.temperature,
            "measure": self.measure,
            "always": self.fit.always,
            "with threshold": self.fit.value,
            "before": self.before.record(),
            "after": self.after.record(),
        }


def fit_reader(
    questions: Sequence[DevQuestion], rules: AnswerRules, measure: str | Measure | None = None
) -> ReaderFit:
    """Fit the threshold of no answer and the temperature on dev questions.

    The threshold makes the mean of ``measure`` highest: the name of a measure of answers, or a function; by
    default :func:`is_exact` in the language of ``rules``, by which confidences are right or wrong in any
    case. Without a question that has no answer the threshold stays None: an answer is always given.

    Raises
    ------
    CollectionError
        If there is no question, or none has a span.
    MeasureError
        If the name is not that of one measure of answers.
    """
    name, worth = _find_measure(measure, rules.language)
    always = replace(rules, threshold=None)
    answers = [choose_answers(question.query, question.texts, always) for question in questions]
    no_answer = np.array([answer.no_answer for answer in answers])
    parts = list(zip(questions, answers, strict=True))
    answered = np.array([worth(answer.text, question.answers) for question, answer in parts])
    silent = np.array([worth("", question.answers) for question in questions])
    fit = fit_threshold(no_answer, answered, silent)
    exact = [is_exact(answer.text, question.answers, rules.language) for question, answer in parts]
    right = np.array(exact) == 1
    temperature = fit_temperature(questions, right, always)
    is_needed = any(not question.answers for question in questions)
    fitted = replace(always, temperature=temperature, threshold=fit.threshold if is_needed else None)
    before, after = (measure_confidences(questions, right, part) for part in (always, fitted))
    return ReaderFit(fitted, fit, before, after, name)


def _find_measure(measure: str | Measure | None, language: str) -> tuple[str, Measure]:
    """A measure of answers and its name; some of its questions may have no answer."""
    if measure is None:
        return "exact answers", partial(is_exact, language=language)
    if not isinstance(measure, str):
        return "the measure", measure
    name, *others = parse_answer_measures(measure)
    if others:
        raise MeasureError(f"a threshold is fitted by one measure, got {measure!r}")
    return name, partial(ANSWER_MEASURES[name].value, second=True)


def measure_confidences(
    questions: Sequence[DevQuestion], values: npt.NDArray[Any], rules: AnswerRules
) -> Confidences:
    """The confidences of best answers under ``rules``, beside what they are worth; no threshold counts.

    Questions whose texts have no span are left out.
    """
    always = replace(rules, threshold=None)
    answers = [choose_answers(question.query, question.texts, always) for question in questions]
    kept = [number for number, answer in enumerate(answers) if len(answer)]
    confidences = np.array([answers[number].answers[0].confidence for number in kept])
    return Confidences(confidences, np.asarray(values, np.float64)[kept])


@dataclass(frozen=True, eq=False)
class MuTuning(Report):
    """The mean of a measure for each mu, in sample, and under the mu that other folds chose, held out."""

    title: ClassVar[str] = "mu"
    means: Mapping[float, float]
    choices: tuple[float, ...]
    held_out: float
    values: Mapping[str, float]

    @property
    def best(self) -> float:
        """The mu with the highest mean over all questions; the first of several."""
        return _best(self.means)

    def tables(self) -> list[Table]:
        rows = [(f"{mu:g}", f"{mean:.4f}", str(self.choices.count(mu))) for mu, mean in self.means.items()]
        notes = (
            f"best {self.best:g}: {self.means[self.best]:.4f} in sample",
            f"held out, {count_noun(len(self.choices), 'fold')}: {self.held_out:.4f}",
        )
        return [
            Table.of(("mu", "mean", "folds"), rows, caption="mu * span + (1 - mu) * retriever", notes=notes)
        ]

    def record(self) -> dict[str, Any]:
        means = [{"mu": mu, "mean": mean} for mu, mean in self.means.items()]
        return {"best": self.best, "held out": self.held_out, "choices": list(self.choices), "means": means}


def tune_mu(
    questions: Sequence[DevQuestion],
    rules: AnswerRules,
    measure: Measure | None = None,
    *,
    weights: Sequence[float] = _WEIGHTS,
    folds: Folds | None = None,
) -> MuTuning:
    """Choose mu by cross-validation, as fusions are tuned; ``measure`` is by default :func:`is_exact`.

    Raises
    ------
    ValueError
        If there are fewer questions than folds, or no weight.
    """
    if not weights:
        raise ArgumentError("there is no mu to choose from")
    worth = measure or (lambda text, answers: is_exact(text, answers, rules.language))
    table: dict[float, dict[str, float]] = {}
    for mu in weights:
        chosen = replace(rules, mu=mu)
        table[mu] = {
            question.query.qid: worth(
                choose_answers(question.query, question.texts, chosen).text, question.answers
            )
            for question in questions
        }
    parts = (folds or Folds()).deal(question.query.qid for question in questions)
    choices, values = [], dict[str, float]()
    for part in parts:
        others = {
            mu: float(np.mean([value for qid, value in row.items() if qid not in set(part)]))
            for mu, row in table.items()
        }
        choices.append(_best(others))
        values |= {qid: table[choices[-1]][qid] for qid in part}
    means = {mu: float(np.mean(list(row.values()))) for mu, row in table.items()}
    return MuTuning(means, tuple(choices), float(np.mean(list(values.values()))), values)


def _best(means: Mapping[float, float]) -> float:
    """The first of the highest means; means that differ by rounding alone are equal."""
    most = max(means.values())
    return next(mu for mu, mean in means.items() if mean >= most - 1e-12)
