"""Trainings on a real GPU; where there is none these tests are skipped, and ``test_gpu_training.py`` stays."""

from __future__ import annotations

import gc
import shutil
import warnings

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("no GPU here that CUDA_VISIBLE_DEVICES shows", allow_module_level=True)

from small_training import losses

from telerank.errors import ModelError
from telerank.training.bi_encoder.train import train_bi_encoder
from telerank.training.loop import Loop
from telerank.training.reranker.train import train_reranker

pytestmark = pytest.mark.gpu

STILL = {"kind": "monobert", "dropout": 0.0}


def drop_last_checkpoint(output):
    shutil.rmtree(max((output / "checkpoints").iterdir()))


@pytest.mark.parametrize("precision", ["auto", "float32", "float16"])
def test_a_deterministic_training_resumes_to_the_same_losses(ranked, paired, tmp_path, precision):
    common = {"deterministic": True, "precision": precision, "checkpoint_every": 4}
    encoder, ranker = (paired(**common), ranked(model={"kind": "monobert"}, **common))
    for start, config in ((train_bi_encoder, encoder), (train_reranker, ranker)):
        output = tmp_path / start.__name__
        start(config, output)
        whole = losses(output)
        drop_last_checkpoint(output)
        start(config, output, resume=True)
        assert losses(output) == whole


def test_an_update_waits_for_nothing(ranked, paired, tmp_path, monkeypatch):
    """The calls that wait for the GPU, by the line of ours or of a library that makes them."""
    update, waits = Loop.update, []

    def watched(self, progress):
        if self.position.step < 3:  # the first updates ask for memory
            return update(self, progress)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")  # the mode itself warns, too
            try:
                torch.cuda.set_sync_debug_mode("warn")
                update(self, progress)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        waits.extend(
            f"{each.filename}:{each.lineno}"
            for each in caught
            if "synchronizing CUDA operation" in str(each.message)
        )
        return None

    monkeypatch.setattr(Loop, "update", watched)
    own = {"objective": "softmax"}
    train_bi_encoder(paired(loss=own, log_every=100, checkpoint_every=100), tmp_path / "encoder")
    train_bi_encoder(paired(log_every=100, checkpoint_every=100), tmp_path / "margin")
    common = {"model": {"kind": "monobert"}, "log_every": 100, "checkpoint_every": 100}
    for objective in ("pointwise", "softmax", "margin"):
        config = ranked(**common, loss={"objective": objective})
        train_reranker(config, tmp_path / "reranker" / objective)
    assert sorted(set(waits)) == []


@pytest.mark.filterwarnings("default")  # torch's compiler warns of itself
@pytest.mark.parametrize("setting", ["compile", "recompute"])
def test_compiled_and_recomputed_layers_learn_the_same(ranked, paired, on_dev, tmp_path, setting):
    plain = ranked(model=STILL, precision="float32", dev=on_dev(measures="MRR"))
    encoder = paired(model={"dropout": 0.0}, optimisation={"chunk": None}, precision="float32")
    for start, config in ((train_bi_encoder, encoder), (train_reranker, plain)):
        for name, own in (("plain", config), (setting, config.model_copy(update={setting: True}))):
            start(own, tmp_path / start.__name__ / name)
        found, expected = (losses(tmp_path / start.__name__ / name) for name in (setting, "plain"))
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-4)


def take_memory():
    """Tensors that fill what the process may have of the GPU, what it keeps of other tests included."""
    taken, size = [], 2**26
    while size >= 512:
        try:
            taken.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            size //= 2
    return taken


def test_a_gpu_without_memory_is_a_line(paired, tmp_path):
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(1e-5)
    taken = take_memory()
    try:
        with pytest.raises(ModelError, match=r"^out of memory: set optimisation.chunk to less than 4"):
            train_bi_encoder(paired(), tmp_path)
    finally:
        del taken
        torch.cuda.set_per_process_memory_fraction(1.0)
