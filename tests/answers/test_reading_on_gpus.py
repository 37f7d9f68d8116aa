"""What a reader does for a GPU, without one: batches, precision, memory, what is fetched."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import telerank as tr  # noqa: E402
from small_gpu import on_gpu  # noqa: E402
from small_readers import small_reader  # noqa: E402
from telerank.answers.scorer import SpanReader  # noqa: E402
from telerank.errors import ModelError  # noqa: E402
from telerank.reranking import scorer as module  # noqa: E402

PAIRS = [(f"q{n} x1", " ".join(f"d{(n * k) % 30}" for k in range(3 * n))) for n in range(1, 14)]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    return small_reader(tmp_path_factory.mktemp("reader"), max_length=30)


def same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.null == pytest.approx(other.null, abs=1e-5)
        spans = {(span.start, span.end): span.score for span in other.spans}
        assert {(span.start, span.end): span.score for span in one.spans} == pytest.approx(spans, abs=1e-5)


def test_batches_of_a_gpu_have_lengths_of_eight_and_the_same_answers(loaded, monkeypatch):
    exact = SpanReader(loaded).read(PAIRS)
    gpu = on_gpu(monkeypatch, module)
    same(SpanReader(loaded, tokens=100).read(PAIRS), exact)
    lengths = {batch.input_ids.shape[1] for batch in gpu.batches}
    assert len(gpu.batches) > 3
    assert 30 in lengths  # what the model reads at most
    assert all(length % 8 == 0 for length in lengths - {30})
    gpu.batches.clear()
    SpanReader(loaded).read(PAIRS)
    assert len(gpu.batches) == 1


def test_auto_names_its_precision(loaded, monkeypatch):
    stage = tr.read(loaded, {"a": "d1"})
    (source,) = stage.sources.values()
    assert "precision" not in source
    assert SpanReader(loaded).computes_in == SpanReader(loaded, backend="onnx").computes_in == "float32"
    on_gpu(monkeypatch, module)
    (source,) = stage.sources.values()
    assert source["precision"] == "bfloat16" == SpanReader(loaded).computes_in
    assert SpanReader(loaded, precision="tf32").computes_in == "tf32"
    assert SpanReader(loaded).changed == {}


def test_batches_that_do_not_fit_are_halved_and_it_is_said_once(loaded, monkeypatch):
    exact = SpanReader(loaded).read(PAIRS)
    gpu = on_gpu(monkeypatch, module, room=150)
    stage = tr.read(SpanReader(loaded, tokens=900), {"a": "d1"})
    same(stage.reader.read(PAIRS), exact)
    refused = gpu.refused
    assert 1 <= refused <= 3
    stage.reader.read(PAIRS)
    assert gpu.refused == refused  # no other batch is tried
    [remark] = stage.remarks
    assert remark.endswith(f"batches of {stage.reader.room.tokens} tokens from then on")
    gpu.room = 10
    with pytest.raises(
        ModelError, match=r"a batch of \d+ tokens does not fit into memory: CUDA out of memory"
    ):
        SpanReader(loaded).read(PAIRS)
