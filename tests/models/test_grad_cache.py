"""A batch in parts has the gradients of the whole."""

from __future__ import annotations

from functools import partial

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_models import WORDS, small_encoder  # noqa: E402
from telerank.models.encoders.folders import load_bi_encoder  # noqa: E402
from telerank.models.encoders.grad_cache import backward, backward_at_once  # noqa: E402
from telerank.models.losses.contrastive import in_batch_softmax, multi_label_margin  # noqa: E402
from telerank.models.random_numbers import RandomNumbers  # noqa: E402

QUERIES, DOCUMENTS = WORDS[:6], [f"{WORDS[40 + i]} x1 x2" for i in range(9)]
CPU = torch.device("cpu")
RELEVANT = torch.eye(6, 9, dtype=torch.bool)
RELEVANT[0, 3] = True


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return load_bi_encoder(small_encoder(tmp_path_factory.mktemp("cache") / "model"), dropout=0.1)


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
    found = {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
    return float(value), found, torch.rand(1).item()


@pytest.mark.parametrize("loss", [multi_label_margin, in_batch_softmax])
@pytest.mark.parametrize("size", [1, 2, 4, 100])
def test_cached_gradients_are_the_plain_ones_with_dropout(trained, size, loss):
    """Both draw dropout chunk by chunk, in the same order."""
    trained[0].train()
    value, ours, after = gradients(backward, trained, size, loss)
    expected, plain, after_plain = gradients(backward_at_once, trained, size, loss)
    assert value == pytest.approx(expected, rel=1e-6)
    assert after == after_plain
    assert ours.keys() == plain.keys()
    assert max(float(one.abs().max()) for one in plain.values()) > 0.01
    for name, gradient in plain.items():
        torch.testing.assert_close(ours[name], gradient, atol=1e-5, rtol=1e-5)


def test_without_dropout_the_size_of_a_chunk_makes_no_difference(trained):
    trained[0].eval()
    value, ours, _ = gradients(backward, trained, 2, multi_label_margin)
    expected, plain, _ = gradients(backward_at_once, trained, 100, multi_label_margin)
    assert value == pytest.approx(expected, rel=1e-6)
    for name, gradient in plain.items():
        torch.testing.assert_close(ours[name], gradient, atol=1e-5, rtol=1e-5)


def test_dropout_differs_from_chunk_to_chunk(trained):
    """Else the gradients above would be equal for the wrong reason."""
    trained[0].train()
    queries, _ = chunks(trained, 1)
    state = RandomNumbers(CPU)
    one, other = queries[0](), queries[0]()
    assert not torch.equal(one, other)
    state.restore()
    assert torch.equal(queries[0](), one)


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
        [counted(one) for one in queries],
        [counted(one) for one in documents],
        lambda q, d: multi_label_margin(q @ d.T, RELEVANT),
        CPU,
    )
    assert with_graph == [False] * 5 + [True] * 5
