"""A device that says ``cuda`` and holds its numbers on the processor; it counts what a GPU would wait for.

Tensors on it are :class:`OnDevice`. Every operation of torch passes through :class:`Pretend`, which refuses an
operation on tensors of two devices, as CUDA does, and counts copies and synchronisations by the line of
telerank that caused them. As in CUDA, a tensor without dimensions may come from the processor into a
pointwise operation, and so may the indices of an indexing (which waits for them).

``install`` cannot be undone: ``pretend.py`` runs tests in a process of their own, in which torch was told of a
device (``pretended_guard.cpp``) before it was loaded.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Self

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

import telerank

SOURCE = str(Path(telerank.__file__).parent)
CUDA = torch.device("cuda", 0)
aten = torch.ops.aten

WAITS = {  # the size of what they return, or a value, is needed on the processor
    aten._local_scalar_dense.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten.equal.default,
    aten._unique2.default,
    aten.unique_consecutive.default,
    aten.unique_dim.default,
    aten.bincount.default,
    aten.repeat_interleave.Tensor,
}
INDEXING = {aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default}
COPIES = {aten._to_copy.default, aten.copy_.default}


class OnDevice(Tensor):
    """Says ``cuda:0``; ``inner`` has its numbers."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Self:
        made = Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            layout=inner.layout,
            device=CUDA,
        )
        made.inner = inner
        return made

    def __init__(self, inner: Tensor) -> None:
        pass

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return compute(function, args, kwargs or {})

    def tolist(self):
        return self.cpu().tolist()

    def untyped_storage(self):
        return self.inner.untyped_storage()

    def numpy(self, **_):
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first")

    __array__ = numpy

    def __repr__(self, **_):
        return f"OnDevice({self.inner!r})"

    def __reduce_ex__(self, _):
        raise AssertionError("a tensor of the device is pickled: the reader may have no device")


class MixedDevicesError(RuntimeError):
    """As CUDA's, for tensors of two devices in one operation."""


class Counts:
    """How often, by the line of telerank: ``to_device``, ``to_host``, ``waits``; ``sources`` are what is copied
    to the device, by type and whether its memory is pinned.
    """

    def __init__(self) -> None:
        self.sources, self.to_device, self.to_host, self.waits = (Counter() for _ in range(4))

    def of(self, name: str, file: str) -> int:
        """How many there were in the lines of a file of telerank."""
        return sum(number for where, number in getattr(self, name).items() if where.startswith(f"{file}:"))

    def __str__(self) -> str:
        return "\n".join(
            f"{name} {counter.total()}: {dict(counter.most_common(12))}"
            for name, counter in vars(self).items()
        )


counts = Counts()
"""Of the whole process."""


@contextmanager
def counting():
    """The counts of a block alone."""
    before, own = dict(vars(counts)), Counts()
    vars(counts).update(vars(own))
    try:
        yield own
    finally:
        vars(counts).update(before)


def line() -> str:
    """The innermost line of telerank, or of the gradient's thread."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.startswith(SOURCE):
            return f"{frame.f_code.co_filename[len(SOURCE) + 1 :]}:{frame.f_lineno}"
        frame = frame.f_back
    return "elsewhere"


class Pretend(TorchDispatchMode):
    """Every operation, also those that make tensors."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return compute(function, args, kwargs or {})


def compute(function, args, kwargs):
    leaves = [leaf for leaf in pytree.arg_tree_leaves(*args, **kwargs) if isinstance(leaf, Tensor)]
    given = any(isinstance(leaf, OnDevice) for leaf in leaves)
    device = kwargs.get("device")
    device = None if device is None else torch.device(device)
    if not given and (device is None or device.type != "cuda"):
        return function(*args, **kwargs)
    if function._can_decompose():  # without gradients a whole function arrives, not its parts
        with Pretend():
            return function.decompose(*args, **kwargs)
    check(function, args, leaves)
    count(function, args, kwargs, device)
    if function is aten._fused_sdp_choice.default:
        return 0  # plain products: the other kernels have no processor's form
    inner = {**kwargs, "device": torch.device("cpu")} if device is not None else dict(kwargs)
    inner.pop("pin_memory", None)
    arguments, named = pytree.tree_map_only(OnDevice, lambda tensor: tensor.inner, (args, inner))
    result = function(*arguments, **named)
    if function is aten._pack_padded_sequence.default:
        return OnDevice(result[0]), result[1]  # the sizes of batches stay on the processor
    if function in COPIES and not is_result_there(function, args, kwargs, device, given):
        return args[0] if function is aten.copy_.default else result
    # what a part of a tensor may do without gradients depends on the tensor, not on the part
    plain = is_view(function) and isinstance(args[0], Tensor) and not args[0].is_inference()
    with torch.inference_mode(False) if plain else nullcontext():
        wrapped = pytree.tree_map_only(Tensor, OnDevice, result)
    return return_and_correct_aliasing(function, args, kwargs, wrapped)


def is_view(function) -> bool:
    """Whether the result is a part of an argument."""
    return any(info.alias_info and not info.alias_info.is_write for info in function._schema.arguments)


def is_result_there(function, args, kwargs, device, given) -> bool:
    """Whether a copy ends on the device."""
    if function is aten.copy_.default:
        return isinstance(args[0], OnDevice)
    return given if device is None else device.type == "cuda"


def check(function, args, leaves) -> None:
    """Refuse tensors of two devices, as CUDA does."""
    here = [leaf for leaf in leaves if not isinstance(leaf, OnDevice)]
    if not here or len(here) == len(leaves) or function in COPIES:
        return
    if function in INDEXING:
        here = [] if isinstance(args[0], OnDevice) else leaves
    elif torch.Tag.pointwise in function.tags or function is aten.fill_.Tensor:
        here = [leaf for leaf in here if leaf.dim()]
    elif function is aten._pack_padded_sequence.default:
        here = [leaf for leaf in here if leaf is not args[1]]
    if here:
        raise MixedDevicesError(f"{function}: tensors of cuda:0 and of cpu, at {line()}")


def count(function, args, kwargs, device) -> None:
    where = line()
    if function in COPIES:
        source, target = (args[1], args[0]) if function is aten.copy_.default else (args[0], None)
        ends = is_result_there(function, args, kwargs, device, isinstance(source, OnDevice))
        if isinstance(source, OnDevice) == ends:
            return
        (counts.to_device if ends else counts.to_host)[where] += 1
        if ends:
            counts.sources[source.dtype, source.is_pinned()] += 1
        later = args[2] if target is not None and len(args) > 2 else kwargs.get("non_blocking", False)
        if not later:
            counts.waits[where] += 1
        return
    if function in WAITS:
        counts.waits[where] += 1
    if function in INDEXING:
        count_indices(args, where)


def count_indices(args, where: str) -> None:
    """A mask must be counted first; indices of the processor are copied."""
    indices = [index for index in args[1] if index is not None]
    if any(not isinstance(index, OnDevice) for index in indices):
        counts.to_device[where] += 1
        counts.waits[where] += 1
    one_value = len(args) > 2 and args[2].numel() == 1  # is filled under the mask
    if any(index.dtype in (torch.bool, torch.uint8) for index in indices) and not one_value:
        counts.waits[where] += 1


class Recurrent(torch.autograd.Function):
    """A GRU or LSTM as one kernel, as cuDNN has it."""

    @staticmethod
    def forward(ctx, name, rebuild, *tensors):
        ctx.given = [
            tensor.inner.detach().requires_grad_(tensor.requires_grad)
            if isinstance(tensor, OnDevice)
            else tensor
            for tensor in tensors
        ]
        with torch.enable_grad():
            ctx.results = getattr(torch._VF, name)(*rebuild(ctx.given))
        return tuple(OnDevice(result.detach()) for result in ctx.results)

    @staticmethod
    def backward(ctx, *gradients):
        wanted = [tensor for tensor in ctx.given if tensor.requires_grad]
        found = iter(torch.autograd.grad(ctx.results, wanted, [gradient.inner for gradient in gradients]))
        own = (OnDevice(next(found)) if tensor.requires_grad else None for tensor in ctx.given)
        return None, None, *own


class RecurrentFunctions:
    """What ``torch.nn.modules.rnn`` calls; tensors of the processor go to torch."""

    def __getattr__(self, name):
        plain = getattr(torch._VF, name)

        def compute(*arguments):
            leaves, shape = pytree.tree_flatten(arguments)
            rows = [row for row, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
            if not any(isinstance(leaves[row], OnDevice) for row in rows):
                return plain(*arguments)
            # of packed items the second argument has the sizes of batches, on the processor
            packed = isinstance(arguments[1], Tensor) and arguments[1].dtype == torch.int64
            wrong = [
                row for row in rows if not isinstance(leaves[row], OnDevice) and not (packed and row == 1)
            ]
            if wrong:
                raise MixedDevicesError(f"{name}: tensors of cuda:0 and of cpu, at {line()}")

            def rebuild(tensors):
                filled = list(leaves)
                for row, tensor in zip(rows, tensors, strict=True):
                    filled[row] = tensor
                return pytree.tree_unflatten(filled, shape)

            return Recurrent.apply(name, rebuild, *(leaves[row] for row in rows))

        return compute


class Stream:
    """One stream: everything is done when it is asked for."""

    def __init__(self, *_, **__) -> None:
        pass

    def wait_stream(self, _) -> None:
        pass

    def wait_event(self, _) -> None:
        pass

    def record_event(self, event=None):
        return event or Event()

    def synchronize(self) -> None:
        counts.waits[line()] += 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Event(Stream):
    def record(self, *_) -> None:
        pass

    def query(self) -> bool:
        return True

    def wait(self, *_) -> None:
        pass


def pin(tensor, *_):
    pinned = tensor.clone()
    pinned.held_by_host = True
    return pinned


def install() -> None:
    """Let torch believe in the device, for the whole process."""
    cuda = torch.cuda
    values = {
        "_lazy_init": lambda: None,
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "is_bf16_supported": lambda *_, **__: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda _: None,
        "mem_get_info": lambda *_: (60_000_000_000, 80_000_000_000),
        "get_rng_state": lambda *_: torch.zeros(16, dtype=torch.uint8),
        "set_rng_state": lambda *_: None,
        "get_rng_state_all": lambda: [torch.zeros(16, dtype=torch.uint8)],
        "set_rng_state_all": lambda _: None,
        "manual_seed": lambda _: None,
        "manual_seed_all": lambda _: None,
        "empty_cache": lambda: None,
        "synchronize": lambda *_: Stream().synchronize(),
        "Stream": Stream,
        "Event": Event,
        "current_stream": Stream,
        "default_stream": Stream,
        "stream": lambda _: nullcontext(),
    }
    for name, value in values.items():
        setattr(cuda, name, value)
    Tensor.pin_memory, Tensor.record_stream = pin, lambda *_: None
    Tensor.is_pinned = lambda tensor, *_: hasattr(tensor, "held_by_host")
    torch.utils._foreach_utils._foreach_supported_types.append(OnDevice)
    torch.nn.modules.rnn._VF = RecurrentFunctions()
    torch.__future__.set_overwrite_module_params_on_conversion(True)  # else parameters lose their class
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device="cuda") is a copy
    torch._C._set_cudnn_enabled(False)
    run = threading.Thread.run

    def run_pretending(thread: threading.Thread) -> None:
        with Pretend():  # a mode is of one thread
            run(thread)

    threading.Thread.run = run_pretending
