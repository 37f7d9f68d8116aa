"""The rankings themselves: fast path, slow path and plain Python agree to the bit, for every model."""

# ruff: noqa: ARG002 — models made for tests need not every statistic

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import product
from math import fsum
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import MODELS, STEP, build, docs, reference, retriever, terms_of

from telerank.sparse import kernel
from telerank.sparse.index import SparseIndex
from telerank.sparse.similarities.base import Similarity
from telerank.sparse.similarities.families import BM25, DFR, NoNormalization
from telerank.sparse.writer import IndexWriter, build_index
from telerank.types import Doc, Query

CUTS = (1, 10, 100, 1000, None)


def zipf(seed: int, size: int, longest: int = 30) -> list[str]:
    """Texts of up to ``longest`` of nine letters, each twice as frequent as the next; some are empty."""
    random = Random(seed)
    weights = [2.0**-i for i in range(9)]
    return [" ".join(random.choices("abcdefghi", weights, k=random.randint(0, longest))) for _ in range(size)]


QUERIES = ("a", "i", "b d", "h h h a", "a b c d e f g h i", "i nowhere", "nowhere", "")
COLLECTIONS = {
    "many documents": zipf(1, 300),
    "many that are equal": ["a b c", "a b", "a", "a b c"] * 100,
    "all but one empty": ["", "", "a b", ""],
    "one document": ["a b a"],
    "a document short of a block": zipf(2, kernel.BLOCK - 1),
    "a block": zipf(3, kernel.BLOCK),
    "a document more than a block": zipf(4, kernel.BLOCK + 1),
    "two blocks and one": zipf(5, 2 * kernel.BLOCK + 1),
    "terms a block apart": [("a" if row % kernel.BLOCK == 0 else "b" * (row % 3)) for row in range(1000)],
    "frequencies about a byte's": [" ".join(["a"] * n + ["b"]) for n in (*range(250, 262), 1, 2, 70000)],
    "one length": [" ".join("abcdefghi"[i % (j + 1)] for i in range(9)) for j in range(9)] * 20,
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rankings")


@pytest.fixture(scope="session")
def indexes(folder) -> dict[str, SparseIndex]:
    return {name: build(folder / name, texts) for name, texts in COLLECTIONS.items()}


@pytest.mark.parametrize("name", COLLECTIONS)
def test_every_model_ranks_as_plain_python_does_compiled_or_not(name, indexes):
    index = indexes[name]
    documents = terms_of(index)
    for model, query in product(MODELS, QUERIES):
        stage = retriever(index, model)
        expected, exact = reference(documents, query.split(), model)
        for k in CUTS:
            ranking = list((stage if k is None else stage % k).search(Query("query", query)))
            assert ranking == expected[:k], (model, query, k)
        for docno, score in expected:
            # a step's half for each term, and float32's
            room = len(query.split()) * STEP / 2 + exact[docno] * 2**-24
            assert abs(score - exact[docno]) <= room, (model, query, docno)
        [impacts] = index.impacts(model)
        counts = Counter(term for term in query.split() if index.term(term).df)
        terms = [index.term(text) for text in counts]
        impacts.prepare((term.numbers[0], term.df, term.cf) for term in terms)
        weights = {term.numbers[0]: count for term, count in zip(terms, counts.values(), strict=True)}
        for k in (1, 10, len(documents)):
            for rows, scores in (
                impacts.rank_by_numpy(weights, k),
                impacts.rank([weights], k)[0],
                impacts.rank_exhaustively(weights, k),
            ):
                docnos = [f"d{row}" for row in rows]
                assert list(zip(docnos, scores.tolist(), strict=True)) == expected[:k], (model, query, k)


@pytest.mark.parametrize("name", ["many documents", "one length", "frequencies about a byte's"])
def test_the_explanation_of_every_score_sums_to_it_exactly(name, indexes):
    index = indexes[name]
    for model, query in product(MODELS, QUERIES):
        stage = retriever(index, model)
        for docno, score in (stage % 10).search(Query("query", query)):
            explanation = stage.explain(Query("q", query), docno)
            parts = [part.value for part in explanation.parts]
            assert sum(parts) == fsum(parts) == explanation.value == score, (model, query, docno)


def test_queries_may_hold_more_terms_than_are_pruned(folder):
    words = [f"w{number}" for number in range(300)]
    random = Random(1)
    index = build(
        folder / "terms", [" ".join(random.choices(words, k=random.randint(0, 40))) for _ in range(600)]
    )
    for terms in (63, 64, 65, 200):
        query = words[:terms] + words[:3] * 4
        expected, _ = reference(terms_of(index), query, BM25())
        for k in (1, 10, 75, None):
            assert (
                list(retriever(index).limit(k or 1000).search(Query("query", " ".join(query))))
                == expected[:k]
            )


@pytest.mark.parametrize("model", [BM25(), DFR(normalization=NoNormalization())])
def test_bounds_of_parts_leave_out_no_document_of_queries_of_many_terms(model, folder):
    """A document in four hundred has many of the terms, and one many of the rarer ones, which have no parts
    in tables; some terms are too rare for a table at all."""
    random = Random(7)
    words = [f"w{number}" for number in range(80)]
    chances = [0.3 / (1 + number % 40) for number in range(80)]
    texts = []
    for row in range(5000):
        more = 8 if row % 400 == 11 else 1
        own = [0.6 * (chance < 0.016) for chance in chances] if row % 400 == 211 else chances
        held = [word for word, chance in zip(words, own, strict=True) if random.random() < more * chance]
        texts.append(" ".join(word for word in held for _ in range(random.randint(1, 5))))
    index = build(folder / f"parts-{model.name}", texts)
    [impacts] = index.impacts(model)
    for size in (7, 8, 20, 64):
        terms = [index.term(word) for word in random.sample(words, size)]
        impacts.prepare((term.numbers[0], term.df, term.cf) for term in terms)
        weights = {term.numbers[0]: random.choice((1, 3, 40)) for term in terms if term.df}
        for k in (1, 10, 100, 625):
            [(rows, scores)] = impacts.rank([weights], k)
            expected = impacts.rank_exhaustively(weights, k)
            assert np.array_equal(rows, expected[0]), (size, k)
            assert np.array_equal(scores, expected[1]), (size, k)


def test_sums_beyond_the_range_of_the_fast_path_are_ranked_alike(folder):
    """A repeated term takes a query from the fast path (sums below 2^31 steps, 2,048) to the slow one."""
    model = DFR("in", "none", NoNormalization())  # tf · bits: unbounded
    index = build(folder / "large sums", [*zipf(7, 400), "i " * 300, "i " * 290 + "h " * 100, "g " * 2000])
    documents, stage = terms_of(index), retriever(index, model)
    for query in ("i", "i h", "g", "h " * 400, "h a " * 3000):
        expected, _ = reference(documents, query.split(), model)
        for k in (1, 10, None):
            assert list(stage.limit(k or 1000).search(Query("query", query))) == expected[:k]
        for docno, score in (stage % 20).search(Query("query", query)):
            said = stage.explain(Query("q", query), docno)
            assert said.value == score == sum(part.value for part in said.parts)
    assert (stage % 1).search("h a " * 3000).scores[0] > 2048


def test_sums_beyond_the_range_of_whole_numbers_are_ranked_as_they_are_explained(folder):
    """2^41, the most that one contribution may be, a thousand times: 2^71 steps."""
    index = build(folder / "largest sums", ["a b", "a", "b b", "a a b"])
    stage = retriever(index, Drawn(1, 2**60, 2**61))
    query = "a " * 1000 + "b " * 999
    ranking = stage.search(query)
    assert ranking.scores[-1] > 2**49
    assert [
        stage.explain(Query("q", query), docno).value for docno in ranking.docnos
    ] == ranking.scores.tolist()


@dataclass(frozen=True)
class Drawn(Similarity):
    """Contributions of ``low`` to ``high`` steps, as a table has them for frequency, length and df."""

    seed: int
    low: int
    high: int

    def formula(self, tf, length, df, cf, collection):
        table = np.random.default_rng(self.seed).integers(self.low, self.high, 997, endpoint=True)
        rows = np.asarray(tf) * 31 + np.asarray(length) * 7 + df
        return table[rows.astype(np.int64) % 997] * STEP


@dataclass(frozen=True)
class ByLength(Similarity):
    """``base`` steps, and one more where a document is longer than three terms."""

    base: int

    def formula(self, tf, length, df, cf, collection):
        return (self.base + (np.asarray(length) > 3)) * STEP


@pytest.fixture(scope="session")
def plain(folder) -> SparseIndex:
    return build(folder / "drawn", zipf(8, 1300))


@pytest.fixture(scope="session")
def with_gaps(folder) -> SparseIndex:
    """The same, a third deleted."""
    build(folder / "gaps", zipf(8, 1300))
    with IndexWriter(folder / "gaps") as writer:
        writer.delete(f"d{number}" for number in range(0, 1300, 3))
    return SparseIndex(folder / "gaps")


# steps where float32 ties begin (2^24), where they are wide, where int32 ends
LOWEST = [0, 1, 2**20, 2**24 - 4, 2**24, 2**27, 2**30, 2**31 - 300, 2**31, 2**40]
drawn = st.builds(
    lambda seed, low, width: Drawn(seed, low, low + width),
    st.integers(0, 2**32),
    st.sampled_from(LOWEST),
    st.sampled_from([0, 1, 3, 40, 1000, 2**20]),
)


@settings(max_examples=100)
@given(drawn, st.lists(st.sampled_from("abcdefghi"), min_size=1, max_size=5), st.integers(1, 162))
def test_whatever_a_model_adds_the_fast_path_ranks_as_the_slow_one(plain, with_gaps, model, query, k):
    text = " ".join(query)
    for index in (plain, with_gaps):
        whole = retriever(index, model).search(Query("query", text))
        assert retriever(index, model).limit(k).search(Query("query", text)) == whole.cut(k)
    documents = terms_of(plain)
    gone = [f"d{number}" for number in range(0, 1300, 3)]
    assert (
        list(retriever(index, model).search(Query("query", text)))
        == reference(documents, query, model, gone)[0]
    )


def test_a_score_that_float32_rounds_up_to_a_tie_is_not_pruned(folder):
    """Ten documents are known to reach ``base`` + 1; the eleventh adds less, but its score is the same."""
    texts = [" ".join(["a"] * 4 + ["x"] * 6)] * 10 + ["b " * 12] * 150
    documents = [*docs(texts), *docs(["a x x"], 999)]
    index = build_index(documents, folder / "tie", analyzer="none", workers=1)
    for base in (2**24, 2**27, 2**30):
        expected, _ = reference(terms_of(index), ["a"], ByLength(base))
        assert len({score for _, score in expected}) == 1
        assert list((retriever(index, ByLength(base)) % 10).search("a")) == expected[:10]


def test_ties_at_any_cut_are_those_of_the_whole_ranking(folder):
    """Nearly all documents tie with others, in several blocks and segments; docnos are in no order."""
    texts = ["a b", "a b c", "a a d", *(f"a b w{number}" for number in range(3))] * 150
    documents = [Doc(f"d{number * 7919 % 1009}", text) for number, text in enumerate(texts)]
    build_index(documents[:500], folder / "ties", analyzer="none", workers=1)
    with IndexWriter(folder / "ties", workers=1) as writer:
        writer.add(documents[500:])
        writer.delete([doc.docno for doc in documents[::11]])
    for model in ("bm25", "lm_dirichlet", "dfr", "dfi"):
        ranked = retriever(SparseIndex(folder / "ties"), model)
        whole = list((ranked % len(documents)).search("a b d"))
        assert whole == sorted(whole, key=lambda pair: (pair[1], pair[0]), reverse=True)
        assert len({score for _, score in whole}) < 10
        for k in (1, 2, 3, 10, 99, 100, 101, 255, 256, 257, 500, 700):
            assert list((ranked % k).search("a b d")) == whole[:k]


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.sampled_from("aabcd"), max_size=6), min_size=1, max_size=40),
    st.lists(st.sampled_from("abcdz"), max_size=5),
    st.sampled_from(MODELS),
)
def test_any_small_collection_is_ranked_as_plain_python_does(tmp_path_factory, texts, query, model):
    index = build(tmp_path_factory.mktemp("any"), [" ".join(text) for text in texts])
    expected, _ = reference(terms_of(index), query, model)
    for k in (1, 2, 5, None):
        assert (
            list(retriever(index, model).limit(k or 1000).search(Query("query", " ".join(query))))
            == expected[:k]
        )
