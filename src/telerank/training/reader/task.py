"""A reader that learns from batches of windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from telerank.errors import ModelError
from telerank.models.inference import batch_width, pin
from telerank.models.pairs.pair import PASSAGE, PairBatch, batch_of
from telerank.models.readers.reader import Reader, SpanModel, save_reader
from telerank.training.ahead import pin_all
from telerank.training.reader.config import ReaderTraining
from telerank.training.reader.dev import ReaderDevSet
from telerank.training.reader.order import WindowOrder
from telerank.training.reader.windows import LearningWindows
from telerank.training.task import TrainingDevice
from telerank.types import Progress


@dataclass(frozen=True, eq=False)
class WindowBatch:
    """The windows of this process in a batch of ``size``; the first and last token of each answer, (B, 2)."""

    pairs: PairBatch
    answers: Tensor
    size: int


@dataclass(eq=False)
class ReaderTask:
    """The loss is the mean cross-entropy of start and end (Devlin et al., 2019), over the tokens of the
    context and the first token of all, which is no answer; each process computes its share of a batch.
    """

    config: ReaderTraining
    reader: Reader
    windows: LearningWindows
    dev_set: ReaderDevSet | None
    hardware: TrainingDevice

    def __post_init__(self) -> None:
        size, processes = self.config.optimisation.batch, self.hardware.processes.size
        if size < processes:
            raise ModelError(f"batch: {size} windows for {processes} processes: each needs at least one")
        weights = tuple(source.weight for source in self.config.data.sets)
        self._order = WindowOrder(
            self.windows.lengths,
            self.windows.table["set"].astype("int64"),
            weights,
            size=size,
            seed=self.config.seed,
        )
        self._model = SpanModel(self.reader.model)
        if self.config.model.frozen_embeddings:
            self.reader.model.get_input_embeddings().requires_grad_(False)

    @property
    def modules(self) -> Sequence[nn.Module]:
        return (self.reader.model,)

    @property
    def examples(self) -> int:
        return self._order.epoch_length

    def prepare(self, number: int, progress: Progress) -> None:
        pass

    def read(self, number: int) -> WindowBatch:
        rows = self._order[number].tolist()
        own = [rows[place] for place in self.hardware.processes.share(len(rows))]
        device, texts = self.hardware.device, self.windows.texts
        pairs = [self.windows.pair(row) for row in own]
        batch = batch_of(pairs, texts.pad_id, batch_width(pairs, device, texts.max_length))
        answers = torch.tensor([self.windows.answer(row) for row in own])
        return WindowBatch(pin_all(batch, device), pin(answers, device), len(rows))

    def backward(self, batch: WindowBatch) -> Tensor:
        device = self.hardware.device
        pairs, answers = batch.pairs.to(device), batch.answers.to(device, non_blocking=True)
        with self.hardware.precision():
            logits = self._model(pairs)  # (B, L, 2)
        loss = span_loss(logits.float(), pairs, answers) / batch.size
        self.hardware.backward(loss, last=True)
        return loss.detach().double()

    def dev(self, progress: Progress) -> float | None:
        return None if self.dev_set is None else self.dev_set.value(self.reader, progress)

    def dev_loss(self, progress: Progress) -> float | None:  # noqa: ARG002 — dev is measured by answers
        return None

    def save(self, folder: Path) -> None:
        save_reader(self.reader, folder)

    def state(self) -> Mapping[str, Tensor]:
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        pass


def span_loss(logits: Tensor, batch: PairBatch, targets: Tensor) -> Tensor:
    """The sum over pairs of the mean of both cross-entropies: logits (B, L, 2), targets (B, 2)."""
    allowed = batch.parts == PASSAGE
    allowed[:, 0] = True
    masked = logits.masked_fill(~allowed[:, :, None], float("-inf"))  # (B, L, 2)
    return nn.functional.cross_entropy(masked, targets, reduction="sum") / 2
