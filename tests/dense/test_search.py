"""Exact search is exact: it finds what scoring everything in float64 finds, ties included."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from small_vectors import asked, brute, check_hits, made, stored
from telerank.dense import tile
from telerank.dense.kinds import KINDS
from telerank.dense.search import rank_exhaustively, search
from telerank.dense.vectors import Encoded
from telerank.errors import DocumentError, ModelError

ROWS = 12_000


@pytest.fixture(scope="module", params=KINDS)
def kept(request, tmp_path_factory):
    return stored(tmp_path_factory.mktemp("vectors") / "v", made(ROWS, 100), request.param)


def check_best(vectors, queries, k):
    queries = np.asarray(queries, np.float32)
    expected = brute(vectors, queries, k)
    for hits, (docnos, scores) in zip(search(vectors, asked(queries), k), expected, strict=True):
        assert [vectors.docnos[row] for row in hits.rows] == docnos
        np.testing.assert_allclose(hits.scores, scores, rtol=1e-7, atol=0)


def test_the_best_are_those_of_float64(kept):
    for queries in (made(1, 100, seed=1), made(3, 100, seed=1), made(70, 100, seed=1), np.zeros((1, 100))):
        check_best(kept, queries, 50)
    for k in (ROWS - 1, ROWS, 2 * ROWS):
        check_best(kept, made(1, 100, seed=8), k)


def test_the_same_is_found_in_any_batch_by_threads_and_without_the_instructions(kept, monkeypatch):
    queries = made(9, 100, seed=2)
    together = search(kept, asked(queries), 100)
    check_hits([search(kept, asked(query[None]), 100)[0] for query in queries], together)
    check_hits([rank_exhaustively(kept, query, 100) for query in queries], together)
    for threads in (2, 5):
        check_hits(search(kept, asked(queries), 100, threads=threads), together)
    for features in {tile.has(tile.AVX2) * (tile.AVX2,), ()}:
        monkeypatch.setattr(tile, "has", lambda feature, has=features: feature in has)
        check_hits(search(kept, asked(queries), 100), together)


@pytest.mark.parametrize("queries", [1, 5])
def test_any_dimension_is_searched(queries, tmp_path):
    for dimension in (1, 2, 3, 7, 32, 384):
        kept = stored(tmp_path / f"{dimension}", made(3000, dimension), shard=1700)
        check_best(kept, made(queries, dimension, seed=5), 20)


def test_ties_are_broken_by_docno_however_many_there_are(tmp_path):
    random = np.random.default_rng(0)
    kept = stored(tmp_path / "v", random.integers(-1, 2, (40_000, 6)))
    for queries in (1, 5):
        check_best(kept, random.integers(-1, 2, (queries, 6)), 500)
    for value in (0.0, 1e-30, 1e17):
        same = stored(tmp_path / f"{value}", np.full((30_000, 4), value, np.float32))
        [hits] = search(same, asked(np.ones((1, 4))), 10)
        assert [same.docnos[row] for row in hits.rows] == sorted(same.docnos, reverse=True)[:10]


def test_numbers_of_all_sizes_keep_their_order(tmp_path):
    random = np.random.default_rng(6)
    vectors = made(20_000, 16) * 10.0 ** random.uniform(-12, 6, (20_000, 1))
    kept = stored(tmp_path / "v", vectors.astype(np.float32))
    check_best(kept, made(5, 16, seed=7) * np.float32(1e-8), 100)


def test_a_score_is_explained_to_the_bit(kept):
    query = made(1, 100, seed=9)
    [hits] = search(kept, asked(query), 20)
    assert [kept.score_rows(np.array([row]), query[0])[0] for row in hits.rows] == hits.scores.tolist()


def test_queries_that_have_no_scores_are_refused(kept):
    with pytest.raises(ModelError, match=r"were made by letters \(f{12}\), the query's by another model"):
        search(kept, Encoded(made(1, 100), "0" * 64), 5)
    with pytest.raises(ModelError, match=r"vectors of 100 dimensions, queries of shape \(1, 99\)"):
        search(kept, asked(made(1, 99)), 5)
    for wrong in (np.nan, np.inf, 3e38):
        with pytest.raises(DocumentError, match="query 1: its vector has a length of"):
            search(kept, asked(np.full((1, 100), wrong)), 5)


def test_what_a_search_holds_is_bounded_and_does_not_grow_with_the_queries(kept):
    search(kept, asked(made(64, 100, seed=10)), 1000)
    peaks = []
    for count, k in ((64, 1000), (512, 50)):
        queries = asked(made(count, 100, seed=10))
        tracemalloc.start()
        search(kept, queries, k)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(peaks) < 64 << 20, peaks
    assert peaks[1] < 36 << 20, peaks
