"""Measures of answers: the French normalisation, characters, groups, end to end."""

from __future__ import annotations

import math

import pytest

from telerank.errors import MeasureError
from telerank.evaluation.answers.measures import GoldAnswers, answer_recall, measure_answers, measure_system
from telerank.evaluation.answers.overlap import character_f1, normalise_french, normalise_squad
from telerank.evaluation.answers.report import (
    AnswerEvaluations,
    BestThreshold,
    GroupMeans,
    NoAnswerScores,
    apply_threshold,
    by_answer_length,
    by_question_word,
    length_group,
    no_answer_tables,
    question_word,
    score_no_answer,
)
from telerank.types import Answer, Query, Ranking

FRENCH = {
    "« l’an 2000 »": "an 2000",
    "« l'an 2000 »": "an 2000",
    "l'homme": "homme",
    "l' homme": "homme",
    "L'«Iliade»": "iliade",
    "en a": "en a",
    "Un": "un",
    "un": "un",
    "l'": "l",
    "la la": "la la",
    "un an": "an",
    "une année": "année",
    "les États-Unis": "états unis",
    "du roi": "roi",
    "au roi": "roi",
    "des rois": "rois",
    "aux rois": "rois",
    "de la reine": "de reine",
    "d’un an": "d an",
    "jusqu'à la fin": "jusqu à fin",
    "lorsqu’elle": "lorsqu elle",
    "aujourd’hui": "aujourd'hui",
    "quelqu'un": "quelqu'un",
    "presqu’île": "presqu'île",
    "O'Brien": "o brien",
    "50 L.": "50 l",
    "1\u00a0500 euros": "1500 euros",
    "1\u202f500 euros": "1500 euros",
    "12 300,5 km²": "12300,5 km2",
    "3,5 %": "3,5",
    "en 1998 300 hommes": "en 1998 300 hommes",
    "le 14 juillet 1789.": "14 juillet 1789",
    "1939–1945": "1939 1945",
    "dix-sept": "dix sept",
    "« Bonjour »": "bonjour",
    '"bonjour"': "bonjour",
    "‹ bonjour ›": "bonjour",
    "cœur": "coeur",
    "et cætera": "et caetera",
    "e\u0301te\u0301": "été",
    "où": "où",
    "XIXᵉ siècle": "xixe siècle",
    "n° 5": "n 5",
    "20 ℃": "20 c",
    "-5": "5",
    "C++": "c",
    "so\u00adleil": "soleil",
    "a\u200bb": "ab",
    "a\nb": "a b",
    "": "",
    "…": "",
    "%": "",
    "50 €": "50",
    "s’il n’y a": "s il n y a",
    "puisqu'un": "puisqu",
    "12.05.1990": "12,05,1990",
    "Île-de-France": "île de france",
    "العربية": "العربية",
}


def test_french_normalisation_and_what_squads_does_to_french():
    squad = {"« l’an 2000 »": "« l’ 2000 »", "l'homme": "lhomme", "en a": "en"}
    assert {text: normalise_squad(text) for text in squad} == squad
    assert {text: normalise_french(text) for text in FRENCH} == FRENCH
    for once in FRENCH.values():  # twice adds nothing, but for articles that a first pass has freed
        assert normalise_french(once) in (once, normalise_french(once.replace("l ", "")))


def measured(prediction, *golds, measures=None):
    gold = GoldAnswers({"q": "Qui ?"}, {"q": golds})
    return measure_answers(gold, {"q": prediction}, *filter(None, [measures])).mean


def test_the_six_measures_by_hand():
    values = measured("l’an 2000", "« l'an 2000 »", "en 2000")
    assert list(values) == ["EM", "F1", "EM(fr)", "F1(fr)", "EM(literal)", "F1(characters)"]
    assert values["EM"] == values["EM(literal)"] == 0
    assert values["F1"] == pytest.approx(0.5)  # l’ 2000 and en 2000
    assert values["EM(fr)"] == values["F1(fr)"] == 1


@pytest.mark.parametrize("near", ["le Roi", "le roi ", "le roi.", "roi", "le\u00a0roi", ""])
def test_a_literal_match_is_equal_to_the_last_character(near):
    assert measured("le roi", "la reine", "le roi")["EM(literal)"] == 1
    assert measured(near, "la reine", "le roi")["EM(literal)"] == 0


def test_a_literal_match_of_no_answer_is_the_empty_text():
    gold = GoldAnswers({"a": "?", "b": "?"}, {"a": ("x",)})
    assert measure_answers(gold, {"a": "x", "b": ""}, "EM(literal)").mean["EM(literal)"] == 1
    assert measure_answers(gold, {"a": "x", "b": " "}, "EM(literal)").mean["EM(literal)"] == 0.5


def test_characters_are_counted_as_in_the_report():
    """TP / (TP + (FP + FN) / 2) with characters that both texts have."""
    assert character_f1("2000", "en 2000") == pytest.approx(4 / (4 + 3 / 2))
    assert character_f1("abc", "cba") == 1
    assert character_f1("aab", "abb") == pytest.approx(2 / 3)
    assert character_f1("x", "y") == character_f1("", "y") == character_f1("y", "") == 0
    assert character_f1("", "") == 1
    assert measured("Le roi", "le roi")["F1(characters)"] == pytest.approx(5 / 6)
    assert measured("le roi", "le roi ")["F1(characters)"] == pytest.approx(12 / 13)


def test_the_best_gold_answer_counts_for_each_measure_by_itself():
    values = measured("Paris", "Lutèce", "paris!", "Paris en France")
    assert values["EM"] == values["F1"] == 1
    assert values["F1(characters)"] == pytest.approx(8 / 11)  # paris! shares four letters of six
    with pytest.raises(MeasureError, match=r"'em' is not a measure of answers; they are EM, F1, EM\(fr\)"):
        measured("x", "x", measures="em")
    with pytest.raises(MeasureError, match="no measure is given"):
        measured("x", "x", measures=" ")


def test_no_answer_is_right_if_there_is_none():
    gold = GoldAnswers({"q1": "?", "q2": "?", "q3": "?"}, {"q1": (), "q3": ("x",)})
    values = measure_answers(gold, {"q1": "", "q2": "x", "q3": ""})
    assert {name: list(own) for name, own in values.values.items()} == {
        name: [1, 0, 0] for name in values.measures
    }


def test_questions_without_prediction_count_0_and_are_named():
    gold = GoldAnswers({"q1": "?", "q2": "?"}, {"q1": ("x",), "q2": ()})
    evaluation = measure_answers(gold, {"q1": "x", "q9": "x"})
    assert evaluation.mean["EM"] == 0.5
    assert (evaluation.missing, evaluation.unjudged) == (("q2",), ("q9",))
    assert AnswerEvaluations(gold, {"s": evaluation}, {"s": {"q1": "x"}}).remarks == [
        "s: 1 of 2 questions has no prediction: it counts 0",
        "s: 1 prediction of other questions: not counted",
    ]


def test_gold_answers_of_records():
    queries = [Query("q1", "Qui ?"), Query("q2", "Où ?")]
    answers = [Answer("q1", "d", "x", 0), Answer("q1", "e", "y", 0), Answer("q9", "d", "z", 0)]
    gold = GoldAnswers.of(queries, answers)
    assert gold.answers == {"q1": ("x", "y"), "q2": ()}
    assert gold.paragraphs == {"q1": {"d", "e"}}
    assert (gold.answerable, gold.unanswerable) == (("q1",), ("q2",))
    assert gold.select(["q2"]) == GoldAnswers({"q2": "Où ?"}, {"q2": ()})
    with pytest.raises(ValueError, match="there is no question"):
        GoldAnswers.of([], answers)
    with pytest.raises(ValueError, match="answers of q3, which is no question"):
        GoldAnswers({}, {"q3": ()})


def test_a_threshold_takes_answers_away():
    gold = GoldAnswers({"q1": "?", "q2": "?"}, {"q1": ("x",), "q2": ()})
    evaluation = measure_answers(gold, {"q1": "x", "q2": "x"}, "EM")
    assert apply_threshold(gold, evaluation, {"q1": 0.2, "q2": 0.8}, 0.5).of("EM") == {"q1": 1, "q2": 1}
    assert apply_threshold(gold, evaluation, {"q1": 0.2, "q2": 0.8}, 0.1).of("EM") == {"q1": 0, "q2": 1}
    with pytest.raises(ValueError, match="question 'q2' has no value of no-answer"):
        score_no_answer(gold, {"q1": "x", "q2": "x"}, evaluation, {"q1": 0.2})


QUESTIONS = {
    "who": ("Who wrote it?", "To whom was it sold?", "Whose house is it?"),
    "what": ("In what year was it built?", "The man who died, when was he born, and what did he do?"),
    "which": ("Which king died?",),
    "when": ("When did he die?",),
    "where": ("Where is it?",),
    "why": ("Why is it so?",),
    "how many": ("How many are there?", "How much is it?"),
    "how": ("How does it work?",),
    "other": (
        "Name one king.",
        "Somewhat odd, whatever",
        "Est-ce que le roi rit ?",
        "Quelqu'un rit",
        "Le roi rit lorsqu'il est seul",
        "Ce roi est blanc ou noir ?",
        "",
    ),
    "qui": ("Qui a inventé l'imprimerie ?", "À qui doit-on cela ?", "Le roi de France qui régnait alors"),
    "que": ("Que mange-t-il ?", "Qu’est-ce que c’est ?", "QU'EST-CE ?", "De quoi vit-il ?"),
    "quel": (
        "Quel roi ?",
        "Quelles reines ?",
        "En quelle année est-il mort ?",
        "Lequel est mort ?",
        "Auxquelles pense-t-il ?",
        "Le film que Truffaut a tourné est sorti en quelle année ?",
    ),
    "quand": ("Depuis quand ?",),
    "où": ("D’où vient-il ?", "Jusqu'où va-t-il ?", "ou habite t il?"),
    "combien": ("Combien sont-ils ?",),
    "comment": ("Comment va-t-il ?",),
    "pourquoi": ("Pourquoi rit-il ?",),
}


def test_means_by_question_word_and_length():
    for word, questions in QUESTIONS.items():
        assert [(question, question_word(question)) for question in questions] == [
            (question, word) for question in questions
        ]
    numbers = (1, 2, 3, 5, 6, 10, 11)
    labels = ("1 word", "2 words", "3–5 words", "3–5 words", "6–10 words", "6–10 words", "11 words or more")
    assert tuple(length_group((" ".join("x" * count), "another")) for count in numbers) == labels
    gold = GoldAnswers(
        {"q1": "Qui ?", "q2": "Qui ?", "q3": "Who?", "q4": "Où ?"},
        {"q1": ("x",), "q2": ("a b c d",), "q3": ("y",), "q4": ()},
    )
    evaluation = measure_answers(gold, {"q1": "x", "q2": "", "q3": "y", "q4": "z"}, "EM")
    words = {
        label: (row.questions, row.means["EM"]) for label, row in by_question_word(gold, evaluation).items()
    }
    assert words == {"who": (1, 1.0), "où": (1, 0.0), "qui": (2, 0.5)}
    lengths = {label: row.questions for label, row in by_answer_length(gold, evaluation).items()}
    assert lengths == {"no answer": 1, "1 word": 2, "3–5 words": 1}


def ranking(qid, *docnos):
    return Ranking.ranked(Query(qid, "?"), docnos, list(range(len(docnos), 0, -1)))


def test_both_denominators_of_the_report():
    gold = GoldAnswers.of(
        [Query(f"q{n}", "?") for n in range(4)], [Answer(f"q{n}", f"d{n}", "x", 0) for n in range(4)]
    )
    rankings = [ranking("q0", "d0"), ranking("q1", "d9", "d1"), ranking("q2", "d9"), ranking("q3", "d8")]
    system = measure_system(gold, {"q0": "x", "q1": "y", "q2": "x", "q3": ""}, rankings, "EM F1")
    assert system.share == 0.5
    assert system.evaluation.mean == {"EM": 0.5, "F1": 0.5}
    assert system.where_retrieved == {"EM": 0.5, "F1": 0.5}
    assert list(system.retrieved) == [1, 1, 0, 0]
    nowhere = measure_system(gold, {"q0": "x"}, [], "EM")
    assert nowhere.share == 0
    assert math.isnan(nowhere.where_retrieved["EM"])
    with pytest.raises(ValueError, match="the gold answers name no paragraph"):
        measure_system(GoldAnswers({"q": "?"}, {"q": ("x",)}), {}, [])


def test_recall_of_answers_in_the_first_passages():
    texts = {"d1": "Il naquit à Paris.", "d2": "Les Parisiens", "d3": "The Rome, of old"}
    gold = GoldAnswers(
        {"q1": "?", "q2": "?", "q3": "?"}, {"q1": ("paris",), "q2": ("rome of old", "x"), "q3": ()}
    )
    recall = answer_recall(gold, [ranking("q1", "d2", "d1"), ranking("q2", "d3")], texts.__getitem__, [1, 2])
    assert recall.qids == ("q1", "q2")
    assert recall.of("answer@1") == {"q1": 0, "q2": 1}  # Parisiens are not Paris
    assert recall.mean["answer@2"] == 1
    first = answer_recall(gold.select(["q1"]), [ranking("q1", "d2", "d1")], {"d2": "y"}.__getitem__, [1])
    assert first.mean == {"answer@1": 0}  # no passage beyond the depth is read
    with pytest.raises(ValueError, match="expected depths from 1 up"):
        answer_recall(gold, [], texts.__getitem__, [0])


def test_the_report_has_every_table():
    gold = GoldAnswers({"q1": "Qui ?", "q2": "Who?"}, {"q1": ("x",), "q2": ()})
    predictions = {"a": {"q1": "x", "q2": "y"}}
    evaluations = {"a": measure_answers(gold, predictions["a"])}
    values = {"a": {"q1": 0.1, "q2": 0.9}}
    report = AnswerEvaluations(gold, evaluations, predictions, values, 0.5, groups=True, per_query=True)
    captions = [table.caption for table in report.tables()]
    assert captions[1:] == [
        "Means over 2 questions",
        "With and without an answer",
        "Best thresholds of no-answer",
        "By question word",
        "By answer length",
    ]
    record = report.record()["systems"][0]
    assert record["mean"]["EM"] == 1
    assert record["squad2"]["no_answer"]["means"]["EM"] == 1
    assert record["question_word"]["qui"]["questions"] == 1
    assert record["per_query"]["q2"]["F1"] == 1
    plain = AnswerEvaluations(gold, evaluations, predictions)
    assert plain.record()["systems"][0]["mean"]["EM"] == 0.5


def test_the_parts_of_several_seeds_are_means_with_their_deviation():
    def seed(value, threshold):
        part = GroupMeans(4, {"EM": value})
        return NoAnswerScores(part, part, None, {"EM": BestThreshold(value, threshold)})

    parts, best = no_answer_tables({"s": (seed(0.5, -1.0), seed(0.7, -2.0)), "t": (seed(0.25, 3.0),)})
    assert [[cell.text for cell in row] for row in parts.rows] == [
        ["s", "all", "4", "0.6000 ±0.1414"],
        ["s", "HasAns", "4", "0.6000 ±0.1414"],
        ["t", "all", "4", "0.2500"],
        ["t", "HasAns", "4", "0.2500"],
    ]
    assert [cell.text for cell in best.rows[0]] == ["s", "EM", "0.6000 ±0.1414", "-1.5 ±0.7071"]
