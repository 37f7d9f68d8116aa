"""What a training says when memory, or another process, is missing; and settings that a GPU needs."""

from __future__ import annotations

import os
import shutil

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_training import losses, small_place, training  # noqa: E402

from forked import free_ports  # noqa: E402
from small_ranking import dev_lists, ranking_training, small_ranking  # noqa: E402
from telerank.errors import ModelError  # noqa: E402
from telerank.models.loading import draw_encoder  # noqa: E402
from telerank.training import encoders, faults  # noqa: E402
from telerank.training.bi_encoder.task import BiEncoderTask  # noqa: E402
from telerank.training.bi_encoder.train import train_bi_encoder  # noqa: E402
from telerank.training.reranker.config import RerankerTraining  # noqa: E402
from telerank.training.reranker.task import RerankerTask  # noqa: E402
from telerank.training.reranker.train import train_reranker  # noqa: E402
from telerank.training.settings import dump_settings  # noqa: E402


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return small_place(tmp_path_factory.mktemp("place"))


@pytest.fixture(scope="module")
def ranking(tmp_path_factory):
    return small_ranking(tmp_path_factory.mktemp("ranking"))


def run_out(*_):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.\nGPU 0 has …")


def test_out_of_memory_is_a_line_that_says_what_to_set(place, ranking, tmp_path, monkeypatch):
    monkeypatch.setattr(BiEncoderTask, "backward", run_out)
    monkeypatch.setattr(RerankerTask, "backward", run_out)
    start, monobert = {"optimisation": {"chunk": None}}, {"kind": "monobert"}
    frozen = {"kind": "bert", "frozen": True, "head": {"hidden": [8]}}
    cases = [
        (train_bi_encoder, training(place), "chunk to less than 4, or recompute to true$"),
        (train_bi_encoder, training(place, **start, recompute=True), "chunk to a number of texts, as 32$"),
        (train_reranker, ranking_training(ranking, model=monobert), r"tokens to less than \d+, or recompute"),
        (
            train_reranker,
            ranking_training(ranking, model=frozen),
            r"batch to less than \d+, and accumulation",
        ),
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
def test_an_error_of_torch_is_a_line(place, error, says):
    with pytest.raises(ModelError, match=says), faults.explaining(training(place, deterministic=True)):
        raise error
    with pytest.raises(ZeroDivisionError), faults.explaining(training(place)):
        1 / 0  # noqa: B018


def test_deterministic_algorithms_are_used_while_the_training_runs(place, tmp_path, monkeypatch):
    during, backward = [], BiEncoderTask.backward

    def recorded(*given):
        during.append(torch.are_deterministic_algorithms_enabled())
        return backward(*given)

    monkeypatch.setattr(BiEncoderTask, "backward", recorded)
    train_bi_encoder(training(place, deterministic=True), tmp_path / "set")
    train_bi_encoder(training(place), tmp_path / "not")
    assert set(during[: len(during) // 2]) == {True}
    assert set(during[len(during) // 2 :]) == {False}
    assert losses(tmp_path / "set") == losses(tmp_path / "not")  # on a processor


def test_a_gpu_gets_the_workspace_that_makes_it_deterministic(monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    with faults.deterministic(torch.device("cpu")):
        assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    with faults.deterministic(torch.device("cuda")):
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
        assert torch.are_deterministic_algorithms_enabled()
    assert not torch.are_deterministic_algorithms_enabled()
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    with faults.deterministic(torch.device("cuda")):
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"


def test_new_settings_are_dumped_only_if_they_are_set(place, ranking):
    """Kept models are found by a hash of all settings."""
    for config in (training(place), ranking_training(ranking)):
        record = config.model_dump(mode="json")
        assert not {"deterministic", "compile", "recompute", "repetition"} & record.keys()
    config = ranking_training(ranking, deterministic=True, recompute=True)
    assert "deterministic: true\n" in dump_settings(config)
    assert RerankerTraining.model_validate(config.model_dump(mode="json")) == config


@pytest.mark.parametrize("accumulation", [1, 2])
def test_layers_that_are_computed_again_have_the_same_losses_with_dropout(ranking, tmp_path, accumulation):
    own = {"accumulation": accumulation, "batch": 5, "tokens": 8192}
    dev = dev_lists(ranking, every=4, measure="MRR")
    config = ranking_training(ranking, model={"kind": "monobert"}, optimisation=own, dev=dev)
    train_reranker(config, tmp_path / "kept")
    train_reranker(config.model_copy(update={"recompute": True}), tmp_path / "again")
    assert losses(tmp_path / "again") == losses(tmp_path / "kept")
    assert losses(tmp_path / "again", "dev_loss") == losses(tmp_path / "kept", "dev_loss")


def test_layers_are_computed_again_with_cached_gradients_too(place, tmp_path, monkeypatch):
    calls, enable = [], encoders.recompute_layers
    monkeypatch.setattr("telerank.training.loop.recompute_layers", lambda *a: calls.append(enable(*a)))
    train_bi_encoder(training(place), tmp_path / "kept")
    assert not calls
    train_bi_encoder(training(place, recompute=True), tmp_path / "again")
    assert calls
    assert losses(tmp_path / "again") == losses(tmp_path / "kept")


def test_transformers_are_compiled_for_a_gpu_alone(place, monkeypatch):
    encoder = draw_encoder(place / "encoder", None)
    compiled = []
    monkeypatch.setattr(type(encoder), "compile", lambda self, **given: compiled.append((self, given)))
    module = torch.nn.Sequential(torch.nn.ModuleDict({"bert": encoder}))
    encoders.compile_transformers(module, torch.device("cuda"))
    assert compiled == [(encoder, {"dynamic": True})]
    with pytest.raises(ModelError, match="compile is for GPUs, not for cpu: set compile to false"):
        encoders.compile_transformers(module, torch.device("cpu"))
    with pytest.raises(
        ValueError, match=r"compile does not go with optimisation.chunk: its texts are encoded"
    ):
        training(place, compile=True)
    encoder.requires_grad_(False)
    encoders.compile_transformers(module, torch.device("cuda"))
    assert len(compiled) == 1


def test_float16_scales_its_losses_and_resumes(place, tmp_path):
    config = training(place, precision="float16", checkpoint_every=4)
    train_bi_encoder(config, tmp_path / "whole")
    plain = training(place, precision="float32")
    train_bi_encoder(plain, tmp_path / "plain")
    whole = losses(tmp_path / "whole")
    assert whole == pytest.approx(losses(tmp_path / "plain"), rel=0.15)
    (last,) = (tmp_path / "whole" / "checkpoints").glob("*8")
    shutil.rmtree(last)
    train_bi_encoder(config, tmp_path / "whole", resume=True)
    assert losses(tmp_path / "whole") == whole


WORKER = """
import os, sys
from pathlib import Path
import torch
from telerank.training.settings import OptimisationSettings, Training
from telerank.training.training import train

class Failing:
    examples = 8
    def __init__(self, at):
        self.at, self.modules = at, (torch.nn.Linear(1, 1, bias=False),)
    def fail(self, where):
        if where == self.at:
            raise ZeroDivisionError("broken") if where == "save" else torch.OutOfMemoryError("CUDA")
    def prepare(self, number, progress):
        pass
    def read(self, number):
        return number
    def backward(self, number):
        self.fail(f"rank {os.environ['RANK']}" if number == 2 else "")
        loss = next(self.modules[0].parameters()).square().sum()
        loss.backward()
        return loss.detach()
    def save(self, folder):
        self.fail("save")
    def state(self):
        return {}

folder, ports = Path(sys.argv[1]), sys.argv[2:]
for at, port in zip(("save", "rank 0", "rank 1"), ports):
    os.environ["MASTER_PORT"] = port
    config = Training(optimisation=OptimisationSettings(steps=4, batch=4, learning_rate=0.1))
    try:
        train(config, folder / at, lambda *_: Failing(at))
    except Exception as error:
        (folder / f"{at} {os.environ['RANK']}").write_text(f"{type(error).__name__}: {error}")
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch trains in one process alone")
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
