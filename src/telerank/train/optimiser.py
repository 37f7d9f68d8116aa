"""AdamW, and its rate at each update."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from telerank.train.config import Optimisation


def adamw(modules: Iterable[nn.Module], wanted: Optimisation) -> torch.optim.AdamW:
    """Weights of one dimension, which are biases and those of layer norms, do not decay."""
    weights = [weight for module in modules for weight in module.parameters()]
    groups = [
        {"params": [one for one in weights if one.ndim > 1], "weight_decay": wanted.weight_decay},
        {"params": [one for one in weights if one.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=wanted.learning_rate, betas=wanted.betas)


def rate(update: int, steps: int, wanted: Optimisation) -> float:
    """The rate of an update, counted from 0: rising to ``warm_up``, then falling to 0 at ``steps``."""
    if update < wanted.warm_up:
        return wanted.learning_rate * update / wanted.warm_up
    return wanted.learning_rate * (steps - update) / (steps - wanted.warm_up)
