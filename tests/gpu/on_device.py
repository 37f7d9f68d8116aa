"""Tests on the pretended device; ``test_pretended_device.py`` runs them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from pretended import MixedDevicesError, OnDevice, Pretend, counting, install
from reader_place import reader_place, reader_training
from small_line import line_training, train_line

from small_models import WORDS, save_vectors, small_encoder
from small_ranking import dev_lists, ranking_training, small_ranking
from small_readers import small_reader
from small_rerankers import pairs
from telerank.answers.scorer import SpanReader
from telerank.dense.encode import Encoding, encode_documents
from telerank.dense.encoder import TorchEncoder
from telerank.dense.search import rank_exhaustively
from telerank.dense.torch_search import DeviceVectors
from telerank.errors import ModelError
from telerank.models.rerankers.kinds import KINDS, Shape, find_kind
from telerank.models.rerankers.reranker import fresh_reranker
from telerank.reranking.scorer import Scorer
from telerank.training.bi_encoder.config import BiEncoderTraining
from telerank.training.bi_encoder.train import train_bi_encoder
from telerank.training.late_interaction.config import LateTraining
from telerank.training.late_interaction.train import train_late
from telerank.training.log import read_log
from telerank.training.reader.train import train_reader
from telerank.training.reranker.train import train_reranker
from telerank.training.splade.config import SpladeTraining
from telerank.training.splade.train import train_splade
from telerank.types import Doc
from telerank.verbs.train import lengthen

PRECISIONS = ["float32", "bfloat16"]
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
    """The folders of a small encoder, of one made long, and of word vectors."""
    folder = tmp_path_factory.mktemp("starts")
    lengthen(small_encoder(folder / "encoder"), folder / "long", max_length=64, window=4)
    table = torch.randn(len(WORDS) + 2, 16, generator=torch.Generator().manual_seed(0))
    save_vectors(folder / "words", WORDS, table)
    return folder


def start_of(kind):
    """The folder among those to start from."""
    return "words" if find_kind(kind).over_words else "long" if kind == "qds" else "encoder"


def make(starts, kind, **shape):
    start = starts / start_of(kind)
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


def learn(train, config, folder, *, tolerance=1e-4, budget=None, whole=True):
    """Train on the processor and on the device, to the same losses.

    The two updates between two records of the device keep the budget, beside the wait for the losses of a
    record. All its batches, also of dev and of stored features, have lengths that are multiples of 8, if the
    model looks up ``whole`` batches.
    """
    losses, totals, look_up = {"cpu": [], "cuda": []}, [], torch.nn.Embedding.forward
    widths = {"cpu": set(), "cuda": set()}

    def noted(layer, tokens):
        widths[tokens.device.type].add(tokens.shape[-1])
        return look_up(layer, tokens)

    with pytest.MonkeyPatch.context() as patch, counting() as counts:
        patch.setattr(torch.nn.Embedding, "forward", noted)
        for device, own in losses.items():

            def report(record, own=own):
                own.append(record.loss)
                totals.append(Budget(counts.waits.total(), counts.to_device.total()))

            totals.clear()
            train(config.model_copy(update={"device": device}), folder / device, report=report)
    assert losses["cuda"] == pytest.approx(losses["cpu"], abs=tolerance)
    assert any(width % 8 for width in widths["cpu"])
    assert not whole or not any(width % 8 for width in widths["cuda"]), widths
    if budget is not None:
        waits, copies = (last - first for first, last in zip(*totals, strict=True))
        print(f"an update: {(waits - 1) / 2} waits, {copies / 2} copies")
        assert waits <= 2 * budget.waits + 1, counts
        assert copies <= 2 * budget.copies, counts


@pytest.fixture(scope="session")
def ranking(tmp_path_factory):
    return small_ranking(tmp_path_factory.mktemp("ranking"))


SHORT = {"optimisation": {"steps": 4, "warm_up": 1}, "log_every": 2, "checkpoint_every": 100}
STILL = {"dmn": {"dropout": 0.0}, "qa-lstm": {"dropout": 0.0}, "bert-dmn": {"dropout": 0.0}}
STILL["parade"] = {"length": 12, "stride": 8, "passages": 4, "dropout": 0.0}


def ranker(starts, kind, **more):
    words = find_kind(kind).over_words
    model = {"kind": kind, "start": str(starts / start_of(kind))}
    model |= {} if words else {"dropout": 0.0}
    return {**model, "max_query": 8, "max_length": 32, "head": STILL.get(kind, {}), **more}


UPDATES = {
    ("monobert", "float32"): Budget(0, 8),
    ("monobert", "bfloat16"): Budget(0, 8),
    ("bert", "float32"): Budget(0, 7),
    ("bert-dmn", "float32"): Budget(6, 11),
    ("dmn", "float32"): Budget(11, 12),
    ("qa-lstm", "float32"): Budget(10, 9),
    ("k-nrm", "float32"): Budget(2, 7),
    ("conv-knrm", "float32"): Budget(2, 7),
    ("co-pacrr", "float32"): Budget(3, 10),
    ("drmm", "float32"): Budget(2, 7),
    ("parade", "float32"): Budget(1, 11),
    ("qds", "float32"): Budget(35, 7),
    ("tkl", "float32"): Budget(15, 8),
}


@pytest.mark.parametrize(("kind", "precision"), UPDATES)
def test_every_kind_learns_there_as_on_the_processor(starts, ranking, tmp_path, kind, precision):
    assert {kind for kind, _ in UPDATES} == set(KINDS)
    config = ranking_training(ranking, model=ranker(starts, kind), precision=precision, **SHORT)
    whole = kind != "parade" and not find_kind(kind).over_words
    tolerance = 1e-4 if precision == "float32" else 0.05
    budget = UPDATES[kind, precision]
    learn(train_reranker, config, tmp_path, tolerance=tolerance, budget=budget, whole=whole)


FROM_STORE = {"bert": Budget(0, 6), "bert-dmn": Budget(4, 10)}


@pytest.mark.parametrize("kind", FROM_STORE)
def test_a_head_learns_there_from_stored_features(starts, ranking, tmp_path, kind):
    model = ranker(starts, kind, frozen=True, head={"dropout": 0.0})
    config = ranking_training(ranking, model=model, precision="float32", **SHORT)
    learn(train_reranker, config, tmp_path, tolerance=0.01, budget=FROM_STORE[kind])  # features are halves


ENCODERS = {
    ("margin", None): Budget(0, 7),
    ("softmax", None): Budget(0, 7),
    ("classification", None): Budget(0, 9),
    ("cosine", None): Budget(0, 9),
    ("softmax", 6): Budget(0, 15),
}
"""By objective, and by the texts of a chunk."""


@pytest.mark.parametrize(("objective", "chunk"), ENCODERS)
def test_a_bi_encoder_learns_there_as_on_the_processor(starts, ranking, tmp_path, objective, chunk):
    optimisation = {"batch": 8, "accumulation": 1, "learning_rate": 0.003, "chunk": chunk}
    record = {
        **SHORT,
        "data": {"collection": str(ranking / "collection"), "negatives": {"random": True}},
        "model": {"start": str(starts / "encoder"), "dropout": 0.0, "query_length": 8, "document_length": 16},
        "loss": {"objective": objective},
        "optimisation": {**optimisation, **SHORT["optimisation"]},
        "precision": "float32",
    }
    config = BiEncoderTraining.model_validate(record)
    learn(train_bi_encoder, config, tmp_path, budget=ENCODERS[objective, chunk])


SPARSE = {"shared": Budget(0, 14), "static": Budget(0, 13)}


def encoder_record(starts, ranking, model) -> dict:
    """Hard negatives; ``eps`` keeps Adam from enlarging gradients that are nothing but rounding."""
    run = str(ranking / "train.run")
    return {
        **SHORT,
        "data": {"collection": str(ranking / "collection"), "negatives": {"run": run}},
        "model": {"start": str(starts / "encoder"), "dropout": 0.0, **model},
        "optimisation": {
            "batch": 8,
            "chunk": 6,
            "learning_rate": 3e-4,
            "eps": 1e-2,
            **SHORT["optimisation"],
        },
        "precision": "float32",
    }


@pytest.mark.parametrize("queries", SPARSE)
def test_splade_learns_there_as_on_the_processor(starts, ranking, tmp_path, queries):
    record = encoder_record(starts, ranking, {"queries": queries, "max_length": 16})
    config = SpladeTraining.model_validate(record)
    learn(train_splade, config, tmp_path, tolerance=1e-3, budget=SPARSE[queries])


def test_late_interaction_learns_there_as_on_the_processor(starts, ranking, tmp_path):
    model = {"dimension": 8, "query_length": 8, "document_length": 16}
    config = LateTraining.model_validate(encoder_record(starts, ranking, model))
    learn(train_late, config, tmp_path, budget=Budget(0, 18))


@pytest.mark.parametrize("kind", ["splade", "late"])
def test_an_encoder_is_measured_there(starts, ranking, tmp_path, kind):
    dev = {"split": "dev", "every": 2, "patience": 8, "measures": "RR"}
    settings, train, model = {
        "splade": (SpladeTraining, train_splade, {"queries": "static", "max_length": 16}),
        "late": (LateTraining, train_late, {"query_length": 8, "document_length": 16}),
    }[kind]
    config = settings.model_validate({**encoder_record(starts, ranking, model), "dev": dev})
    learn(train, config, tmp_path, whole=False)
    here, there = (read_log(tmp_path / device / "log.jsonl") for device in ("cpu", "cuda"))
    assert [record.dev for record in here] == pytest.approx([record.dev for record in there], abs=0.02)


READER = {"float32": Budget(0, 6), "float16": Budget(1, 6)}


@pytest.mark.parametrize("precision", READER)
def test_a_reader_learns_there_as_on_the_processor(tmp_path, precision):
    folder = reader_place(tmp_path)
    config = reader_training(folder, model={"dropout": 0.0}, precision=precision, **SHORT)
    tolerance = 1e-4 if precision == "float32" else 0.05
    learn(train_reader, config, tmp_path / "learned", tolerance=tolerance, budget=READER[precision])


def test_a_reader_is_measured_there(tmp_path):
    folder = reader_place(tmp_path)
    dev = {"sets": [{"collection": str(folder / "two.json"), "questions": 12}], "every": 4, "patience": 8}
    config = reader_training(folder, model={"dropout": 0.0}, precision="float32", dev=dev, **SHORT)
    learn(train_reader, config, tmp_path / "learned")


@pytest.mark.parametrize("frozen", [False, True])
def test_a_re_ranker_is_measured_there_and_reads_negatives_that_are_drawn_anew(
    starts, ranking, tmp_path, frozen
):
    """Features of a frozen encoder are stored while batches are read."""
    model = ranker(starts, "bert", frozen=frozen, head={"dropout": 0.0})
    negatives = {"run": str(ranking / "train.run"), "per_positive": 2, "resample": True}
    changes = {"data": {"negatives": negatives}, "dev": dev_lists(ranking, every=4, patience=8, queries=6)}
    epochs = {"optimisation": {"steps": 4, "warm_up": 1, "batch": 12}, "log_every": 2}
    config = ranking_training(ranking, model=model, precision="float32", **changes, **epochs)
    learn(train_reranker, config, tmp_path, tolerance=0.01 if frozen else 1e-4)


def test_documents_are_encoded_there_with_a_wait_for_each_shard_and_searched(starts, tmp_path):
    docs = [Doc(f"d{number}", passage) for number, (_, passage) in enumerate(pairs(300))]
    encoded, encoding = {}, Encoding(batch_tokens=999, shard=100)
    for device in ("cpu", "cuda"):
        encoder = TorchEncoder(str(starts / "encoder"), device, "float32")
        queries = encoder.encode_queries([query for query, _ in PAIRS])
        with counting() as counts:
            encoded[device] = encode_documents(docs, tmp_path / device, encoder, encoding=encoding)
    assert counts.to_device.total() > 8
    assert counts.waits.total() <= 3 + 1, counts  # once for a shard
    rows = np.arange(len(docs))
    vectors = encoded["cuda"]
    assert vectors.take(rows) == pytest.approx(encoded["cpu"].take(rows), abs=1e-3)
    with counting() as counts:
        found = DeviceVectors(vectors, "cuda").search(queries, 10)
    assert counts.waits.total() <= 6, counts  # three of them for its blocks of rows
    assert counts.to_device.total() <= 7, counts
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
    streamed = DeviceVectors(vectors, "cuda")
    assert not streamed.is_resident
    with counting() as counts:
        found = streamed.search(queries, 10)
    assert vectors.dtype == "float16"
    blocks = counts.sources[torch.float16, True]
    assert blocks == 5  # once for all queries, a block of each shard, of halves and their lengths
    assert (torch.float16, False) not in counts.sources
    assert counts.to_device.total() <= 2 * blocks + 1, counts
    assert counts.waits.total() <= blocks + 3, counts  # what is selected of each block is counted
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


def test_the_next_batch_is_read_before_the_present_one_is_learned_from(tmp_path):
    """And the log is that of the processor, which reads each batch when it is needed."""
    lines = {
        device: train_line(
            line_training(steps=3, accumulation=2, log_every=2, device=device), tmp_path / device
        )
        for device in ("cpu", "cuda")
    }
    assert lines["cuda"].numbers("read") == [0, 1, 2, 3, 4, 5]  # each once, and none beyond the last
    events = lines["cuda"].events
    for number in range(5):
        assert events.index(("prepare", number + 1)) < events.index(("learn", number))
    logs = [read_log(tmp_path / name / "log.jsonl") for name in lines]
    plain, there = ({record.step: record.loss for record in log} for log in logs)
    assert there == pytest.approx(plain)


@pytest.mark.parametrize("log_every", [5, 100])
def test_a_loss_that_is_not_finite_is_named_when_it_is_logged_and_nothing_is_saved(tmp_path, log_every):
    with pytest.raises(ModelError, match="the loss of update 3 is nan: try a lower learning rate"):
        train_line(line_training(log_every=log_every, device="cuda"), tmp_path, broken=2)
    assert not (tmp_path / "model").exists()
    assert not list((tmp_path / "checkpoints").iterdir())


@pytest.fixture
def benchmark(monkeypatch):
    """The modules of benchmarks/gpu, with small encoders, and what they ask of CUDA besides."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import gpu.__main__ as main
    from test_gpu_benchmark import make_small

    from gpu import inputs

    make_small(monkeypatch, inputs)
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
