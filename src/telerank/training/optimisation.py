"""How long a training is, when dev is measured, the optimiser and its learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import nn

from telerank.errors import ModelError
from telerank.training.settings import OptimisationSettings, Training


class DevSchedule(NamedTuple):
    """Updates between two dev values, and those without a better value that end a training.

    The value is the dev measure, or the dev loss; ``lower`` says that the lower of two is better.
    """

    every: int
    patience: int
    by_loss: bool
    lower: bool


def count_updates(config: Training, examples: Callable[[], int]) -> int:
    """The most updates of the weights; ``examples`` is called only if the length is set in epochs."""
    settings = config.optimisation
    return settings.steps if settings.epochs is None else _of_epochs(settings.epochs, config, examples)


def schedule_dev(config: Training, examples: Callable[[], int]) -> DevSchedule | None:
    """When dev is computed, if at all; ``examples`` is called only for epochs.

    Raises ModelError if patience ends before the first dev measure.
    """
    if config.dev is None:
        return None
    try:
        every, patience = config.dev.intervals(lambda epochs: _of_epochs(epochs, config, examples))
    except ValueError as error:
        raise ModelError(f"dev: {error}") from error
    return DevSchedule(int(every), int(patience), config.dev.by_loss, config.dev.lower_is_better)


def _of_epochs(epochs: float, config: Training, examples: Callable[[], int]) -> int:
    settings = config.optimisation
    return math.ceil(epochs * examples() / (settings.batch * settings.accumulation))


def build_optimiser(weights: Sequence[nn.Parameter], settings: OptimisationSettings) -> torch.optim.Optimizer:
    """Adam or AdamW; weights of one dimension, which are biases and those of layer norms, do not decay."""
    decays = (
        ([weight for weight in weights if weight.ndim > 1], settings.weight_decay),
        ([weight for weight in weights if weight.ndim <= 1], 0.0),
    )
    groups = [{"params": group, "weight_decay": decay} for group, decay in decays if group]
    kind = torch.optim.AdamW if settings.optimiser == "adamw" else torch.optim.Adam
    return kind(groups, lr=settings.learning_rate, betas=settings.betas, eps=settings.eps, fused=True)


def compute_rate(update: int, steps: int, settings: OptimisationSettings) -> float:
    """The learning rate of an update, counted from 0.

    It rises from 0 during ``warm_up`` updates; then it falls to 0 at ``steps``, or stays.
    """
    warm_up = count_warm_up(steps, settings)
    if update < warm_up:
        return settings.learning_rate * update / warm_up
    if settings.schedule == "constant":
        return settings.learning_rate
    return settings.learning_rate * (steps - update) / (steps - warm_up)


def count_warm_up(steps: int, settings: OptimisationSettings) -> int:
    """The number of updates of the warm-up.

    Raises ModelError if the training has no more updates than that.
    """
    if isinstance(settings.warm_up, float):
        return int(settings.warm_up * steps)
    if settings.warm_up >= steps:
        problem = f"warm_up ({settings.warm_up}) must be less than the {steps} updates of these epochs"
        raise ModelError(f"{problem}, or a share of them, as 0.1")
    return settings.warm_up
