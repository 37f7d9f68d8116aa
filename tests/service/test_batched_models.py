from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from small_models import small_encoder
from small_rerankers import pairs, small_reranker
from telerank.dense.encoder import TorchEncoder
from telerank.reranking.scorer import Scorer
from telerank.reranking.stage import CrossReranker
from telerank.service.batching.batcher import Batchers
from telerank.service.batching.models import BatchedEncoder, BatchedReranker
from telerank.service.batching.waiting import PairsToScore, TextsToEncode
from telerank.service.settings import Limits
from telerank.types import Query, Ranking

LARGEST = 2e-6
"""How far a score may differ between batches: 16 units in the last place of float32, for scores about 1."""


def together(batcher_of, requests):
    """The replies of requests that are sent at once."""

    async def run():
        with ThreadPoolExecutor(1) as computing:
            batchers = Batchers(computing, Limits(batch_wait=0.2))
            replies = await asyncio.gather(*(batcher_of(batchers).submit(request) for request in requests))
            await batchers.aclose()
            return replies

    return asyncio.run(run())


@pytest.mark.parametrize("kind", ["monobert", "bert-dmn"])
def test_scores_are_those_of_the_stage_and_of_no_batch(tmp_path, kind):
    reranker = small_reranker(tmp_path, kind)
    query, texts = "q1 q2", [passage for _, passage in pairs(40)]
    docs = {f"{number:02}": text for number, text in enumerate(texts)}
    candidates = Ranking.ranked(Query("1", query), list(docs), [0.0] * len(docs))
    ranking = next(CrossReranker(reranker, docs)([candidates]))
    staged = dict(zip(ranking.docnos, ranking.scores, strict=True))

    scorer = Scorer(reranker, tokens=300)
    requests = [PairsToScore([(query, text) for text in texts])]
    requests += [PairsToScore(pairs(5, seed=seed)) for seed in range(1, 6)]
    scores = together(lambda batchers: batchers.of("m", scorer), requests)[0].results
    expected = np.array([staged[docno] for docno in docs])
    assert np.abs(scores - expected).max() < LARGEST
    assert np.ptp(expected) > 0.01
    alone = [PairsToScore([pair]) for pair in requests[0].pairs[:1]]
    scores = together(lambda batchers: batchers.of("m", scorer), alone)[0].results
    assert np.abs(scores - expected[:1]).max() < LARGEST


def test_a_passage_is_cut_at_a_length_or_at_its_beginning(tmp_path):
    reranker = small_reranker(tmp_path, max_length=20)
    model = BatchedReranker(Scorer(reranker))
    room = 20 - 3 - 1
    long = " ".join(f"d{number}" for number in range(room + 5))
    end = " ".join(f"d{number}" for number in range(5, room + 5))
    work = model.tokenize(PairsToScore([("q1", long), ("q1", "d1 d2 d3")], left=True))
    assert work.cut.tolist() == [True, False]
    assert work.lengths.tolist() == [20, 7]
    expected = Scorer(reranker).score([("q1", end), ("q1", "d1 d2 d3")])
    assert np.allclose(model.compute([(work.content, [0, 1])]), expected, atol=LARGEST)

    work = model.tokenize(PairsToScore([("q1", "d1 d2 d3"), ("q1", "d4 d5"), ("q1", long)], max_tokens=2))
    assert work.cut.tolist() == [True, False, True]
    expected = Scorer(reranker).score([("q1", "d1 d2"), ("q1", "d4 d5"), ("q1", "d0 d1")])
    assert np.allclose(model.compute([(work.content, [0, 1, 2])]), expected, atol=LARGEST)


def test_sentences_of_a_passage_that_loses_its_beginning_are_numbered_anew(tmp_path):
    model = BatchedReranker(Scorer(small_reranker(tmp_path, "bert-dmn", max_length=20)))
    text = "d1 d2 d3. d4 d5 d6. d7 d8 d9. " * 4
    work = model.tokenize(PairsToScore([("q1", text)], left=True))
    assert work.content.passages[0].sentences[0] == 0
    assert np.isfinite(model.compute([(work.content, [0])])).all()


def test_vectors_are_those_of_the_encoder(tmp_path):
    encoder = TorchEncoder(str(small_encoder(tmp_path / "encoder")))
    texts = [passage for _, passage in pairs(30, longest=400)]
    documents, queries = TextsToEncode(texts), TextsToEncode(texts[:7], queries=True)
    replies = together(lambda batchers: batchers.of("e", encoder), [documents, queries])
    tokens, cut = encoder.tokenize(texts)
    assert np.abs(replies[0].results - encoder.encode_tokens(tokens)).max() < LARGEST
    assert np.abs(replies[1].results - encoder.encode_queries(texts[:7]).vectors).max() < LARGEST
    assert replies[0].cut.sum() == cut > 0
    assert replies[0].tokens == sum(map(len, tokens))


def test_vectors_keep_their_lengths_if_that_is_asked(tmp_path):
    from dataclasses import replace

    from telerank.models.encoders.folders import load_bi_encoder, save_bi_encoder

    model, tokenizers = load_bi_encoder(small_encoder(tmp_path / "encoder"))
    model.settings = replace(model.settings, normalise=True)
    save_bi_encoder(model, tokenizers, tmp_path / "normalising")
    batched = BatchedEncoder(TorchEncoder(str(tmp_path / "normalising")))
    vectors = {}
    for normalise in (True, False):
        work = batched.tokenize(TextsToEncode(["d1 d2", "d3"], normalise=normalise))
        vectors[normalise] = batched.compute([(work.content, [0, 1])])
    lengths = np.linalg.norm(vectors[False], axis=1, keepdims=True)
    assert np.abs(lengths - 1).min() > 0.01
    assert np.allclose(vectors[False] / lengths, vectors[True], atol=LARGEST)
