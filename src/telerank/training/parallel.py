"""Several processes that train one model, as ``torchrun`` starts them; or one alone.

Each takes its share of every batch; gradients are added up before the update, so that the weights stay equal
everywhere and are those of one process with the whole batch. The first process alone writes and evaluates.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn

from telerank.errors import TelerankError

T = TypeVar("T")

_WAIT = timedelta(days=7)  # the others wait while the first evaluates or encodes
_BUCKET = 1 << 24  # numbers that are added up at a time


@dataclass(frozen=True)
class Processes:
    """``size`` processes, of which this is number ``rank``; every method is called by all of them."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes, evaluates and reports."""
        return self.rank == 0

    def share(self, count: int) -> range:
        """Which of ``count`` things are this process's."""
        return range(self.rank, count, self.size)

    def first(self, do: Callable[[], T]) -> T:
        """What ``do`` gives in the first process, which alone calls it; its error, too, is everybody's."""
        if self.size == 1:
            return do()
        told: list[Any] = [None, None]
        if self.leads:
            try:
                told[0] = do()
            except TelerankError as error:
                told[1] = error
        distributed.broadcast_object_list(told)
        if told[1] is not None:
            raise told[1]
        given: T = told[0]
        return given

    def all(self, value: T) -> list[T]:
        """The values of all processes."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        distributed.all_gather_object(values, value)
        return values

    def sum(self, value: float) -> float:
        return sum(self.all(value))

    def gathered(self, own: Tensor, count: int) -> Tensor:
        """The vectors (count, H) of ``count`` things, of which ``own`` are this process's share, in order.

        What is computed from them should be the same in all processes, and be divided by their number; then
        the gradient of ``own`` is that of the whole. Rows of ``own`` beyond the share are left out.
        """
        if self.size == 1:
            return own
        most = -(-count // self.size)
        padded = own.new_zeros((most, own.shape[1]))
        padded[: len(own)] = own.detach()
        found = [torch.empty_like(padded) for _ in range(self.size)]
        distributed.all_gather(found, padded)
        everything = torch.stack(found, dim=1).flatten(0, 1)[:count]  # row i is process i % size's
        mine = torch.tensor(self.share(count), device=own.device, dtype=torch.int64)
        live = own[: len(mine)]
        if live.requires_grad:
            live.register_hook(lambda gradient: gradient * self.size)  # type: ignore[no-untyped-call]
        return everything.index_copy(0, mine, live)

    def sum_gradients(self, weights: Sequence[nn.Parameter]) -> None:
        """Add up the gradients of all processes; a weight that no process has a gradient of gets none."""
        if self.size == 1 or not weights:
            return
        has = torch.tensor([one.grad is not None for one in weights], device=weights[0].device).int()
        distributed.all_reduce(has, distributed.ReduceOp.MAX)
        used = [one for one, yes in zip(weights, has.tolist(), strict=True) if yes]
        for weight in used:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
        for bucket in _buckets(used):
            gradients = [one.grad for one in bucket if one.grad is not None]
            flat = torch.cat([one.flatten() for one in gradients])
            distributed.all_reduce(flat)
            summed = torch.split(flat, [one.numel() for one in gradients])
            for gradient, total in zip(gradients, summed, strict=True):
                gradient.copy_(total.view_as(gradient))

    def spread(self, modules: Iterable[nn.Module]) -> None:
        """Give every process the first one's weights."""
        if self.size == 1:
            return
        for module in modules:
            for tensor in (*module.parameters(), *module.buffers()):
                whole = tensor.detach().contiguous()
                distributed.broadcast(whole, 0)
                tensor.detach().copy_(whole)


def _buckets(weights: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    bucket: list[nn.Parameter] = []
    for weight in weights:
        bucket.append(weight)
        if sum(one.numel() for one in bucket) >= _BUCKET:
            yield bucket
            bucket = []
    if bucket:
        yield bucket


def launched() -> bool:
    """Whether ``torchrun``, or what sets the same variables, has started this process."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def leads() -> bool:
    """Whether this is the first of the processes that were started, or the only one."""
    return os.environ.get("RANK", "0") == "0"


def local_rank() -> int:
    """The number of this process among those of its machine."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def processes_here() -> int:
    """How many processes ``torchrun`` has started on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


@contextmanager
def joined(device: torch.device) -> Iterator[Processes]:
    """The processes that ``torchrun`` has started, connected; or this one alone.

    They stay connected until they end: what they have told each other to meet cannot be told anew.
    """
    if distributed.is_available() and launched() and not distributed.is_initialized():
        if device.type == "cuda":
            torch.cuda.set_device(device)
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        distributed.init_process_group(backend, timeout=_WAIT)
        atexit.register(distributed.destroy_process_group)
    if distributed.is_available() and distributed.is_initialized():  # perhaps by whoever calls this library
        yield Processes(distributed.get_rank(), distributed.get_world_size())
    else:
        yield Processes()
