"""Several texts, one list: scaling, merging, confidences, sources."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from telerank.answers.combine import AnswerRules, ReadText, choose_answers, explain_answer
from telerank.answers.spans import AnswerSpan, TextReading
from telerank.errors import ModelError
from telerank.fusion.lists import scale
from telerank.types import Answer, Answers, Query

QUERY = Query("1", "who ?")


def text_of(docno, text, spans, *, null=0.0, score=0.0):
    """A text in which words have scores; a word is found where it stands first."""
    made = [
        AnswerSpan(text.index(word), text.index(word) + len(word), float(value), 0.0)
        for word, value in spans.items()
    ]
    return ReadText(docno, text, TextReading(tuple(made), null), score)


def test_the_best_span_of_several_texts_comes_first():
    texts = [text_of("a", "red blue", {"red": 3, "blue": 1}), text_of("b", "green", {"green": 2})]
    answers = choose_answers(QUERY, texts, AnswerRules())
    assert [(a.text, a.docno, a.start, a.score) for a in answers] == [
        ("red", "a", 0, 3.0),
        ("green", "b", 0, 2.0),
        ("blue", "a", 4, 1.0),
    ]
    assert answers.no_answer == 0.0 - 3.0


def test_confidences_are_a_softmax_with_no_answer_and_the_temperature():
    texts = [text_of("a", "red blue", {"red": 3, "blue": 1}, null=2.0)]
    for temperature in (1.0, 4.0):
        answers = choose_answers(QUERY, texts, AnswerRules(temperature=temperature))
        weights = np.exp(np.array([3, 1, 2]) / temperature)
        assert np.allclose([a.confidence for a in answers], (weights / weights.sum())[:2])


def test_the_text_that_ranks_first_decides_whether_there_is_an_answer():
    texts = [
        text_of("a", "red", {"red": 3}, null=1.0, score=1.0),
        text_of("b", "blue green", {"green": -1, "blue": 2}, null=-4.0, score=9.0),
        text_of("c", "", {}, null=math.inf, score=10.0),  # nothing to read
    ]
    for mu in (0.4, 0.99):
        assert choose_answers(QUERY, texts, AnswerRules(mu=mu)).no_answer == -4.0 - 2.0
        assert len(choose_answers(QUERY, texts, AnswerRules(mu=mu, threshold=-6.0))) == 3
        assert choose_answers(QUERY, texts, AnswerRules(mu=mu, threshold=-6.1)).answers == ()
    assert choose_answers(QUERY, texts, AnswerRules(mu=0.99)).text == "red"  # another text answers


def test_without_a_ranking_the_text_of_the_best_span_decides():
    texts = [
        text_of("a", "red", {"red": 3}, null=1.0, score=1.0),
        text_of("b", "blue", {"blue": 2}, null=-4.0, score=9.0),
    ]
    assert choose_answers(QUERY, texts, AnswerRules()).no_answer == 1.0 - 3.0
    assert len(choose_answers(QUERY, texts, AnswerRules(threshold=-2.0))) == 2
    assert choose_answers(QUERY, texts, AnswerRules(threshold=-2.1)).answers == ()


@pytest.mark.parametrize("scores", [(0.0, 0.0), (2.5, 2.5), (1.0,)])
def test_without_different_scores_of_texts_there_is_nothing_to_weigh(scores):
    texts = [
        text_of(name, f"red{name} blue", {f"red{name}": value, "blue": 1.0}, null=0.5, score=score)
        for (name, value), score in zip((("a", 3.0), ("b", 2.0)), scores, strict=False)
    ]
    plain = choose_answers(QUERY, texts, AnswerRules())
    for mu in (0.0, 0.7):
        rules = AnswerRules(mu=mu)
        assert choose_answers(QUERY, texts, rules) == plain
        explained = explain_answer(QUERY, texts, rules, plain.answers[0])
        assert explained.parts[0].what.startswith("score of the span")


def test_mu_weighs_the_span_against_the_retriever():
    texts = [
        text_of("a", "red", {"red": 10}, score=1.0),
        text_of("b", "blue", {"blue": 0}, score=3.0),
        text_of("c", "green", {"green": 5}, score=2.0),
    ]
    by_mu = {mu: choose_answers(QUERY, texts, AnswerRules(mu=mu)) for mu in (0.0, 0.25, 1.0)}
    assert [a.text for a in by_mu[0.0]] == ["blue", "green", "red"]
    assert [a.text for a in by_mu[1.0]] == ["red", "green", "blue"]
    assert {a.text: a.score for a in by_mu[0.25]} == {"red": 0.25, "green": 0.5, "blue": 0.75}
    with pytest.raises(ModelError, match=r"mu must be between 0 and 1, got 1\.5"):
        AnswerRules(mu=1.5)


def test_scaling_is_equation_20_and_equal_scores_are_1():
    assert scale(np.array([2.0, 6.0, 4.0])).tolist() == [0, 1, 0.5]
    assert scale(np.array([2.0, 2.0])).tolist() == [1, 1]
    assert scale(np.array([-1.7e308, 1.7e308])).tolist() == [0, 1]
    assert scale(np.array([])).tolist() == []


def test_overlapping_spans_are_one_answer_the_best():
    texts = [text_of("a", "in Paris, France", {"Paris": 3, "Paris, France": 2.5, "France": 1, "in": 0})]
    answers = choose_answers(QUERY, texts, AnswerRules())
    assert [a.text for a in answers] == ["Paris", "France", "in"]
    weights = np.exp([3, 2.5, 1, 0, 0])
    assert answers.answers[0].confidence == pytest.approx((weights / weights.sum())[0])
    assert answers.answers[0].sources == (("a", 3),)


def test_the_same_answer_in_several_documents_keeps_all_its_sources():
    texts = [
        text_of("a", "Le Monde", {"Le Monde": 3}),
        text_of("b", "le « monde »", {"monde": 2}),
        text_of("c", "du MONDE !", {"MONDE": 1}),
        text_of("d", "x", {"x": 0}),
    ]
    answers = choose_answers(QUERY, texts, AnswerRules(language="fr"))
    assert [a.text for a in answers] == ["Le Monde", "x"]
    assert answers.answers[0].sources == (("a", 0), ("b", 5), ("c", 3))
    assert [a.text for a in choose_answers(QUERY, texts, AnswerRules(language="en"))][:2] == [
        "Le Monde",
        "monde",
    ]


def test_a_span_that_overlaps_one_answer_and_equals_a_better_one_is_a_source_of_that():
    texts = [
        text_of("a", "Paris", {"Paris": 5}),
        text_of("b", "in Paris", {"in Paris": 4, "Paris": 3}),
    ]
    answers = choose_answers(QUERY, texts, AnswerRules())
    assert [(a.text, a.sources) for a in answers] == [
        ("Paris", (("a", 0), ("b", 3))),
        ("in Paris", (("b", 0),)),
    ]


@pytest.mark.parametrize(
    ("first", "second", "are_equal"),
    [
        ("-5", "5", False),
        ("10 %", "10", False),
        ("10 %", "10%", True),
        ("10 €", "10 $", False),
        ("C++", "C", False),
        ("C++", "C#", False),
        ("l'homme", "L’Homme", True),
        ("quelqu'un", "quelque", False),
    ],
)
def test_answers_of_other_signs_are_other_answers(first, second, are_equal):
    texts = [text_of("a", first, {first: 2}), text_of("b", second, {second: 1})]
    answers = choose_answers(QUERY, texts, AnswerRules(language="fr"))
    assert [a.text for a in answers] == ([first] if are_equal else [first, second])


def test_texts_without_spans_have_no_answer():
    empty = ReadText("a", "", TextReading())
    for texts in ([], [empty], [empty, empty]):
        answers = choose_answers(QUERY, texts, AnswerRules())
        assert (answers.answers, answers.no_answer) == ((), math.inf)
        assert choose_answers(QUERY, texts, AnswerRules(threshold=0.0)).answers == ()


@st.composite
def readings(draw):
    texts = []
    for number in range(draw(st.integers(0, 4))):
        text = draw(st.text("ab ", min_size=1, max_size=12))
        spans = []
        for _ in range(draw(st.integers(0, 6))):
            start = draw(st.integers(0, len(text) - 1))
            end = draw(st.integers(start + 1, len(text)))
            spans.append(AnswerSpan(start, end, draw(st.integers(-4, 4)) / 2, 0.0))
        reading = TextReading(tuple(spans), float(draw(st.integers(-4, 4))))
        texts.append(ReadText(f"d{number}", text, reading, float(draw(st.integers(0, 3)))))
    return texts


@given(readings(), st.sampled_from((0.0, 0.4, 1.0)), st.integers(1, 4))
def test_laws_of_lists_of_answers(texts, mu, k):
    answers = choose_answers(QUERY, texts, AnswerRules(mu=mu))
    assert [a.score for a in answers] == sorted((a.score for a in answers), reverse=True)
    assert answers.cut(k).answers == answers.answers[:k]
    by_docno = {text.docno: text.text for text in texts}
    for answer in answers:
        assert answer.text == by_docno[answer.docno][answer.start : answer.end]
        assert len(set(answer.sources)) == len(answer.sources)
    stretches = [(a.docno, at) for a in answers for at in range(a.start, a.end)]
    assert len(set(stretches)) == len(stretches)  # none overlaps another
    spans = sum(len(text.reading.spans) for text in texts)
    probability = sum(a.confidence for a in answers)
    assert probability < 1 if spans else probability == 0  # the rest is that of no answer


@given(readings(), st.sampled_from((1.0, 0.3)))
def test_the_order_of_the_texts_does_not_matter(texts, mu):
    forward, back = (choose_answers(QUERY, order, AnswerRules(mu=mu)) for order in (texts, texts[::-1]))
    assert [(a.docno, a.start, a.text) for a in forward] == [(a.docno, a.start, a.text) for a in back]
    assert np.allclose([a.confidence for a in forward], [a.confidence for a in back])


def test_an_explanation_adds_up():
    texts = [
        text_of("a", "in Paris", {"Paris": 3, "in Paris": 2}, score=2.0, null=-1.0),
        text_of("b", "Paris", {"Paris": 1}, score=4.0),
    ]
    rules = AnswerRules(mu=0.7, temperature=2.0, threshold=1.5)
    best = choose_answers(QUERY, texts, rules).answers[0]
    explained = explain_answer(QUERY, texts, rules, best)
    by_span, by_rank, confidence, no_answer = explained.parts
    assert explained.value == best.score == by_span.value + by_rank.value
    span = by_span.parts[0]
    assert span.value == sum(part.value for part in span.parts)
    assert confidence.value == pytest.approx(best.confidence)
    assert confidence.value == pytest.approx(sum(part.value for part in confidence.parts))
    assert len(confidence.parts) == 2  # the third is another answer
    assert (best.docno, no_answer.value) == ("a", 0.0 - 1.0)
    assert "no answer in b, which decides" in no_answer.what
    assert "none above 1.5" in str(explained)
    with pytest.raises(KeyError, match="no such answer in 2 texts"):
        explain_answer(QUERY, texts, rules, Answer("1", "c", "Rome", 0))


def test_answers_rise_nowhere_and_name_themselves():
    first, second = Answer("1", "a", "x", 0, 1.0), Answer("1", "b", "y", 3, 2.0)
    with pytest.raises(ValueError, match="'y' comes after a lower score"):
        Answers(QUERY, (first, second))
    answers = Answers(QUERY, (second, first))
    assert (answers.text, len(answers), list(answers)) == ("y", 2, [second, first])
    assert answers.cut(1) == Answers(QUERY, (second,))
    assert first.sources == (("a", 0),)
    assert first.end == 1
    with pytest.raises(ValueError, match="k must not be negative"):
        answers.cut(-1)
