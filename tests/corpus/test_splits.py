"""Splits: no question in two parts, no paragraph in two parts."""

from __future__ import annotations

import subprocess
import sys
from types import MappingProxyType

from hypothesis import given
from hypothesis import strategies as st

from telerank.corpus.ranking_sets.qa import MergedSet, MergeTally, Question
from telerank.corpus.ranking_sets.splits import (
    PARTS,
    Leak,
    Split,
    count_leaks,
    shuffle,
    split_by_paragraph,
    split_by_question,
)
from telerank.types import Doc, Query


def merged(positives: list[tuple[str, ...]], spare: int = 0) -> MergedSet:
    """A set with a question for each tuple of docnos, and ``spare`` documents that answer none."""
    docnos = dict.fromkeys(
        [docno for ones in positives for docno in ones] + [f"spare{n}" for n in range(spare)]
    )
    questions = tuple(Question(Query(f"q{n}", f"question {n}"), ones) for n, ones in enumerate(positives))
    return MergedSet(
        MappingProxyType({docno: Doc(docno, docno) for docno in docnos}), questions, MergeTally()
    )


def five_a_paragraph(paragraphs: int) -> MergedSet:
    return merged([(f"d{n}",) for n in range(paragraphs) for _ in range(5)])


sets = st.lists(
    st.lists(st.integers(0, 12).map(lambda n: f"d{n}"), min_size=1, max_size=3, unique=True).map(tuple),
    max_size=40,
).map(lambda positives: merged(positives, spare=3))


@given(sets, st.integers(0, 3), st.sampled_from([split_by_question, split_by_paragraph]))
def test_every_question_is_in_exactly_one_part(given_set, seed, split):
    parts = split(given_set, seed=seed).parts
    assert tuple(parts) == PARTS
    assert sorted(one.query.qid for ones in parts.values() for one in ones) == sorted(
        one.query.qid for one in given_set.questions
    )


@given(sets, st.integers(0, 3))
def test_split_by_paragraph_every_document_is_in_one_part_with_its_questions(given_set, seed):
    split = split_by_paragraph(given_set, seed=seed)
    assert set(split.homes) == set(given_set.docs)
    for part, questions in split.parts.items():
        assert {split.homes[docno] for one in questions for docno in one.positives} <= {part}
    assert all(leak.in_train == 0 for leak in count_leaks(split).values())


def test_a_split_by_question_has_the_shares_exactly():
    sizes = {part: len(ones) for part, ones in split_by_question(five_a_paragraph(200), seed=0).parts.items()}
    assert sizes == {"train": 800, "dev": 100, "test": 100}


def test_a_split_by_paragraph_misses_the_shares_by_less_than_a_group():
    sizes = {
        part: len(ones) for part, ones in split_by_paragraph(five_a_paragraph(200), seed=0).parts.items()
    }
    assert sum(sizes.values()) == 1000
    assert all(abs(sizes[part] - wanted) <= 5 for part, wanted in zip(PARTS, (800, 100, 100), strict=True))


def test_a_split_by_question_leaks_nearly_every_paragraph():
    leak = count_leaks(split_by_question(five_a_paragraph(200), seed=0))["test"]
    assert leak.documents > 60
    assert leak.in_train / leak.documents > 0.95


def test_a_leak_counts_documents_of_train_that_answer_another_part():
    first, second = merged([("a", "b"), ("b", "c")]).questions
    split = Split({"train": (first,), "dev": (), "test": (second,)})
    assert count_leaks(split) == {"dev": Leak(0, 0), "test": Leak(2, 1)}


def test_documents_that_a_question_joins_stay_together():
    chain = merged([(f"d{n}", f"d{n + 1}") for n in range(30)])
    homes = split_by_paragraph(chain, seed=0).homes
    assert len(set(homes.values())) == 1


def test_another_seed_is_another_split_and_the_same_seed_the_same():
    def test_part(seed):
        return [one.query.qid for one in split_by_question(five_a_paragraph(50), seed=seed).parts["test"]]

    assert test_part(0) == test_part(0)
    assert test_part(0) != test_part(1)


def test_the_order_of_the_questions_does_not_decide_their_part():
    given_set = five_a_paragraph(20)
    turned = MergedSet(given_set.docs, given_set.questions[::-1], given_set.tally)
    there, back = split_by_question(given_set, seed=0).parts, split_by_question(turned, seed=0).parts
    assert [set(there[part]) for part in PARTS] == [set(back[part]) for part in PARTS]


def test_the_random_order_is_the_same_in_every_process():
    program = (
        "from telerank.corpus.ranking_sets.splits import shuffle; print(*shuffle('abcdefgh', str, seed=7))"
    )
    for hash_seed in ("0", "1"):
        ran = subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stdout.split() == shuffle("hgfedcba", str, seed=7) == list("egcdbhaf")
