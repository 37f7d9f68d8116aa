"""What a training says when memory, or another process, is missing; and settings that a GPU needs."""

from __future__ import annotations

import os
import shutil

import pytest
import torch
from small_line import Line, line_training
from small_training import dev_losses, losses

from forked import free_ports
from telerank.errors import ModelError
from telerank.models.loading import draw_encoder
from telerank.training import loop
from telerank.training.bi_encoder.train import train_bi_encoder
from telerank.training.reranker.train import train_reranker
from telerank.training.training import deterministic, explaining, train

FROZEN = {"kind": "bert", "frozen": True, "head": {"hidden": [8]}}


def test_out_of_memory_is_a_line_that_says_what_to_set(ranked, paired, tmp_path, monkeypatch):
    def run_out(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.\nGPU 0 has …")

    monkeypatch.setattr(torch.Tensor, "backward", run_out)
    at_once = paired(optimisation={"chunk": None}, recompute=True)
    monobert = ranked(model={"kind": "monobert"})
    cases = [
        (train_bi_encoder, paired(), "chunk to less than 4, or recompute to true$"),
        (train_bi_encoder, at_once, "chunk to a number of texts, as 32$"),
        (train_reranker, monobert, r"tokens to less than \d+, or recompute"),
        (train_reranker, ranked(model=FROZEN), r"batch to less than \d+, and accumulation"),
    ]
    for number, (start, config, says) in enumerate(cases):
        with pytest.raises(ModelError, match=f"^out of memory: set .*{says}") as raised:
            start(config, tmp_path / str(number))
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (MemoryError(), "out of memory: set optimisation.chunk"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to"), "out of memory: set"),
        (RuntimeError("[/gloo/pair.cc:5] Connection closed by peer"), "another process has"),
        (RuntimeError("f does not have a deterministic implementation"), "deterministic: f does not have a"),
        (
            RuntimeError("a deterministic … CUBLAS_WORKSPACE_CONFIG=:4096:8"),
            "used before without CUBLAS_WORK",
        ),
    ],
)
def test_an_error_of_torch_is_a_line(paired, error, says):
    with pytest.raises(ModelError, match=says), explaining(paired(deterministic=True)):
        raise error
    with pytest.raises(ZeroDivisionError), explaining(paired()):
        1 / 0  # noqa: B018


@pytest.mark.parametrize("setting", [True, False])
def test_deterministic_algorithms_are_used_while_the_training_runs(tmp_path, setting):
    during = []

    class Looking(Line):
        def backward(self, number):
            during.append(torch.are_deterministic_algorithms_enabled())
            return super().backward(number)

    train(line_training(deterministic=setting), tmp_path, lambda *_: Looking())
    assert during == [setting] * 6
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_gpu_gets_the_workspace_that_makes_it_deterministic(monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    with deterministic(torch.device("cpu")):
        assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    with deterministic(torch.device("cuda")):
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
        assert torch.are_deterministic_algorithms_enabled()
    assert not torch.are_deterministic_algorithms_enabled()
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    with deterministic(torch.device("cuda")):
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"


@pytest.mark.parametrize("kind", ["bi-encoder", "re-ranker"])
def test_layers_that_are_computed_again_have_the_same_losses_with_dropout(
    ranked, paired, on_dev, tmp_path, kind
):
    """Also with cached gradients, and in parts."""
    start, config = train_bi_encoder, paired(optimisation={"steps": 4})
    if kind == "re-ranker":
        optimisation = {"steps": 4, "accumulation": 2, "batch": 5}
        dev = on_dev(every=4, patience=4, measures="MRR")
        start = train_reranker
        config = ranked(model={"kind": "monobert"}, optimisation=optimisation, dev=dev)
    layers = []

    def count(module, *_):
        layers.append(type(module).__name__ == "BertAttention")

    handle = torch.nn.modules.module.register_module_forward_pre_hook(count)
    try:
        start(config, tmp_path / "kept")
        kept, layers = sum(layers), []
        start(config.model_copy(update={"recompute": True}), tmp_path / "again")
    finally:
        handle.remove()
    assert sum(layers) > 1.2 * kept
    assert losses(tmp_path / "again") == losses(tmp_path / "kept")
    assert dev_losses(tmp_path / "again") == dev_losses(tmp_path / "kept")


def test_transformers_are_compiled_for_a_gpu_alone(paired, pair_set, monkeypatch):
    encoder = draw_encoder(pair_set / "encoder", None)
    compiled = []
    monkeypatch.setattr(type(encoder), "compile", lambda self, **given: compiled.append((self, given)))
    module = torch.nn.Sequential(torch.nn.ModuleDict({"bert": encoder}))
    loop.compile_transformers(module, torch.device("cuda"))
    assert compiled == [(encoder, {"dynamic": True})]
    with pytest.raises(ModelError, match="compile is for GPUs, not for cpu: set compile to false"):
        loop.compile_transformers(module, torch.device("cpu"))
    with pytest.raises(
        ValueError, match=r"compile does not go with optimisation.chunk: its texts are encoded"
    ):
        paired(compile=True)
    encoder.requires_grad_(False)
    loop.compile_transformers(module, torch.device("cuda"))
    assert len(compiled) == 1


def test_float16_scales_its_losses_and_resumes(paired, tmp_path):
    few = {"steps": 4, "accumulation": 1}
    config = paired(precision="float16", checkpoint_every=2, optimisation=few)
    train_bi_encoder(config, tmp_path / "whole")
    train_bi_encoder(paired(precision="float32", optimisation=few), tmp_path / "plain")
    whole = losses(tmp_path / "whole")
    assert whole == pytest.approx(losses(tmp_path / "plain"), rel=0.15)
    shutil.rmtree(tmp_path / "whole" / "checkpoints" / "00000004")
    train_bi_encoder(config, tmp_path / "whole", resume=True)
    assert losses(tmp_path / "whole") == whole


WORKER = """
import os, sys
from pathlib import Path
import torch
from small_line import Line, line_training
from telerank.training.training import train

class Failing(Line):
    def __init__(self, at):
        super().__init__()
        self.at = at
    def backward(self, number):
        if number == 2 and self.at == f"rank {os.environ['RANK']}":
            raise torch.OutOfMemoryError("CUDA")
        return super().backward(number)
    def save(self, folder):
        if self.at == "save":
            raise ZeroDivisionError("broken")

folder, ports = Path(sys.argv[1]), sys.argv[2:]
for at, port in zip(("save", "rank 0", "rank 1"), ports):
    os.environ["MASTER_PORT"] = port
    try:
        train(line_training(steps=4), folder / at, lambda *_: Failing(at))
    except Exception as error:
        (folder / f"{at} {os.environ['RANK']}").write_text(f"{type(error).__name__}: {error}")
"""


@pytest.mark.process
def test_no_process_waits_for_one_that_has_an_error(forks, tmp_path):
    """No ``torchrun`` ends them: each ends by itself, and could wait for seven days."""
    ended = forks.run(WORKER, tmp_path, *free_ports(3), processes=2)
    assert [own.status for own in ended] == [0, 0], ended

    def said(at, rank):
        return (tmp_path / f"{at} {rank}").read_text()

    assert said("save", 0) == "ZeroDivisionError: broken"
    assert said("save", 1).startswith("ProcessError: the first process has ended: its message")
    for failing, other in ((0, 1), (1, 0)):
        assert said(f"rank {failing}", failing).startswith(
            "ModelError: out of memory: set optimisation.batch"
        )
        assert said(f"rank {failing}", other).startswith("ModelError: another process has")
