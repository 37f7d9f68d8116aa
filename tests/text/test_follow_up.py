"""Follow-ups: each rule in both languages, what is left as it is, and the set by which they are measured."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import telerank as tr

FOLLOW_UPS = Path(__file__).parents[2] / "benchmarks/follow_ups/follow_ups.yaml"


@pytest.mark.parametrize(
    ("earlier", "typed", "text", "rule"),
    [
        (
            "Quel est le prix d'un passeport pour un adulte ?",
            "Et pour un mineur ?",
            "Quel est le prix d'un passeport pour un mineur ?",
            "replaced",
        ),
        (
            "Faut-il un visa pour un étudiant en Chine ?",
            "et pour un touriste",
            "Faut-il un visa pour un touriste en Chine ?",
            "replaced",
        ),
        (
            "Qui est le coéquipier de Nicolas Prost ?",
            "Et de Neil Garnier ?",
            "Qui est le coéquipier de Neil Garnier ?",
            "replaced",
        ),
        (
            "What does a passport cost for an adult?",
            "What about for a minor?",
            "What does a passport cost for a minor?",
            "replaced",
        ),
        ("Who painted Guernica?", "and the Night Watch?", "Who painted Night Watch?", "replaced"),
        (
            "Quel est le prix d'un passeport ?",
            "Et pour un mineur ?",
            "Quel est le prix d'un passeport pour un mineur ?",
            "appended",
        ),
        ("passport fee", "and the delay?", "passport fee the delay?", "appended"),
        (
            "À quelle vitesse peut aller le Vizzavona ?",
            "Et quand est-il construit ?",
            "Vizzavona : quand est-il construit ?",
            "topic",
        ),
        ("Où est Paris ?", "Et sa population ?", "Paris : sa population ?", "topic"),
        ("How do I renew a passport?", "How much is it?", "renew passport: how much is it?", "topic"),
        ("When did World War I begin?", "When did it end?", "World War I: when did it end?", "topic"),
        ("Où est le Louvre ?", "Combien coûte-t-il ?", "Louvre : combien coûte-t-il ?", "topic"),
        (
            "Où commence la côte des blancs ?",
            "Y vivent-elles ?",
            "commence côte blancs : y vivent-elles ?",
            "topic",
        ),
        ("Where is Warsaw?", "What river does it straddle?", "Warsaw: what river does it straddle?", "topic"),
        ("Who was Martin Luther?", "When did he die?", "Martin Luther: when did he die?", "topic"),
        ("Who wrote War and Peace?", "Who printed it?", "War and Peace: who printed it?", "topic"),
    ],
)
def test_each_rule_completes_as_it_says(earlier, typed, text, rule):
    completed = tr.follow_up(typed, [earlier])
    assert (completed.text, completed.rule) == (text, rule)
    assert (completed.typed, completed.earlier) == (typed, earlier)
    assert tr.follow_up(completed.text, [earlier]).text == text or rule == "topic"


def test_an_acronym_is_no_pronoun():
    assert tr.follow_up("IT security", ["What is a network?"]).text == "IT security"


@pytest.mark.parametrize(
    "typed",
    [
        "Quelle est la capitale du Danemark ?",
        "Le roi a-t-il perdu sa couronne ?",
        "Combien de temps le bateau navigue-t-il ?",
        "Pourquoi Roger rejette-t-il sa famille ?",
        "Il faut combien de temps pour un visa ?",
        "Y a-t-il un délai ?",
        "Et ?",
        "Et alors ?",
        "What is the capital of Denmark?",
        "Why did Henry leave his wife?",
        "What did the king do when he was ill?",
        "Is it possible to pay by card?",
        "and",
        "",
        "prix passeport",
    ],
)
def test_what_needs_no_other_question_is_as_typed(typed):
    for earlier in ("Où est Paris ?", "Where is Warsaw?"):
        completed = tr.follow_up(typed, [earlier])
        assert (completed.text, completed.rule, completed.earlier) == (typed, "as typed", "")


def test_without_an_earlier_question_nothing_is_completed():
    assert tr.follow_up("Et pour un mineur ?", []).text == "Et pour un mineur ?"
    assert tr.follow_up("Et pour un mineur ?", [""]).rule == "as typed"


def test_a_chain_is_completed_from_the_first_question_on_and_five_are_looked_at():
    history = ["Où est Paris ?", "Et sa population ?"]
    assert tr.follow_up("Et son maire ?", history).text == "Paris : son maire ?"
    assert (
        tr.follow_up("Et son maire ?", [*history[:1], *["Et sa population ?"] * 4]).text
        == "Paris : son maire ?"
    )
    assert "Paris" not in tr.follow_up("Et son maire ?", [*history[:1], *["Et sa population ?"] * 5]).text


def test_the_language_may_be_said():
    assert tr.follow_up("and Brest?", ["Lille"], "fr").rule == "as typed"
    assert tr.follow_up("and Brest?", ["Lille"], "en").text == "Lille Brest?"


@given(st.text(max_size=60), st.lists(st.text(max_size=40), max_size=7))
def test_any_text_is_completed_or_left_and_never_loses_a_question_without_a_history(question, history):
    completed = tr.follow_up(question, history)
    assert completed.typed == question
    assert (
        completed.rule != "as typed" or completed.text == " ".join(question.split()) or not completed.earlier
    )
    assert tr.follow_up(question, []).rule == "as typed"


def test_a_long_question_is_read_in_no_time():
    """No expression tries many ways: a hundred thousand characters of each kind."""
    for piece in ("Et pour Paris ", "a-t-il ", "qu'en est-il de ", "what about its ", "A.", "x-", "' "):
        tr.follow_up(piece * (100_000 // len(piece)), ["Où est Paris ?"])


def test_the_measured_set_has_both_halves_and_every_form():
    record = yaml.safe_load(FOLLOW_UPS.read_text(encoding="utf-8"))
    for language in ("fr", "en"):
        items = record[language]["items"]
        assert [item["half"] for item in items] == ["dev", "test"] * 15
        assert len({item["asked"] for item in items}) == 30
        for item in items:
            assert item["follow_up"] != item["full"]
