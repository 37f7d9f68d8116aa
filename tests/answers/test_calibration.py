"""Thresholds, temperatures and mu, fitted on dev questions; confidences beside how often they are right."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from telerank.answers.calibration import (
    Confidences,
    DevQuestion,
    fit_reader,
    fit_temperature,
    fit_threshold,
    is_exact,
    measure_confidences,
    tune_mu,
)
from telerank.answers.combine import AnswerRules, ReadText, choose_answers
from telerank.answers.spans import AnswerSpan, TextReading
from telerank.errors import CollectionError, MeasureError
from telerank.evaluation.tune import Folds
from telerank.types import Query


def question(number, scores, null, answers, ranks=()):
    """One text for each score, in which one word has it; the word of text i is ``w<i>``."""
    texts = []
    for i, score in enumerate(scores):
        reading = TextReading((AnswerSpan(0, 2, float(score), 0.0),), float(null))
        texts.append(ReadText(f"d{i}", f"w{i} x", reading, float(ranks[i]) if ranks else 0.0))
    return DevQuestion(Query(str(number), "?"), texts, tuple(answers))


def slow_threshold(no_answer, answered, silent):
    """The mean at every threshold, as SQuAD's script finds the best."""
    values = sorted(set(no_answer.tolist()))
    cuts = [values[0] - 1, *((a + b) / 2 for a, b in itertools.pairwise(values)), values[-1] + 1]
    means = [float(np.where(no_answer > cut, silent, answered).mean()) for cut in cuts]
    return max(means)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 4), st.booleans()), min_size=1, max_size=30))
def test_the_threshold_is_the_best_of_all(rows):
    no_answer = np.array([row[0] for row in rows], np.float64)
    answered = np.array([row[1] / 4 for row in rows])
    silent = np.array([float(row[2]) for row in rows])
    fit = fit_threshold(no_answer, answered, silent)
    assert fit.value == pytest.approx(slow_threshold(no_answer, answered, silent))
    assert np.where(no_answer > fit.threshold, silent, answered).mean() == pytest.approx(fit.value)
    assert fit.always == pytest.approx(answered.mean())


def test_questions_without_a_span_do_not_make_the_threshold_infinite():
    infinite = np.array([math.inf, 1.0])
    fit = fit_threshold(infinite, np.array([1.0, 1.0]), np.array([1.0, 0.0]))
    assert math.isfinite(fit.threshold)
    assert fit_threshold(np.array([math.inf]), np.zeros(1), np.zeros(1)).threshold == 0.0
    with pytest.raises(CollectionError, match="a threshold needs dev questions"):
        fit_threshold(np.empty(0), np.empty(0), np.empty(0))


def test_the_temperature_is_that_of_the_drawn_answers():
    """Answers are right as often as confidences say at temperature 3."""
    draw = np.random.default_rng(0)
    questions, right = [], []
    for number in range(1500):
        made = question(number, draw.normal(0, 6, 3), draw.normal(0, 6), ["w0"])
        confidence = (
            choose_answers(made.query, made.texts, AnswerRules(temperature=3.0)).answers[0].confidence
        )
        questions.append(made)
        right.append(draw.random() < confidence)
    fitted = fit_temperature(questions, np.array(right), AnswerRules())
    assert fitted == pytest.approx(3.0, rel=0.15)
    before, after = (
        measure_confidences(questions, np.array(right), AnswerRules(temperature=t)) for t in (1.0, fitted)
    )
    assert after.calibration_error < 0.04 < before.calibration_error


def test_a_temperature_needs_a_span():
    empty = DevQuestion(Query("1", "?"), [ReadText("a", "", TextReading())], ("x",))
    with pytest.raises(CollectionError, match="a temperature needs dev questions with a span"):
        fit_temperature([empty], np.array([True]), AnswerRules())


def test_calibration_error_and_curve_to_the_digit():
    found = Confidences(np.array([0.95, 0.91, 0.15, 0.35]), np.array([1.0, 0.0, 0.0, 1.0]))
    assert found.bins == [(0.15, 0.0, 1), (0.35, 1.0, 1), (pytest.approx(0.93), 0.5, 2)]
    assert found.calibration_error == pytest.approx((0.15 + 0.65 + 2 * 0.43) / 4)
    coverages, risks = found.risk_coverage()
    assert coverages.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert np.allclose(risks, [0, 0.5, 1 / 3, 0.5])
    assert found.area == pytest.approx(np.mean([0, 0.5, 1 / 3, 0.5]))
    assert Confidences(np.array([1.0]), np.array([1.0])).calibration_error == 0
    assert Confidences(np.empty(0), np.empty(0)).calibration_error == 0


def test_confidences_are_printed_and_drawn():
    from telerank.show.plots import render_plot

    found = Confidences(np.linspace(0, 1, 40), (np.arange(40) > 20).astype(float))
    assert "expected calibration error" in str(found)
    assert "area under the curve" in str(found)
    assert json.loads(found.render("json"))["questions"] == 40
    assert render_plot(found.plot(), "png")[1:4] == b"PNG"
    assert str(Confidences(np.empty(0), np.empty(0)))


def dev():
    """Answers are right if the span is better than no answer by 2."""
    return [
        question(0, [5, 1], 0, ["w0"]),
        question(1, [4, 1], 0, ["w0"]),
        question(2, [3, 1], 0, ["w0"]),
        question(3, [1, 0], 0, []),
        question(4, [0, -1], 0, []),
        question(5, [4, 3], 0, ["w1"]),
    ]


def test_a_reader_is_fitted_on_dev():
    fit = fit_reader(dev(), AnswerRules(language="fr"))
    assert -3 < fit.rules.threshold < -1
    assert (fit.fit.value, fit.fit.always) == (pytest.approx(5 / 6), pytest.approx(3 / 6))
    assert fit.rules.language == "fr"
    assert "threshold of no answer" in str(fit)
    assert json.loads(fit.render("json"))["threshold"] == fit.rules.threshold
    silent = [choose_answers(one.query, one.texts, fit.rules).text for one in dev()]
    assert silent == ["w0", "w0", "w0", "", "", "w0"]


def test_without_unanswerable_questions_an_answer_is_always_given():
    fit = fit_reader([one for one in dev() if one.answers], AnswerRules())
    assert fit.rules.threshold is None
    assert "none" in str(fit)


def test_a_measure_of_ones_own_decides():
    worth = fit_reader(
        dev(), AnswerRules(), measure=lambda text, answers: float(text == "" and answers != ())
    )
    assert worth.fit.value == pytest.approx(4 / 6)  # never answering is best
    assert "the measure, with the threshold" in str(worth)


def test_a_named_measure_decides_the_threshold_and_exact_answers_the_temperature():
    """By F1 an answer that is half right is worth giving; exact it is none, so that no answer is better."""
    half = [*dev(), *(question(number, [2.5, 1], 0, ["w0 w1"]) for number in (6, 7))]
    half += [question(8, [2.6, 0], 0, []), question(9, [2.1, 0], 0, [])]
    exact, f1 = (fit_reader(half, AnswerRules(), measure) for measure in ("EM", "F1"))
    assert -3 < exact.rules.threshold < -2.6 < -2.5 < f1.rules.threshold < -2.1
    assert (exact.measure, f1.measure) == ("EM", "F1")
    temperatures = {fit_reader(half, AnswerRules(), name).rules.temperature for name in (None, "EM", "F1")}
    assert len(temperatures) == 1
    assert json.loads(f1.render("json"))["measure"] == "F1"
    with pytest.raises(MeasureError, match="'F2' is not a measure of answers"):
        fit_reader(half, AnswerRules(), "F2")
    with pytest.raises(MeasureError, match="fitted by one measure, got 'EM F1'"):
        fit_reader(half, AnswerRules(), "EM F1")


@pytest.mark.parametrize(
    ("text", "answers", "value"),
    [("The End", ("end",), 1), ("", (), 1), ("end", (), 0), ("", ("end",), 0), ("start", ("end", "stop"), 0)],
)
def test_exact_answers(text, answers, value):
    assert is_exact(text, answers) == value


def test_mu_is_chosen_by_the_other_folds():
    """The retriever is right for every question, the reader for none."""
    questions = [question(n, [9, 1], 0, ["w1"], ranks=(0, 1)) for n in range(10)]
    tuned = tune_mu(questions, AnswerRules(), weights=(0.0, 0.4, 1.0), folds=Folds(5))
    assert (tuned.best, tuned.held_out) == (0.0, 1.0)
    assert tuned.choices == (0.0,) * 5
    assert tuned.means == {0.0: 1.0, 0.4: 1.0, 1.0: 0.0}
    assert "held out, 5 folds: 1.0000" in str(tuned)
    assert json.loads(tuned.render("json"))["best"] == 0.0
    assert set(tuned.values) == {str(n) for n in range(10)}
    with pytest.raises(ValueError, match="there is no mu to choose from"):
        tune_mu(questions, AnswerRules(), weights=())


def test_held_out_values_are_not_those_of_the_choice():
    """Nine questions want the reader, one the retriever: held out it has what the others chose."""
    questions = [question(n, [9, 1], 0, ["w0" if n else "w1"], ranks=(0, 1)) for n in range(10)]
    tuned = tune_mu(questions, AnswerRules(), weights=(0.0, 1.0), folds=Folds(5))
    assert tuned.best == 1.0
    assert tuned.values["0"] == 0.0
    assert tuned.held_out == pytest.approx(0.9)
