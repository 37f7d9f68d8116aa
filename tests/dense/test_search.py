"""Exact search is exact: what it finds is what scoring everything in float64 finds, ties included."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from small_vectors import asked, brute, made, stored
from telerank.dense import search as searching
from telerank.dense import tile
from telerank.dense.kinds import KINDS
from telerank.dense.search import rank_exhaustively, search
from telerank.dense.vectors import Encoded
from telerank.errors import DocumentError, ModelError

ROWS = 12_000


@pytest.fixture(scope="module", params=KINDS)
def kept(request, tmp_path_factory):
    return stored(tmp_path_factory.mktemp("vectors") / "v", made(ROWS, 100), request.param)


@pytest.mark.parametrize("queries", [1, 3, 70])
def test_the_best_are_those_of_float64(kept, queries):
    wanted = made(queries, 100, seed=1)
    for query, found in zip(wanted, search(kept, asked(wanted), 50), strict=True):
        docnos, scores = brute(kept, query, 50)
        assert [kept.docnos[row] for row in found.rows] == docnos
        assert np.allclose(found.scores, scores, rtol=1e-7, atol=0)


def test_queries_in_any_batch_find_the_same(kept):
    wanted = made(9, 100, seed=2)
    together = search(kept, asked(wanted), 100)
    for query, found in zip(wanted, together, strict=True):
        alone = search(kept, asked(query[None]), 100)[0]
        slow = rank_exhaustively(kept, query, 100)
        for other in (alone, slow):
            assert (found.rows == other.rows).all()
            assert (found.scores == other.scores).all()


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_find_the_same(kept, threads):
    wanted = made(6, 100, seed=3)
    for one, other in zip(
        search(kept, asked(wanted), 40), search(kept, asked(wanted), 40, threads=threads), strict=True
    ):
        assert (one.rows == other.rows).all()


@pytest.mark.parametrize("queries", [1, 5])
def test_a_processor_without_the_instruction_finds_the_same(kept, queries, monkeypatch):
    wanted = made(queries, 100, seed=4)
    usual = search(kept, asked(wanted), 30)
    monkeypatch.setattr(tile, "is_available", lambda: False)
    for one, other in zip(usual, search(kept, asked(wanted), 30), strict=True):
        assert (one.rows == other.rows).all()


@pytest.mark.parametrize("dimension", [1, 2, 3, 7, 32, 384])
@pytest.mark.parametrize("queries", [1, 5])
def test_any_dimension_is_searched(dimension, queries, tmp_path):
    kept = stored(tmp_path / "v", made(3000, dimension), shard=1700)
    wanted = made(queries, dimension, seed=5)
    for query, found in zip(wanted, search(kept, asked(wanted), 20), strict=True):
        assert [kept.docnos[row] for row in found.rows] == brute(kept, query, 20)[0]


@pytest.mark.parametrize("queries", [1, 5])
def test_ties_are_broken_by_docno_however_many_there_are(queries, tmp_path):
    random = np.random.default_rng(0)
    kept = stored(tmp_path / "v", random.integers(-1, 2, (40_000, 6)).astype(np.float32))
    wanted = random.integers(-1, 2, (queries, 6)).astype(np.float32)
    for query, found in zip(wanted, search(kept, asked(wanted), 500), strict=True):
        docnos, scores = brute(kept, query, 500)
        assert [kept.docnos[row] for row in found.rows] == docnos
        assert (found.scores == scores).all()


@pytest.mark.parametrize("value", [0.0, 1e-30, 1e17])
def test_a_corpus_of_one_vector_again_and_again_is_ranked_by_docno(value, tmp_path):
    kept = stored(tmp_path / "v", np.full((30_000, 4), value, np.float32))
    found = search(kept, asked(np.ones((1, 4))), 10)[0]
    assert [kept.docnos[row] for row in found.rows] == sorted(kept.docnos, reverse=True)[:10]


def test_a_query_of_zeros_ties_everything(kept):
    found = search(kept, asked(np.zeros((1, 100))), 10)[0]
    assert (found.scores == 0).all()
    assert [kept.docnos[row] for row in found.rows] == sorted(kept.docnos, reverse=True)[:10]


def test_numbers_of_all_sizes_keep_their_order(tmp_path):
    random = np.random.default_rng(6)
    vectors = made(20_000, 16) * 10.0 ** random.uniform(-12, 6, (20_000, 1)).astype(np.float32)
    kept = stored(tmp_path / "v", vectors.astype(np.float32))
    wanted = made(5, 16, seed=7) * np.float32(1e-8)
    for query, found in zip(wanted, search(kept, asked(wanted), 100), strict=True):
        assert [kept.docnos[row] for row in found.rows] == brute(kept, query, 100)[0]


def test_as_many_as_there_are_and_more(kept):
    query = made(1, 100, seed=8)
    for k in (ROWS - 1, ROWS, 2 * ROWS):
        found = search(kept, asked(query), k)[0]
        assert [kept.docnos[row] for row in found.rows] == brute(kept, query[0], k)[0]


def test_a_score_is_explained_to_the_bit(kept):
    query = made(1, 100, seed=9)
    found = search(kept, asked(query), 20)[0]
    assert [kept.score_rows(np.array([row]), query[0])[0] for row in found.rows] == found.scores.tolist()


def test_vectors_of_two_models_do_not_meet(kept):
    with pytest.raises(
        ModelError, match="were made by letters \\(ffffffffffff\\), the query's by another model"
    ):
        search(kept, Encoded(made(1, 100), "0" * 64), 5)


def test_dimensions_must_agree(kept):
    with pytest.raises(ModelError, match="vectors of 100 dimensions, queries of shape \\(1, 99\\)"):
        search(kept, asked(made(1, 99)), 5)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 3e38])
def test_a_query_that_has_no_scores_is_refused(kept, wrong):
    with pytest.raises(DocumentError, match="query 1: its vector has a length of"):
        search(kept, asked(np.full((1, 100), wrong)), 5)


def test_what_a_search_holds_is_bounded(kept):
    wanted = asked(made(64, 100, seed=10))
    search(kept, wanted, 1000)
    tracemalloc.start()
    search(kept, wanted, 1000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20


def test_room_does_not_depend_on_the_rows():
    assert 12 * searching._ROOM < 50 << 20
