"""Vectors of pairs: how far classes lie apart, and their maps."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("sklearn")

from gated_models import pairs_without_sentences  # noqa: E402

from small_models import small_encoder  # noqa: E402
from telerank.errors import CollectionError  # noqa: E402
from telerank.inspect.embeddings import compute_cls_vectors, compute_tsne, measure_separation  # noqa: E402
from telerank.models.rerankers.kinds import Shape  # noqa: E402
from telerank.models.rerankers.reranker import fresh_reranker  # noqa: E402

SMALL = {"max_query": 8, "max_length": 32}
RANDOM = np.random.default_rng(5)
RELEVANT = np.arange(60) % 3 == 0
MIXED = RANDOM.normal(size=(60, 8)).astype(np.float32)
APART = MIXED + 6 * RELEVANT[:, None].astype(np.float32)


def test_a_pair_has_the_vector_that_its_first_token_has_alone(tmp_path):
    reranker = fresh_reranker(small_encoder(tmp_path), Shape("monobert", **SMALL))
    pairs = pairs_without_sentences(reranker, ["q1 q2", "q3", "q4"], ["d1", "d2 d3 d4 d5", "d6 d7"])
    found = compute_cls_vectors(reranker, pairs, batch_tokens=16)
    for vector, pair in zip(found, pairs, strict=True):
        inputs = {
            "input_ids": torch.tensor(pair.ids[None]).long(),
            "token_type_ids": torch.tensor(pair.types[None]).long(),
        }
        with torch.no_grad():
            alone = reranker.model.classifier.bert(**inputs).last_hidden_state[0, 0]
        np.testing.assert_allclose(vector, alone, atol=1e-5)


@pytest.mark.parametrize("vectors", [MIXED, APART])
def test_separation_is_what_it_says_computed_vector_by_vector(vectors):
    distances = np.sqrt(((vectors[:, None] - vectors[None]) ** 2).sum(-1))
    shares, silhouettes = {True: [], False: []}, []
    for i in range(len(vectors)):
        own = RELEVANT[i] == RELEVANT
        others = np.arange(len(vectors)) != i
        a, b = distances[i, own & others].mean(), distances[i, ~own].mean()
        silhouettes.append((b - a) / max(a, b))
        nearest = sorted(np.flatnonzero(others), key=lambda j, i=i: distances[i, j])[:10]
        shares[bool(RELEVANT[i])].append(np.mean(own[nearest]))
    found = measure_separation(vectors, RELEVANT.tolist())
    assert found.silhouette == pytest.approx(np.mean(silhouettes), abs=1e-5)
    assert found.agreement == pytest.approx((np.mean(shares[True]) + np.mean(shares[False])) / 2, abs=1e-9)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_same_seed_gives_the_same_map_that_keeps_neighbours(dimensions):
    found = compute_tsne(APART, dimensions, perplexity=10)
    assert found.shape == (60, dimensions)
    assert np.array_equal(found, compute_tsne(APART, dimensions, perplexity=10))
    assert measure_separation(found, RELEVANT).agreement > 0.85


def test_too_few_pairs_are_refused():
    with pytest.raises(CollectionError, match="3 pairs of a class are too few for 10 neighbours"):
        measure_separation(MIXED, [i < 3 for i in range(60)])
    with pytest.raises(CollectionError, match="a perplexity of 60 needs more than 60 pairs"):
        compute_tsne(MIXED, perplexity=60)
