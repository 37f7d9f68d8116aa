"""Tests on the pretended device; ``test_pretended_device.py`` runs them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pretended
import pytest
import torch
from pretended import MixedDevicesError, OnDevice, Pretend, counting, install
from reader_place import reader_place, reader_training

from small_models import WORDS, save_vectors, small_encoder
from small_ranking import dev_lists, ranking_training, small_ranking
from small_readers import small_reader
from small_rerankers import pairs
from telerank.answers.scorer import SpanReader
from telerank.dense import torch_search
from telerank.dense.encode import Encoding, encode_documents
from telerank.dense.encoder import TorchEncoder
from telerank.dense.search import rank_exhaustively
from telerank.dense.torch_search import DeviceVectors
from telerank.models.precision import NAMES
from telerank.models.rerankers.kinds import KINDS, find_kind
from telerank.models.rerankers.reranker import Shape, fresh_reranker
from telerank.reranking.scorer import Scorer
from telerank.training.bi_encoder.config import BiEncoderTraining
from telerank.training.bi_encoder.train import train_bi_encoder
from telerank.training.reader.train import train_reader
from telerank.training.reranker.train import train_reranker
from telerank.types import Doc

PRECISIONS = [name for name in NAMES if name != "float32-fast"]
PAIRS = pairs(40)


@pytest.fixture(scope="session", autouse=True)
def _device():
    install()


@pytest.fixture(autouse=True)
def _pretending():
    with Pretend():
        yield


@pytest.fixture(scope="session")
def starts(tmp_path_factory):
    """The folders of a small encoder and of word vectors."""
    folder = tmp_path_factory.mktemp("starts")
    small_encoder(folder / "encoder")
    table = torch.randn(len(WORDS) + 2, 16, generator=torch.Generator().manual_seed(0))
    save_vectors(folder / "words", WORDS, table)
    return folder


def make(starts, kind, **shape):
    start = starts / ("words" if find_kind(kind).over_words else "encoder")
    head = {"head": {"length": 12, "stride": 8, "passages": 4}} if kind == "parade" else {}
    return fresh_reranker(start, Shape(kind, max_query=8, max_length=32, **head, **shape), seed=1)


def test_the_device_refuses_what_cuda_refuses_and_counts_what_waits():
    here, there = torch.ones(3), torch.ones(3).to("cuda")
    assert isinstance(there, OnDevice)
    assert there.device == torch.device("cuda", 0)
    with pytest.raises(MixedDevicesError, match=r"cuda:0 and of cpu"):
        there + here
    with pytest.raises(MixedDevicesError, match=r"cuda:0 and of cpu"):
        torch.dot(there, here)
    with pytest.raises(TypeError, match="cuda"):
        there.numpy()
    with counting() as counts:
        assert float((there + torch.tensor(2.0)).sum()) == 9
        assert there[there > 0].cpu().tolist() == [1, 1, 1]
    assert (counts.to_host.total(), counts.waits.total()) == (1, 3)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_scores_there_as_on_the_processor(starts, kind, precision):
    reranker = make(starts, kind)
    plain = Scorer(reranker, device="cpu", precision="float32").score(PAIRS)
    scores = Scorer(reranker, device="cuda", precision=precision).score(PAIRS)
    tolerance = {"bfloat16": 0.1}.get(precision, 1e-5)
    assert scores == pytest.approx(plain, abs=tolerance * np.ptp(plain))


class Budget(NamedTuple):
    """The most waits for the device, and copies to it, of an update."""

    waits: int
    copies: int


class Marks:
    """The report of a training, which notes the counts at each record."""

    def __init__(self) -> None:
        self.totals: list[dict[str, int]] = []
        self.losses: list[float] = []

    def __call__(self, record) -> None:
        self.losses.append(record.loss)
        self.totals.append({name: counter.total() for name, counter in vars(pretended.counts).items()})

    def keep(self, budget: Budget) -> bool:
        """Whether the two updates between two records keep it, beside the wait for the losses of a record."""
        first, last = self.totals
        spent = {name: last[name] - first[name] for name in first}
        print(f"an update: {(spent['waits'] - 1) / 2} waits, {spent['to_device'] / 2} copies")
        return spent["waits"] <= 2 * budget.waits + 1 and spent["to_device"] <= 2 * budget.copies


def learn(train, config, folder, *, whole=True):
    """The losses on the processor and on the device, with the marks and the counts of the latter.

    All batches of the device, also of dev and of stored features, have lengths that are multiples of 8, if
    the model looks up ``whole`` batches.
    """
    plain, marks, look_up = Marks(), Marks(), torch.nn.Embedding.forward
    widths = {"cpu": set(), "cuda": set()}

    def noted(layer, tokens):
        widths[tokens.device.type].add(tokens.shape[-1])
        return look_up(layer, tokens)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.Embedding, "forward", noted)
        train(config.model_copy(update={"device": "cpu"}), folder / "cpu", report=plain)
        with counting() as counts:
            train(config.model_copy(update={"device": "cuda"}), folder / "cuda", report=marks)
    assert any(width % 8 for width in widths["cpu"])
    assert not whole or not any(width % 8 for width in widths["cuda"]), widths
    return plain.losses, marks, counts


@pytest.fixture(scope="session")
def ranking(tmp_path_factory):
    return small_ranking(tmp_path_factory.mktemp("ranking"))


SHORT = {"optimisation": {"steps": 4, "warm_up": 1}, "log_every": 2, "checkpoint_every": 100}
WITHOUT_DROPOUT = {"dmn": {"dropout": 0.0}, "qa-lstm": {"dropout": 0.0}, "bert-dmn": {"dropout": 0.0}}


UPDATES = {
    "monobert": Budget(0, 8),
    "bert": Budget(0, 7),
    "bert-dmn": Budget(6, 11),
    "dmn": Budget(11, 12),
    "qa-lstm": Budget(10, 9),
    "k-nrm": Budget(2, 7),
    "parade": Budget(1, 11),
}


@pytest.mark.parametrize(
    ("kind", "precision"),
    [*((kind, "float32") for kind in KINDS), ("monobert", "bfloat16")],
)
def test_every_kind_learns_there_as_on_the_processor(starts, ranking, tmp_path, kind, precision):
    start = starts / ("words" if find_kind(kind).over_words else "encoder")
    model = {"kind": kind, "start": str(start), "max_query": 8, "max_length": 32}
    if not find_kind(kind).over_words:
        model["dropout"] = 0.0
    if kind in WITHOUT_DROPOUT:
        model["head"] = WITHOUT_DROPOUT[kind]
    if kind == "parade":
        model["head"] = {"length": 12, "stride": 8, "passages": 4, "dropout": 0.0}
    config = ranking_training(ranking, model=model, precision=precision, **SHORT)
    whole = kind != "parade" and not find_kind(kind).over_words
    losses, marks, counts = learn(train_reranker, config, tmp_path, whole=whole)
    assert marks.losses == pytest.approx(losses, abs=1e-4 if precision == "float32" else 0.05)
    assert marks.keep(UPDATES[kind]), counts


FROM_STORE = {"bert": Budget(0, 6), "bert-dmn": Budget(4, 10)}


@pytest.mark.parametrize("kind", FROM_STORE)
def test_a_head_learns_there_from_stored_features(starts, ranking, tmp_path, kind):
    model = {"kind": kind, "start": str(starts / "encoder"), "frozen": True, "max_query": 8, "max_length": 32}
    model["head"] = {"dropout": 0.0}
    config = ranking_training(ranking, model=model, precision="float32", **SHORT)
    losses, marks, counts = learn(train_reranker, config, tmp_path)
    assert marks.losses == pytest.approx(losses, abs=0.01)  # features are halves
    assert marks.keep(FROM_STORE[kind]), counts


def test_a_training_scores_its_dev_set_there(starts, ranking, tmp_path):
    dev = {**dev_lists(ranking), "every": 4, "patience": 8}
    model = {
        "kind": "bert",
        "start": str(starts / "encoder"),
        "dropout": 0.0,
        "max_query": 8,
        "max_length": 32,
    }
    config = ranking_training(ranking, model=model, precision="float32", dev=dev)
    losses, marks, _ = learn(train_reranker, config, tmp_path)
    assert marks.losses == pytest.approx(losses, abs=1e-4)


ENCODERS = {
    ("margin", None): Budget(0, 7),
    ("softmax", None): Budget(0, 7),
    ("classification", None): Budget(0, 9),
    ("cosine", None): Budget(0, 9),
    ("softmax", 3): Budget(0, 23),
}
"""By objective, and by the texts of a chunk."""


@pytest.mark.parametrize(("objective", "chunk"), ENCODERS)
def test_a_bi_encoder_learns_there_as_on_the_processor(starts, ranking, tmp_path, objective, chunk):
    record = {
        "data": {"collection": str(ranking / "collection"), "negatives": {"random": True}},
        "model": {"start": str(starts / "encoder"), "dropout": 0.0, "query_length": 8, "document_length": 16},
        "loss": {"objective": objective},
        "optimisation": {"batch": 8, "accumulation": 1, "learning_rate": 0.003, "chunk": chunk},
        "precision": "float32",
    }
    record["optimisation"] |= SHORT["optimisation"]
    config = BiEncoderTraining.model_validate({**SHORT, **record})
    losses, marks, counts = learn(train_bi_encoder, config, tmp_path)
    assert marks.losses == pytest.approx(losses, abs=1e-4)
    assert marks.keep(ENCODERS[objective, chunk]), counts


def test_documents_are_encoded_there_and_searched(starts, tmp_path):
    docs = [Doc(f"d{number}", passage) for number, (_, passage) in enumerate(pairs(300))]
    made = {}
    for device in ("cpu", "cuda"):
        encoder = TorchEncoder(str(starts / "encoder"), device, "float32")
        with counting() as counts:
            made[device] = encode_documents(
                docs, tmp_path / device, encoder, encoding=Encoding(batch_tokens=999)
            )
        queries = encoder.encode_queries([query for query, _ in PAIRS])
    rows = np.arange(len(docs))
    assert made["cuda"].take(rows) == pytest.approx(made["cpu"].take(rows), abs=1e-3)
    vectors = made["cuda"]
    with counting() as counts:
        found = DeviceVectors(vectors, "cuda").search(queries, 10)
    assert counts.waits.total() <= 4, counts  # one of them for its one block of rows
    assert counts.to_device.total() <= 3, counts
    for hits, query in zip(found, vectors.require(queries), strict=True):
        expected = rank_exhaustively(vectors, query, 10)
        assert hits.rows.tolist() == expected.rows.tolist()
        assert hits.scores.tolist() == expected.scores.tolist()


def test_vectors_beyond_its_memory_are_streamed_as_pinned_halves(starts, tmp_path, monkeypatch):
    """Many queries a pass, and no copy is waited for: the search waits for sizes, a number for each block."""
    docs = [Doc(f"d{number}", passage) for number, (_, passage) in enumerate(pairs(300))]
    encoder = TorchEncoder(str(starts / "encoder"), "cpu", "float32")
    vectors = encode_documents(docs, tmp_path / "vectors", encoder, encoding=Encoding(shard=64))
    queries = encoder.encode_queries([f"q{number} d{number % 40}" for number in range(1024)])
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda *_: (1000, 80_000_000_000))
    copied, copy = [], torch_search._Block.to

    def noted(block, device):
        copied.append((block.vectors.dtype, block.vectors.is_pinned(), block.lengths.is_pinned()))
        return copy(block, device)

    monkeypatch.setattr(torch_search._Block, "to", noted)
    streamed = DeviceVectors(vectors, "cuda")
    assert not streamed.is_resident
    with counting() as counts:
        found = streamed.search(queries, 10)
    assert vectors.dtype == "float16"
    assert copied == [(torch.float16, True, True)] * 5  # once for all queries, a block of each shard
    assert counts.to_device.total() <= 2 * len(copied) + 1, counts
    assert counts.waits.total() <= len(copied) + 3, counts  # what is selected of each block is counted
    for number in (0, 511, 1023):
        expected = rank_exhaustively(vectors, vectors.require(queries)[number], 10)
        assert found[number].rows.tolist() == expected.rows.tolist()
        assert found[number].scores.tolist() == expected.scores.tolist()


@pytest.mark.parametrize(("kind", "waits"), [("monobert", 0), ("bert", 0), ("bert-dmn", 6)])
def test_scoring_waits_once_for_a_window(starts, kind, waits):
    """Besides, some kinds wait in each batch: their layers have as many rows as sentences or words."""
    scorer = Scorer(make(starts, kind), device="cuda", precision="bfloat16", tokens=400)
    scorer.score(PAIRS)
    with counting() as counts:
        scorer.score(PAIRS)
    batches = counts.of("to_device", "models/pairs/pair.py") // 5
    assert batches > 1
    assert counts.waits.total() <= 1 + waits * batches, counts


def test_encoding_waits_once_for_a_shard(starts, tmp_path):
    docs = [Doc(f"d{number}", passage) for number, (_, passage) in enumerate(pairs(100))]
    encoder = TorchEncoder(str(starts / "encoder"), "cuda", "bfloat16")
    encode_documents(docs[:9], tmp_path / "first", encoder, encoding=Encoding(batch_tokens=999))
    with counting() as counts:
        encode_documents(docs, tmp_path / "vectors", encoder, encoding=Encoding(batch_tokens=400, shard=50))
    assert counts.to_device.total() > 8
    assert counts.waits.total() <= 2, counts


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_reader_reads_there_as_on_the_processor_and_waits_once_for_a_window(tmp_path, precision):
    reader = small_reader(tmp_path)
    texts = [(query, passage * 3) for query, passage in PAIRS]
    plain = SpanReader(reader, device="cpu", precision="float32").read(texts)
    own = SpanReader(reader, device="cuda", precision=precision, tokens=400)
    own.read(texts)
    with counting() as counts:
        found = own.read(texts)
    nulls = [reading.null for reading in plain]
    tolerance = 0.1 if precision == "bfloat16" else 1e-5
    assert [reading.null for reading in found] == pytest.approx(nulls, abs=tolerance * np.ptp(nulls))
    batches = counts.of("to_device", "models/pairs/pair.py") // 5
    assert batches > 3
    assert counts.waits.total() <= 1, counts
    assert SpanReader(reader, device="cuda").computes_in == "bfloat16"


READER = {"float32": Budget(0, 6), "bfloat16": Budget(0, 6), "float16": Budget(1, 6)}


@pytest.mark.parametrize("precision", READER)
def test_a_reader_learns_there_as_on_the_processor(tmp_path_factory, tmp_path, precision):
    place = reader_place(tmp_path_factory.mktemp("reading"))
    config = reader_training(place, model={"dropout": 0.0}, precision=precision, **SHORT)
    losses, marks, counts = learn(train_reader, config, tmp_path / "learned")
    assert marks.losses == pytest.approx(losses, abs=1e-4 if precision == "float32" else 0.05)
    assert marks.keep(READER[precision]), counts
    dev = {"sets": [{"collection": str(place / "two.json")}], "every": 4, "patience": 8}
    config = reader_training(place, model={"dropout": 0.0}, precision=precision, dev=dev, **SHORT)
    measured, marks, _ = learn(train_reader, config, tmp_path / "measured")
    assert marks.losses == pytest.approx(losses, abs=1e-4 if precision == "float32" else 0.05)
    assert measured == losses


@pytest.fixture
def benchmark(monkeypatch):
    """The modules of benchmarks/gpu, with small encoders, and what they ask of CUDA besides."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import gpu.__main__ as main

    from gpu import inputs

    monkeypatch.setattr(inputs, "SHAPES", dict.fromkeys(inputs.SHAPES, (2, 32, 64, 2)))
    monkeypatch.setattr(inputs.Inputs, "minilm", None)
    device = SimpleNamespace(name="pretended", total_memory=1e9, multi_processor_count=1, major=9, minor=0)
    for name, value in {
        "get_device_properties": device,
        "set_sync_debug_mode": None,
        "reset_peak_memory_stats": None,
        "max_memory_allocated": 2_000_000_000,
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    return main


def test_the_benchmark_measures_a_device(benchmark, monkeypatch, tmp_path):
    file = tmp_path / "gpu.json"
    rows = "MiniLM-L6 / 60 tokens / bfloat16,k-nrm,1 query"
    monkeypatch.setattr(
        sys, "argv", ["gpu", "--device", "cuda", "--small", "--only", rows, "--output", str(file)]
    )
    with pytest.raises(SystemExit) as ended:
        benchmark.main()
    record = json.loads(file.read_text())
    assert [row["error"] for row in record["rows"] if "error" in row] == []
    assert ended.value.code == 0
    assert record["device"]["name"] == "pretended"
    assert {row["part"] for row in record["rows"]} == {"scoring", "encoding", "training", "search"}
    for row in record["rows"]:
        assert row["GB"] == 2
        assert row["synchronisations a step"] == 0  # this torch cannot warn
