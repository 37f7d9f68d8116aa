"""Groups become batches that the seed and a number decide."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from telerank.corpus.collection import Collection
from telerank.errors import CollectionError
from telerank.training.bi_encoder.config import BiEncoderTraining
from telerank.training.encoders.batches import read_batches
from telerank.training.encoders.objectives import labelled_pairs
from telerank.training.examples.reading import Reading
from telerank.types import Doc, Qrel, Query, Ranking

QUERIES = 30
QRELS = [Qrel(f"q{i}", f"d{i}", 1) for i in range(QUERIES)]


def collection(qrels=QRELS, relevant_from=1):
    def pool():
        for i in range(QUERIES):
            names = [f"d{i + j}" for j in range(6)]
            yield Ranking.ranked(Query(f"q{i}", f"query {i}"), names, range(6, 0, -1))

    return Collection(
        "small",
        "test",
        lambda: (Doc(f"d{i}", f"document {i}", title="title" if i == 50 else "") for i in range(60)),
        queries={"train": lambda: (Query(f"q{i}", f"query {i}") for i in range(QUERIES))},
        qrels={"train": lambda: iter(qrels)} if qrels else {},
        pools={"train/six": pool},
        relevant_from=relevant_from,
    )


def read(data=None, batch=10, qrels=QRELS, seed=3, folder=Path(), **more):
    record = {"data": {"collection": "c", **(data or {})}, "optimisation": {"batch": batch}}
    config = BiEncoderTraining.model_validate(record)
    source = collection(qrels, **{name: more.pop(name) for name in ("relevant_from",) if name in more})
    reading = Reading(config.data, seed, source, **more)
    return read_batches(config, reading, folder / "texts"), reading.counts


def batches(*words, **more):
    return read(*words, **more)[0]


def number(text: str) -> int:
    return int(text.rsplit(maxsplit=1)[-1])


def triples(path: Path, lines) -> dict:
    path.write_text("".join("\t".join(line) + "\n" for line in lines))
    return {"triples": {"file": str(path), "window": 7}}


IDS = [(f"q{i}", f"d{i}", f"d{i + 30}") for i in range(26)]
TEXTS = [(f"query {i}", f"document {i}", f"document {i + 30}") for i in range(26)]
SOURCES = {
    "ids": lambda folder: triples(folder / "ids.tsv", IDS),
    "texts": lambda folder: triples(folder / "texts.tsv", TEXTS),
    "pool": lambda _: {"negatives": {"pool": "six"}},
    "random": lambda _: {"negatives": {"random": True}},
}


@pytest.mark.parametrize("source", SOURCES)
def test_26_pairs_are_13_queries_each_with_its_own_negative_among_all_documents(source, tmp_path):
    """RepBERT, sections 3.2 and 4.3.1: a batch of triples, whose negatives are BM25's."""
    drawn = batches(SOURCES[source](tmp_path), batch=26, folder=tmp_path)
    for batch in (drawn[0], drawn[1]):
        assert len(batch.queries) == len(batch.negatives) == 13
        own = {row: number(batch.documents[column]) for row, column in batch.negatives.tolist()}
        for row, query in enumerate(map(number, batch.queries)):
            assert number(batch.documents[batch.positives[row]]) == query
            if source in ("ids", "texts"):
                assert own[row] == query + 30
            elif source == "pool":
                assert query < own[row] < query + 6
            assert batch.relevant[row].sum() == 1
        if source in ("ids", "texts"):
            assert batch.relevant.shape == (13, 26)


def test_an_epoch_has_every_pair_once():
    epoch = batches(batch=QUERIES)
    for part in range(3):
        assert Counter(map(number, epoch[part].queries)) == Counter(range(QUERIES))
    assert epoch[0].queries != epoch[1].queries
    small = batches(batch=4)
    queries = [query for part in range(15) for query in small[part].queries]
    assert queries == epoch[0].queries + epoch[1].queries


@pytest.mark.parametrize("source", ["ids", "pool", "nothing"])
def test_what_the_qrels_call_relevant_to_another_query_of_the_batch_is_positive(source, tmp_path):
    """q1's document and q0's negative of the file are relevant to q0, too."""
    qrels = [*QRELS, Qrel("q0", "d1", 1), Qrel("q0", "d30", 1)]
    data = SOURCES[source](tmp_path) if source != "nothing" else {}
    drawn = batches(data, batch=26 * (1 + (source != "nothing")), qrels=qrels, folder=tmp_path)
    seen = set()
    for batch in (drawn[0], drawn[1]):
        for row in (row for row, query in enumerate(batch.queries) if query == "query 0"):
            relevant = {number(batch.documents[column]) for column in batch.relevant[row].nonzero().flatten()}
            assert relevant == {0, 1, 30} & set(map(number, batch.documents))
            assert not [
                column for query, column in batch.negatives.tolist() if query == row and column in relevant
            ]
            seen |= relevant
    assert seen >= {0, 1}


def test_triples_need_no_qrels_and_a_text_that_is_relevant_to_the_same_query_is_positive(tmp_path):
    lines = [("query 1", "document 1", "document 2"), ("query 1", "document 3", "document 1")]
    batch = batches(triples(tmp_path / "t.tsv", lines), batch=4, qrels=())[0]
    own = {text for text, yes in zip(batch.documents, batch.relevant[0], strict=True) if yes}
    assert own == {"document 1", "document 3"}
    assert batch.relevant[0].tolist() == batch.relevant[1].tolist()
    assert [batch.documents[column] for _, column in batch.negatives.tolist()] == ["document 2"]
    batch = batches(SOURCES["ids"](tmp_path), batch=26, qrels=(), folder=tmp_path)[0]
    assert batch.relevant.sum(1).tolist() == [1] * 13


def test_a_document_of_two_pairs_stands_in_a_batch_once():
    batch = batches(batch=2, qrels=[Qrel("q1", "d1", 1), Qrel("q2", "d1", 1)])[0]
    assert batch.documents == ["document 1"]
    assert batch.relevant.tolist() == [[True], [True]]


def test_negatives_are_drawn_anew_in_each_epoch_if_the_settings_say_so():
    drawn = {}
    for resample in (False, True):
        negatives = {"pool": "six", "per_positive": 2, "resample": resample}
        epochs = batches({"negatives": negatives}, batch=3 * QUERIES)
        drawn[resample] = set()
        for batch in (epochs[part] for part in range(5)):
            rows = [(batch.queries[row], batch.documents[column]) for row, column in batch.negatives]
            negatives = frozenset(document for query, document in rows if query == "query 7")
            assert len(negatives) == 2
            assert negatives < {f"document {i}" for i in range(8, 13)}
            drawn[resample].add(negatives)
    assert (len(drawn[False]), len(drawn[True]) > 1) == (1, True)


def test_pairs_have_the_negatives_of_their_group_or_the_next_document():
    for data in ({}, {"negatives": {"pool": "six"}}):
        batch = batches(data, batch=20)[0]
        rows, columns, labels = labelled_pairs(batch)
        total = len(batch.queries)
        assert labels.tolist() == [1] * total + [0] * total
        for row, column, label in zip(rows.tolist(), columns.tolist(), labels.tolist(), strict=True):
            assert bool(batch.relevant[row, column]) is bool(label)
            if data and not label:
                assert 0 < number(batch.documents[column]) - number(batch.queries[row]) < 6
    rows, _, labels = labelled_pairs(batches(batch=1)[0])  # one pair alone has no negative
    assert (len(rows), labels.tolist()) == (1, [1])


def test_examples_are_the_relevant_pairs_and_their_texts():
    qrels = [Qrel("q0", "d50", 1), Qrel("q1", "d1", 0), Qrel("q0", "d2", 2), Qrel("q0", "d50", 1)]
    batch = batches(batch=2, qrels=qrels)[0]
    assert set(batch.documents) == {"title document 50", "document 2"}
    assert batch.queries == ["query 0"] * 2
    assert batch.relevant.all()
    assert batches(batch=1, qrels=qrels, relevant_from=2)[0].documents == ["document 2"]


def test_what_is_lacking_is_named(tmp_path):
    with pytest.raises(CollectionError, match="no relevant pair to learn from"):
        read(qrels=[Qrel("q0", "d0", 0)])
    with pytest.raises(CollectionError, match="no query 'q77' that its qrels, lists or triples name"):
        read(qrels=[Qrel("q77", "d0", 1)])
    with pytest.raises(CollectionError, match=r"no document 'd77' \(and 1 more\) that its qrels"):
        read(qrels=[Qrel("q0", "d77", 1), Qrel("q0", "d78", 1)])
    with pytest.raises(CollectionError, match="has no pool 'train/7'; it has: train/six"):
        read({"negatives": {"pool": "7"}})
    with pytest.raises(CollectionError, match="the collection has no 'd99'"):
        batches(triples(tmp_path / "t.tsv", [("q1", "d1", "d99")]), batch=2, folder=tmp_path)[0]


def test_measures_see_no_grade_that_the_makers_call_not_relevant():
    qrels = [Qrel("q0", "d1", 1), Qrel("q0", "d2", 2), Qrel("q0", "d3", 0)]
    assert collection(qrels, relevant_from=2).judged("train") == {"q0": {"d1": 0, "d2": 2, "d3": 0}}
    assert collection(qrels).judged() == {"q0": {"d1": 1, "d2": 2, "d3": 0}}
