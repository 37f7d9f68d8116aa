"""What encoding does for a GPU, without one: devices, batches, rounded weights, memory; and its pipeline."""

from __future__ import annotations

from dataclasses import replace
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
from telerank.errors import ModelError  # noqa: E402
from telerank.models import inference  # noqa: E402
from telerank.models.encoders.bi_encoder import BiEncoder  # noqa: E402

TEXTS = ["d1", "d2 d3 d4 x1", "", "d1 " * 100, *(f"q{n} " * n for n in range(1, 9))]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(small_encoder(tmp_path_factory.mktemp("models") / "small"))


@pytest.fixture
def gpu(monkeypatch):
    """The shapes of the batches that a GPU is given; the processor computes them."""
    shapes: list[tuple[int, int]] = []
    real = BiEncoder.encode_documents

    def encode(self, batch):
        shapes.append(tuple(batch["input_ids"].shape))
        return real(self, batch)

    monkeypatch.setattr(BiEncoder, "encode_documents", encode)
    monkeypatch.setattr(computed, "device_of", lambda _: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    monkeypatch.setattr(BiEncoder, "device", property(lambda _: torch.device("cpu")))
    monkeypatch.setattr(BiEncoder, "to", lambda self, _: self)
    monkeypatch.setattr(computed, "pin", lambda tensor, _: Placed(tensor))
    return shapes


class Placed:
    """A tensor that stays on the processor."""

    def __init__(self, tensor) -> None:
        self.tensor = tensor

    def to(self, _device, *, non_blocking: bool):
        assert non_blocking
        return self.tensor


@pytest.mark.parametrize("device", ["nonsense", "cuda:77"])
def test_a_device_that_is_not_there_is_an_error_of_one_line(model, device):
    with pytest.raises(ModelError, match=f"device '{device}': ") as caught:
        TorchEncoder(model, device).encode_queries(["q1"])
    assert "\n" not in str(caught.value)


def test_the_number_of_a_device_is_kept_for_the_search(model, tmp_path, monkeypatch):
    encode_documents(docs(TEXTS), tmp_path / "v", TorchEncoder(model))
    other = computed.ComputedEncoder.of
    monkeypatch.setattr(
        computed.ComputedEncoder,
        "of",
        lambda bi_encoder, *_: replace(other(bi_encoder, "cpu", "float32"), device=torch.device("cuda:1")),
    )
    assert open_retriever(tmp_path / "v").device == "cuda:1"


def test_a_gpu_computes_batches_of_eight_in_bfloat16_which_the_vectors_record(model, tmp_path, gpu):
    encoder = TorchEncoder(model)
    tokens, _ = encoder.tokenize(TEXTS)
    exact = TorchEncoder(model)
    gpu.clear()  # loading has tried the model
    vectors = encoder.encode_tokens(tokens, 256)
    longest = encoder._loaded[1].documents.side.max_length
    assert all(length % 8 == 0 or length == longest for _, length in gpu)
    assert len(gpu) > 1
    assert encoder.settings["precision"] == "bfloat16"
    assert encoder.fingerprint == exact.fingerprint
    assert encoder._computed.model.query_encoder.dtype is torch.bfloat16
    assert encoder._loaded[0].query_encoder.dtype is torch.float32
    found = encode_documents(docs(TEXTS), tmp_path / "v", encoder)
    assert found.manifest.settings["precision"] == "bfloat16"
    cosines = (vectors * found.take(np.arange(len(TEXTS)))).sum(1)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(found.take(np.arange(len(TEXTS))), axis=1)
    assert (cosines > 0.999 * lengths).all()


def test_rounded_weights_give_nearly_the_same_vectors(model, gpu, monkeypatch):
    rounded = TorchEncoder(model)
    tokens, _ = rounded.tokenize(TEXTS)
    vectors = rounded.encode_tokens(tokens)
    monkeypatch.undo()
    exact = TorchEncoder(model).encode_tokens(tokens)
    assert 0 < np.abs(vectors - exact).max() < 0.05 * np.abs(exact).max()


def test_batches_of_texts_that_do_not_fit_are_halved_and_it_is_said_once(model, monkeypatch):
    encoder = TorchEncoder(model)
    tokens, _ = encoder.tokenize(TEXTS)
    exact = encoder.encode_tokens(tokens)
    real, refused = BiEncoder.encode_documents, []

    def encode(self, batch):
        if batch["input_ids"].numel() > 100:
            refused.append(batch)
            raise torch.OutOfMemoryError("CUDA out of memory.\nmore")
        return real(self, batch)

    monkeypatch.setattr(BiEncoder, "encode_documents", encode)
    assert np.allclose(encoder.encode_tokens(tokens), exact, atol=1e-5)
    count = len(refused)
    assert np.allclose(encoder.encode_tokens(tokens), exact, atol=1e-5)
    assert len(refused) == count
    room = encoder._computed.room
    assert encoder.describe_memory() == f"out of memory: batches of {room.tokens} tokens from then on"
    with pytest.raises(
        ModelError, match=r"a batch of 256 tokens does not fit into memory: CUDA out of memory.$"
    ):
        inference.Room().compute([0], 256, lambda _: encode(None, {"input_ids": torch.zeros(1, 256)}))


def test_while_a_shard_is_encoded_the_next_is_tokenised_and_the_last_is_written(tmp_path):
    next_one = Event()

    class Waiting(Letters):
        def tokenize(self, texts):
            if "third" in texts[0]:
                next_one.set()
            return super().tokenize(texts)

        def encode_tokens(self, tokens, budget=None, progress=None):
            if tokens[0] == [ord(letter) for letter in "second"]:
                assert next_one.wait(10)
            return super().encode_tokens(tokens, budget, progress)

    texts = ["first", "second", "third", "fourth"]
    vectors = encode_documents(docs(texts), tmp_path / "v", Waiting(), encoding=Encoding(shard=1))
    assert [len(shard) for shard in vectors.shards] == [1, 1, 1, 1]
    plain = encode_documents(docs(texts), tmp_path / "w", Letters(), encoding=Encoding(shard=1))
    assert (vectors.take(np.arange(4)) == plain.take(np.arange(4))).all()


def test_an_error_while_a_shard_is_written_ends_the_encoding(tmp_path, monkeypatch):
    class Broken(Letters):
        def encode_tokens(self, tokens, budget=None, progress=None):
            return super().encode_tokens(tokens, budget, progress) * np.nan

    with pytest.raises(Exception, match="shard 0"):
        encode_documents(docs(TEXTS), tmp_path / "v", Broken(), encoding=Encoding(shard=4))
    assert not (tmp_path / "v").exists()
