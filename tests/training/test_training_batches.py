"""Pairs become batches that the seed and a number decide."""

from __future__ import annotations

from collections import Counter

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from telerank.corpus.collection import Collection  # noqa: E402
from telerank.errors import CollectionError  # noqa: E402
from telerank.training.bi_encoder.batches import Batches  # noqa: E402
from telerank.training.bi_encoder.examples import Examples, hard_negatives, read_examples  # noqa: E402
from telerank.training.bi_encoder.objectives import labelled_pairs  # noqa: E402
from telerank.types import Doc, Qrel, Query, Ranking  # noqa: E402

PAIRS = tuple((f"q{i}", f"d{i}") for i in range(10))
EXAMPLES = Examples(
    pairs=(*PAIRS, ("q0", "d10")),
    queries={f"q{i}": f"query {i}" for i in range(10)},
    documents={f"d{i}": f"document {i}" for i in range(20)},
    relevant={"q0": frozenset({"d0", "d10"}), **{f"q{i}": frozenset({f"d{i}"}) for i in range(1, 10)}},
    negatives={"q1": ("d11", "d12", "d13"), "q2": ("d14",)},
)
WITHOUT = Examples(EXAMPLES.pairs, EXAMPLES.queries, EXAMPLES.documents, EXAMPLES.relevant)


def test_an_epoch_has_every_pair_once():
    batches = Batches(WITHOUT, 11, seed=3)
    for number in range(3):
        drawn = Counter(batches[number].queries)
        assert drawn == Counter({"query 0": 2, **{f"query {i}": 1 for i in range(1, 10)}})
    assert batches[0].queries != batches[1].queries


def test_batches_go_on_over_the_border_of_epochs():
    small = Batches(WITHOUT, 4, seed=3)
    queries = [query for number in range(11) for query in small[number].queries]
    whole = Batches(WITHOUT, 11, seed=3)
    assert queries == [query for number in range(4) for query in whole[number].queries]


def test_a_batch_is_the_same_whenever_it_is_asked_for():
    one, other = Batches(EXAMPLES, 4, seed=3), Batches(EXAMPLES, 4, seed=3)
    expected = [one[number] for number in range(9)]
    for number in (7, 2, 8, 0):
        assert other[number].queries == expected[number].queries
        assert other[number].documents == expected[number].documents
    assert Batches(EXAMPLES, 4, seed=4)[0].queries != expected[0].queries
    with pytest.raises(IndexError):
        one[-1]


def test_what_the_qrels_call_relevant_is_relevant_in_another_pairs_place():
    batch = Batches(WITHOUT, 11, seed=0)[0]
    for row, query in enumerate(batch.queries):
        own = {text for text, yes in zip(batch.documents, batch.relevant[row], strict=True) if yes}
        number = query.split()[1]
        expected = {"document 0", "document 10"} if number == "0" else {f"document {number}"}
        assert own == expected
        assert batch.documents[batch.positives[row]] in own


def test_a_document_of_two_pairs_stands_in_a_batch_once():
    pairs = (("q1", "d1"), ("q2", "d1"))
    relevant = {"q1": frozenset({"d1"}), "q2": frozenset({"d1"})}
    batch = Batches(Examples(pairs, EXAMPLES.queries, EXAMPLES.documents, relevant), 2, seed=0)[0]
    assert batch.documents == ["document 1"]
    assert batch.relevant.tolist() == [[True], [True]]


def test_hard_negatives_are_drawn_for_their_queries_anew_in_each_epoch():
    batches = Batches(EXAMPLES, 11, seed=0, per_query=2)
    drawn = set()
    for number in range(20):
        batch = batches[number]
        found: dict[str, set[str]] = {}
        for row, column in batch.negatives.tolist():
            assert not batch.relevant[row, column]
            found.setdefault(batch.queries[row], set()).add(batch.documents[column])
        assert found["query 2"] == {"document 14"}
        assert len(found["query 1"]) == 2
        assert found["query 1"] <= {"document 11", "document 12", "document 13"}
        drawn.add(frozenset(found["query 1"]))
        assert len(batch.documents) == 11 + 3
    assert len(drawn) == 3


def test_pairs_have_the_hard_negatives_or_the_next_document():
    batch = Batches(EXAMPLES, 11, seed=0)[0]
    rows, columns, labels = labelled_pairs(batch)
    assert labels.tolist() == [1] * 11 + [0] * 11
    for row, column, label in zip(rows.tolist(), columns.tolist(), labels.tolist(), strict=True):
        assert bool(batch.relevant[row, column]) is bool(label)
    hard = {(batch.queries[r], batch.documents[c]) for r, c in zip(rows[11:], columns[11:], strict=True)}
    assert ("query 2", "document 14") in hard


def test_a_batch_of_one_pair_has_no_negative():
    rows, _, labels = labelled_pairs(Batches(WITHOUT, 1, seed=0)[0])
    assert (len(rows), labels.tolist()) == (1, [1])


def collection(qrels, relevant_from=1):
    return Collection(
        "small",
        "test",
        lambda: (Doc(f"d{i}", f"document {i}", title="title" if i == 0 else "") for i in range(5)),
        queries={"train": lambda: (Query(f"q{i}", f"query {i}") for i in range(4))},
        qrels={"train": lambda: iter(qrels)},
        relevant_from=relevant_from,
    )


def test_examples_are_the_relevant_pairs_and_their_texts():
    qrels = [Qrel("q0", "d0", 1), Qrel("q1", "d1", 0), Qrel("q0", "d2", 2), Qrel("q0", "d0", 1)]
    run = [Ranking.ranked(Query("q0", ""), ["d3", "d0", "d4"], [3, 2, 1]), Ranking(Query("q1", ""))]
    examples = read_examples(collection(qrels), "train", run, depth=2)
    assert examples.pairs == (("q0", "d0"), ("q0", "d2"))
    assert examples.queries == {"q0": "query 0"}
    assert examples.documents == {"d0": "title document 0", "d2": "document 2", "d3": "document 3"}
    assert examples.negatives == {"q0": ("d3",)}
    assert read_examples(collection(qrels, relevant_from=2), "train").pairs == (("q0", "d2"),)


def test_queries_that_dev_has_are_not_learned_from():
    qrels = [Qrel(f"q{i}", f"d{i}", 1) for i in range(4)]
    run = [Ranking.ranked(Query("q1", ""), ["d3"], [3])]
    examples = read_examples(collection(qrels), "train", run, kept_back=frozenset({"q0", "q2"}))
    assert examples.pairs == (("q1", "d1"), ("q3", "d3"))
    assert set(examples.queries) == set(examples.relevant) == {"q1", "q3"}
    with pytest.raises(CollectionError, match="to learn from: dev has all of its queries"):
        read_examples(collection(qrels), "train", kept_back=frozenset(f"q{i}" for i in range(4)))


def test_what_is_lacking_is_named():
    with pytest.raises(CollectionError, match="no relevant pair to learn from"):
        read_examples(collection([Qrel("q0", "d0", 0)]), "train")
    with pytest.raises(CollectionError, match="no query 'q7' that its qrels name"):
        read_examples(collection([Qrel("q7", "d0", 1)]), "train")
    with pytest.raises(CollectionError, match=r"no document 'd7' \(and 1 more\) that qrels"):
        read_examples(collection([Qrel("q0", "d7", 1), Qrel("q0", "d8", 1)]), "train")
    with pytest.raises(CollectionError, match="no query of the training split has a negative in the run"):
        hard_negatives([Ranking.ranked(Query("q9", ""), ["d1"], [1])], {"q0": frozenset({"d0"})}, 10)


def test_measures_see_no_grade_that_the_makers_call_not_relevant():
    qrels = [Qrel("q0", "d1", 1), Qrel("q0", "d2", 2), Qrel("q0", "d3", 0)]
    assert collection(qrels, relevant_from=2).judged("train") == {"q0": {"d1": 0, "d2": 2, "d3": 0}}
    assert collection(qrels).judged() == {"q0": {"d1": 1, "d2": 2, "d3": 0}}
