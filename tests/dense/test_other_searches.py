"""Search by torch and by FAISS: the former finds what the kernels find, the latter says what it misses."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from small_vectors import Letters, asked, docs, made, stored
from telerank.dense.encode import Encoding, encode_documents
from telerank.dense.kinds import KINDS
from telerank.dense.search import search
from telerank.errors import IndexDamaged, IndexFault, MissingExtra, ModelError
from telerank.types import Query


@pytest.fixture(scope="module", params=KINDS)
def kept(request, tmp_path_factory):
    return stored(tmp_path_factory.mktemp("vectors") / "v", made(9000, 32), request.param, shard=2500)


@pytest.mark.parametrize("k", [1, 100, 9000])
def test_torch_finds_the_same_to_the_bit(kept, k):
    pytest.importorskip("torch")
    from telerank.dense.torch_search import DeviceVectors, load_on_device

    wanted = made(70, 32, seed=1)
    device = load_on_device(kept, "cpu")
    assert isinstance(device, DeviceVectors)
    for one, other in zip(device.search(asked(wanted), k), search(kept, asked(wanted), k), strict=True):
        assert (one.rows == other.rows).all()
        assert (one.scores == other.scores).all()


def test_torch_finds_the_same_where_vectors_stay_on_the_device(kept, monkeypatch):
    pytest.importorskip("torch")
    from telerank.dense.torch_search import DeviceVectors

    monkeypatch.setattr(DeviceVectors, "_free", lambda _: 1 << 40)
    device = DeviceVectors(kept, "cpu")
    assert device.is_resident
    wanted = made(3, 32, seed=2)
    for one, other in zip(device.search(asked(wanted), 50), search(kept, asked(wanted), 50), strict=True):
        assert (one.rows == other.rows).all()


def test_torch_breaks_ties_by_docno(tmp_path):
    pytest.importorskip("torch")
    from telerank.dense.torch_search import DeviceVectors

    random = np.random.default_rng(0)
    kept = stored(tmp_path / "v", random.integers(-1, 2, (9000, 4)).astype(np.float32), shard=2000)
    wanted = asked(random.integers(-1, 2, (5, 4)).astype(np.float32))
    for one, other in zip(
        DeviceVectors(kept, "cpu").search(wanted, 70), search(kept, wanted, 70), strict=True
    ):
        assert (one.rows == other.rows).all()


def test_torch_searches_whatever_its_products_are_computed_with(kept):
    """Its one name for all devices cannot be read once a setting of the present ones was made."""
    torch = pytest.importorskip("torch")
    from telerank.dense.torch_search import DeviceVectors

    exact, device = DeviceVectors(kept, "cpu")._error(), DeviceVectors(kept, "cpu")
    setting = torch.backends.mkldnn.matmul if hasattr(torch.backends.mkldnn, "matmul") else None
    if setting is None or not hasattr(setting, "fp32_precision"):
        pytest.skip("this torch has no such setting")
    before, setting.fp32_precision = setting.fp32_precision, "bf16"
    try:
        assert device._error() > exact
        found = device.search(asked(made(3, 32, seed=2)), 10)
    finally:
        setting.fp32_precision = before
    for one, other in zip(found, search(kept, asked(made(3, 32, seed=2)), 10), strict=True):
        assert (one.rows == other.rows).all()


def test_torch_copies_nothing_if_it_is_asked_for_all_rows(kept, monkeypatch):
    pytest.importorskip("torch")
    from telerank.dense.torch_search import DeviceVectors

    device = DeviceVectors(kept, "cpu")
    monkeypatch.setattr(DeviceVectors, "_copy", None)
    wanted = asked(made(2, 32, seed=1))
    for one, other in zip(device.search(wanted, 9000), search(kept, wanted, 9000), strict=True):
        assert (one.rows == other.rows).all()


def test_vectors_leave_the_device_with_the_last_who_uses_them(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    from weakref import ref

    from telerank.dense.torch_search import DeviceVectors, load_on_device
    from telerank.dense.vectors import Vectors

    monkeypatch.setattr(DeviceVectors, "_free", lambda _: 1 << 40)
    stored(tmp_path / "v", made(900, 32), shard=250)
    opened = Vectors(tmp_path / "v")
    device = load_on_device(opened, "cpu")
    assert load_on_device(opened, "cpu").blocks is device.blocks  # they are copied once
    block = ref(device.blocks[0].vectors)
    del device
    assert block() is not None
    del opened
    assert block() is None


def test_vectors_that_do_not_fit_are_copied_once_for_many_queries_as_they_are_stored(kept, monkeypatch):
    torch = pytest.importorskip("torch")
    from telerank.dense.torch_search import _Block, load_on_device

    copied = []
    to = _Block.to
    monkeypatch.setattr(_Block, "to", lambda self, device: copied.append(self) or to(self, device))
    device = load_on_device(kept, "cpu")
    assert not device.is_resident
    wanted = asked(made(300, 32, seed=4))
    for one, other in zip(device.search(wanted, 20), search(kept, wanted, 20), strict=True):
        assert (one.rows == other.rows).all()
        assert (one.scores == other.scores).all()
    assert sum(len(block.lengths) for block in copied) == len(kept)
    kinds = {"float16": torch.float16, "bfloat16": torch.bfloat16}
    assert {block.vectors.dtype for block in copied} == {kinds.get(kept.dtype, torch.float32)}


@pytest.fixture
def opened(tmp_path):
    """Vectors that no other test has loaded."""
    return stored(tmp_path / "v", made(9000, 32), "float16", shard=2500)


def little_room(monkeypatch, *, rows, resident=None):
    """A device that multiplies ``rows`` rows together at most, with ``resident`` blocks beside them.

    It returns what was refused.
    """
    import torch

    from telerank.dense import torch_search

    refused = []
    divide, to = torch_search._Block.divide, torch_search._Block.to

    def run_out(what):
        refused.append(what)
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nmore")

    copied = []

    def keep(self, device):
        copied.append(self.first)
        return to(self, device) if resident is None or len(copied) <= resident else run_out("block")

    monkeypatch.setattr(
        torch_search._Block, "divide", lambda self, n: divide(self, n) if n <= rows else run_out(n)
    )
    if resident is not None:
        monkeypatch.setattr(torch_search.DeviceVectors, "_free", lambda _: 1 << 40)
        monkeypatch.setattr(torch_search._Block, "to", keep)
    return refused


def check_hits(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert (one.rows == other.rows).all()
        assert (one.scores == other.scores).all()


def test_products_that_do_not_fit_are_halved_and_it_is_said_once(opened, monkeypatch):
    pytest.importorskip("torch")
    from telerank.dense.torch_search import describe_memory, load_on_device

    wanted = asked(made(70, 32, seed=1))
    assert describe_memory(opened, "cpu") == ""
    refused = little_room(monkeypatch, rows=1000)
    check_hits(load_on_device(opened, "cpu").search(wanted, 20), search(opened, wanted, 20))
    count = len(refused)
    assert refused == sorted(refused, reverse=True)
    check_hits(load_on_device(opened, "cpu").search(wanted, 20), search(opened, wanted, 20))
    assert len(refused) == count >= 1
    assert describe_memory(opened, "cpu") == "out of memory: 512 rows at a time from then on"


def test_vectors_that_do_not_fit_as_it_seemed_are_copied_for_each_search(opened, monkeypatch):
    pytest.importorskip("torch")
    from telerank.dense.torch_search import _Kept, describe_memory, load_on_device

    refused = little_room(monkeypatch, rows=1 << 20, resident=2)
    device = load_on_device(opened, "cpu")
    assert refused == ["block"]
    assert not device.is_resident
    monkeypatch.undo()
    wanted = asked(made(70, 32, seed=1))
    check_hits(load_on_device(opened, "cpu").search(wanted, 20), search(opened, wanted, 20))
    assert describe_memory(opened, "cpu") == "out of memory: vectors are copied for each search"
    assert _Kept().describe() == ""


def test_vectors_leave_a_device_on_which_they_leave_no_room(opened, monkeypatch):
    torch = pytest.importorskip("torch")
    from telerank.dense.torch_search import DeviceVectors

    monkeypatch.setattr(DeviceVectors, "_free", lambda _: 1 << 40)
    device = DeviceVectors(opened, "cpu")
    select, tried = DeviceVectors._select, []

    def full(self, queries, k, step):
        tried.append(step)
        if self.is_resident:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return select(self, queries, k, step)

    monkeypatch.setattr(DeviceVectors, "_select", full)
    wanted = asked(made(3, 32, seed=1))
    assert device.is_resident
    check_hits(device.search(wanted, 20), search(opened, wanted, 20))
    assert not device.is_resident
    assert tried == [*(1 << n for n in range(16, 5, -1)), 1 << 16]


def test_a_search_for_which_there_is_no_room_is_an_error_of_one_line(opened, monkeypatch):
    pytest.importorskip("torch")
    from telerank.dense.torch_search import load_on_device

    little_room(monkeypatch, rows=0)
    message = (
        r"searching 64 rows for 3 queries does not fit into memory: search on the processor "
        r"\(CUDA_VISIBLE_DEVICES=\): CUDA out of memory. Tried to allocate 2 GiB.$"
    )
    with pytest.raises(ModelError, match=message):
        load_on_device(opened, "cpu").search(asked(made(3, 32, seed=1)), 20)


def test_a_dense_stage_says_what_did_not_fit_into_memory(encoded, monkeypatch):
    from telerank.dense import torch_search
    from telerank.dense.retriever import DenseRetriever

    monkeypatch.setattr(torch_search, "describe_memory", lambda *_: "out of memory")
    assert DenseRetriever(encoded, Letters(), device="cuda:1", name="x").remarks == [
        "dense(x): out of memory"
    ]
    assert DenseRetriever(encoded, Letters()).remarks == ()


def test_a_gpu_is_asked_many_queries_at_a_time(encoded):
    from telerank.dense.retriever import DenseRetriever
    from telerank.dense.search import TOGETHER

    for device, batch, expected in (("cpu", 64, 64), ("cuda:1", 64, TOGETHER), ("cuda:1", 1, 1)):
        assert DenseRetriever(encoded, Letters(), device=device).in_batches(batch).batch == expected


def test_torch_refuses_another_models_queries(kept):
    pytest.importorskip("torch")
    from telerank.dense.torch_search import load_on_device
    from telerank.dense.vectors import Encoded

    with pytest.raises(ModelError, match="another model"):
        load_on_device(kept, "cpu").search(Encoded(made(1, 32), "0" * 64), 5)


@pytest.fixture(scope="module")
def encoded(tmp_path_factory):
    texts = [f"{n} bears {n % 17} cats {n % 31} dogs {n * n % 1009}" for n in range(3000)]
    how = Encoding("float16", shard=1000)
    return encode_documents(docs(texts), tmp_path_factory.mktemp("ann") / "v", Letters(), encoding=how)


@pytest.mark.parametrize("kind", ["hnsw(links=16, construction=40)", "ivfpq(lists=4, bytes=2, probes=4)"])
def test_faiss_says_how_much_it_finds_and_is_scored_exactly(kind, encoded):
    faiss = pytest.importorskip("faiss")
    faiss.omp_set_num_threads(1)  # its threads wait for each other by spinning
    from telerank.dense.approximate import ApproximateRetriever, build_approximate, read_report
    from telerank.dense.retriever import DenseRetriever

    report = build_approximate(encoded, kind)
    name = kind.partition("(")[0]
    assert read_report(encoded, name) == report
    assert report.sampled == "documents as queries"
    assert set(report.recall) == {10, 100, 1000}
    assert report.recall[10] > (0.9 if name == "hnsw" else 0.1)
    near = ApproximateRetriever(encoded, Letters(), name, candidates=200)
    exact = dict(DenseRetriever(encoded, Letters()).search("5 bears 5 cats"))
    found = near.search("5 bears 5 cats")
    assert len(found) == 200
    assert all(exact[docno] == score for docno, score in found)
    assert (near % 7).search("5 bears 5 cats") == found.cut(7)
    assert (
        near.explain(Query("1", "bears"), "d5").value
        == DenseRetriever(encoded, Letters()).explain(Query("1", "bears"), "d5").value
    )


def test_faiss_of_other_vectors_or_damaged_is_refused(encoded, tmp_path):
    pytest.importorskip("faiss")
    from telerank.dense.approximate import ApproximateRetriever, build_approximate, read_report

    vectors = encode_documents(docs(["a", "b", "c d"]), tmp_path / "v", Letters())
    with pytest.raises(IndexFault, match="no approximate index 'hnsw'"):
        ApproximateRetriever(vectors, Letters())
    build_approximate(vectors)
    record = vectors.folder / "approximate.hnsw.json"
    content = json.loads(record.read_text())
    (file,) = vectors.folder.glob("approximate.hnsw.*.faiss")
    file.write_bytes(b"nothing")
    with pytest.raises(IndexDamaged, match=r"hnsw\.\w{8}\.faiss: damaged"):
        ApproximateRetriever(vectors, Letters()).search("a")
    record.write_text(json.dumps({**content, "vectors": 1}))
    with pytest.raises(IndexFault, match="is of other vectors"):
        read_report(vectors, "hnsw")
    record.write_text("{}")
    with pytest.raises(IndexDamaged, match=r"hnsw.json: expected kind"):
        read_report(vectors, "hnsw")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("tree", "unknown approximate index 'tree'; known: hnsw, ivfpq"),
        ("hnsw(links=0)", "expected a whole number of at least 1, got 0"),
        ("hnsw(depth=3)", "hnsw has no parameter 'depth'; known: links, construction, search"),
        ("ivfpq(bytes=7)", "7 bytes do not divide 24 dimensions"),
    ],
)
def test_unknown_kinds_are_refused(wrong, said, encoded):
    from telerank.dense.approximate import parse_kind

    with pytest.raises(ModelError, match=said):
        parse_kind(wrong, encoded)


def test_without_faiss_the_extra_is_named(encoded, monkeypatch):
    from telerank.dense.approximate import build_approximate

    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtra, match="telerank\\[ann\\]"):
        build_approximate(encoded)
