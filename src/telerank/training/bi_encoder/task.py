"""A bi-encoder that learns from batches of pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor, nn

from telerank.errors import ModelError
from telerank.models.encoders.bi_encoder import BiEncoder, SideTokenizer, Tokenizers
from telerank.models.encoders.folders import save_bi_encoder
from telerank.models.encoders.grad_cache import Encode, backward, backward_at_once
from telerank.models.inference import batch_width, pin
from telerank.training.bi_encoder.batches import Batches, EncoderBatch, Pairwise, build_objective
from telerank.training.bi_encoder.config import BiEncoderTraining
from telerank.training.bi_encoder.dev import DevLoss, DevSet
from telerank.training.task import TrainingDevice
from telerank.types import Progress

Tokens: TypeAlias = Mapping[str, Tensor]
"""``input_ids`` and ``attention_mask``, (B, L)."""


@dataclass(frozen=True, eq=False)
class TextChunks:
    """Tokens of texts in chunks of like lengths.

    ``order``, (texts,), brings their joined vectors into the order of the texts.
    """

    chunks: Sequence[Tokens]
    order: Tensor


@dataclass(frozen=True, eq=False)
class TextBatch:
    """A batch with the tokens of this process's share of its texts."""

    texts: EncoderBatch
    queries: TextChunks
    documents: TextChunks


@dataclass(eq=False)
class BiEncoderTask:
    """Processes encode a share of each batch's texts and gather the vectors of all.

    So the negatives of a query are the documents of the whole batch, as in the training of DPR and RepBERT.
    """

    config: BiEncoderTraining
    batches: Batches
    model: BiEncoder
    tokenizers: Tokenizers
    dev_set: DevSet | None
    loss_set: DevLoss | None
    hardware: TrainingDevice

    def __post_init__(self) -> None:
        self.objective = build_objective(self.config.loss, self.model.width)
        # Sentence-BERT's losses see u and v as they are, and the cosine only ranks
        pairwise = isinstance(self.objective, Pairwise)
        self._encoder = self.model.without_normalising() if pairwise else self.model
        size = self.config.optimisation.batch
        if size < self.hardware.processes.size:
            problem = f"{size} pairs for {self.hardware.processes.size} processes"
            raise ModelError(f"batch: {problem}: each needs at least one")

    @property
    def models(self) -> Sequence[Sequence[nn.Module]]:
        return ((self.model, self.objective),)

    @property
    def examples(self) -> int:
        return len(self.batches.groups) * self.config.data.group_size

    def prepare(self, number: int, progress: Progress) -> None:
        pass

    def read(self, number: int) -> TextBatch:
        batch = self.batches[number]
        queries = self._cut(self.tokenizers.queries, batch.queries)
        return TextBatch(batch, queries, self._cut(self.tokenizers.documents, batch.documents))

    def backward(self, batch: TextBatch) -> Tensor:
        texts, processes, device = batch.texts, self.hardware.processes, self.hardware.device
        values: list[Tensor] = []

        def loss(query_vectors: Tensor, document_vectors: Tensor) -> Tensor:
            own_queries = query_vectors[batch.queries.order.to(device, non_blocking=True)]
            own_documents = document_vectors[batch.documents.order.to(device, non_blocking=True)]
            every_query = processes.gather(own_queries, len(texts.queries))
            every_document = processes.gather(own_documents, len(texts.documents))
            value: Tensor = self.objective(every_query, every_document, texts) / processes.size
            values.append(value.detach().double())
            return self.hardware.scale(value)

        queries = self._encodings(self._encoder.encode_queries, batch.queries)
        documents = self._encodings(self._encoder.encode_documents, batch.documents)
        if self.config.optimisation.chunk is None:
            backward_at_once(queries, documents, loss, self.hardware.sums.last)
        else:
            backward(queries, documents, loss, device, self.hardware.sums.last)
        return values[0]

    def dev(self, progress: Progress) -> float | None:
        if self.dev_set is None:
            return None
        precision, processes = self.hardware.precision, self.hardware.processes
        return self.dev_set.value(self.model, self.tokenizers, precision, progress, processes)

    def dev_loss(self, progress: Progress) -> float | None:
        if self.loss_set is None:
            return None
        return self.loss_set.value(self._encoder, self.tokenizers, self.objective, self.hardware, progress)

    def save(self, folder: Path) -> None:
        save_bi_encoder(self.model, self.tokenizers, folder)

    def state(self) -> Mapping[str, Tensor]:
        return self.objective.state_dict()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.objective.load_state_dict(state)

    def _cut(self, tokenizer: SideTokenizer, texts: Sequence[str]) -> TextChunks:
        """Chunks of like lengths, of this process's share of the texts."""
        device = self.hardware.device
        own = [texts[row] for row in self.hardware.processes.share(len(texts))]
        ids = tokenizer.ids(own or texts[:1])  # with fewer texts than processes, encode a text for nothing
        size = self.config.optimisation.chunk or len(ids)
        order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
        chunks = [[ids[row] for row in order[first : first + size]] for first in range(0, len(ids), size)]
        most = tokenizer.side.max_length
        padded = [tokenizer.pad(chunk, batch_width(chunk, device, most)) for chunk in chunks]
        pinned = [{name: pin(tensor, device) for name, tensor in chunk.items()} for chunk in padded]
        return TextChunks(pinned, pin(torch.tensor(order).argsort(), device))

    def _encodings(self, encode: Callable[[Tokens], Tensor], texts: TextChunks) -> list[Encode]:
        """What encodes each chunk, each time it is called."""

        def encoding(chunk: Tokens) -> Encode:
            def encode_chunk() -> Tensor:
                device = self.hardware.device
                tokens = {name: tensor.to(device, non_blocking=True) for name, tensor in chunk.items()}
                with self.hardware.precision():
                    return encode(tokens).float()

            return encode_chunk

        return [encoding(chunk) for chunk in texts.chunks]
