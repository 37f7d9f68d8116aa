"""What a scorer does for a GPU, without one: batches, windows, precision, memory."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from transformers import masking_utils

from small_gpu import on_gpu
from small_rerankers import pairs, small_reranker, with_passages
from telerank.errors import ModelError
from telerank.models.inference import prepare_inference
from telerank.models.pairs.pair import PairBatch, batch_of
from telerank.reranking import scorer as module
from telerank.reranking.scorer import Scorer
from telerank.reranking.texts import make_pairs, tokenize_for

PAIRS = [*pairs(60), ("", ""), ("q1 " * 40, "d1. d2." * 30)]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rerankers")


@pytest.fixture(scope="module")
def mono(folder):
    return small_reranker(folder)


@pytest.mark.parametrize("kind", ["monobert", "bert-dmn"])
@pytest.mark.parametrize("architecture", ["bert", "camembert"])
def test_pairs_are_joined_in_batches_as_they_are_one_by_one(folder, kind, architecture):
    reranker = small_reranker(folder, kind, architecture, max_length=24)
    tokenized, rows = tokenize_for(reranker, PAIRS), [61, 3, 60, 17, 3]
    alone = [tokenized[row] for row in rows]
    expected = batch_of(alone, reranker.texts.pad_id)
    joined = PairBatch.of_block(tokenized.join(rows, 24))
    for name, tensor in vars(expected).items():
        assert torch.equal(getattr(joined, name), tensor), name
    assert tokenized.lengths[rows].tolist() == [len(pair) for pair in alone]
    assert tokenized.cut[rows].tolist() == [[pair.cut_query, pair.cut_passage] for pair in alone]


def test_batches_of_a_gpu_have_lengths_of_eight_and_three_tensors(mono, folder, monkeypatch):
    exact = Scorer(mono).score(PAIRS)
    gpu = on_gpu(monkeypatch, module)
    assert np.allclose(Scorer(mono, tokens=400).score(PAIRS), exact, atol=1e-5)
    longest = mono.shape.max_length
    assert all(
        batch.input_ids.shape[1] % 8 == 0 or batch.input_ids.shape[1] == longest for batch in gpu.batches
    )
    assert {batch.parts.numel() + batch.sentences.numel() for batch in gpu.batches} == {0}
    gpu.batches.clear()
    Scorer(small_reranker(folder, "bert-dmn"), tokens=400).score(PAIRS)
    assert all(batch.parts.shape == batch.input_ids.shape for batch in gpu.batches)


def test_windows_of_a_gpu_grow_with_its_batches(mono, monkeypatch):
    on_gpu(monkeypatch, module)
    sizes = []
    noted = with_passages(mono, lambda texts, passages: sizes.append(len(texts)) or passages)
    many = [("q1", f"{passage} d{n}") for n, (_, passage) in enumerate(pairs(130))]
    next(Scorer(noted, tokens=256).stream([many], window=8))
    assert sorted(sizes) == [8, 10, 16, 32, 64]  # the last one is what is left


def test_a_gpu_is_a_window_behind_and_threads_yield_to_the_one_that_feeds_it(mono, monkeypatch):
    gpu, intervals, before = on_gpu(monkeypatch, module), [], sys.getswitchinterval()
    scores = Scorer(mono, tokens=32).stream(
        [[pair] for pair in PAIRS[:20]],
        window=8,
        progress=lambda *_: intervals.append(sys.getswitchinterval()),
    )
    computed = [sum(len(batch.input_ids) for batch in gpu.batches) for _ in scores]
    assert computed == [16] * 7 + [20] * 13  # the end of a group is seen with the next pair
    assert max(intervals) < before / 10
    assert sys.getswitchinterval() == before


def test_the_weights_of_a_gpu_are_rounded_in_a_copy_and_those_that_score_are_not(folder):
    for kind in ("monobert", "bert", "bert-dmn"):
        reranker = small_reranker(folder, kind)
        batch = batch_of(make_pairs(reranker, PAIRS), reranker.texts.pad_id)
        kept = reranker.model.last_layers.parameters()
        rounded = prepare_inference(reranker.model, CPU, torch.bfloat16, kept)
        last = set(rounded.last_layers.parameters())
        assert {weight.dtype for weight in last} == {torch.float32}
        assert {weight.dtype for weight in rounded.parameters() if weight not in last} == {torch.bfloat16}
        assert {weight.dtype for weight in reranker.model.parameters()} == {torch.float32}
        with torch.inference_mode():
            exact, logits = reranker.model(batch), rounded(batch)
        assert logits.dtype is torch.float32
        assert 0 < float((logits - exact).abs().max()) < 0.3 * float(exact.std())
        assert torch.unique(logits).numel() > 0.9 * torch.unique(exact).numel()


@pytest.mark.parametrize("architecture", ["bert", "camembert"])
def test_attention_gets_its_mask_without_a_look_at_it(folder, architecture, monkeypatch):
    """A look is a wait for the GPU."""
    reranker = small_reranker(folder, "monobert", architecture)
    batches = [batch_of(make_pairs(reranker, some), reranker.texts.pad_id) for some in (PAIRS, PAIRS[:1])]
    with torch.inference_mode():
        expected = [reranker.model(batch) for batch in batches]
    copied = prepare_inference(reranker.model, CPU, torch.float32)

    def refuse(*_given, **_more):
        raise AssertionError

    monkeypatch.setattr(masking_utils, "_ignore_bidirectional_mask_sdpa", refuse)
    with torch.inference_mode():
        for batch, logits in zip(batches, expected, strict=True):
            assert torch.allclose(copied(batch), logits, atol=1e-6)


def test_batches_that_do_not_fit_are_halved_and_it_is_said_once(mono, monkeypatch):
    exact = Scorer(mono).score(PAIRS)
    gpu = on_gpu(monkeypatch, module, room=300)
    scorer = Scorer(mono, tokens=2000)
    assert np.allclose(scorer.score(PAIRS), exact, atol=1e-5)
    refused = gpu.refused
    assert refused <= 3
    scorer.score(PAIRS)
    assert gpu.refused == refused  # no other batch is tried
    assert scorer.counts.pairs == 2 * len(PAIRS)
    assert scorer.describe_memory() == f"out of memory: batches of {scorer.room.tokens} tokens from then on"
    assert Scorer(mono).describe_memory() == ""
    on_gpu(monkeypatch, module, room=10)  # a pair
    message = r"a batch of \d+ tokens does not fit into memory: CUDA out of memory. Tried to allocate 2 GiB.$"
    with pytest.raises(ModelError, match=message):
        Scorer(mono, tokens=2000).score(PAIRS)


def test_auto_names_its_precision(mono, monkeypatch):
    assert Scorer(mono).computes_in == "float32"
    assert Scorer(mono, backend="onnx").computes_in == "float32"
    on_gpu(monkeypatch, module)
    assert Scorer(mono).computes_in == "bfloat16"
    assert Scorer(mono, precision="tf32").computes_in == "tf32"
    assert Scorer(mono).changed == {}


def test_a_compiled_transformer_is_a_copys_and_takes_batches_of_any_shape(mono, monkeypatch):
    """The compiler itself takes a minute: what it makes is checked on a GPU (benchmarks/gpu)."""
    compiled = []

    def compile_it(function, *, dynamic):
        assert dynamic
        return lambda *given: compiled.append(given[0].shape) or function(*given)

    monkeypatch.setattr(torch, "compile", compile_it)
    exact = Scorer(mono, device="cpu").score(PAIRS)
    assert np.allclose(
        Scorer(mono, backend="compiled", device="cpu", tokens=400).score(PAIRS), exact, atol=1e-5
    )
    assert len(set(compiled)) > 1
    compiled.clear()
    Scorer(mono, device="cpu").score(PAIRS)
    assert not compiled
