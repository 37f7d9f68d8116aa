"""MaxSim from bytes equals the float64 sum over what is stored, by the fast path and the slow one."""

from __future__ import annotations

import numpy as np
import pytest

from telerank.dense import tile
from telerank.late_interaction.kernel import best_tokens, score_tokens
from telerank.late_interaction.store import quantise_tokens


def documents(lengths, dimension: int, seed: int = 0):
    """Codes, bounds and spans of random documents, some of them of almost equal tokens."""
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(sum(lengths), dimension)).astype(np.float32)
    vectors[1::3] = vectors[::3][: len(vectors[1::3])] * np.float32(1.0001)  # near-ties
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    ends = np.cumsum(lengths)
    return *quantise_tokens(vectors), np.stack([ends - lengths, ends], axis=1).astype(np.int64)


def expected(query, codes, bounds, spans):
    """The formula in float64, of all pairs of tokens."""
    stored = codes[:, : query.shape[1]].astype(np.float64) * bounds[:, :1].astype(np.float64)
    products = [query.astype(np.float64) @ stored[begin:end].T for begin, end in spans]
    return np.array([each.max(axis=1).sum() if each.size else 0.0 for each in products])


@pytest.mark.parametrize("count", [1, 31, 32, 33, 70])
@pytest.mark.parametrize("dimension", [16, 30, 128])
def test_scores_are_sums_of_the_largest_products(count, dimension):
    codes, bounds, spans = documents(np.array([1, 5, 0, 12, 13, 40, 120]), dimension)
    query = np.random.default_rng(1).normal(size=(count, dimension)).astype(np.float32)
    scores = score_tokens(query, codes, bounds, spans)
    assert np.allclose(scores, expected(query, codes, bounds, spans), rtol=1e-13, atol=1e-13)
    order = [4, 6, 0, 2]
    assert (score_tokens(query, codes, bounds, spans[order]) == scores[order]).all()


@pytest.mark.parametrize("dimension", [30, 128, 1024])
def test_slower_paths_have_the_same_scores(monkeypatch, dimension):
    codes, bounds, spans = documents(np.array([7, 1, 30, 0]), dimension)
    query = np.random.default_rng(2).normal(size=(40, dimension)).astype(np.float32)
    fast = score_tokens(query, codes, bounds, spans)
    for features in {tile.has(tile.AVX2) * (tile.AVX2,), ()}:
        monkeypatch.setattr(tile, "has", lambda feature, has=features: feature in has)
        assert np.allclose(score_tokens(query, codes, bounds, spans), fast, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("factor", [0.0, 1e-30, 1e15])
def test_numbers_of_any_size_are_scored(factor):
    codes, bounds, spans = documents(np.array([4, 9]), 32)
    query = np.random.default_rng(3).normal(size=(5, 32)).astype(np.float32) * np.float32(factor)
    scores = score_tokens(query, codes, bounds, spans)
    assert np.allclose(scores, expected(query, codes, bounds, spans), rtol=1e-13, atol=0)
    silent = np.zeros_like(bounds)
    assert (score_tokens(query, np.zeros_like(codes), silent, spans) == 0).all()


def test_an_explanation_has_the_best_token_of_each_query_token():
    codes, bounds, spans = documents(np.array([6, 20]), 64)
    query = np.random.default_rng(4).normal(size=(9, 64)).astype(np.float32)
    best, products = best_tokens(query, codes, bounds, (6, 26))
    stored = codes[6:26].astype(np.float64) * bounds[6:26, :1].astype(np.float64)
    assert (best == (query.astype(np.float64) @ stored.T).argmax(axis=1)).all()
    assert products.sum() == pytest.approx(score_tokens(query, codes, bounds, spans)[1], abs=1e-12)


def test_a_byte_is_within_half_a_step():
    vectors = np.random.default_rng(5).normal(size=(50, 20)).astype(np.float32)
    codes, bounds = quantise_tokens(vectors)
    assert codes.dtype == np.int8
    assert (np.abs(codes[:, :20] * bounds[:, :1] - vectors) <= bounds[:, :1] * 0.5001).all()
