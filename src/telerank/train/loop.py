"""The loop: updates, looks at the dev measure, lines of the log, checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import Tensor, nn

from telerank.errors import ModelError
from telerank.models.bi_encoder import BiEncoder
from telerank.models.grad_cache import Encode, backward, backward_at_once
from telerank.models.tokens import SideTokenizer, Tokenizers
from telerank.train import checkpoint, log
from telerank.train.batches import Batch, Batches
from telerank.train.config import BiEncoderTraining
from telerank.train.dev import DevSet, Precision
from telerank.train.log import Record, Report
from telerank.train.optimiser import adamw, rate
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


@dataclass
class Loop:
    """What a training works on; it goes on from ``reached``."""

    config: BiEncoderTraining
    output: Path
    steps: int
    batches: Batches
    model: BiEncoder
    tokenizers: Tokenizers
    objective: nn.Module
    dev: DevSet | None

    def __post_init__(self) -> None:
        self._device = device(self.config.device)
        self._autocast = precision(self.config.precision, self._device)
        self.model.to(self._device).train()
        self.objective.to(self._device)
        self._optimiser = adamw((self.model, self.objective), self.config.optimisation)
        self.reached = Reached()

    def run(self, report: Report, progress: Progress) -> Path:
        """Train to the end; the folder of the model."""
        began, earlier, first = monotonic(), self.reached.seconds, self.reached.step
        while self.reached.step < self.steps and not self._is_over():
            self.reached.losses += self._update()
            self.reached.updates += 1
            self.reached.step += 1
            self.reached.seconds = earlier + monotonic() - began
            dev = self._look(progress)
            self._log((monotonic() - began) / (self.reached.step - first), dev, report)
            last = self.reached.step == self.steps or self._is_over()
            if last or self.reached.step % self.config.checkpoint_every == 0:
                self._save()
            progress("training", self.reached.step, self.steps)
        if self.dev is None:
            checkpoint.write_model(self.output, self.config, (self.model, self.tokenizers))
        return self.output / checkpoint.MODEL

    def restore(self, state: Mapping[str, Any]) -> None:
        """Be where a checkpoint's ``state`` was; the model has its weights already."""
        self._optimiser.load_state_dict(state["optimiser"])
        self.objective.load_state_dict(state["objective"])
        self.reached = Reached(**state["reached"])
        torch.set_rng_state(state["random"])
        if state["random_of_gpus"] and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["random_of_gpus"])

    def _save(self) -> None:
        gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        state = {
            "optimiser": self._optimiser.state_dict(),
            "objective": self.objective.state_dict(),
            "reached": asdict(self.reached),
            "random": torch.get_rng_state(),
            "random_of_gpus": gpus,
        }
        trained = (self.model, self.tokenizers)
        checkpoint.write_checkpoint(self.output, self.reached.step, self.config, trained, state)

    def _update(self) -> float:
        """One update of the weights; the mean loss of its batches."""
        wanted, step = self.config.optimisation, self.reached.step
        loss = 0.0
        for part in range(wanted.accumulation):
            loss += self._add_gradients(self.batches[step * wanted.accumulation + part])
        if not math.isfinite(loss):
            raise ModelError(f"the loss of update {step + 1} is {loss}: try a lower learning rate")
        weights = [one for group in self._optimiser.param_groups for one in group["params"]]
        nn.utils.clip_grad_norm_(weights, wanted.max_gradient_norm)
        for group in self._optimiser.param_groups:
            group["lr"] = rate(step, self.steps, wanted)
        self._optimiser.step()
        self._optimiser.zero_grad()
        return loss

    def _add_gradients(self, batch: Batch) -> float:
        wanted = self.config.optimisation
        queries = self._chunks(self.model.encode_queries, self.tokenizers.queries, batch.queries)
        documents = self._chunks(self.model.encode_documents, self.tokenizers.documents, batch.documents)

        def loss(asked: Tensor, found: Tensor) -> Tensor:
            value: Tensor = self.objective(asked[queries.places], found[documents.places], batch)
            return value / wanted.accumulation

        run = backward_at_once if wanted.chunk is None else backward
        return run(queries.encodes, documents.encodes, loss)

    def _chunks(
        self, encode: Callable[[Mapping[str, Tensor]], Tensor], tokenizer: SideTokenizer, texts: Sequence[str]
    ) -> Chunks:
        """Texts of like length together, where they are encoded in parts."""
        ids = tokenizer.ids(texts)
        size = self.config.optimisation.chunk or len(ids)
        order = sorted(range(len(ids)), key=lambda place: len(ids[place]))
        parts = [[ids[place] for place in order[first : first + size]] for first in range(0, len(ids), size)]

        def encoding(part: list[list[int]]) -> Encode:
            padded = tokenizer.pad(part)

            def encoded() -> Tensor:
                with self._autocast():
                    return encode(padded).float()

            return encoded

        return Chunks([encoding(part) for part in parts], torch.tensor(order).argsort())

    def _look(self, progress: Progress) -> float | None:
        """The dev measure where it is due; the weights are kept where it is the best so far."""
        wanted = self.config.dev
        due = self.reached.step == self.steps or (wanted and self.reached.step % wanted.every == 0)
        if self.dev is None or not due:
            return None
        value = self.dev.value(self.model, self.tokenizers, self._autocast, progress)
        if value > self.reached.best:
            self.reached.best, self.reached.best_step = value, self.reached.step
            checkpoint.write_model(self.output, self.config, (self.model, self.tokenizers))
        return value

    def _is_over(self) -> bool:
        """Whether patience is: too many updates without a better value."""
        wanted = self.config.dev
        return wanted is not None and self.reached.step - self.reached.best_step >= wanted.patience

    def _log(self, seconds_each: float, dev: float | None, report: Report) -> None:
        reached = self.reached
        if dev is None and reached.step != self.steps and reached.step % self.config.log_every:
            return
        loss, reached.losses = reached.losses / reached.updates, 0.0
        reached.updates = 0
        remaining = round((self.steps - reached.step) * seconds_each, 1)
        shown = rate(reached.step - 1, self.steps, self.config.optimisation)
        record = Record(reached.step, loss, shown, round(reached.seconds, 1), remaining, dev)
        log.append(self.output / checkpoint.LOG, record)
        report(record)


@dataclass(frozen=True, eq=False)
class Chunks:
    """Encodings of parts; ``places`` brings their vectors, joined, into the order of the texts."""

    encodes: list[Encode]
    places: Tensor


def device(name: str) -> torch.device:
    """The device of that name.

    Raises
    ------
    ModelError
        where there is none, or none to be used here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        wanted = torch.device(name)
        torch.empty(0, device=wanted)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"device {name!r}: {str(error).splitlines()[0]}") from error
    return wanted


def precision(name: str, where: torch.device) -> Precision:
    """The context in which encoders compute: bfloat16, asked for or on a GPU that has it, or float32."""
    has = where.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    if name == "bfloat16" or (name == "auto" and has):
        return lambda: torch.autocast(where.type, dtype=torch.bfloat16)
    return nullcontext
