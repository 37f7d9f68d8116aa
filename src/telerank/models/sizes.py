"""Limits of the models that configurations describe: none loops or allocates beyond what its files hold.

A model is built before its weights are read, so a configuration alone decides what building it costs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from threading import get_ident
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from telerank.errors import ModelError

_REPETITIONS = {"layer": 1000, "episodes": 1000, "num_labels": 100_000}
"""Words in the names of settings that count repetitions, and the most that there may be."""
_LARGEST = 2**20  # the vocabularies of encoders have up to 901,629 words
_MOST_TENSORS = 100_000
_TIMES = 8  # tensors are registered when a model is built, when weights are read, and for each name
_MORE, _MORE_TENSORS = 2**22, 1000  # numbers and tensors that a model may have beyond its files


def check_sizes(settings: Any, where: str | Path, name: str = "") -> None:
    """Raise ModelError if a size among the settings of a model is one that no encoder has.

    Frequencies (``theta``) are no sizes.
    """
    if isinstance(settings, Mapping):
        for key, value in settings.items():
            check_sizes(value, where, str(key))
    elif isinstance(settings, list):
        for value in settings:
            check_sizes(value, where, name)
    elif isinstance(settings, int) and "theta" not in name:
        largest = next((most for word, most in _REPETITIONS.items() if word in name), _LARGEST)
        if settings > largest:
            raise ModelError(f"{where}: expected {name} up to {largest:,}, got {settings:,}")


@contextmanager
def bounded_by_files(folder: Path) -> Iterator[None]:
    """Raise ModelError once a model that is built here has several times the weights in a folder's files."""
    numbers = tensors = 0
    for file in folder.glob("*.safetensors"):
        try:
            with safe_open(file, "pt") as weights:
                shapes = [weights.get_slice(name).get_shape() for name in weights.keys()]  # noqa: SIM118
        except (OSError, SafetensorError):
            continue  # the library that reads it says why
        tensors += len(shapes)
        numbers += sum(map(prod, shapes))
    for file in folder.glob("*.bin"):
        tensors += _MOST_TENSORS // _TIMES
        numbers += file.stat().st_size
    with _bounded(_TIMES * numbers + _MORE, _TIMES * tensors + _MORE_TENSORS, "its files hold"):
        yield


@contextmanager
def bounded_by_memory() -> Iterator[None]:
    """Raise ModelError once a model that is built here has more weights than the memory holds."""
    numbers = _LARGEST**2
    if hasattr(os, "sysconf") and {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= os.sysconf_names.keys():
        numbers = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
    with _bounded(numbers, _MOST_TENSORS, "the memory holds"):
        yield


@contextmanager
def _bounded(most_numbers: int, most_tensors: int, limit: str) -> Iterator[None]:
    thread, numbers, tensors = get_ident(), 0, 0

    def count(_module: Any, _name: str, tensor: Tensor | None) -> None:
        nonlocal numbers, tensors
        if tensor is None or get_ident() != thread:  # the hooks are called for the models of all threads
            return
        numbers, tensors = numbers + tensor.numel(), tensors + 1
        if numbers > most_numbers or tensors > most_tensors:
            raise ModelError(f"the settings describe a model of many more weights than {limit}")

    hooks = (
        register_module_parameter_registration_hook(count),
        register_module_buffer_registration_hook(count),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
