"""The loop: updates, looks at the dev measure, lines of the log, checkpoints."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import torch
from torch import nn

from telerank.errors import ModelError
from telerank.models.attention_kernels import train_plainly
from telerank.training import checkpoint, log
from telerank.training.log import Record, Report
from telerank.training.optimiser import optimiser, rate
from telerank.training.settings import Training
from telerank.training.task import Task, TrainingDevice
from telerank.types import Progress


@dataclass
class Reached:
    """How far a training has come; ``losses`` sums up ``updates``, those since the last line of the log."""

    step: int = 0
    best: float = -math.inf
    best_step: int = 0
    seconds: float = 0.0
    losses: float = 0.0
    updates: int = 0


class Looking(NamedTuple):
    """Updates between two looks at the dev measure, and those without a better value that end a training."""

    every: int
    patience: int


@dataclass
class Loop:
    """What a training works on, for ``steps`` updates; it goes on from ``reached``."""

    config: Training
    output: Path
    steps: int
    looking: Looking | None
    task: Task
    place: TrainingDevice

    def __post_init__(self) -> None:
        for module in self.task.modules:
            module.to(self.place.device).train()
            if self.place.device.type == "cpu":
                train_plainly(module)
        every = (weight for module in self.task.modules for weight in module.parameters())
        self._weights = list(dict.fromkeys(weight for weight in every if weight.requires_grad))
        self._optimiser = optimiser(self._weights, self.config.optimisation)
        self._processes = self.place.processes
        self._processes.spread(self.task.modules)
        if not self._processes.leads:  # dropout differs from share to share
            torch.manual_seed(self.config.seed + self._processes.rank)
        self.reached = Reached()

    def run(self, report: Report, progress: Progress) -> Path:
        """Train to the end; the folder of the model."""
        began, earlier, first = monotonic(), self.reached.seconds, self.reached.step
        while self.reached.step < self.steps and not self._is_over():
            self.reached.losses += self._update(progress)
            self.reached.updates += 1
            self.reached.step += 1
            self.reached.seconds = earlier + monotonic() - began
            dev = self._look(progress)
            self._log((monotonic() - began) / (self.reached.step - first), dev, report)
            last = self.reached.step == self.steps or self._is_over()
            if last or self.reached.step % self.config.checkpoint_every == 0:
                self._save()
            progress("training", self.reached.step, self.steps)
        if self.looking is None:
            self._keep()
        return self.output / checkpoint.MODEL

    def restore(self, state: checkpoint.State) -> None:
        """Be where a checkpoint's ``state`` was; the task's model has its weights already.

        Raises
        ------
        ModelError
            where it was reached by another number of processes, whose random numbers were others.
        """
        random = state["random"]
        if len(random) != self._processes.size:
            says = (
                f"{self.output}: this training began with {len(random)} processes, not {self._processes.size}"
            )
            raise ModelError(f"{says}: resume with as many, or begin in another folder")
        self._optimiser.load_state_dict(state["optimiser"])
        self.task.restore(state["task"])
        self.reached = Reached(**state["reached"])
        own = random[self._processes.rank]
        torch.set_rng_state(own["cpu"])
        if own["gpu"] is not None and self.place.device.type == "cuda":
            torch.cuda.set_rng_state(own["gpu"], self.place.device)

    def _save(self) -> None:
        device = self.place.device
        gpu = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
        random = self._processes.all({"cpu": torch.get_rng_state(), "gpu": gpu})

        def write() -> None:
            state: checkpoint.State = {
                "optimiser": self._optimiser.state_dict(),
                "task": dict(self.task.state()),
                "reached": asdict(self.reached),
                "random": random,
            }
            checkpoint.write_checkpoint(self.output, self.reached.step, self.config, self.task.save, state)

        self._processes.first(write)

    def _keep(self) -> None:
        def write() -> None:
            checkpoint.write_model(self.output, self.config, self.task.save)

        self._processes.first(write)

    def _update(self, progress: Progress) -> float:
        """One update of the weights; the mean loss of its batches."""
        wanted, step = self.config.optimisation, self.reached.step
        loss = 0.0
        for part in range(wanted.accumulation):
            number = step * wanted.accumulation + part
            self._prepare(number, progress)
            loss += self.task.backward(number)
        loss = self._processes.sum(loss) / wanted.accumulation
        if not math.isfinite(loss):
            raise ModelError(f"the loss of update {step + 1} is {loss}: try a lower learning rate")
        self._processes.sum_gradients(self._weights)
        if wanted.accumulation > 1:
            for weight in self._weights:
                if weight.grad is not None:
                    weight.grad /= wanted.accumulation
        if wanted.max_gradient_norm is not None:
            nn.utils.clip_grad_norm_(self._weights, wanted.max_gradient_norm)
        for group in self._optimiser.param_groups:
            group["lr"] = rate(step, self.steps, wanted)
        self._optimiser.step()
        self._optimiser.zero_grad()
        return loss

    def _prepare(self, number: int, progress: Progress) -> None:
        self._processes.first(lambda: self.task.prepare(number, progress))
        if not self._processes.leads:
            self.task.prepare(number, progress)

    def _look(self, progress: Progress) -> float | None:
        """The dev measure where it is due; the weights are kept where it is the best so far."""
        wanted, step = self.looking, self.reached.step
        if wanted is None or (step != self.steps and step % wanted.every):
            return None
        value = self._processes.first(lambda: self.task.dev(progress))
        if value is None:
            raise ModelError("dev is asked for, but the task has no dev set")
        if value > self.reached.best:
            self.reached.best, self.reached.best_step = value, step
            self._keep()
        return value

    def _is_over(self) -> bool:
        """Whether patience is: too many updates without a better value."""
        wanted = self.looking
        return wanted is not None and self.reached.step - self.reached.best_step >= wanted.patience

    def _log(self, seconds_each: float, dev: float | None, report: Report) -> None:
        reached = self.reached
        if dev is None and reached.step != self.steps and reached.step % self.config.log_every:
            return
        loss, reached.losses = reached.losses / reached.updates, 0.0
        reached.updates = 0
        if not self._processes.leads:
            return
        remaining = round((self.steps - reached.step) * seconds_each, 1)
        shown = rate(reached.step - 1, self.steps, self.config.optimisation)
        record = Record(reached.step, loss, shown, round(reached.seconds, 1), remaining, dev)
        log.append(self.output / checkpoint.LOG, record)
        report(record)
