from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telerank.corpus.derived.questions import Question, shuffle
from telerank.corpus.derived.ranking_set import (
    Screen,
    draw_random_negatives,
    search_negatives,
    take_batch_negatives,
)
from telerank.stage import Stage
from telerank.types import Answer, Doc, Explanation, Query, Ranking


def docs(texts: dict[str, str]) -> dict[str, Doc]:
    return {docno: Doc(docno, text) for docno, text in texts.items()}


def question(qid: str, positives: tuple[str, ...], *answers: str) -> Question:
    return Question(
        Query(qid, f"question {qid}"),
        positives,
        tuple(Answer(qid, positives[0], text, 0) for text in answers),
    )


@dataclass(frozen=True)
class Fixed(Stage):
    """A first stage that finds the same documents for whatever is asked, and remembers how many it was asked for."""

    docnos: tuple[str, ...]
    asked: list[int]
    k: int = 1000

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        for ranking in stream:
            found = self.docnos[: self.k]
            yield Ranking.ranked(ranking.query, found, range(len(found), 0, -1))

    def limit(self, k: int) -> Stage:
        self.asked.append(k)
        return Fixed(self.docnos, self.asked, k)

    def explanation(self, query: Query, docno: str) -> Explanation:  # noqa: ARG002
        raise KeyError(docno)


@pytest.mark.parametrize(
    ("text", "answer", "passes"),
    [
        ("It is in France.", "France", False),
        ("It is in FRANCE", "france", False),
        ("en l’État même", "l'État", False),
        ("the United States of America", "United  States", False),
        ("It is in 1950.", "50", True),
        ("States United", "United States", True),
        ("costs 5 €", "€", False),
        ("Italy", "France", True),
    ],
)
def test_a_document_that_holds_the_words_of_the_answer_in_a_row_is_refused(text, answer, passes):
    """In its title as well: a ranker reads it."""
    screen = Screen({"p": Doc("p", "positive"), "d": Doc("d", text), "e": Doc("e", "text", title=text)})
    assert [screen.passes(question("q", ("p",), answer), docno) for docno in "de"] == [passes] * 2
    assert screen.refused["holds the answer"] == 2 * (not passes)


def test_a_positive_and_a_document_of_another_part_are_refused():
    screen = Screen(docs({"p": "x", "d": "y", "e": "z"}), {"p": "test", "d": "train", "e": "test"})
    one = question("q", ("p",))
    assert [screen.passes(one, docno) for docno in "pde"] == [False, False, True]
    assert screen.refused == {"positive": 1, "other part": 1}


def test_ranked_negatives_are_the_first_that_pass_with_the_scores_of_the_stage():
    screen = Screen(docs({"a": "France", "b": "x", "c": "y", "d": "z"}))
    asked = [question("q", ("c",), "France")]
    (ranking,) = search_negatives(asked, screen, Fixed(("a", "b", "c", "d"), []), depth=2)
    assert list(ranking) == [("b", 3.0), ("d", 1.0)]
    assert ranking.query.text == "question q"


def test_the_stage_is_asked_deeper_until_enough_pass_or_it_has_no_more():
    texts = {f"d{n:03}": "France" for n in range(50)} | {"x": "Italy", "p": "positive"}
    asked: list[int] = []
    screen = Screen(docs(texts))
    questions = [question("q1", ("p",), "France"), question("q2", ("p",), "Spain")]
    first, second = search_negatives(questions, screen, Fixed(tuple(texts), asked), depth=2)
    assert asked == [4, 16, 64]
    assert first.docnos == ("x",)
    assert second.docnos == ("d000", "d001")
    assert screen.refused == {"holds the answer": 50, "positive": 1}


def test_random_negatives_are_drawn_without_replacement_and_again_alike():
    candidates = tuple(f"d{n}" for n in range(20))
    screen = Screen(docs({docno: docno for docno in candidates}))
    questions = [question(f"q{n}", (f"d{n}",)) for n in range(20)]
    found = list(draw_random_negatives(questions, screen, candidates, depth=5, seed=3))
    assert found == list(draw_random_negatives(questions[::-1], screen, candidates, depth=5, seed=3))[::-1]
    assert found != list(draw_random_negatives(questions, screen, candidates, depth=5, seed=4))
    assert all(len(set(ranking.docnos)) == 5 for ranking in found)
    assert all(one.positives[0] not in ranking.docnos for one, ranking in zip(questions, found, strict=True))


def test_random_negatives_reach_every_candidate_alike_and_all_where_too_few_pass():
    candidates = tuple(f"d{n}" for n in range(10))
    screen = Screen(docs({docno: docno for docno in candidates} | {"p": "p"}))
    questions = [question(f"q{n}", ("p",)) for n in range(2000)]
    drawn = Counter(
        docno
        for one in draw_random_negatives(questions, screen, candidates, depth=3, seed=0)
        for docno in one.docnos
    )
    assert all(500 < drawn[docno] < 700 for docno in candidates)
    asked = [question("q", ("p",), "d3")]
    (ranking,) = draw_random_negatives(asked, screen, ("p", "d3", "d4"), depth=10, seed=0)
    assert ranking.docnos == ("d4",)


def test_batch_negatives_are_the_first_positives_of_the_other_questions_of_the_batch():
    """The last batch is filled up with the first questions."""
    for count in (6, 7):
        questions = [question(f"q{n}", (f"d{n}", "shared")) for n in range(count)]
        screen = Screen(docs({docno: docno for n in range(count) for docno in (f"d{n}", "shared")}))
        order = [one.query.qid for one in shuffle(questions, lambda one: one.query.qid, seed=5)]
        taken = take_batch_negatives(questions, screen, depth=2, seed=5)
        negatives = {one.query.qid: one.docnos for one in taken}
        for batch in (order[:3], order[3:6]):
            for qid in batch:
                assert negatives[qid] == tuple(f"d{other[1:]}" for other in batch if other != qid)
        for qid in order[6:]:
            assert negatives[qid] == tuple(f"d{other[1:]}" for other in order[:2])
    same = [question(f"q{n}", ("d",)) for n in range(4)]  # none is a negative of another
    taken = take_batch_negatives(same, Screen(docs({"d": "d"})), depth=3, seed=0)
    assert [one.docnos for one in taken] == [()] * 4


@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 2), st.sampled_from(["bm25", "random", "gold"]))
def test_no_strategy_gives_a_positive_or_more_than_asked(count, depth, seed, strategy):
    questions = [question(f"q{n}", (f"d{n % 5}", f"d{(n + 1) % 5}"), f"d{(n + 2) % 5}") for n in range(count)]
    names = tuple(f"d{n}" for n in range(5))
    screen = Screen(docs({docno: docno for docno in names}))
    found = {
        "bm25": lambda: search_negatives(questions, screen, Fixed(names, []), depth=depth),
        "random": lambda: draw_random_negatives(questions, screen, names, depth=depth, seed=seed),
        "gold": lambda: take_batch_negatives(questions, screen, depth=depth, seed=seed),
    }[strategy]()
    for one, ranking in zip(questions, found, strict=True):
        assert ranking == Ranking.ranked(one.query, ranking.docnos, ranking.scores)
        assert len(ranking) <= depth
        assert not {*one.positives, *(answer.text for answer in one.answers)} & set(ranking.docnos)
