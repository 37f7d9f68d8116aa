"""What tells relevant documents besides their texts: each fault is warned of, and none where there is none."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_sets import qa_set

import telerank as tr
from commands import ok
from telerank.corpus.confounds import WARN_FROM, Area, area_of_ranks, newcombe_interval, rank_middle
from telerank.corpus.statistics import describe
from telerank.corpus.writing import write_beir
from telerank.types import Doc, Query, Ranking
from telerank.verbs.data import collection_statistics

COUNT = 400


def fair_set():
    """Documents of 5 to 60 words; every second one by chance is relevant, to a query each."""
    rng = random.Random(5)
    texts = [" ".join(rng.choices("abcdefgh", k=rng.randint(5, 60))) + f" {n}" for n in range(COUNT)]
    docs = [Doc(f"d{n}", text, title=" ".join(["t"] * rng.randint(1, 6))) for n, text in enumerate(texts)]
    return docs, {doc.docno for doc in docs if rng.random() < 0.5}


def described(docs, relevant, pools=()):
    asked = [("why ?", docno, "") for docno in sorted(relevant)]
    collection = qa_set("set", {doc.docno: doc.text for doc in docs}, {"test": asked})
    made = replace(collection, docs=lambda: iter(docs), pools={"test/listed": lambda: iter(pools)})
    return describe(made, count=lambda text: len(text.split())).confounds


def warned(found) -> list[str]:
    return [row.name for row in found.separations if row.warning()]


def test_nothing_is_warned_of_where_relevant_documents_are_drawn_by_chance():
    docs, relevant = fair_set()
    found = described(docs, relevant)
    assert (found.relevant, found.others) == (len(relevant), COUNT - len(relevant))
    assert [row.name for row in found.separations] == [
        "length of the title", "length of the text", "place in the collection", "number in the docno",
    ]  # fmt: skip
    assert found.warnings() == []
    for row in found.separations:
        assert row.areas["documents"].low < 0.5 < row.areas["documents"].high
    assert "no warning" in found.table().notes[-1]


def without_titles(doc, is_relevant, _rng):
    """DILA's fault: the title of a relevant sheet is the query, so that it has none."""
    return replace(doc, title="" if is_relevant else doc.title)


def long_titles(doc, is_relevant, _rng):
    return replace(doc, title=doc.title + " t t t" * is_relevant)


def short_texts(doc, is_relevant, _rng):
    return replace(doc, text=doc.text[:20] if is_relevant else doc.text)


def other_prefix(doc, is_relevant, _rng):
    return replace(doc, docno=f"{'far-' if is_relevant else 'x'}{doc.docno[1:]}")


def high_numbers(doc, is_relevant, _rng):
    return replace(doc, docno=f"d{int(doc.docno[1:]) + 1000 * is_relevant}")


def copied(doc, is_relevant, rng):
    return doc if is_relevant or rng.random() < 0.5 else replace(doc, text="the same")


FAULTS = {
    without_titles: "title",
    long_titles: "length of the title",
    short_texts: "length of the text",
    other_prefix: "shape of the docno",
    high_numbers: "number in the docno",
    copied: "exact copy",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_each_fault_is_warned_of_by_its_name(fault):
    rng, (docs, relevant) = random.Random(1), fair_set()
    changed = [fault(doc, doc.docno in relevant, rng) for doc in docs]
    new = {other.docno for doc, other in zip(docs, changed, strict=True) if doc.docno in relevant}
    found = described(changed, new)
    assert FAULTS[fault] in warned(found)
    assert any(line.startswith("warning: ") and FAULTS[fault] in line for line in found.table().notes)


def test_relevant_documents_in_the_middle_of_the_collection_are_warned_of_though_no_order_tells():
    docs, relevant = fair_set()
    inside = [doc for doc in docs if doc.docno in relevant]
    outside = [doc for doc in docs if doc.docno not in relevant]
    half = len(outside) // 2
    mixed = [replace(doc, docno=f"d{hash_of(doc)}") for doc in (*outside[:half], *inside, *outside[half:])]
    found = described(mixed, {f"d{hash_of(doc)}" for doc in inside})
    assert warned(found) == ["place in the collection"]


def hash_of(doc: Doc) -> int:
    """A number without the order of the documents."""
    return int(doc.docno[1:]) * 7919 % 100_003


def test_queries_whose_relevant_documents_are_longer_than_those_listed_with_them_are_warned_of():
    """All documents are relevant to some query, so that only the lists tell."""
    docs, _ = fair_set()
    by_length = sorted(docs, key=lambda doc: len(doc.text.split()))
    pools = [
        Ranking.ranked(Query(f"q{n + 1}", "why ?"), tuple(d.docno for d in by_length[:20]), range(20))
        for n, doc in enumerate(sorted(docs, key=lambda doc: doc.docno))
    ]
    found = described(docs, {doc.docno for doc in docs}, pools)
    (length,) = (row for row in found.separations if row.name == "length of the text")
    assert length.areas["documents"] is None
    assert not length.areas["collection"].separates
    assert length.areas["lists"].value > 0.9
    assert "(lists)" in length.warning()
    assert warned(found) == ["length of the text"]


def test_a_document_that_most_queries_are_about_counts_as_often_in_the_collection():
    docs, _ = fair_set()
    longest = sorted(docs, key=lambda doc: -len(doc.text.split()))[:40]
    asked = [("why ?", doc.docno, "") for doc in docs] + [("who ?", doc.docno, "") for doc in longest] * 30
    collection = replace(
        qa_set("set", {d.docno: d.text for d in docs}, {"test": asked}), docs=lambda: iter(docs)
    )
    found = describe(collection, count=lambda text: len(text.split())).confounds
    (length,) = (row for row in found.separations if row.name == "length of the text")
    assert length.areas["documents"] is None
    assert length.areas["collection"].value > 0.8


def test_a_set_without_relevant_documents_has_no_comparison():
    docs, _ = fair_set()
    assert described(docs, set()) is None
    assert describe(qa_set("none", {}, {}), count=len).confounds is None


values = st.lists(st.integers(0, 6), min_size=1, max_size=30)


@given(values, values)
def test_the_area_is_the_share_of_ordered_pairs(inside, outside):
    ranks = rank_middle(np.array([*inside, *outside], float))
    area = area_of_ranks(ranks[: len(inside)], len(ranks))
    pairs = [(a > b) + (a == b) / 2 for a in inside for b in outside]
    assert area == pytest.approx(sum(pairs) / len(pairs))


@pytest.mark.parametrize(("area", "inside", "outside"), [(0.8, 30, 40), (0.5, 10, 900), (0.17, 1388, 1478)])
def test_ends_of_intervals_are_the_roots_of_newcombes_equation(area, inside, outside):
    from scipy.optimize import brentq

    def distance(theta):
        n = (inside + outside) / 2 - 1
        v = (
            theta
            * (1 - theta)
            * (1 + n * (1 - theta) / (2 - theta) + n * theta / (1 + theta))
            / inside
            / outside
        )
        return abs(area - theta) - 1.959964 * v**0.5

    expected = brentq(distance, 1e-9, area), brentq(distance, area, 1 - 1e-9)
    assert newcombe_interval(area, inside, outside) == pytest.approx(expected)


def test_intervals_hold_their_promise_and_do_not_collapse_where_all_pairs_are_ordered():
    rng, held = np.random.default_rng(0), 0
    for _ in range(400):
        ranks = rank_middle(np.concatenate([rng.normal(1, 1, 40), rng.normal(0, 1, 60)]))
        low, high = newcombe_interval(area_of_ranks(ranks[:40], 100), 40, 60)
        held += low <= 0.7602 <= high  # the normal distribution function at 1 / sqrt(2)
    assert 0.92 <= held / 400 <= 0.98
    low, high = newcombe_interval(1.0, 4, 5)
    assert low < 0.8
    assert high == 1.0


def test_an_area_separates_from_the_threshold_on_and_if_chance_is_outside_its_interval():
    assert Area(WARN_FROM, 0.6, 0.7).separates
    assert Area(1 - WARN_FROM, 0.3, 0.4).separates
    assert not Area(WARN_FROM - 0.01, 0.6, 0.7).separates
    assert not Area(0.9, 0.45, 1.0).separates


def test_the_command_warns_and_json_has_every_number(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    docs, relevant = fair_set()
    docs = [without_titles(doc, doc.docno in relevant, None) for doc in docs]
    (tmp_path / "set").mkdir()
    queries = [Query(f"q-{docno}", "why ?") for docno in sorted(relevant)]
    write_beir(tmp_path / "set", docs, queries, {"test": [(q.qid, q.qid[2:]) for q in queries]}, {"test": []})
    shown = " ".join(ok("data stats set").stdout.split())
    assert "what tells relevant documents, besides their texts" in shown
    assert "warning: of the pairs of a relevant and another document, the title alone orders 100 %" in shown
    record = json.loads(ok("data stats set --json").stdout)["confounds"]
    assert record["properties"][0]["name"] == "title"
    assert record["properties"][0]["areas"]["documents"]["value"] == 0.0
    assert record["warnings"] == collection_statistics("set").remarks


@pytest.mark.data
def test_dila_is_warned_of_by_its_lengths_alone(data):
    found = collection_statistics(tr.collection(data / "dila")).confounds
    assert warned(found) == ["length of the text"]
    (length,) = (row for row in found.separations if row.name == "length of the text")
    assert (length.relevant, length.others) == ("331", "899")
    assert length.areas["documents"].share == pytest.approx(0.83, abs=0.005)
