"""The loop: updates by Adam, dev measures and losses, records of the log, checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from telerank.errors import ModelError
from telerank.models.inference import mask_always
from telerank.models.on_processor import FreeMemory, QuickDropout
from telerank.models.precision import train_plainly
from telerank.models.random_numbers import RandomNumbers
from telerank.training import checkpoint, log
from telerank.training.log import Record, Report, write_losses
from telerank.training.optimisation import DevSchedule, build_optimiser, compute_rate
from telerank.training.settings import Training
from telerank.training.task import Task, TrainingDevice
from telerank.training.trained import LOG, MODEL
from telerank.types import Progress

T = TypeVar("T")
DevFigures: TypeAlias = tuple[float | None, float | None, Mapping[str, float] | None]
"""The dev measure, the dev loss, and what else dev says."""


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


@dataclass
class Position:
    """How far a training has come; ``losses`` is the sum of ``updates`` losses since the last record."""

    step: int = 0
    best: float | None = None
    best_step: int = 0
    seconds: float = 0.0
    losses: float = 0.0
    updates: int = 0


class BatchesAhead(Generic[T]):
    """The batches that ``make`` makes of their numbers; on a processor each is made when it is taken.

    An error of the thread is raised where its batch is taken.
    """

    def __init__(self, make: Callable[[int], T], device: torch.device) -> None:
        self._make = make
        self._next: tuple[int, Future[T]] | None = None
        self._thread: ThreadPoolExecutor | None = None
        if device.type != "cpu":
            self._thread = ThreadPoolExecutor(1, "batches", _choose_gpu, (device,))

    @property
    def beside(self) -> bool:
        """Whether batches are made beside the device."""
        return self._thread is not None

    def take(self, number: int) -> T:
        """Batch ``number``."""
        begun, self._next = self._next, None
        if begun is not None and begun[0] == number:
            return begun[1].result()
        return self._make(number)

    def begin(self, number: int) -> None:
        """Begin to make batch ``number``, the next to be taken. What it reads must not change until then."""
        if self._thread is not None:
            self._next = number, self._thread.submit(self._make, number)

    def rest(self) -> None:
        """Wait until the thread does nothing, before anything else uses what it reads."""
        if self._next is not None:
            wait([self._next[1]])


def _choose_gpu(device: torch.device) -> Any:
    """Pin memory for the GPU that computes: a thread begins with the first one."""
    if device.type == "cuda" and device.index is not None and torch.cuda.is_available():
        torch.cuda.set_device(device)


@dataclass
class Loop:
    """Trains a task for ``steps`` updates in all; it continues from ``position``."""

    config: Training
    output: Path
    steps: int
    schedule: DevSchedule | None
    task: Task
    hardware: TrainingDevice

    def __post_init__(self) -> None:
        models = self.task.models
        modules = [module for model in models for module in model]
        for module in modules:
            module.to(self.hardware.device).train()
            if self.hardware.device.type == "cpu":
                train_plainly(module)
            else:
                mask_always(module)
            if self.config.recompute:
                recompute_layers(module, self.hardware.device)
            if self.config.compile:
                compile_transformers(module, self.hardware.device)
        self._weights = trained_weights(modules)
        self._by_model = list(map(trained_weights, models))
        self._optimiser = build_optimiser(self._weights, self.config.optimisation)
        self._processes = self.hardware.processes
        self._processes.broadcast(modules)
        self.hardware.sums.watch(self._processes, self._weights)
        if not self._processes.leads:  # dropout differs from share to share
            torch.manual_seed(seed_of(self.config.seed, self._processes.rank))
        if self.hardware.scaler is not None:  # makes the scale: a process without examples scales no loss
            self.hardware.scaler.scale(torch.zeros((), device=self.hardware.device))
        self.position = Position()
        self._losses: list[tuple[int, Tensor]] = []
        """The updates whose losses are still on the device, and this process's part of each loss."""
        self._batches = BatchesAhead(self.task.read, self.hardware.device)
        self._prepared = -1
        self._memory = FreeMemory()

    def run(self, reports: Sequence[Report], progress: Progress) -> Path:
        """Train to the end, and return the folder of the model."""
        position = self.position
        if position.step == 0 and self.config.dev is not None and self.config.dev.at_start:
            self._log(0.0, self._measure_dev(progress), reports)
        began, earlier, first = monotonic(), position.seconds, position.step
        while position.step < self.steps and not self._is_patience_over():
            self.update(progress)
            self._memory.give_back()
            position.step += 1
            position.seconds = earlier + monotonic() - began
            dev = self._measure_dev(progress)
            self._log((monotonic() - began) / (position.step - first), dev, reports)
            last = position.step == self.steps or self._is_patience_over()
            if last or position.step % self.config.checkpoint_every == 0:
                self._save_checkpoint()
            progress("training", position.step, self.steps)
        if self.schedule is None:
            self._save_model()
        else:
            self._processes.first(lambda: write_losses(self.output))
        return self.output / MODEL

    def update(self, progress: Progress) -> None:
        """Update the weights once, at ``position``.

        The mean loss of the batches is added to the position: on a GPU, with those of later updates, when it
        is needed; until then nothing waits for the GPU.
        """
        settings, step = self.config.optimisation, self.position.step
        loss = torch.zeros((), dtype=torch.float64, device=self.hardware.device)
        sums = self.hardware.sums
        try:
            for part in range(settings.accumulation):
                sums.last_batch = part + 1 == settings.accumulation
                loss += self.task.backward(self._take(step * settings.accumulation + part, progress))
        except Exception:
            sums.fail()
            raise
        sums.finish()
        self._losses.append((step, loss))
        if not self._batches.beside:
            self._fetch_losses()
        gradients = [weight.grad for weight in self._weights if weight.grad is not None]
        if settings.accumulation > 1 and gradients:
            torch._foreach_div_(gradients, settings.accumulation)
        scaler = self.hardware.scaler
        if scaler is not None:
            scaler.unscale_(self._optimiser)
        if settings.max_gradient_norm is not None:
            for weights in self._by_model:
                nn.utils.clip_grad_norm_(weights, settings.max_gradient_norm)
        for group in self._optimiser.param_groups:
            group["lr"] = compute_rate(step, self.steps, settings)
        if scaler is None:
            self._optimiser.step()
        else:  # gradients that are too large leave the weights, and lower the scale
            scaler.step(self._optimiser)
            scaler.update()
        self._optimiser.zero_grad()

    def _take(self, number: int, progress: Progress) -> Any:
        """Batch ``number``; where a GPU will learn from it, the next one is begun."""
        self._prepare(number, progress)
        batch = self._batches.take(number)
        if self._batches.beside and number + 1 < self.steps * self.config.optimisation.accumulation:
            self._prepare(number + 1, progress)
            self._batches.begin(number + 1)
        return batch

    def _prepare(self, number: int, progress: Progress) -> None:
        if number == self._prepared:
            return
        self.task.prepare(number, progress)
        self._prepared = number

    def _fetch_losses(self) -> None:
        """Add the losses that are still on the device to the position; each must be a finite number."""
        if not self._losses:
            return
        own = torch.stack([loss for _, loss in self._losses]).tolist()
        steps = [step for step, _ in self._losses]
        self._losses.clear()
        for step, parts in zip(steps, zip(*self._processes.gather_values(own), strict=True), strict=True):
            loss = sum(parts) / self.config.optimisation.accumulation
            if not math.isfinite(loss):
                raise ModelError(f"the loss of update {step + 1} is {loss}: try a lower learning rate")
            self.position.losses += loss
            self.position.updates += 1

    def _settle(self) -> None:
        """Before weights are saved or measured: nothing reads texts any more, and all numbers are finite."""
        self._batches.rest()
        self._fetch_losses()
        finite = [weight.detach().isfinite().all() for weight in self._weights]
        if finite and not torch.stack(finite).all():
            update = f"the weights after update {self.position.step} are not finite numbers"
            raise ModelError(f"{update}: try a lower learning rate")

    def restore(self, state: checkpoint.CheckpointState) -> None:
        """Resume from a checkpoint's ``state``; the task's model has its weights already.

        Raises ModelError if another number of processes wrote it, because their random numbers differ.
        """
        record, tensors = state.record, state.tensors
        if record["processes"] != self._processes.size:
            began = f"this training began with {record['processes']} processes, not {self._processes.size}"
            raise ModelError(f"{self.output}: {began}: resume with as many, or begin in another folder")
        weights = {int(number): own for number, own in tensors.get("optimiser", {}).items()}
        self._optimiser.load_state_dict({"state": weights, "param_groups": record["optimiser"]})
        if self.hardware.scaler is not None:
            self.hardware.scaler.load_state_dict(record["scaler"])
        self.task.restore(tensors.get("task", {}))
        self.position = Position(**record["position"])
        random = tensors["random"][str(self._processes.rank)]
        torch.set_rng_state(random["cpu"])
        if "gpu" in random and self.hardware.device.type == "cuda":
            torch.cuda.set_rng_state(random["gpu"], self.hardware.device)

    def _save_checkpoint(self) -> None:
        self._settle()
        own = RandomNumbers(self.hardware.device).tensors()
        random, task = self._processes.gather_values(own), self.task.state()

        def write() -> None:
            optimiser, position = self._optimiser.state_dict(), asdict(self.position)
            groups = optimiser["param_groups"]
            record = {"optimiser": groups, "position": position, "processes": len(random)}
            if self.hardware.scaler is not None:
                record["scaler"] = self.hardware.scaler.state_dict()
            tensors = {"optimiser": optimiser["state"], "task": task, "random": dict(enumerate(random))}
            state = checkpoint.CheckpointState(record, tensors)
            checkpoint.write_checkpoint(self.output, self.position.step, self.config, self.task.save, state)

        self._processes.first(write)

    def _save_model(self) -> None:
        self._settle()
        folder = self.output / MODEL
        self._processes.first(lambda: checkpoint.write_model(folder, self.config, self.task.save))

    def _measure_dev(self, progress: Progress) -> DevFigures | None:
        """The dev measure and loss if they are due; the model is saved if it is the best so far."""
        schedule, position = self.schedule, self.position
        if schedule is None or (position.step != self.steps and position.step % schedule.every):
            return None
        self._settle()
        measure = None if schedule.by_loss else self.task.dev(progress)
        loss = self.task.dev_loss(progress)
        if loss is not None and not math.isfinite(loss):
            raise ModelError(f"the dev loss of update {position.step} is {loss}: try a lower learning rate")
        value = loss if schedule.by_loss else measure
        if value is None:
            lacks = "dev loss" if schedule.by_loss else "dev set"
            raise ModelError(f"the settings have a section dev, but the task has no {lacks}")
        best = position.best
        if best is None or (value < best if schedule.lower else value > best):
            position.best, position.best_step = value, position.step
            self._save_model()
        facts = None if schedule.by_loss else self.task.dev_facts()
        return measure, loss, facts or None

    def _is_patience_over(self) -> bool:
        """Whether there were too many updates without a better value."""
        schedule, position = self.schedule, self.position
        return schedule is not None and position.step - position.best_step >= schedule.patience

    def _log(self, seconds_each: float, dev: DevFigures | None, reports: Sequence[Report]) -> None:
        position = self.position
        if dev is None and position.step != self.steps and position.step % self.config.log_every:
            return
        self._fetch_losses()
        loss = position.losses / position.updates if position.updates else None
        position.losses, position.updates = 0.0, 0
        if not self._processes.leads:
            return
        remaining = round((self.steps - position.step) * seconds_each, 1)
        rate = compute_rate(max(position.step - 1, 0), self.steps, self.config.optimisation)
        record = Record(position.step, loss, rate, round(position.seconds, 1), remaining, *(dev or ()))
        log.append_record(self.output / LOG, record)
        for report in reports:
            report(record)


def seed_of(seed: int, rank: int) -> int:
    """The seed of a process that is not the first: no process of a training with another seed has it."""
    return int(np.random.SeedSequence((seed, rank)).generate_state(1, np.uint64)[0])


def trained_weights(modules: Iterable[nn.Module]) -> list[nn.Parameter]:
    """The weights of modules that have gradients, each once."""
    every = (weight for module in modules for weight in module.parameters())
    return list(dict.fromkeys(weight for weight in every if weight.requires_grad))
