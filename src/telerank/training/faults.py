"""Errors of torch that a setting avoids, in one line; and algorithms that give the same numbers each time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from telerank.errors import ModelError
from telerank.training.parallel import ProcessError
from telerank.training.settings import Training

_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
_NO_MEMORY = ("can't allocate memory", "not enough memory", "CUBLAS_STATUS_ALLOC_FAILED")
_NO_PEER = ("gloo", "NCCL")


@contextmanager
def explaining(config: Training) -> Iterator[None]:
    """Raise ModelError where memory, a deterministic algorithm or another process is missing."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise ModelError(f"out of memory: {config.saves_memory()}") from error
    except RuntimeError as error:
        text = str(error)
        if any(words in text for words in _NO_MEMORY):
            raise ModelError(f"out of memory: {config.saves_memory()}") from error
        if any(words in text for words in _NO_PEER):
            raise ModelError("another process has ended: its message says why") from error
        if config.deterministic and _WORKSPACE in text:
            reason = f"the GPU was used before without {_WORKSPACE}: set it to :4096:8"
            raise ModelError(f"deterministic: {reason} for the whole program") from error
        if config.deterministic and "deterministic" in text:
            raise ModelError(f"deterministic: {text.splitlines()[0]}") from error
        raise


@contextmanager
def explaining_peers() -> Iterator[None]:
    """Raise ProcessError where another process is missing."""
    try:
        yield
    except RuntimeError as error:
        if any(words in str(error) for words in _NO_PEER):
            raise ProcessError from error
        raise


@contextmanager
def deterministic(device: torch.device) -> Iterator[None]:
    """Let torch use only algorithms that give the same numbers each time; for the whole process.

    On a GPU that takes a setting of cuBLAS, which it reads when it is first used.
    """
    if device.type == "cuda":
        os.environ.setdefault(_WORKSPACE, ":4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    searches = torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warns)
        torch.backends.cudnn.benchmark = searches
