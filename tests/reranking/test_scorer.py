"""Scoring: batches, windows, back ends, what is cut."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

from small_rerankers import pairs, small_reranker
from telerank.errors import MissingExtra, ModelError
from telerank.models.pairs.pair import batch_of
from telerank.reranking import backends, scorer
from telerank.reranking.scorer import Scorer
from telerank.reranking.texts import make_pairs

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


def one_by_one(reranker, texts):
    with torch.no_grad():
        made = (make_pairs(reranker, [pair]) for pair in texts)
        return np.array(
            [float(reranker.model(batch_of(one, reranker.texts.pad_id))) for one in made], np.float32
        )


def test_scores_are_the_models_own_in_the_order_of_the_pairs(mono):
    assert np.allclose(Scorer(mono).score(PAIRS), one_by_one(mono, PAIRS), atol=1e-5)


@pytest.mark.parametrize("kind", ["monobert", "bert", "bert-dmn"])
def test_scores_do_not_depend_on_the_batch(folder, kind):
    reranker = small_reranker(folder, kind)
    sizes = [Scorer(reranker, tokens=tokens).score(PAIRS) for tokens in (1, 100, 100_000)]
    assert np.ptp(sizes, axis=0).max() < 1e-5


def test_scores_do_not_depend_on_the_window(mono, monkeypatch):
    whole = Scorer(mono).score(PAIRS)
    monkeypatch.setattr(scorer, "_WINDOW", 7)
    assert np.allclose(Scorer(mono).score(PAIRS), whole, atol=1e-5)


def test_groups_come_back_as_they_went_in_however_windows_cut_them(mono, monkeypatch):
    monkeypatch.setattr(scorer, "_WINDOW", 7)
    sizes = [0, 3, 20, 0, 7, 1, 0]
    texts = iter(PAIRS)
    groups = [list(itertools.islice(texts, size)) for size in sizes]
    found = list(Scorer(mono).stream(groups))
    assert [len(one) for one in found] == sizes
    assert np.allclose(np.concatenate(found), Scorer(mono).score(itertools.chain(*groups)), atol=1e-5)


def test_no_more_than_three_windows_are_read_before_the_first_answer(mono, monkeypatch):
    monkeypatch.setattr(scorer, "_WINDOW", 8)
    read = 0

    def endless():
        nonlocal read
        for pair in itertools.cycle(PAIRS):
            read += 1
            yield [pair]

    next(Scorer(mono).stream(endless()))
    assert read <= 24


def test_each_distinct_text_is_tokenised_once(mono, monkeypatch):
    asked = []
    texts = type(mono.texts)
    monkeypatch.setattr(
        texts,
        "passages",
        lambda self, given, spans=None, real=texts.passages: (asked.extend(given), real(self, given, spans))[
            1
        ],
    )
    Scorer(mono).score([("q1", "d1"), ("q2", "d1"), ("q1", "d2"), ("q1", "d1")])
    assert asked == ["d1", "d2"]


def test_what_is_cut_and_what_is_padded_is_counted(folder):
    made = Scorer(small_reranker(folder, max_length=20), tokens=60)
    made.score([("q1 q2", "d1 " * 30), ("q1", "d1")])
    assert made.counts.pairs == 2
    assert (made.counts.cut_pairs, made.counts.cut) == (1, 30 - (20 - 3 - 2))


def test_a_loaded_model_has_a_checksum_of_its_weights(mono):
    assert Scorer(mono).checksum == Scorer(mono, max_length=48).checksum
    assert len(Scorer(mono).checksum) == 64


def test_an_empty_list_of_pairs_has_no_scores(mono):
    assert Scorer(mono).score([]).shape == (0,)


@pytest.mark.parametrize("precision", ["float32-fast", "bfloat16"])
def test_other_precisions_of_torch_are_close(mono, precision):
    exact = Scorer(mono).score(PAIRS)
    try:
        found = Scorer(mono, precision=precision).score(PAIRS)
    except ModelError as error:
        pytest.skip(str(error))
    assert np.abs(found - exact).max() < (0.2 if precision == "bfloat16" else 1e-4) * exact.std()


@pytest.mark.parametrize("backend", ["openvino", "onnx"])
@pytest.mark.parametrize(
    ("kind", "architecture"), [("monobert", "bert"), ("bert", "camembert"), ("bert-dmn", "bert")]
)
def test_graphs_score_as_the_model_does(folder, backend, kind, architecture):
    pytest.importorskip({"onnx": "onnxruntime"}.get(backend, backend))
    reranker = small_reranker(folder, kind, architecture)
    exact, found = Scorer(reranker).score(PAIRS), Scorer(reranker, backend, threads=1).score(PAIRS)
    assert np.abs(found - exact).max() < 1e-5


def test_int8_is_calibrated_on_samples_and_keeps_the_order_roughly(mono):
    pytest.importorskip("nncf")
    exact = Scorer(mono).score(PAIRS)
    found = Scorer(mono, "openvino", "int8", samples=tuple(pairs(20, seed=5))).score(PAIRS)
    assert np.abs(found - exact).max() > 0
    assert np.corrcoef(found, exact)[0, 1] > 0.9
    with pytest.raises(ModelError, match="must be calibrated"):
        Scorer(mono, "openvino", "int8").score(PAIRS)


@pytest.mark.parametrize("home", ["", "/proc/none", "killed"])
def test_a_graph_is_kept_if_it_can_be_and_made_again_after_a_kill(mono, monkeypatch, tmp_path, home):
    from telerank.reranking.backends.graphs import cache_graph

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    def make(folder: Path) -> None:
        (folder / "graph").write_text("whole")

    if home == "killed":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        made = cache_graph(backends.Computable.of(mono), {}, (), make)
        made.rename(f"{made}.writing")
        (Path(f"{made}.writing") / "left").touch()
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", home)
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        monkeypatch.setattr(tempfile, "tempdir", None)
        monkeypatch.setattr(Path, "home", no_home)
    folder = cache_graph(backends.Computable.of(mono), {}, (), make)
    assert folder.is_relative_to(tmp_path)
    assert {path.name for path in folder.iterdir()} == {"graph"}
    assert not list(tmp_path.rglob("*.writing"))


def test_a_graph_is_made_once_and_kept_by_what_decides_it(mono, monkeypatch):
    pytest.importorskip("openvino")
    from telerank.reranking.backends import in_openvino

    Scorer(mono, "openvino").score(PAIRS[:1])

    def refuse(_):
        raise AssertionError

    monkeypatch.setattr(in_openvino, "_graph", refuse)
    Scorer(mono, "openvino").score(PAIRS[:1])
    before = mono.model.classifier.classifier.bias.data.clone()
    try:
        mono.model.classifier.classifier.bias.data += 1
        with pytest.raises(AssertionError):
            Scorer(mono, "openvino").score(PAIRS[:1])
    finally:
        mono.model.classifier.classifier.bias.data = before


def test_the_first_token_alone_is_computed_where_nothing_else_is_asked_for(mono):
    pytest.importorskip("openvino")
    from telerank.reranking.backends.first_token import narrow_to_first_token
    from telerank.reranking.backends.in_openvino import _graph

    assert narrow_to_first_token(_graph(backends.Computable.of(mono))) >= 10


def test_what_cannot_be_is_refused_in_one_line(mono):
    for given, message in (
        (
            {"backend": "tensorrt"},
            "no back end is called 'tensorrt'; there are: torch, compiled, openvino, onnx",
        ),
        ({"precision": "int8"}, "torch computes in float32, float32-fast, tf32, bfloat16, got 'int8'"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"tokens": 0}, "tokens of a batch must be at least 1"),
        ({"backend": "onnx", "device": "cuda"}, "onnx computes on the processor, not on cuda"),
    ):
        with pytest.raises(ModelError, match=message):
            Scorer(mono, **given)


def test_a_missing_package_names_the_extra(mono, monkeypatch):
    monkeypatch.setattr(backends, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"openvino.*telerank\[fast\]"):
        Scorer(mono, "openvino").score(PAIRS[:1])
