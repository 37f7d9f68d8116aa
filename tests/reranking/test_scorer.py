"""Scoring: batches, windows, back ends, what is cut."""

from __future__ import annotations

import itertools
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

from small_rerankers import pairs, small_reranker, with_passages
from telerank.errors import CollectionError, MissingExtra, ModelError
from telerank.models.pairs.pair import batch_of
from telerank.reranking.backends import cache_graph
from telerank.reranking.runs import calibrate
from telerank.reranking.scorer import Scorer
from telerank.reranking.texts import make_pairs
from telerank.types import Query, Ranking

PAIRS = pairs(60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rerankers")


@pytest.fixture(autouse=True)
def graphs(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="module")
def mono(folder):
    return small_reranker(folder)


def test_scores_are_the_models_own_in_the_order_of_the_pairs_in_any_batch(folder):
    for kind in ("monobert", "bert", "bert-dmn"):
        reranker = small_reranker(folder, kind)
        with torch.no_grad():
            batches = [batch_of(make_pairs(reranker, [pair]), reranker.texts.pad_id) for pair in PAIRS]
            expected = [float(reranker.model(batch)) for batch in batches]
        for tokens in (1, 100, 100_000):
            assert np.abs(Scorer(reranker, tokens=tokens).score(PAIRS) - expected).max() < 1e-5
    assert Scorer(reranker).score([]).shape == (0,)


def test_groups_come_back_as_they_went_in_however_windows_cut_them(mono):
    sizes = [0, 3, 20, 0, 7, 1, 0]
    texts = iter(PAIRS)
    groups = [list(itertools.islice(texts, size)) for size in sizes]
    scores = list(Scorer(mono).stream(groups, window=7))
    assert [len(each) for each in scores] == sizes
    assert np.allclose(np.concatenate(scores), Scorer(mono).score(itertools.chain(*groups)), atol=1e-5)


def test_no_more_than_three_windows_are_read_before_the_first_answer(mono):
    read = 0

    def endless():
        nonlocal read
        for pair in itertools.cycle(PAIRS):
            read += 1
            yield [pair]

    next(Scorer(mono).stream(endless(), window=8))
    assert read <= 24


def test_each_distinct_text_is_tokenised_once(mono):
    texts = []
    noted = with_passages(mono, lambda given, passages: texts.extend(given) or passages)
    Scorer(noted).score([("q1", "d1"), ("q2", "d1"), ("q1", "d2"), ("q1", "d1")])
    assert texts == ["d1", "d2"]


def test_what_is_cut_and_what_is_padded_is_counted(folder):
    scorer = Scorer(small_reranker(folder, max_length=20), tokens=60)
    scorer.score([("q1 q2", "d1 " * 30), ("q1", "d1")])
    assert scorer.counts.pairs == 2
    assert (scorer.counts.cut_pairs, scorer.counts.cut) == (1, 30 - (20 - 3 - 2))


def test_a_loaded_model_has_a_checksum_of_its_weights(mono):
    assert Scorer(mono).checksum == Scorer(mono, max_length=48).checksum
    assert len(Scorer(mono).checksum) == 64


@pytest.mark.parametrize("precision", ["float32-fast", "bfloat16"])
def test_other_precisions_of_torch_are_close(mono, precision):
    exact = Scorer(mono).score(PAIRS)
    try:
        scores = Scorer(mono, precision=precision).score(PAIRS)
    except ModelError as error:
        pytest.skip(str(error))
    assert np.abs(scores - exact).max() < (0.2 if precision == "bfloat16" else 1e-4) * exact.std()


@pytest.mark.parametrize("backend", ["openvino", "onnx"])
@pytest.mark.parametrize(
    ("kind", "architecture"), [("monobert", "bert"), ("bert", "camembert"), ("bert-dmn", "bert")]
)
def test_graphs_score_as_the_model_does(folder, backend, kind, architecture):
    pytest.importorskip({"onnx": "onnxruntime"}.get(backend, backend))
    reranker = small_reranker(folder, kind, architecture)
    exact, scores = Scorer(reranker).score(PAIRS), Scorer(reranker, backend=backend, threads=1).score(PAIRS)
    assert np.abs(scores - exact).max() < 1e-5


def test_int8_is_calibrated_on_samples_and_keeps_the_order_roughly(mono):
    pytest.importorskip("nncf")
    exact = Scorer(mono).score(PAIRS)
    scores = Scorer(mono, backend="openvino", precision="int8", samples=tuple(pairs(20, seed=5))).score(PAIRS)
    assert np.abs(scores - exact).max() > 0
    assert np.corrcoef(scores, exact)[0, 1] > 0.9
    with pytest.raises(ModelError, match="must be calibrated"):
        Scorer(mono, backend="openvino", precision="int8").score(PAIRS)


@pytest.mark.parametrize("home", ["", "/proc/none", "killed"])
def test_a_graph_is_kept_if_it_can_be_and_made_again_after_a_kill(mono, monkeypatch, tmp_path, home):
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    def make(folder: Path) -> None:
        (folder / "graph").write_text("whole")

    if home == "killed":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        whole = cache_graph(mono, {}, (), make)
        whole.rename(f"{whole}.writing")
        (Path(f"{whole}.writing") / "left").touch()
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", home)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        monkeypatch.setattr(Path, "home", no_home)
    folder = cache_graph(mono, {}, (), make)
    assert folder.is_relative_to(tmp_path)
    assert {path.name for path in folder.iterdir()} == {"graph"}
    assert not list(tmp_path.rglob("*.writing"))


def test_a_graph_is_made_once_by_what_decides_it_and_its_last_layer_for_the_first_token(
    mono, monkeypatch, tmp_path
):
    openvino = pytest.importorskip("openvino")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = mono.model.classifier.classifier.bias.data.clone()
    try:
        for more, graphs in ((0, 1), (0, 1), (1, 2)):
            kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("model.xml")}
            mono.model.classifier.classifier.bias.data += more
            Scorer(mono, backend="openvino").score(PAIRS[:1])
            now = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("model.xml")}
            assert len(now) == graphs
            assert kept.items() <= now.items()
    finally:
        mono.model.classifier.classifier.bias.data = before
    graph = openvino.Core().read_model(next(iter(now)))
    of_a_token = [node for node in graph.get_ordered_ops() if "..1" in str(node.outputs())]
    assert len(of_a_token) >= 15


def test_what_cannot_be_is_refused_in_one_line(mono, monkeypatch):
    known = "there are: torch, compiled, openvino, onnx"
    for given, message in (
        ({"backend": "tensorrt"}, f"no back end is called 'tensorrt'; {known}"),
        ({"precision": "int8"}, "torch computes in float32, float32-fast, tf32, bfloat16, got 'int8'"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"tokens": 0}, "tokens of a batch must be at least 1"),
        ({"backend": "onnx", "device": "cuda"}, "onnx computes on the processor, not on cuda"),
    ):
        with pytest.raises(ModelError, match=message):
            Scorer(mono, **given)
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(MissingExtra, match=r"openvino.*telerank\[fast\]"):
        Scorer(mono, backend="openvino").score(PAIRS[:1])


DOCS = {f"d{number}": passage for number, (_, passage) in enumerate(pairs(20))}
RUN = [Ranking.ranked(Query(f"{n}", f"q{n} q2"), list(DOCS)[n : n + 6], np.arange(6)) for n in range(8)]


def test_the_loss_of_int8_is_measured_on_queries_that_did_not_calibrate(mono):
    pytest.importorskip("openvino")
    pytest.importorskip("nncf")
    qrels = {f"{n}": {f"d{n + 1}": 1} for n in range(7)}
    loss = calibrate(Scorer(mono, backend="openvino", precision="int8", threads=1), DOCS, RUN, qrels)
    assert {query for query, _ in loss.scorer.samples} == {"q0 q2", "q2 q2", "q4 q2", "q6 q2"}
    assert loss.queries == 3  # 1, 3 and 5; 7 is not judged
    assert loss.correlation > 0.9
    assert loss.record()["nDCG@10"] == {"int8": loss.int8, "float32": loss.float32}
    assert str(loss).startswith(f"int8: nDCG@10 {loss.int8:.4f} instead of {loss.float32:.4f} in float32")
    with pytest.raises(CollectionError, match="int8 needs two judged queries, got 1 among 8"):
        calibrate(Scorer(mono), DOCS, RUN, {"3": {"d4": 1}})
