"""Processes that train a model together, started by ``torchrun``; or a single process.

Each takes its share of every batch. Gradients are summed before the update, while the last of them are still
computed, so that all processes keep equal weights: those that a single process would have with the whole
batch. What is scored or encoded without learning is shared out by the first process, which alone reads it,
decides and writes.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import chain, islice
from typing import Any, ClassVar, TypeVar
from weakref import WeakMethod

import torch
from torch import Tensor, distributed, nn

from telerank.errors import ModelError, TelerankError

T = TypeVar("T")
V = TypeVar("V")

NO_PEER = ("gloo", "NCCL")
"""Words of errors that a missing process causes."""
_WAIT = timedelta(days=7)  # how long processes wait while the first reads, measures or writes
_ITEMS = 4096  # texts of a process that are shared out together
_LATE, _FAILED = 2, 3  # states of a weight: its gradient came after its bucket was sent; its process failed


class ProcessError(ModelError):
    """Another process has ended with an error that it alone reports."""

    def __init__(self, message: str = "another process has ended: its message says why") -> None:
        super().__init__(message)


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
        """Gather ``count`` vectors, (count, …), in order; ``own`` are those of this process's :meth:`share`.

        Vectors of tokens, (share, L, H), are filled up with zeros to the longest text of all processes.

        All processes must compute the same loss from them, divided by their number; then the gradient of
        ``own`` is that of the whole. Rows of ``own`` beyond the share are ignored.
        """
        if self.size == 1:
            return own
        if own.ndim > 2:
            longest = max(self.gather_values(own.shape[1]))
            own = nn.functional.pad(own, (0, 0, 0, longest - own.shape[1]))
        most = -(-count // self.size)
        padded = own.new_zeros((most, *own.shape[1:]))
        padded[: len(own)] = own.detach()
        shares = [torch.empty_like(padded) for _ in range(self.size)]
        distributed.all_gather(shares, padded)
        everything = torch.stack(shares, dim=1).flatten(0, 1)[:count]  # row i is process i % size's
        mine = torch.tensor(self.share(count), dtype=torch.int64).to(own.device, non_blocking=True)
        live = own[: len(mine)]
        if live.requires_grad:
            live.register_hook(lambda gradient: gradient * self.size)  # type: ignore[no-untyped-call]
        return everything.index_copy(0, mine, live)

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


class GradientSums:
    """Sums gradients over processes, in buckets, while the last backward pass of an update computes others.

    Buckets and their order are the same in every process and update: so no process waits for another one's
    order, and no sum depends on who was faster. A process sends a bucket as soon as all of its weights that
    ever had a gradient from a last backward pass have one; if another comes later all the same, all
    processes sum that bucket again. A process that has an error meanwhile says so with its sums
    (:meth:`fail`), for which the others would wait. A process without others has neither buckets nor hooks.
    """

    bucket: ClassVar[int] = 25 << 18
    """How many numbers are summed at a time: 25 MiB."""

    def __init__(self) -> None:
        self.last_batch = False
        """Whether the batch that is learned from is the last of its update."""
        self._weights: list[nn.Parameter] = []
        self._buckets: list[range] = []  # of numbers of weights
        self._in_last = False
        self._seen: set[int] = set()  # weights that ever had a gradient from a last backward pass
        self._begin()

    def watch(self, processes: Processes, weights: Sequence[nn.Parameter]) -> None:
        """Sum the gradients of these weights from now on; called once."""
        if processes.size == 1:
            return
        self._weights = list(reversed(weights))  # their gradients come about in this order
        self._buckets = list(_cut_buckets(self._weights, self.bucket))
        for number, weight in enumerate(self._weights):
            hook = _call_weakly(WeakMethod(self._note), number)
            weight.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
        self._begin()

    @contextmanager
    def last(self) -> Iterator[None]:
        """The context of this process's last backward pass of a batch.

        From its beginning until :meth:`finish` the processes must not exchange anything else: an error there
        sends sums (:meth:`fail`).
        """
        self._in_last = self._has_begun = self.last_batch
        try:
            yield
        finally:
            self._in_last = False

    def finish(self) -> None:
        """Complete the sums of an update; a weight that has no gradient in any process gets none.

        Raises ProcessError if another process has failed meanwhile.
        """
        if not self._weights:
            return
        own = [0 if w.grad is None else _LATE if n in self._late else 1 for n, w in enumerate(self._weights)]
        states = self._complete(own)
        for number, bucket in enumerate(self._buckets):
            flat = self._sent[number][0]
            if _LATE in states[bucket.start : bucket.stop]:
                flat = self._join(bucket)
                distributed.all_reduce(flat)
            self._put_back(bucket, flat, states)
        self._seen |= self._came
        self._begin()

    def fail(self) -> None:
        """Tell the others, with the sums, that this process has an error.

        Before its last backward pass they may wait for something else: then the connection's end tells them.
        """
        if self._weights and self._has_begun:
            with suppress(ProcessError, RuntimeError):  # others have ended, too: the first error is raised
                self._complete([_FAILED] * len(self._weights))

    def drop(self) -> None:
        """Forget the sums under way: while they are kept, the connection stays open and the others wait."""
        self._sent.clear()

    def _complete(self, own: Sequence[int]) -> list[int]:
        """Send what is left and wait for all sums; the greatest state of each weight in any process.

        0: none has a gradient.
        """
        while len(self._sent) < len(self._buckets):
            self._send()
        most = torch.tensor(own, device=self._weights[0].device).int()
        distributed.all_reduce(most, distributed.ReduceOp.MAX)
        for number in range(len(self._sent)):
            self._sent[number][1].wait()  # no name here keeps it, and with it the connection, after an error
        states: list[int] = most.tolist()
        if _FAILED in states:
            raise ProcessError
        return states

    def _begin(self) -> None:
        """Begin an update, in which nothing has come or was sent."""
        self._has_begun = False  # the last backward pass
        self._came: set[int] = set()  # weights with a gradient from the last backward pass
        self._late: set[int] = set()  # those that got one after their bucket was sent
        self._sent: list[tuple[Tensor, Any]] = []
        self._await_next()

    def _note(self, number: int) -> None:
        """Weight ``number`` has got a gradient: send what is complete."""
        if self._sent and number < self._buckets[len(self._sent) - 1].stop:
            self._late.add(number)
        if not self._in_last:
            return
        self._came.add(number)
        self._awaited.discard(number)
        while not self._awaited and len(self._sent) < len(self._buckets):
            self._send()

    def _send(self) -> None:
        flat = self._join(self._buckets[len(self._sent)])
        self._sent.append((flat, distributed.all_reduce(flat, async_op=True)))
        self._await_next()

    def _await_next(self) -> None:
        """Wait for the weights of the next bucket; for those that never come only in the first update."""
        rest = self._buckets[len(self._sent) :]
        bucket = set(rest[0]) if rest else set()
        self._awaited = (bucket & self._seen if self._seen else bucket) - self._came

    def _join(self, bucket: range) -> Tensor:
        weights = [self._weights[number] for number in bucket]
        own = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
        return torch.cat([gradient.flatten() for gradient in own])

    def _put_back(self, bucket: range, flat: Tensor, states: Sequence[int]) -> None:
        weights = [self._weights[number] for number in bucket]
        sums = torch.split(flat, [weight.numel() for weight in weights])
        used = [place for place, number in enumerate(bucket) if states[number]]
        gradients = []
        for weight in (weights[place] for place in used):
            if weight.grad is None:
                weight.grad = torch.empty_like(weight)
            gradients.append(weight.grad)
        if used:
            shaped = [sums[place].view_as(own) for place, own in zip(used, gradients, strict=True)]
            torch._foreach_copy_(gradients, shaped)


def _call_weakly(method: WeakMethod[Callable[[int], None]], number: int) -> Callable[[Tensor], None]:
    """A hook that does not keep the method's object, which keeps the weight, from being freed."""

    def hook(_weight: Tensor) -> None:
        call = method()
        if call is not None:
            call(number)

    return hook


def _cut_buckets(weights: Sequence[nn.Parameter], bucket: int) -> Iterator[range]:
    """The numbers of the weights whose gradients are summed together, ``bucket`` numbers or more."""
    first = size = 0
    for number, weight in enumerate(weights, 1):
        size += weight.numel()
        if size >= bucket or number == len(weights):
            yield range(first, number)
            first, size = number, 0


def is_launched() -> bool:
    """Whether ``torchrun``, or a program that sets the same variables, has started this process."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


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
