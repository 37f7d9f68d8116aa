"""Adam, and its rate at each update."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from telerank.errors import ModelError
from telerank.training.settings import OptimisationSettings


def optimiser(weights: Sequence[nn.Parameter], wanted: OptimisationSettings) -> torch.optim.Optimizer:
    """Weights of one dimension, which are biases and those of layer norms, do not decay."""
    kinds = (
        ([one for one in weights if one.ndim > 1], wanted.weight_decay),
        ([one for one in weights if one.ndim <= 1], 0.0),
    )
    groups = [{"params": some, "weight_decay": decay} for some, decay in kinds if some]
    kind = torch.optim.AdamW if wanted.optimiser == "adamw" else torch.optim.Adam
    return kind(groups, lr=wanted.learning_rate, betas=wanted.betas, eps=wanted.eps, fused=True)


def rate(update: int, steps: int, wanted: OptimisationSettings) -> float:
    """The rate of an update, counted from 0: rising to ``warm_up``, then falling to 0 at ``steps`` or not."""
    warm_up = warming(steps, wanted)
    if update < warm_up:
        return wanted.learning_rate * update / warm_up
    if wanted.schedule == "constant":
        return wanted.learning_rate
    return wanted.learning_rate * (steps - update) / (steps - warm_up)


def warming(steps: int, wanted: OptimisationSettings) -> int:
    """The updates of the warm-up.

    Raises
    ------
    ModelError
        where there are not more of them in all.
    """
    if isinstance(wanted.warm_up, float):
        return int(wanted.warm_up * steps)
    if wanted.warm_up >= steps:
        says = f"warm_up ({wanted.warm_up}) must be less than the {steps} updates of these epochs"
        raise ModelError(f"{says}, or a share of them, as 0.1")
    return wanted.warm_up
