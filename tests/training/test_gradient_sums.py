"""Gradients are summed over processes while the last backward of an update runs, to the sums that they had after it."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import pytest
import torch

from forked import free_ports
from telerank.training.parallel import GradientSums, Processes

pytestmark = pytest.mark.process


UNEQUAL = """
import random
from telerank.training.parallel import GradientSums, join_processes
from telerank.training.settings import OptimisationSettings, Training
from torch import distributed, nn
GradientSums.bucket, sizes, reduce, wrong = 8, [], distributed.all_reduce, []

def recorded(tensor, *given, **named):
    sizes.append(len(tensor))
    return reduce(tensor, *given, **named)

distributed.all_reduce = recorded
with join_processes(torch.device("cpu")) as processes:
    weights = [nn.Parameter(torch.zeros(1 + number % 5)) for number in range(12)]
    sums, draw = GradientSums(), random.Random(processes.rank)
    sums.watch(processes, weights)

    def add(chosen):
        sum((weights[n] * draw.randrange(1, 9)).sum() for n in chosen).backward()

    for update in range(40):
        many = 3 + update // 6
        parts = [draw.sample(range(many), draw.randrange(1, many + 1)) for _ in range(draw.randrange(4))]
        for number, chosen in enumerate(parts, 1):
            sums.last_batch = number == len(parts)
            with sums.last():
                add(chosen)
        if update % 5 == 0:
            add([3])  # after what was to be the last
        own = [None if weight.grad is None else weight.grad.clone() for weight in weights]
        sums.finish()
        for weight, *gradients in zip(weights, *processes.gather_values(own), strict=True):
            known = [gradient for gradient in gradients if gradient is not None]
            if weight.grad is not None if not known else not torch.equal(weight.grad, sum(known)):
                wrong.append(update)
            weight.grad = None
    computed = {"wrong": wrong, "sizes": sizes}
"""


FAILING = """
from telerank.errors import TelerankError
from telerank.training.training import train

class Failing:
    examples = 8

    def __init__(self, hardware, at):
        self.hardware = hardware
        self.models = ((torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)),)
        if processes.rank in at:  # in the third update, after two buckets of the last layer
            self.models[0][0].weight.register_hook(self.fail)
        self.calls = 0

    def fail(self, gradient):
        self.calls += 1
        if self.calls == 3:
            raise torch.OutOfMemoryError("CUDA")

    def prepare(self, number, progress):
        pass

    def read(self, number):
        return number

    def backward(self, number):
        ((first, second),) = self.models
        loss = second(first(torch.ones(1, 2))).sum()
        self.hardware.backward(loss, last=True)
        return loss.detach()

GradientSums.bucket, said = 1, []
distributed.destroy_process_group()
for at, port in zip(([0], [1], [0, 2]), sys.argv[2:], strict=True):
    os.environ |= {"MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "False"}
    config = Training(optimisation=OptimisationSettings(steps=4, batch=4, learning_rate=0.1))
    try:
        train(config, folder / f"{at}", lambda begun, hardware, progress: Failing(hardware, at))
    except TelerankError as error:
        said.append(f"{type(error).__name__}: {error}")
write({**computed, "said": said})
"""


@pytest.fixture(scope="module")
def three(forks, tmp_path_factory):
    """What three processes say of their sums, and of their errors in trainings one after the other."""
    folder = tmp_path_factory.mktemp("three")
    return forks.compute(UNEQUAL + FAILING, folder, *free_ports(3), processes=3)


def test_sums_are_right_whatever_each_process_computes(three):
    """Three processes with parts of another number and other weights each, none of two weights, and late ones.

    Numbers are whole, so that their order in a sum does not matter. What is exchanged is checked, too: all
    send as much in the same order.
    """
    assert [own["wrong"] for own in three] == [[]] * 3
    first, *others = (own["sizes"] for own in three)
    assert others == [first, first]
    buckets = first.index(12)  # then the states of the weights
    assert buckets > 3
    assert 40 * (buckets + 1) + 5 <= len(first)  # some buckets twice


def test_no_process_waits_for_the_sums_of_one_that_has_an_error_in_backward(three):
    """It says so with its sums: the others' connections need not break, of which each waits for another's."""
    own = "ModelError: out of memory: set optimisation.batch"
    others = "ProcessError: another process has ended: its message says why"
    for number, at in enumerate(([0], [1], [0, 2])):
        for rank in range(3):
            assert three[rank]["said"][number].startswith(own if rank in at else others)


@pytest.fixture
def sizes(monkeypatch):
    """How many numbers each sum has; there is no other process, and each tensor is as it was."""
    seen = []

    def reduce(tensor, *_, **__):
        seen.append(tensor.numel())
        return SimpleNamespace(wait=lambda: None)

    monkeypatch.setattr(torch.distributed, "all_reduce", reduce)
    return seen


def watching(weights, size=2, bucket=GradientSums.bucket):
    sums = GradientSums()
    sums.bucket = bucket
    sums.watch(Processes(0, size), weights)
    sums.last_batch = True
    return sums


def test_an_error_is_raised_even_if_the_others_have_ended(monkeypatch):
    def closed(*_, **__):
        raise RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer")

    monkeypatch.setattr(torch.distributed, "all_reduce", closed)
    sums = watching([torch.nn.Parameter(torch.ones(3))])
    with sums.last():
        pass
    sums.fail()  # else its error would replace that of the training


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_gradients_are_sent_whole_from_the_stream_that_computes_them(device, monkeypatch):
    """As if of two processes; but the connection is of one, whose sums are its gradients: a GPU is enough."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU here")
    backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    torch.distributed.init_process_group(backend, store=torch.distributed.HashStore(), rank=0, world_size=1)
    calls, reduce = [], torch.distributed.all_reduce
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda *a, **n: calls.append(a) or reduce(*a, **n))
    try:
        model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(8))).to(device)
        weights = list(model.parameters())
        sums = watching(weights, bucket=1 << 18)
        for _ in range(3):
            calls.clear()
            with sums.last():
                model(torch.randn(1024, 512, device=device)).square().sum().backward()
            assert len(calls) == 8
            own = [weight.grad.clone() for weight in weights]
            sums.finish()
            assert all(map(torch.equal, own, (weight.grad for weight in weights)))
            model.zero_grad()
    finally:
        torch.distributed.destroy_process_group()


def test_a_process_alone_sums_nothing(sizes):
    for size, expected in ((1, []), (2, [3, 1])):
        weight = torch.nn.Parameter(torch.ones(3))
        sums = watching([weight], size)
        with sums.last():
            weight.sum().backward()
        sums.finish()
        assert sizes == expected


def test_hooks_keep_no_weight_in_memory():
    """Of a grid of trainings only the present one is on the device; and a model learns elsewhere, too."""
    weight = torch.nn.Parameter(torch.ones(3))
    watching([weight])
    weight.sum().backward()
    assert weight.grad.tolist() == [1, 1, 1]
    kept = weakref.ref(weight)
    gc.disable()
    try:
        del weight
        assert kept() is None
    finally:
        gc.enable()


def test_buckets_are_of_like_sizes_and_in_the_order_of_gradients(sizes):
    weights = [torch.nn.Parameter(torch.zeros(size)) for size in (20, 2, 3, 4, 1)]
    watching(weights, bucket=6).finish()
    assert sizes == [1 + 4 + 3, 2 + 20, len(weights)]
