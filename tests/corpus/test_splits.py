from __future__ import annotations

from types import MappingProxyType

from hypothesis import given
from hypothesis import strategies as st

from telerank.corpus.derived.questions import (
    PARTS,
    Leak,
    MergedSet,
    MergeTally,
    Question,
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
    docs = MappingProxyType({docno: Doc(docno, docno) for docno in docnos})
    return MergedSet(docs, questions, MergeTally(), MappingProxyType({docno: docno for docno in docnos}))


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


def test_a_leak_counts_documents_of_train_that_answer_another_part():
    first, second = merged([("a", "b"), ("b", "c")]).questions
    split = Split({"train": (first,), "dev": (), "test": (second,)})
    assert count_leaks(split) == {"dev": Leak(0, 0), "test": Leak(2, 1)}


def test_a_split_by_question_has_the_shares_exactly_and_one_by_paragraph_but_for_a_group():
    shares = dict(zip(PARTS, (800, 100, 100), strict=True))
    given_set = five_a_paragraph(200)
    split = split_by_question(given_set, seed=0)
    assert {part: len(ones) for part, ones in split.parts.items()} == shares
    leak = count_leaks(split)["test"]
    assert leak.documents > 60
    assert leak.in_train / leak.documents > 0.95
    sizes = {part: len(ones) for part, ones in split_by_paragraph(given_set, seed=0).parts.items()}
    assert sum(sizes.values()) == 1000
    assert all(abs(sizes[part] - share) <= 5 for part, share in shares.items())


def test_documents_that_a_question_joins_stay_together():
    chain = merged([(f"d{n}", f"d{n + 1}") for n in range(30)])
    homes = split_by_paragraph(chain, seed=0).homes
    assert len(set(homes.values())) == 1


def test_the_seed_decides_the_part_of_a_question_and_the_order_of_questions_does_not():
    given_set = five_a_paragraph(20)
    turned = MergedSet(given_set.docs, given_set.questions[::-1], given_set.tally, given_set.articles)
    there, back = split_by_question(given_set, seed=0).parts, split_by_question(turned, seed=0).parts
    assert [set(there[part]) for part in PARTS] == [set(back[part]) for part in PARTS]
    assert set(there["test"]) != set(split_by_question(given_set, seed=1).parts["test"])


def test_the_random_order_does_not_depend_on_the_order_before():
    assert shuffle("hgfedcba", str, seed=7) == shuffle("abcdefgh", str, seed=7) == list("egcdbhaf")
