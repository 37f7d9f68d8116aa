"""Long documents as passages of words."""

from __future__ import annotations

import pytest

from telerank.corpus.passages import cut_passages
from telerank.types import Doc, whole_docno


def words(first: int, last: int) -> str:
    return " ".join(f"w{number}" for number in range(first, last))


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, [(0, 0)]),
        (1, [(0, 1)]),
        (10, [(0, 10)]),
        (11, [(0, 10), (5, 11)]),
        (15, [(0, 10), (5, 15)]),
        (16, [(0, 10), (5, 15), (10, 16)]),
        (30, [(0, 10), (5, 15), (10, 20), (15, 25), (20, 30)]),
    ],
)
def test_each_word_is_in_a_passage_and_half_of_a_passage_in_the_next(size, expected):
    doc = Doc("guide", words(0, size), title="A guide")
    passages = list(cut_passages([doc], 10))
    assert [passage.text for passage in passages] == [words(*span) for span in expected]
    assert [passage.docno for passage in passages] == [f"guide#{n + 1}" for n in range(len(expected))]
    assert {(passage.title, whole_docno(passage.docno)) for passage in passages} == {("A guide", "guide")}


def test_passages_of_one_word_go_on():
    assert [each.text for each in cut_passages([Doc("d", "a  b\nc")], 1)] == ["a", "b", "c"]
