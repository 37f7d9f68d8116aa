"""Processes that train a model together, started by ``torchrun``; or a single process.

Each takes its share of every batch. Gradients are summed before the update, so that all processes keep equal
weights: those that a single process would have with the whole batch. What is scored or encoded without
learning is shared out by the first process, which alone reads it, decides and writes.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn

from telerank.errors import ModelError, TelerankError

T = TypeVar("T")
V = TypeVar("V")

_WAIT = timedelta(days=7)  # how long processes wait while the first reads, measures or writes
_BUCKET = 1 << 24  # numbers that are summed at a time
_ITEMS = 4096  # texts of a process that are shared out together


class ProcessError(ModelError):
    """Another process has ended with an error that it alone reports."""


@dataclass(frozen=True)
class Processes:
    """``size`` processes, of which this is number ``rank``; all of them must call each method."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this is the process that shares out, measures, writes and reports."""
        return self.rank == 0

    def share(self, count: int) -> range:
        """The numbers below ``count`` that are this process's share."""
        return range(self.rank, count, self.size)

    def first(self, do: Callable[[], T]) -> T:
        """Call ``do`` in the first process alone; all processes return its value or raise its error."""
        if self.size == 1:
            return do()
        ended = ProcessError("the first process has ended: its message says why")
        outcome: list[Any] = [None, ended]
        if self.leads:
            try:
                outcome = [do(), None]
            except TelerankError as error:
                outcome[1] = error
            finally:  # of any other error the others learn, too
                distributed.broadcast_object_list(outcome)
        else:
            distributed.broadcast_object_list(outcome)
        if outcome[1] is not None:
            raise outcome[1]
        value: T = outcome[0]
        return value

    def each(self, do: Callable[[], T]) -> T:
        """Call ``do`` in every process, which returns its own value; the error of one is raised in all."""
        if self.size == 1:
            return do()
        ended = f"process {self.rank + 1} of {self.size} has ended: its message says why"
        outcome: list[T] = []
        fault: TelerankError | None = ProcessError(ended)
        try:
            outcome.append(do())
            fault = None
        except TelerankError as error:
            fault = error
        finally:  # of any other error the others learn, too
            faults = [own for own in self.gather_values(fault) if own is not None]
        if faults:
            raise faults[0] from fault
        return outcome[0]

    def alone(self, do: Callable[[], T], other: T) -> T:
        """The value of ``do`` in the first process, which keeps it; ``other`` in the others.

        An error is raised in all.
        """
        return self.each(do if self.leads else lambda: other)

    def share_out(
        self, do: Callable[[Sequence[T]], Sequence[V]], items: Iterable[T], most: int
    ) -> Iterator[list[V]]:
        """What ``do`` makes of each of the first process's ``items``, in order and in rounds.

        All processes must read all rounds; only the first process gets their values. In a round of ``most *
        size`` items process r computes r, r + size, …. The error of one is raised in all.
        """
        rest = iter(items)
        while part := self.first(lambda: list(islice(rest, most * self.size))):
            own = [part[number] for number in self.share(len(part))]
            compute: Callable[[], Sequence[V]] = partial(do, own) if own else list
            shares = self.bring(self.each(compute))
            numbers = range(len(part) if self.leads else 0)
            yield [shares[number % self.size][number // self.size] for number in numbers]

    def bring(self, value: T) -> list[T]:
        """The values of all processes, in the first one."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        distributed.gather_object(value, values if self.leads else None)
        return values

    def gather_values(self, value: T) -> list[T]:
        """The values of all processes."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        distributed.all_gather_object(values, value)
        return values

    def gather(self, own: Tensor, count: int) -> Tensor:
        """Gather ``count`` vectors, (count, H), in order; ``own`` are those of this process's :meth:`share`.

        All processes must compute the same loss from them, divided by their number; then the gradient of
        ``own`` is that of the whole. Rows of ``own`` beyond the share are ignored.
        """
        if self.size == 1:
            return own
        most = -(-count // self.size)
        padded = own.new_zeros((most, own.shape[1]))
        padded[: len(own)] = own.detach()
        shares = [torch.empty_like(padded) for _ in range(self.size)]
        distributed.all_gather(shares, padded)
        everything = torch.stack(shares, dim=1).flatten(0, 1)[:count]  # row i is process i % size's
        mine = torch.tensor(self.share(count), dtype=torch.int64).to(own.device, non_blocking=True)
        live = own[: len(mine)]
        if live.requires_grad:
            live.register_hook(lambda gradient: gradient * self.size)  # type: ignore[no-untyped-call]
        return everything.index_copy(0, mine, live)

    def sum_gradients(self, weights: Sequence[nn.Parameter]) -> None:
        """Sum the gradients of all processes; a weight that has none in any process gets none."""
        if self.size == 1 or not weights:
            return
        has = torch.tensor([weight.grad is not None for weight in weights], device=weights[0].device).int()
        distributed.all_reduce(has, distributed.ReduceOp.MAX)
        used = [weight for weight, yes in zip(weights, has.tolist(), strict=True) if yes]
        for weight in used:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
        for bucket in _buckets(used):
            gradients = [weight.grad for weight in bucket if weight.grad is not None]
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            distributed.all_reduce(flat)
            summed = torch.split(flat, [gradient.numel() for gradient in gradients])
            shaped = [total.view_as(own) for total, own in zip(summed, gradients, strict=True)]
            torch._foreach_copy_(gradients, shaped)

    def broadcast(self, modules: Iterable[nn.Module]) -> None:
        """Give every process the weights of the first."""
        if self.size == 1:
            return
        for module in modules:
            for tensor in (*module.parameters(), *module.buffers()):
                whole = tensor.detach().contiguous()
                distributed.broadcast(whole, 0)
                tensor.detach().copy_(whole)


ALONE = Processes()
"""A process without others."""


def share_by_length(
    processes: Processes,
    do: Callable[[Sequence[T]], Sequence[V]],
    items: Sequence[T],
    length: Callable[[T], int],
) -> list[V]:
    """What ``do`` makes of each of the first process's items, in order, which it alone gets.

    All processes must call this; their shares have as many items, of like lengths, so that they take about as
    long. A process without others gives ``do`` all items at once.
    """
    if processes.size == 1:
        return list(do(items))
    order = sorted(range(len(items)), key=lambda row: length(items[row]), reverse=True)
    rounds = processes.share_out(do, (items[row] for row in order), _ITEMS)
    values = chain.from_iterable(list(rounds))
    return [value for _, value in sorted(zip(order, values, strict=True), key=lambda pair: pair[0])]


def _buckets(weights: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    bucket: list[nn.Parameter] = []
    for weight in weights:
        bucket.append(weight)
        if sum(weight.numel() for weight in bucket) >= _BUCKET:
            yield bucket
            bucket = []
    if bucket:
        yield bucket


def is_launched() -> bool:
    """Whether ``torchrun``, or a program that sets the same variables, has started this process."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def is_first_process() -> bool:
    """Whether this is the first of the processes that ``torchrun`` has started, or the only process."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def join_processes(device: torch.device) -> Iterator[Processes]:
    """Connect the processes that ``torchrun`` has started; or give this process alone.

    They stay connected until they end, because they cannot meet at the same address twice; but after an error
    that this process alone may have, it leaves, so that no other waits for it.
    """
    if distributed.is_available() and is_launched() and not distributed.is_initialized():
        if device.type == "cuda":
            torch.cuda.set_device(device)
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        distributed.init_process_group(backend, timeout=_WAIT)
        atexit.register(distributed.destroy_process_group)
    if distributed.is_available() and distributed.is_initialized():  # perhaps by the caller
        with _leaving_on_errors():
            yield Processes(distributed.get_rank(), distributed.get_world_size())
    else:
        yield Processes()


@contextmanager
def _leaving_on_errors() -> Iterator[None]:
    """Disconnect if there is an error of another kind than those that all processes raise together."""
    stays = False
    try:
        yield
        stays = True
    except TelerankError as error:
        stays = not isinstance(error, ProcessError)
        raise
    finally:
        if not stays and distributed.is_initialized():
            atexit.unregister(distributed.destroy_process_group)
            distributed.destroy_process_group()
