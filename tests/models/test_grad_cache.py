"""A batch in parts has the gradients of the whole."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from small_models import WORDS
from telerank.models.encoders.folders import load_bi_encoder
from telerank.models.encoders.grad_cache import backward, backward_at_once
from telerank.models.losses import in_batch_softmax, multi_label_margin
from telerank.models.random_numbers import RandomNumbers

QUERIES, DOCUMENTS = WORDS[:6], [f"{WORDS[40 + i]} x1 x2" for i in range(9)]
CPU = torch.device("cpu")
RELEVANT = torch.eye(6, 9, dtype=torch.bool)
RELEVANT[0, 3] = True


@pytest.fixture(scope="module")
def trained(encoders):
    return load_bi_encoder(encoders(), dropout=0.1)


def chunks(trained, size):
    model, tokenizers = trained

    def encodings(encode, tokenizer, texts):
        parts = [tokenizer(texts[first : first + size]) for first in range(0, len(texts), size)]
        return [lambda part=part: encode(part) for part in parts]

    return (
        encodings(model.encode_queries, tokenizers.queries, QUERIES),
        encodings(model.encode_documents, tokenizers.documents, DOCUMENTS),
    )


def gradients(run, trained, size, loss):
    model = trained[0]
    model.zero_grad()
    torch.manual_seed(7)
    run = partial(run, device=CPU) if run is backward else run
    value = run(*chunks(trained, size), lambda q, d: loss(q @ d.T, RELEVANT))
    grads = {name: part.grad.clone() for name, part in model.named_parameters() if part.grad is not None}
    return float(value), grads, torch.rand(1).item()


@pytest.mark.parametrize("loss", [multi_label_margin, in_batch_softmax])
def test_cached_gradients_are_the_plain_ones(trained, loss):
    """Both draw dropout chunk by chunk, in the same order; without it the size of a chunk makes no difference."""
    for training, size, plain_size in (
        (True, 1, 1),
        (True, 2, 2),
        (True, 4, 4),
        (True, 100, 100),
        (False, 2, 100),
    ):
        trained[0].train(training)
        value, cached, after = gradients(backward, trained, size, loss)
        expected, plain, after_plain = gradients(backward_at_once, trained, plain_size, loss)
        assert value == pytest.approx(expected, rel=1e-6)
        assert after == after_plain
        assert cached.keys() == plain.keys()
        assert max(float(gradient.abs().max()) for gradient in plain.values()) > 0.01
        for name, gradient in plain.items():
            torch.testing.assert_close(cached[name], gradient, atol=1e-5, rtol=1e-5)


def test_dropout_differs_from_chunk_to_chunk(trained):
    """Else the gradients above would be equal for the wrong reason."""
    trained[0].train()
    queries, _ = chunks(trained, 1)
    state = RandomNumbers(CPU)
    vectors = queries[0]()
    assert not torch.equal(vectors, queries[0]())
    state.restore()
    assert torch.equal(queries[0](), vectors)


def test_no_graph_of_more_than_a_chunk_is_kept(trained):
    """Each chunk is encoded twice: once without a graph, and once for its gradient alone."""
    trained[0].eval()
    with_graph = []
    queries, documents = chunks(trained, 3)

    def counted(encode):
        def run():
            with_graph.append(torch.is_grad_enabled())
            return encode()

        return run

    trained[0].zero_grad()
    backward(
        list(map(counted, queries)),
        list(map(counted, documents)),
        lambda q, d: multi_label_margin(q @ d.T, RELEVANT),
        CPU,
    )
    assert with_graph == [False] * 5 + [True] * 5
