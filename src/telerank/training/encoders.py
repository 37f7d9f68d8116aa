"""How the transformers of a model are trained: compiled, or with less memory."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from telerank.errors import ModelError
from telerank.models.on_processor import QuickDropout


def trained_transformers(module: nn.Module) -> list[PreTrainedModel]:
    """The transformers in a module that have weights to train, without what is around them."""
    parts = [part for part in module.modules() if isinstance(part, PreTrainedModel)]
    around = {
        id(part) for part in parts for inner in parts if inner is not part and inner in set(part.modules())
    }
    return [
        part
        for part in parts
        if id(part) not in around and any(weight.requires_grad for weight in part.parameters())
    ]


def compile_transformers(module: nn.Module, device: torch.device) -> None:
    """Let torch compile the transformers when they are first called, once for all lengths.

    Raises ModelError on a processor.
    """
    if device.type == "cpu":
        raise ModelError("compile is for GPUs, not for cpu: set compile to false")
    for part in trained_transformers(module):
        part.compile(dynamic=True)


def recompute_layers(module: nn.Module, device: torch.device) -> None:
    """Let the transformers keep only the inputs of their layers, and compute a layer again for its gradient.

    Raises ModelError if an architecture cannot.
    """
    options: dict[str, Any] = {"use_reentrant": False}
    if device.type == "cpu":  # the dropout of the first time
        options["context_fn"] = lambda: (nullcontext(), QuickDropout())
    for part in trained_transformers(module):
        if not part.supports_gradient_checkpointing:
            raise ModelError(f"{type(part).__name__} cannot recompute its layers: set recompute to false")
        enable: Any = getattr(part, "activation_checkpointing_enable", None)  # the later name
        enable = enable or part.gradient_checkpointing_enable
        enable(options)
