from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_sets import qa_set

from telerank.corpus.derived.questions import MergeTally, merge, normalise
from telerank.errors import CollectionError, FormatError
from telerank.types import Answer, Doc

TEXTS = {"a": "Paris is in France.", "b": "Rome is in Italy."}


def test_ids_get_the_name_of_their_set_without_its_blanks_and_all_splits_come_together():
    asked = {"train": [("Where is Paris?", "a", "France")], "dev": [("Where is Rome?", "b", "Italy")]}
    merged = merge([qa_set("my set", TEXTS, asked)])
    assert list(merged.docs.values()) == [Doc("my_set-a", TEXTS["a"]), Doc("my_set-b", TEXTS["b"])]
    first, second = merged.questions
    assert (first.query.qid, second.query.qid) == ("my_set-q1", "my_set-q2")
    assert first.positives == ("my_set-a",)
    assert first.answers == (Answer("my_set-q1", "my_set-a", "France", 12),)


def test_a_question_without_a_document_of_the_sets_first_relevant_grade_is_left_out_and_counted():
    asked = {"all": [("Where is Bonn?", "", ""), ("Where is Rome?", "b", "Italy")]}
    merged = merge([qa_set("one", TEXTS, asked)])
    assert [one.query.text for one in merged.questions] == ["Where is Rome?"]
    assert merged.tally.without_positive == 1
    assert merge([qa_set("one", TEXTS, asked, relevant_from=3)]).tally.without_positive == 2


@pytest.mark.parametrize(
    ("sets", "error", "message"),
    [
        ([qa_set("one", TEXTS, {"all": []})] * 2, CollectionError, "two of the sets are named 'one'"),
        ([qa_set("one", TEXTS, {})], CollectionError, "one has no questions"),
        (
            [qa_set("one", TEXTS, {"all": [("?", "z", "")]})],
            CollectionError,
            "one: judgments name document 'z'",
        ),
        (
            [qa_set("one", {"a b": ""}, {"all": []})],
            FormatError,
            "one: expected a docno .* no blank, got 'a b'",
        ),
    ],
)
def test_sets_that_cannot_be_merged_are_refused(sets, error, message):
    with pytest.raises(error, match=message):
        merge(sets)


def test_questions_are_alike_whatever_apostrophe_and_blank_but_not_whatever_accents_they_have():
    alike = {normalise(text) for text in ("Qui est l’architecte\xa0?", "qui est l'architecte ?")}
    assert alike == {"qui est l architecte"}
    assert normalise("Où va-t-il ?") != normalise("Ou va-t-il ?")
    for text in ("?", " € ", "…"):
        assert normalise(text) == text.strip()


def test_documents_of_the_same_text_are_one_and_questions_of_both_point_there():
    one = qa_set("one", TEXTS, {"all": [("Where is Paris?", "a", "France")]})
    two = qa_set("two", {"x": TEXTS["a"]}, {"all": [("In which country is Paris?", "x", "France")]})
    merged = merge([one, two])
    assert list(merged.docs) == ["one-a", "one-b"]
    assert [question.positives for question in merged.questions] == [("one-a",), ("one-a",)]
    assert merged.questions[1].answers == (Answer("two-q1", "one-a", "France", 12),)
    assert merged.tally == MergeTally(questions=2, documents=3, duplicate_documents=1)


def test_the_same_question_twice_is_one_with_the_paragraphs_and_answers_of_both():
    asked = [
        ("Where is it?", "a", "France"),
        ("where  is it", "b", "Italy"),
        ("WHERE IS IT ?!", "a", "Paris"),
    ]
    merged = merge([qa_set("one", TEXTS, {"all": asked})])
    (question,) = merged.questions
    assert question.query.text == "Where is it?"
    assert question.positives == ("one-a", "one-b")
    assert [answer.text for answer in question.answers] == ["France", "Italy", "Paris"]
    assert {answer.qid for answer in question.answers} == {"one-q1"}
    assert merged.tally.duplicate_questions == 2


@given(st.text(max_size=30))
def test_the_normal_form_of_a_normal_form_is_itself(text):
    assert normalise(normalise(text)) == normalise(text)
