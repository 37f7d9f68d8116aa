"""Models as they are computed on a GPU when nothing is learned: re-rankers, and encoders of texts.

Weights are rounded to bfloat16 once, instead of in every product (autocast); the layers that score stay in
float32. Attention gets its mask without a look at it: transformers leave out the mask of a batch without
padding, for which each batch would wait for the one before.

Items of any number are computed in :class:`Batching`, groups of them by :func:`stream_groups`.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import bidirectional_mask_function, sdpa_mask

from telerank.batches import batch_by_length
from telerank.errors import ModelError

M = TypeVar("M", bound=nn.Module)
P = TypeVar("P")
R = TypeVar("R")
T = TypeVar("T")

MULTIPLE = 8
"""Lengths of a GPU's batches are multiples of it, as its kernels prefer."""
_MASKED = "telerank_masked"
"""torch's fused attention, with the mask of every batch."""
_SWITCH = 5e-5  # seconds


@dataclass
class Room:
    """How many tokens of a batch fit into memory: ``tokens`` is None until a batch did not."""

    tokens: int | None = None

    def compute(self, rows: Sequence[int], width: int, compute: Callable[[Sequence[int], int], T]) -> list[T]:
        """What ``compute`` gives for rows of ``width`` tokens; for halves of them, if they do not fit.

        Raises ModelError if a single row does not fit.
        """
        size = len(rows) if self.tokens is None else max(1, self.tokens // max(1, width))
        if size < len(rows):
            parts = (rows[first : first + size] for first in range(0, len(rows), size))
            return [result for part in parts for result in self.compute(part, width, compute)]
        try:
            return [compute(rows, width)]
        except torch.OutOfMemoryError as error:
            if len(rows) == 1:
                raise ModelError(
                    f"a batch of {width} tokens does not fit into memory: {str(error).splitlines()[0]}"
                ) from error
        self.tokens = len(rows) * width // 2
        torch.cuda.empty_cache()  # outside of the handler, whose error keeps the tensors of the batch
        return self.compute(rows, width, compute)

    def take_least(self, tokens: Iterable[int | None]) -> None:
        """Keep the least of what fits into the memories of several GPUs; None are those that had room."""
        self.tokens = min((size for size in tokens if size is not None), default=None)

    def describe(self) -> str:
        """How large batches are, if a larger one did not fit; else empty."""
        return "" if self.tokens is None else f"out of memory: batches of {self.tokens:,} tokens from then on"


def prepare_inference(
    model: M, device: torch.device, dtype: torch.dtype, kept: Iterable[nn.Parameter] = ()
) -> M:
    """A copy of a model on a GPU, in evaluation mode; weights have type ``dtype``, but those of ``kept``."""
    copied, exact = deepcopy(model).eval().requires_grad_(False), {id(weight) for weight in kept}
    for original, weight in zip(model.parameters(), copied.parameters(), strict=True):
        if id(original) not in exact:
            weight.data = weight.data.to(dtype)
    mask_always(copied)
    return copied.to(device)


@contextmanager
def switch_often(device: torch.device) -> Iterator[None]:
    """Let threads that tokenise yield to the one that feeds a GPU.

    That one gives up the interpreter's lock at every kernel, some hundred in a batch, and each time waits for
    it as long as Python lets another thread keep it: 5 milliseconds, if nothing is said.
    """
    before = sys.getswitchinterval()
    if device.type != "cpu":
        sys.setswitchinterval(_SWITCH)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def batch_widths(lengths: npt.NDArray[np.int64], device: torch.device, longest: int) -> npt.NDArray[np.int64]:
    """How wide batches of items of these lengths are, (n,): on a GPU multiples, but for the ``longest``.

    ``longest`` is what a model reads at most; items that are longer keep their length.
    """
    if device.type == "cpu":
        return lengths
    return np.minimum(-(-lengths // MULTIPLE) * MULTIPLE, np.maximum(lengths, longest))


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a model gave for rows, batch by batch, which a GPU may still be computing.

    ``rows`` are in the order of the batches, ``widths`` are those of their batches.
    """

    rows: list[int]
    widths: list[int]
    batches: list[Tensor]

    def fetch(self) -> npt.NDArray[np.float32]:
        """The outputs in the order of the rows, when all of them are computed."""
        if not self.batches:
            return np.empty(0, np.float32)
        outputs = torch.cat(self.batches).cpu().numpy()
        ordered = np.empty_like(outputs)
        ordered[self.rows] = outputs
        return ordered


@dataclass(frozen=True, eq=False)
class Batching:
    """How rows of tokens become batches on a ``device``, for a model that reads the ``longest`` at most.

    A batch has at most ``budget`` tokens, padding included; without one all rows are a batch. None of its
    rows is shorter than ``shortest`` times the longest. If there is no ``room`` for a batch it is computed in
    parts.
    """

    device: torch.device
    longest: int
    budget: int | None
    room: Room
    shortest: float = 0

    def cut(self, lengths: npt.NDArray[np.int64]) -> Iterator[tuple[list[int], int]]:
        """The rows of each batch, and the tokens to which they are padded; the longest come first."""
        widths = batch_widths(lengths, self.device, self.longest)
        whole = [list(range(len(lengths)))] if len(lengths) else []
        by_length = (
            whole if self.budget is None else batch_by_length(widths, self.budget, shortest=self.shortest)
        )
        for rows in by_length:
            yield rows, int(widths[rows].max())

    def compute(
        self,
        lengths: npt.NDArray[np.int64],
        compute: Callable[[Sequence[int], int], Tensor],
        report: Callable[[int], object],
        before: Tensor | None = None,
    ) -> Outputs:
        """Compute rows of these lengths, the longest first; ``report`` is told how many are computed.

        ``compute`` maps rows, and the tokens to which they are padded, to a tensor. A GPU is given one batch
        after the other, and waited for when the outputs are fetched. ``before`` are the outputs of the first
        batches, which are not computed again.
        """
        outputs = Outputs([], [], [])
        with switch_often(self.device):
            for rows, width in self.cut(lengths):
                begin = len(outputs.rows)
                if before is not None and begin + len(rows) <= len(before):
                    outputs.batches.append(before[begin : begin + len(rows)])
                else:
                    outputs.batches.extend(self.room.compute(rows, width, compute))
                outputs.rows.extend(rows)
                outputs.widths.extend([width] * len(rows))
                report(len(outputs.rows))
        return outputs


def stream_groups(
    windows: Iterable[tuple[T, list[int]]],
    prepare: Callable[[T], P],
    launch: Callable[[P], Callable[[], Any]],
    *,
    on_gpu: bool = False,
) -> Iterator[list[Any]]:
    """The results of each group of items, lazily and in order, in parts: slices of those of the windows.

    ``windows`` are items, and the ends of the groups among them (:meth:`telerank.batches.WindowLimits.cut`).
    While a window is computed, threads ``prepare`` the next. ``launch`` begins to compute what was prepared,
    and gives what waits for the results of its items, a list or an array. For a GPU, two threads prepare
    three windows ahead, and it is a window behind.
    """
    parts: list[Any] = []
    for ends, fetch in _launch_windows(windows, prepare, launch, on_gpu):
        results, begin = fetch(), 0
        for end in ends:
            yield [*parts, results[begin:end]]
            parts, begin = [], end
        parts.append(results[begin:])


def compute_each(
    items: Iterable[T], group_of: Callable[[T], P], stream: Callable[[Iterator[P]], Iterable[R]]
) -> Iterator[tuple[T, R]]:
    """Each item with what ``stream`` computes of its group, lazily; ``stream`` reads groups ahead."""
    waiting: deque[T] = deque()

    def groups() -> Iterator[P]:
        for item in items:
            waiting.append(item)
            yield group_of(item)

    for result in stream(groups()):
        yield waiting.popleft(), result


def _launch_windows(
    windows: Iterable[tuple[T, list[int]]],
    prepare: Callable[[T], P],
    launch: Callable[[P], Callable[[], Any]],
    on_gpu: bool,
) -> Iterator[tuple[list[int], Callable[[], Any]]]:
    """The ends of the groups of each window, and what waits for its results."""
    running: deque[tuple[list[int], Callable[[], Any]]] = deque()
    ahead, threads, behind = (3, 2, 1) if on_gpu else (1, 1, 0)
    with ThreadPoolExecutor(threads, "preparing") as pool:
        submitted = ((ends, pool.submit(prepare, items)) for items, ends in windows)
        waiting = deque(islice(submitted, 1))
        while waiting:
            ends, prepared = waiting.popleft()
            waiting.extend(islice(submitted, min(2, ahead - len(waiting))))
            running.append((ends, launch(prepared.result())))
            if len(running) > behind:
                yield running.popleft()
    yield from running


def batch_width(items: Iterable[Sized], device: torch.device, longest: int) -> int:
    """The width of one batch of these items, as :func:`batch_widths` has it."""
    return int(batch_widths(np.array([max(map(len, items), default=0)], np.int64), device, longest)[0])


def pin(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor in memory from which a GPU copies while other things are done."""
    return tensor.pin_memory() if device.type == "cuda" and torch.cuda.is_available() else tensor


def mask_always(model: nn.Module) -> None:
    """Let the transformers in a model that compute fused attention give it every mask."""
    AttentionInterface.register(_MASKED, sdpa_attention_forward)
    AttentionMaskInterface.register(_MASKED, _mask)
    for part in model.modules():
        if not isinstance(part, PreTrainedModel):
            continue
        if part.config._attn_implementation == "sdpa":  # noqa: SLF001 — it has no public name
            part.set_attn_implementation(_MASKED)


def _mask(*arguments: Any, **given: Any) -> Tensor | None:
    """The mask, (B, 1, 1, L), which is true for tokens; other masks than that of padding as they are made."""
    padding = given.get("attention_mask")
    if (
        padding is None
        or given.get("mask_function") is not bidirectional_mask_function
        or given.get("use_vmap")
    ):
        return sdpa_mask(*arguments, **given)
    mask: Tensor = padding[:, None, None, :].to(torch.bool)
    return mask
