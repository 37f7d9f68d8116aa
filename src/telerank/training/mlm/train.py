"""Train a masked language model on windows of texts, from a configuration to a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np
import torch
from torch import Tensor, nn

from telerank.errors import ModelError
from telerank.models.inference import batch_width, pin
from telerank.models.masked_language import (
    MaskedLanguageModel,
    fresh_masked_model,
    load_masked_model,
    save_masked_model,
)
from telerank.training.examples.reading import write_counts
from telerank.training.kinds import TrainingKind
from telerank.training.mlm.config import MaskedTraining
from telerank.training.mlm.masks import Ids, MaskedWindow, Masker
from telerank.training.mlm.texts import TextWindows, open_texts
from telerank.training.perplexity import PerplexityTask, tabulate_perplexities
from telerank.training.reader.windows import WindowOrder
from telerank.training.task import TrainingDevice, freeze_embeddings
from telerank.training.training import TrainingOptions, train
from telerank.types import Progress

WINDOWS = "windows"
_LEARNED, _DEV = 1, 2  # after the seed: which random numbers


@dataclass(frozen=True, eq=False)
class MaskedBatch:
    """Masked windows, (B, L), the chosen places, (B, L), and the number of each one's piece, (M,).

    Numbers are those of the vocabulary, or of the pieces to choose among. ``weight`` divides the sum of their
    losses.
    """

    input_ids: Tensor
    attention_mask: Tensor
    chosen: Tensor
    targets: Tensor
    weight: float


@dataclass(eq=False)
class MaskedTask(PerplexityTask):
    """The loss is the mean cross-entropy of the chosen pieces of a batch (Devlin et al., 2019).

    Every process masks all windows of a batch, and computes its share of them.
    """

    config: MaskedTraining
    masked: MaskedLanguageModel
    windows: TextWindows
    hardware: TrainingDevice

    def __post_init__(self) -> None:
        size, processes = self.config.optimisation.batch, self.hardware.processes.size
        if size < processes:
            raise ModelError(f"batch: {size} windows for {processes} processes: each needs at least one")
        tokenizer, vocabulary = self.masked.tokenizer, len(self.masked.tokenizer)
        most = self.config.model.pieces
        choices = self.windows.choose_pieces(most, tokenizer.all_special_ids, vocabulary)
        if not len(choices):
            raise ModelError(f"model.pieces: none of the {vocabulary:,} pieces occurs in the texts")
        self._pieces = None if most is None else torch.from_numpy(choices)
        self._masker = Masker.of(self.config.masks, self.masked.mask_id, choices, vocabulary)
        lengths = self.windows.lengths[: self.windows.learned]
        sets = np.zeros(len(lengths), np.int64)
        self._order = WindowOrder(lengths, sets, (1.0,), size=size, seed=self.config.data_seed)
        if self.config.model.frozen_embeddings:
            freeze_embeddings(self.masked.model)

    @property
    def models(self) -> Sequence[Sequence[nn.Module]]:
        return ((self.masked.model,),)

    @property
    def examples(self) -> int:
        return self._order.epoch_length

    def read(self, number: int) -> MaskedBatch:
        masked = self._mask(self._order[number], _LEARNED, number)
        own = [masked[place] for place in self.hardware.processes.share(len(masked))]
        return self._batch(own, max(1, sum(len(window.chosen) for window in masked)))

    def backward(self, batch: MaskedBatch) -> Tensor:
        loss = self._loss(batch) / batch.weight
        self.hardware.backward(loss, last=True)
        return loss.detach().double()

    def dev_batches(self) -> Sequence[tuple[int, list[int]]] | None:
        if not self.windows.manifest.dev:
            return None
        dev = range(self.windows.learned, self.windows.manifest.windows)
        rows = sorted(dev, key=self.windows.lengths.tolist().__getitem__, reverse=True)
        size = self.config.optimisation.batch
        return [(first, rows[first : first + size]) for first in range(0, len(rows), size)]

    def save(self, folder: Path) -> None:
        save_masked_model(self.masked, folder)

    def measure_batches(self, batches: Sequence[tuple[int, list[int]]]) -> list[tuple[float, int]]:
        """The summed loss and the number of chosen pieces of each batch."""
        values = []
        for number, rows in batches:
            batch = self._batch(self._mask(rows, _DEV, number), 1)
            values.append((float(self._loss(batch)), len(batch.targets)))
        return values

    def _mask(self, rows: Sequence[int] | Ids, kind: int, number: int) -> list[MaskedWindow]:
        windows = [self.windows[int(row)] for row in rows]
        return self._masker(windows, (self.config.data_seed, kind, number))

    def _batch(self, masked: Sequence[MaskedWindow], weight: float) -> MaskedBatch:
        device, pad_id = self.hardware.device, self.masked.tokenizer.pad_token_id or 0
        ids = [window.ids for window in masked]
        width = batch_width(ids, device, self.config.model.max_length)
        tokens = np.full((len(ids), width), pad_id, np.int64)
        mask, chosen = np.zeros_like(tokens), np.zeros(tokens.shape, bool)
        for row, window in enumerate(masked):
            tokens[row, : len(window.ids)], mask[row, : len(window.ids)] = window.ids, 1
            chosen[row, window.chosen] = True
        targets = np.concatenate([window.targets for window in masked]) if masked else np.zeros(0, np.int64)
        numbers = targets if self._pieces is None else np.searchsorted(self._pieces.numpy(), targets)
        arrays = (tokens, mask, chosen, numbers)
        first, second, third, last = (pin(torch.from_numpy(array), device) for array in arrays)
        return MaskedBatch(first, second, third, last, weight)

    def _loss(self, batch: MaskedBatch) -> Tensor:
        """The sum of the cross-entropies of the chosen pieces."""
        device = self.hardware.device
        inputs = (batch.input_ids, batch.attention_mask, batch.chosen)
        ids, mask, chosen = (tensor.to(device, non_blocking=True) for tensor in inputs)
        pieces = None if self._pieces is None else self._pieces.to(device)
        with self.hardware.precision():
            logits = self.masked.score(ids, mask, chosen, pieces)
        targets = batch.targets.to(device, non_blocking=True)
        return nn.functional.cross_entropy(logits.float(), targets, reduction="sum")


def train_mlm(
    config: MaskedTraining,
    output: str | Path,
    *,
    shared: Path | None = None,
    **options: Unpack[TrainingOptions],
) -> Path:
    """Train as the configuration says, and return the folder of the model, ``output/model``.

    ``output/data.json`` counts what was learned from; its windows are stored in ``shared/windows``, and
    ``shared`` defaults to ``output``. Texts that have changed since are another training's.

    Raises
    ------
    CollectionError
        If no document with a text is left to learn from, or for dev.
    """
    folder = Path(output)
    make_task = partial(make_masked_task, config=config, output=folder, shared=shared or folder)
    return train(config, output, make_task, **options)[0]


def make_masked_task(
    begun: Path | None,
    hardware: TrainingDevice,
    progress: Progress,
    *,
    config: MaskedTraining,
    output: Path,
    shared: Path,
) -> MaskedTask:
    """The task of a training, with a fresh model or that of the checkpoint ``begun``."""
    start, processes = config.model, hardware.processes
    if begun is None:
        masked = fresh_masked_model(
            start.start, start.max_length, seed=config.seed, dropout=start.dropout, fresh=start.fresh
        )
    else:
        masked = load_masked_model(begun, start.max_length, dropout=start.dropout)
    open_own = partial(open_texts, shared / WINDOWS, masked.tokenizer, config, progress)
    if processes.size > 1:  # the first makes them, the others map them
        processes.first(lambda: open_own().learned)
    windows = open_own()
    if processes.leads:
        write_counts(windows.manifest.counts, output)
    return MaskedTask(config, masked, windows, hardware)


KIND = TrainingKind(
    MaskedTraining,
    train_mlm,
    results=partial(tabulate_perplexities, of="a chosen piece of the dev documents"),
)
