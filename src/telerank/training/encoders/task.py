"""The task of every encoder of queries and documents: batches, gradients, dev, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor, nn

from telerank.errors import ModelError
from telerank.models.encoders.grad_cache import backward, backward_at_once
from telerank.models.inference import batch_width, pin
from telerank.training.encoders.batches import Batches, EncoderBatch
from telerank.training.encoders.config import EncoderTraining
from telerank.training.encoders.dev import DevLoss, DevSet
from telerank.training.encoders.encoder import EncoderSide, TrainableEncoder
from telerank.training.task import Task, TrainingDevice
from telerank.types import Progress

Tokens: TypeAlias = Mapping[str, Tensor]
"""``input_ids``, ``attention_mask`` and what else a side has, each (B, L)."""
_ENCODER = "encoder."  # begins the names of an encoder's own tensors in a checkpoint


@dataclass(frozen=True, eq=False)
class TextChunks:
    """Tokens of texts in chunks of like lengths.

    ``order``, (texts,), brings their joined vectors into the order of the texts.
    """

    chunks: Sequence[Tokens]
    order: Tensor


@dataclass(frozen=True, eq=False)
class TextBatch:
    """A batch with the tokens of this process's share of its texts; ``update`` learns from it, from 0 on."""

    texts: EncoderBatch
    queries: TextChunks
    documents: TextChunks
    update: int


@dataclass(eq=False)
class EncoderTask(Task):
    """Processes encode a share of each batch's texts and gather the vectors of all.

    So the negatives of a query are the documents of the whole batch, as in the training of DPR and RepBERT.
    ``learner`` makes the vectors that the ``objective`` sees, and ``encoder`` those that are searched;
    mostly they are the same.
    """

    config: EncoderTraining
    batches: Batches
    encoder: TrainableEncoder
    objective: nn.Module
    dev_set: DevSet | None
    loss_set: DevLoss | None
    hardware: TrainingDevice
    learner: TrainableEncoder | None = None
    _facts: Mapping[str, float] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._learner = self.learner or self.encoder
        size = self.config.optimisation.batch
        if size < self.hardware.processes.size:
            problem = f"{size} pairs for {self.hardware.processes.size} processes"
            raise ModelError(f"batch: {problem}: each needs at least one")

    @property
    def models(self) -> Sequence[Sequence[nn.Module]]:
        return ((self.encoder.module, self.objective),)

    @property
    def examples(self) -> int:
        return len(self.batches.groups) * self.config.data.group_size

    def read(self, number: int) -> TextBatch:
        batch = self.batches[number]
        queries = self._cut(self._learner.queries, batch.queries)
        documents = self._cut(self._learner.documents, batch.documents)
        return TextBatch(batch, queries, documents, number // self.config.optimisation.accumulation)

    def backward(self, batch: TextBatch) -> Tensor:
        texts, processes, device = batch.texts, self.hardware.processes, self.hardware.device
        values: list[Tensor] = []

        def loss(query_vectors: Tensor, document_vectors: Tensor) -> Tensor:
            own_queries = query_vectors[batch.queries.order.to(device, non_blocking=True)]
            own_documents = document_vectors[batch.documents.order.to(device, non_blocking=True)]
            every_query = processes.gather(own_queries, len(texts.queries))
            every_document = processes.gather(own_documents, len(texts.documents))
            value: Tensor = self.objective(every_query, every_document, texts)
            penalty = self._learner.penalty(every_query, every_document, batch.update)
            value = (value if penalty is None else value + penalty) / processes.size
            values.append(value.detach().double())
            return self.hardware.scale(value)

        sides = ((self._learner.queries, batch.queries), (self._learner.documents, batch.documents))
        queries, documents = (
            [partial(self._encode, side.encode, chunk) for chunk in own.chunks] for side, own in sides
        )
        if self.config.optimisation.chunk is None:
            backward_at_once(queries, documents, loss, self.hardware.sums.last)
        else:
            backward(queries, documents, loss, device, self.hardware.sums.last)
        return values[0]

    def dev(self, progress: Progress) -> float | None:
        if self.dev_set is None:
            return None
        value, self._facts = self.dev_set.value(self.encoder, self.hardware, progress)
        return value

    def dev_facts(self) -> Mapping[str, float]:
        return self._facts

    def dev_loss(self, progress: Progress) -> float | None:
        if self.loss_set is None:
            return None
        return self.loss_set.value(self._learner, self.objective, self.hardware, progress)

    def save(self, folder: Path) -> None:
        self.encoder.save(folder)

    def state(self) -> Mapping[str, Tensor]:
        own = {f"{_ENCODER}{name}": tensor for name, tensor in self.encoder.state().items()}
        return {**self.objective.state_dict(), **own}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        own = {name: tensor for name, tensor in state.items() if name.startswith(_ENCODER)}
        self.encoder.restore({name.removeprefix(_ENCODER): tensor for name, tensor in own.items()})
        self.objective.load_state_dict({name: each for name, each in state.items() if name not in own})

    def _cut(self, side: EncoderSide, texts: Sequence[str]) -> TextChunks:
        """Chunks of like lengths, of this process's share of the texts."""
        device = self.hardware.device
        own = [texts[row] for row in self.hardware.processes.share(len(texts))]
        rows = side.tokenize(own or texts[:1])  # with fewer texts than processes, encode a text for nothing
        size = self.config.optimisation.chunk or len(rows)
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
        chunks = []
        for first in range(0, len(rows), size):
            chunk = [rows[row] for row in order[first : first + size]]
            padded = side.pad(chunk, batch_width(chunk, device, side.longest))
            chunks.append({name: pin(tensor, device) for name, tensor in padded.items()})
        return TextChunks(chunks, pin(torch.tensor(order).argsort(), device))

    def _encode(self, encode: Callable[[Tokens], Tensor], chunk: Tokens) -> Tensor:
        device = self.hardware.device
        tokens = {name: tensor.to(device, non_blocking=True) for name, tensor in chunk.items()}
        with self.hardware.precision():
            return encode(tokens).float()
