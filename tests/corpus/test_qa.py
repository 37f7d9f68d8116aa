"""Merging question-answering sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_sets import qa_set

from telerank.corpus.ranking_sets.qa import MergeTally, merge, normalise
from telerank.errors import CollectionError, FormatError
from telerank.types import Answer, Doc

TEXTS = {"a": "Paris is in France.", "b": "Rome is in Italy."}


def test_ids_get_the_name_of_their_set():
    merged = merge([qa_set("one", TEXTS, {"all": [("Where is Paris?", "a", "France")]})])
    assert list(merged.docs.values()) == [Doc("one-a", TEXTS["a"]), Doc("one-b", TEXTS["b"])]
    (question,) = merged.questions
    assert question.query.qid == "one-q1"
    assert question.positives == ("one-a",)
    assert question.answers == (Answer("one-q1", "one-a", "France", 12),)


def test_all_splits_come_together():
    asked = {"train": [("Where is Paris?", "a", "France")], "dev": [("Where is Rome?", "b", "Italy")]}
    assert [one.query.qid for one in merge([qa_set("one", TEXTS, asked)]).questions] == ["one-q1", "one-q2"]


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


def test_a_question_without_a_relevant_document_is_left_out_and_counted():
    merged = merge(
        [qa_set("one", TEXTS, {"all": [("Where is Bonn?", "", ""), ("Where is Rome?", "b", "Italy")]})]
    )
    assert [one.query.text for one in merged.questions] == ["Where is Rome?"]
    assert merged.tally.without_positive == 1


def test_a_document_is_positive_from_the_grade_that_the_collection_names():
    one = qa_set("one", TEXTS, {"all": [("Where is Paris?", "a", "France")]}, relevant_from=3)
    assert merge([one]).tally.without_positive == 1


def test_two_sets_of_one_name_are_refused():
    with pytest.raises(CollectionError, match="two of the sets are named 'one'"):
        merge([qa_set("one", TEXTS, {"all": []}), qa_set("one", TEXTS, {"all": []})])


def test_a_set_of_documents_alone_is_refused():
    with pytest.raises(CollectionError, match="one has no questions"):
        merge([qa_set("one", TEXTS, {})])


def test_a_judgment_on_a_document_that_is_not_there_is_an_error():
    with pytest.raises(CollectionError, match="one: judgments name document 'z'"):
        merge([qa_set("one", TEXTS, {"all": [("Where?", "z", "")]})])


def test_a_blank_in_the_name_of_a_set_does_not_come_into_its_ids():
    merged = merge([qa_set("my set", TEXTS, {"all": [("Where is Paris?", "a", "France")]})])
    assert list(merged.docs) == ["my_set-a", "my_set-b"]


def test_an_id_with_a_blank_is_an_error_that_names_the_set():
    with pytest.raises(
        FormatError, match="one: expected a docno that is not empty and has no blank, got 'a b'"
    ):
        merge([qa_set("one", {"a b": "x"}, {"all": []})])


def test_french_questions_are_alike_whatever_apostrophe_and_blank_they_have():
    assert (
        normalise("Qui est l’architecte\xa0?")
        == normalise("qui est l'architecte ?")
        == "qui est l architecte"
    )


def test_accents_tell_questions_apart():
    assert normalise("Où va-t-il ?") != normalise("Ou va-t-il ?")


@given(st.text(max_size=30))
def test_the_normal_form_of_a_normal_form_is_itself(text):
    assert normalise(normalise(text)) == normalise(text)


@pytest.mark.parametrize("text", ["?", " € ", "…"])
def test_a_text_without_words_is_its_own_normal_form(text):
    assert normalise(text) == text.strip()
