"""What encoding does for a GPU, without one: devices, batches, rounded weights, memory; and its pipeline."""

from __future__ import annotations

from threading import Event

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from small_models import small_encoder  # noqa: E402
from small_vectors import Letters, docs  # noqa: E402
from telerank.dense import computed  # noqa: E402
from telerank.dense.encode import Encoding, encode_documents  # noqa: E402
from telerank.dense.encoder import TorchEncoder  # noqa: E402
from telerank.dense.retriever import open_retriever  # noqa: E402
from telerank.dense.search import TOGETHER  # noqa: E402
from telerank.errors import ModelError  # noqa: E402
from telerank.models.encoders.bi_encoder import BiEncoder  # noqa: E402

TEXTS = ["d1", "d2 d3 d4 x1", "", "d1 " * 100, *(f"q{n} " * n for n in range(1, 9))]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(small_encoder(tmp_path_factory.mktemp("models") / "small"))


class Placed:
    """A tensor that stays on the processor."""

    def __init__(self, tensor) -> None:
        self.tensor = tensor

    def to(self, _device, *, non_blocking: bool):
        assert non_blocking
        return self.tensor


def pretend_a_gpu(monkeypatch, room=1 << 30):
    """The shapes of the batches that a GPU computes, with types, and those that have no room there."""
    shapes, refused = [], []
    real = BiEncoder.encode_documents

    def encode(self, batch):
        shape = batch["input_ids"].shape
        if shape.numel() > room:
            refused.append(shape)
            raise torch.OutOfMemoryError("CUDA out of memory.\nmore")
        shapes.append((shape, self.query_encoder.dtype))
        return real(self, batch)

    monkeypatch.setattr(BiEncoder, "encode_documents", encode)
    monkeypatch.setattr(computed, "device_of", lambda _: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    monkeypatch.setattr(BiEncoder, "device", property(lambda _: torch.device("cpu")))
    monkeypatch.setattr(BiEncoder, "to", lambda self, _: self)
    monkeypatch.setattr(computed, "pin", lambda tensor, _: Placed(tensor))
    return shapes, refused


def test_a_device_is_kept_for_the_search_and_one_that_is_not_there_is_an_error_of_one_line(model, tmp_path):
    for device in ("nonsense", "cuda:77"):
        with pytest.raises(ModelError, match=f"device '{device}': ") as caught:
            TorchEncoder(model, device).encode_queries(["q1"])
        assert "\n" not in str(caught.value)
    vectors = encode_documents(docs(TEXTS), tmp_path / "v", TorchEncoder(model, precision="float32"))
    for device, batch in ((None, 64), ("cpu:0", TOGETHER)):
        retriever = open_retriever(vectors, TorchEncoder(model, device, "float32"))
        assert (retriever.device, retriever.batch) == (device or "cpu", batch)


def test_a_gpu_computes_batches_of_eight_in_bfloat16_which_the_vectors_record(model, tmp_path, monkeypatch):
    exact = TorchEncoder(model)
    tokens, _ = exact.tokenize(TEXTS)
    expected = exact.encode_tokens(tokens)
    batches, _ = pretend_a_gpu(monkeypatch)
    encoder = TorchEncoder(model)
    assert encoder.settings["precision"] == "bfloat16"
    batches.clear()  # loading has tried the model
    vectors = encoder.encode_tokens(tokens, 256)
    assert len(batches) > 1
    assert all(shape[1] % 8 == 0 for shape, _ in batches)
    assert {dtype for _, dtype in batches} == {torch.bfloat16}
    assert encoder.fingerprint == exact.fingerprint  # of the weights as they are stored
    assert 0 < np.abs(vectors - expected).max() < 0.05 * np.abs(expected).max()
    kept = encode_documents(docs(TEXTS), tmp_path / "v", encoder)
    assert kept.manifest.settings["precision"] == "bfloat16"
    assert np.abs(kept.take(np.arange(len(TEXTS))) - vectors).max() < 0.02 * np.abs(expected).max()


def test_batches_of_texts_that_do_not_fit_are_halved_and_it_is_said_once(model, monkeypatch):
    encoder = TorchEncoder(model, precision="float32")
    tokens, _ = encoder.tokenize(TEXTS)
    exact = encoder.encode_tokens(tokens)
    assert encoder.describe_memory() == ""
    _, refused = pretend_a_gpu(monkeypatch, room=100)
    encoder = TorchEncoder(model, precision="float32")
    assert np.allclose(encoder.encode_tokens(tokens), exact, atol=1e-5)
    count = len(refused)
    assert np.allclose(encoder.encode_tokens(tokens), exact, atol=1e-5)
    assert len(refused) == count > 0
    room = encoder.room.tokens
    assert 0 < room <= 100
    assert encoder.describe_memory() == f"out of memory: batches of {room} tokens from then on"


def test_while_a_shard_is_encoded_the_next_is_tokenised_and_the_last_is_written(tmp_path):
    tokenised = Event()

    class Waiting(Letters):
        def tokenize(self, texts):
            if "third" in texts[0]:
                tokenised.set()
            return super().tokenize(texts)

        def encode_tokens(self, tokens, *given):
            if tokens[0] == [ord(letter) for letter in "second"]:
                assert tokenised.wait(600)
            return super().encode_tokens(tokens, *given)

    texts = ["first", "second", "third", "fourth"]
    vectors = encode_documents(docs(texts), tmp_path / "v", Waiting(), encoding=Encoding(shard=1))
    assert [len(shard) for shard in vectors.shards] == [1, 1, 1, 1]
    plain = encode_documents(docs(texts), tmp_path / "w", Letters(), encoding=Encoding(shard=1))
    assert (vectors.take(np.arange(4)) == plain.take(np.arange(4))).all()


def test_an_error_while_a_shard_is_written_ends_the_encoding(tmp_path):
    class Broken(Letters):
        def encode_tokens(self, tokens, *given):
            return super().encode_tokens(tokens, *given) * np.nan

    with pytest.raises(Exception, match="shard 0"):
        encode_documents(docs(TEXTS), tmp_path / "v", Broken(), encoding=Encoding(shard=4))
    assert not (tmp_path / "v").exists()
