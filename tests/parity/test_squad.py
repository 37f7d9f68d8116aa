"""EM and F1 are those of SQuAD's rules, to the digit, on real questions and made-up ones."""

from __future__ import annotations

import random

import pytest
import squad_rules

from telerank.corpus.readers.squad import read_squad
from telerank.evaluation.answers.measures import GoldAnswers, measure_answers
from telerank.evaluation.answers.overlap import normalise_squad
from telerank.evaluation.answers.report import score_no_answer

ODD = [
    *(
        "",
        " ",
        "The",
        "a",
        "an an",
        "A-B",
        "l'homme",
        "« l’an 2000 »",
        "en a",
        "the_cat a",
        "the  the",
        "c'a",
    ),
    *("O'Neill & the others", "$5.50", "a.b.c.", "İstanbul", "ß a ß", "é an é", "x a\tb\u00a0c", "50 %"),
    *("…the…", "The—a"),
]


def gold_of(questions):
    return GoldAnswers(dict.fromkeys(questions, "?"), {qid: tuple(texts) for qid, texts in questions.items()})


def drawn(seed, number=300, *, second=False):
    draw = random.Random(seed)
    words = [*ODD, "Paris", "in Paris", "the Paris", "1789", "July 1789", "red red blue", "red blue blue"]

    def text():
        return " ".join(draw.choice(words) for _ in range(draw.randint(1, 3)))

    questions = {}
    for n in range(number):
        answers = [text() for _ in range(draw.randint(1, 4))]
        questions[f"q{n}"] = [] if second and draw.random() < 0.4 else answers
    predictions = {
        qid: draw.choice(golds) if golds and draw.random() < 0.4 else draw.choice(["", text()])
        for qid, golds in questions.items()
    }
    return questions, predictions


def test_normalisation_of_odd_texts():
    for text in ODD:
        assert normalise_squad(text).split() == squad_rules.normalised_words(text)


@pytest.mark.parametrize("seed", range(20))
def test_version_1_to_the_digit(seed):
    questions, predictions = drawn(seed)
    for qid in list(predictions)[::17]:
        del predictions[qid]
    evaluation = measure_answers(gold_of(questions), predictions, "EM F1")
    expected = squad_rules.version_1(questions, predictions)
    assert 100 * evaluation.mean["EM"] == pytest.approx(float(expected["exact"]), abs=1e-11)
    assert 100 * evaluation.mean["F1"] == pytest.approx(float(expected["f1"]), abs=1e-11)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("threshold", [1.0, 0.5, 0.0])
def test_version_2_to_the_digit(seed, threshold):
    questions, predictions = drawn(seed, second=True)
    draw = random.Random(seed)
    values = {qid: round(draw.random(), 2) for qid in questions}  # with ties
    gold = gold_of(questions)
    evaluation = measure_answers(gold, predictions, "EM F1")
    scores = score_no_answer(gold, predictions, evaluation, values, threshold=threshold)
    expected = squad_rules.version_2(questions, predictions, values, threshold)
    for ours, theirs in (("EM", "exact"), ("F1", "f1")):
        parts = {"": scores.total, "HasAns_": scores.has_answer, "NoAns_": scores.no_answer}
        for prefix, part in parts.items():
            assert 100 * part.means[ours] == pytest.approx(float(expected[prefix + theirs]), abs=1e-11)
        best = scores.best[ours]
        assert 100 * best.mean == pytest.approx(float(expected[f"best_{theirs}"]), abs=1e-11)
        assert best.threshold == expected[f"best_{theirs}_thresh"]


def test_no_answers_alone_are_searched_too():
    """The best threshold is 0 if answering nothing is best."""
    gold = gold_of({"q1": [], "q2": ["Paris"]})
    predictions = {"q1": "Rome", "q2": "Nice"}
    evaluation = measure_answers(gold, predictions, "EM")
    best = score_no_answer(gold, predictions, evaluation, {"q1": 0.1, "q2": 0.2}).best["EM"]
    assert (best.mean, best.threshold) == (0.5, 0.0)


@pytest.mark.data
def test_real_sets_to_the_digit(data):
    for name in ("squad2-dev-half/dev-v2.0.json.gz", "fquad/valid.json.gz"):
        qa = read_squad(data / name)
        gold = GoldAnswers.of(qa.queries.values(), qa.answers)
        draw = random.Random(5)
        texts = {docno.docno: docno.text for docno in qa.docs.values()}
        predictions = {}
        for qid in qa.queries:  # spans near the answers, as a reader's
            words = texts[qa.paragraphs[qid]].split()
            begin = draw.randrange(len(words))
            near = draw.choice(gold.answers[qid]) if gold.answers[qid] else ""
            made = f"{near} {words[begin]}" if draw.random() < 0.5 else near
            predictions[qid] = made if draw.random() < 0.8 else " ".join(words[begin : begin + 4])
        evaluation = measure_answers(gold, predictions, "EM F1")
        questions = {qid: list(texts) for qid, texts in gold.answers.items()}
        if gold.unanswerable:
            expected = squad_rules.version_2(questions, predictions, dict.fromkeys(questions, 0.0), 1.0)
        else:
            expected = squad_rules.version_1(questions, predictions)
        assert 100 * evaluation.mean["EM"] == pytest.approx(float(expected["exact"]), abs=1e-11)
        assert 100 * evaluation.mean["F1"] == pytest.approx(float(expected["f1"]), abs=1e-11)
        assert 20 < 100 * evaluation.mean["EM"] < 80
