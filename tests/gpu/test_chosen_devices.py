"""The device and the back end of processes that ``torchrun`` starts, without a GPU: what torch would be asked."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from telerank.errors import ModelError  # noqa: E402
from telerank.training import parallel, task  # noqa: E402
from telerank.training.parallel import join_processes  # noqa: E402
from telerank.training.task import choose_device  # noqa: E402

LAUNCHED = {"RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}


@pytest.fixture
def machine(monkeypatch):
    """A machine with GPUs or without, and what processes ask of torch."""
    asked: list[object] = []

    def build(*, gpus: int, launched: bool = False, local: int = 0, beside: int = 1):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
        monkeypatch.setattr(torch.cuda, "set_device", lambda device: asked.append(str(device)))
        monkeypatch.setattr(task, "device_of", torch.device)  # without a look at the machine
        distributed = parallel.distributed
        monkeypatch.setattr(distributed, "init_process_group", lambda name, **_: asked.append(name))
        monkeypatch.setattr(parallel.atexit, "register", lambda _: None)
        for name in (*LAUNCHED, "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
            monkeypatch.delenv(name, raising=False)
        if launched:
            own = {"LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(beside)}
            for name, value in (LAUNCHED | own).items():
                monkeypatch.setenv(name, value)
        return asked

    return build


def test_each_process_has_the_gpu_of_its_number(machine):
    asked = machine(gpus=4, launched=True, local=1, beside=4)
    assert str(choose_device("auto")) == str(choose_device("cuda")) == "cuda:1"
    with join_processes(choose_device("auto")):
        assert asked == ["cuda:1", "cpu:gloo,cuda:nccl"]


def test_processes_without_gpus_join_by_gloo(machine):
    asked = machine(gpus=0, launched=True, local=1, beside=2)
    assert str(choose_device("auto")) == "cpu"
    with join_processes(choose_device("auto")):
        assert asked == ["gloo"]


def test_processes_of_a_machine_with_gpus_that_train_on_the_processor_take_none(machine):
    asked = machine(gpus=2, launched=True, local=1, beside=2)
    with join_processes(choose_device("cpu")):
        assert "cuda:1" not in asked


def test_a_gpu_by_number_is_for_one_process(machine):
    machine(gpus=4)
    assert str(choose_device("cuda:2")) == "cuda:2"
    assert str(choose_device("auto")) == "cuda"
    machine(gpus=4, launched=True, beside=4)
    with pytest.raises(ModelError, match="each process has a GPU of its own, so name it 'cuda'"):
        choose_device("cuda:2")


def test_one_process_alone_joins_nothing(machine):
    asked = machine(gpus=1)
    with join_processes(choose_device("auto")) as processes:
        assert (processes.rank, processes.size) == (0, 1)
    assert asked == []
