"""Search by torch and by FAISS: the former finds what the kernels find, the latter says what it misses."""

from __future__ import annotations

import json
import sys
from weakref import ref

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.overrides import TorchFunctionMode  # noqa: E402

from small_vectors import Letters, asked, check_hits, docs, made, stored  # noqa: E402
from telerank.dense.encode import Encoding, encode_documents  # noqa: E402
from telerank.dense.kinds import KINDS  # noqa: E402
from telerank.dense.retriever import (  # noqa: E402
    DenseRetriever,
    build_approximate,
    parse_kind,
    read_report,
)
from telerank.dense.search import TOGETHER, search  # noqa: E402
from telerank.dense.torch_search import DeviceVectors, describe_memory, load_on_device  # noqa: E402
from telerank.dense.vectors import Encoded, Vectors  # noqa: E402
from telerank.errors import IndexDamaged, IndexFault, MissingExtra, ModelError  # noqa: E402
from telerank.types import Query  # noqa: E402

LARGE = 1 << 40


@pytest.fixture(scope="module", params=KINDS)
def kept(request, tmp_path_factory):
    return stored(tmp_path_factory.mktemp("vectors") / "v", made(9000, 32), request.param, shard=2500)


@pytest.fixture
def opened(tmp_path):
    """Vectors that no other test has loaded."""
    return stored(tmp_path / "v", made(9000, 32), "float16", shard=2500)


class Device(TorchFunctionMode):
    """A device that multiplies with ``rows`` rows together at most, beside ``resident`` blocks of vectors.

    As long as it keeps ``full`` it multiplies nothing. ``digits`` is the type of its factors.
    """

    def __init__(self, rows=LARGE, resident=LARGE, digits=torch.float32, full=None):
        super().__init__()
        self.rows, self.resident, self.digits, self.full = rows, resident, digits, full
        self.products, self.refused, self.copied = [], [], []

    def __torch_function__(self, function, types, arguments=(), options=None):
        if function is torch.Tensor.to and arguments[0].dim() == 2:
            self.copied.append(arguments[0])
            self.check(len(self.copied), self.resident)
        if function in (torch.Tensor.matmul, torch.Tensor.__matmul__):
            self.products.append(arguments[1].shape[1])
            is_full = self.full is not None and self.full.is_resident
            self.check(arguments[1].shape[1], 0 if is_full else self.rows)
            return (arguments[0].to(self.digits) @ arguments[1].to(self.digits)).float()
        return function(*arguments, **(options or {}))

    def check(self, size, most):
        if size > most:
            self.refused.append(size)
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nmore")


@pytest.mark.parametrize("memory", [0, LARGE])
def test_torch_finds_the_same_to_the_bit(kept, memory):
    queries = asked(made(70, 32, seed=1))
    device = DeviceVectors(kept, "cpu", memory=memory)
    assert device.is_resident == bool(memory)
    for k in (1, 100, 9000):
        check_hits(device.search(queries, k), search(kept, queries, k))


def test_torch_breaks_ties_by_docno(tmp_path):
    random = np.random.default_rng(0)
    vectors = stored(tmp_path / "v", random.integers(-1, 2, (9000, 4)).astype(np.float32), shard=2000)
    queries = asked(random.integers(-1, 2, (5, 4)))
    check_hits(DeviceVectors(vectors, "cpu").search(queries, 70), search(vectors, queries, 70))


def test_torch_finds_the_same_where_factors_are_rounded(kept):
    """Its one name for all devices cannot be read once a setting of the present ones was made."""
    setting = getattr(torch.backends.mkldnn, "matmul", None)
    if not hasattr(setting, "fp32_precision"):
        pytest.skip("this torch has no such setting")
    queries = asked(made(70, 32, seed=2))
    before, setting.fp32_precision = setting.fp32_precision, "bf16"
    try:
        with Device(digits=torch.bfloat16):
            hits = DeviceVectors(kept, "cpu").search(queries, 100)
    finally:
        setting.fp32_precision = before
    check_hits(hits, search(kept, queries, 100))


def test_vectors_that_do_not_fit_are_copied_once_for_many_queries_as_they_are_stored(kept):
    queries = asked(made(300, 32, seed=4))
    device = load_on_device(kept, "cpu")
    with Device() as little:
        assert len(device.search(asked(made(2, 32)), 9000)) == 2
        assert not little.copied  # every row is scored
        check_hits(device.search(queries, 20), search(kept, queries, 20))
    copied = [block for block in little.copied if block.shape[1] == 32 and len(block) != 300]
    assert sum(map(len, copied)) == len(kept)
    kinds = {"float16": torch.float16, "bfloat16": torch.bfloat16}
    assert {block.dtype for block in copied} == {kinds.get(kept.dtype, torch.float32)}


def test_vectors_leave_the_device_with_the_last_who_uses_them(tmp_path):
    stored(tmp_path / "v", made(900, 32), shard=250)
    opened = Vectors(tmp_path / "v")
    device = load_on_device(opened, "cpu", memory=LARGE)
    assert load_on_device(opened, "cpu").kept is device.kept  # they are copied once
    block = ref(device.kept.blocks[0].vectors)
    del device
    assert block() is not None
    del opened
    assert block() is None


def test_products_that_do_not_fit_are_halved_and_it_is_said_once(opened):
    queries = asked(made(70, 32, seed=1))
    assert describe_memory(opened, "cpu") == ""
    for refused in ([2500, 2500, 2500, 2500, 2500, 2048, 1024], []):
        with Device(rows=1000) as little:
            check_hits(load_on_device(opened, "cpu").search(queries, 20), search(opened, queries, 20))
        assert little.refused == refused
    assert describe_memory(opened, "cpu") == "out of memory: 512 rows at a time from then on"


def test_vectors_that_do_not_fit_as_it_seemed_are_copied_for_each_search(opened):
    with Device(resident=2) as little:
        device = load_on_device(opened, "cpu", memory=LARGE)
    assert (little.refused, device.is_resident) == ([3], False)
    queries = asked(made(70, 32, seed=1))
    check_hits(load_on_device(opened, "cpu").search(queries, 20), search(opened, queries, 20))
    assert describe_memory(opened, "cpu") == "out of memory: vectors are copied for each search"


def test_vectors_leave_a_device_on_which_they_leave_no_room(opened):
    device = DeviceVectors(opened, "cpu", memory=LARGE)
    queries = asked(made(3, 32, seed=1))
    with Device(full=device) as little:
        check_hits(device.search(queries, 20), search(opened, queries, 20))
    assert not device.is_resident
    assert little.products == [*[2500] * 5, 2048, 1024, 512, 256, 128, 64, *[2500] * 3, 1500]


def test_a_search_for_which_there_is_no_room_is_an_error_of_one_line(opened):
    message = (
        r"searching 64 rows for 3 queries does not fit into memory: search on the processor "
        r"\(CUDA_VISIBLE_DEVICES=\): CUDA out of memory. Tried to allocate 2 GiB.$"
    )
    with Device(rows=0), pytest.raises(ModelError, match=message):
        load_on_device(opened, "cpu").search(asked(made(3, 32, seed=1)), 20)


def test_torch_refuses_another_models_queries(kept):
    with pytest.raises(ModelError, match="another model"):
        load_on_device(kept, "cpu").search(Encoded(made(1, 32), "0" * 64), 5)


@pytest.fixture(scope="module")
def encoded(tmp_path_factory):
    texts = [f"{n} bears {n % 17} cats {n % 31} dogs {n * n % 1009}" for n in range(1500)]
    how = Encoding("float16", shard=500)
    return encode_documents(docs(texts), tmp_path_factory.mktemp("ann") / "v", Letters(), encoding=how)


def test_a_dense_stage_says_what_did_not_fit_into_memory(encoded):
    stage = DenseRetriever(encoded, Letters(), depth=5, device="cpu:0", name="x")
    assert list(stage.remarks) == []
    with Device(rows=300):
        ranking = stage.search("5 bears")
    assert ranking == DenseRetriever(encoded, Letters(), depth=5).search("5 bears")
    assert stage.remarks == ["dense(x): out of memory: 256 rows at a time from then on"]
    assert DenseRetriever(encoded, Letters()).remarks == ()


def test_a_gpu_is_asked_many_queries_at_a_time(encoded):
    for device, batch, expected in (("cpu", 64, 64), ("cuda:1", 64, TOGETHER), ("cuda:1", 1, 1)):
        assert DenseRetriever(encoded, Letters(), device=device).in_batches(batch).batch == expected


@pytest.mark.parametrize("kind", ["hnsw(links=16, construction=40)", "ivfpq(lists=4, bytes=2, probes=4)"])
def test_faiss_says_how_much_it_finds_and_is_scored_exactly(kind, encoded):
    faiss = pytest.importorskip("faiss")
    faiss.omp_set_num_threads(1)  # its threads wait for each other by spinning
    report = build_approximate(encoded, kind)
    name = kind.partition("(")[0]
    assert read_report(encoded, name) == report
    assert report.sampled == "documents as queries"
    assert set(report.recall) == {10, 100, 1000}
    assert report.recall[10] > (0.9 if name == "hnsw" else 0.1)
    near = DenseRetriever(encoded, Letters(), approximate=name, candidates=200)
    exact = DenseRetriever(encoded, Letters())
    scores, ranking = dict(exact.search("5 bears 5 cats")), near.search("5 bears 5 cats")
    assert len(ranking) == 200
    assert all(scores[docno] == score for docno, score in ranking)
    assert (near % 7).search("5 bears 5 cats") == ranking.cut(7)
    query = Query("1", "bears")
    assert near.explain(query, "d5").value == exact.explain(query, "d5").value


def test_faiss_of_other_vectors_or_damaged_is_refused(tmp_path):
    pytest.importorskip("faiss")
    vectors = encode_documents(docs(["a", "b", "c d"]), tmp_path / "v", Letters())
    with pytest.raises(IndexFault, match=r"no approximate index .hnsw.; to build one: tr\.encode"):
        DenseRetriever(vectors, Letters(), approximate="hnsw")
    build_approximate(vectors)
    record = vectors.folder / "approximate.hnsw.json"
    content = json.loads(record.read_text())
    (file,) = vectors.folder.glob("approximate.hnsw.*.faiss")
    file.write_bytes(b"nothing")
    with pytest.raises(IndexDamaged, match=r"hnsw\.\w{8}\.faiss: damaged"):
        DenseRetriever(vectors, Letters(), approximate="hnsw").search("a")
    record.write_text(json.dumps({**content, "vectors": 1}))
    with pytest.raises(IndexFault, match="is of other vectors"):
        read_report(vectors, "hnsw")
    record.write_text("{}")
    with pytest.raises(IndexDamaged, match=r"hnsw.json: expected kind"):
        read_report(vectors, "hnsw")


def test_unknown_kinds_and_a_missing_package_are_named(encoded, monkeypatch):
    for wrong, message in {
        "tree": "unknown approximate index 'tree'; known: hnsw, ivfpq",
        "hnsw(links=0)": "expected a whole number of at least 1, got 0",
        "hnsw(depth=3)": "hnsw has no parameter 'depth'; known: links, construction, search",
        "ivfpq(bytes=7)": "7 bytes do not divide 24 dimensions",
    }.items():
        with pytest.raises(ModelError, match=message):
            parse_kind(wrong, encoded)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtra, match="telerank\\[ann\\]"):
        build_approximate(encoded)
