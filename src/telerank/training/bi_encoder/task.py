"""A bi-encoder that learns from batches of pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from telerank.errors import ModelError
from telerank.models.encoders.bi_encoder import BiEncoder
from telerank.models.encoders.folders import save
from telerank.models.encoders.grad_cache import Encode, backward, backward_at_once
from telerank.models.encoders.tokens import SideTokenizer, Tokenizers
from telerank.training.bi_encoder.batches import Batches
from telerank.training.bi_encoder.config import BiEncoderTraining
from telerank.training.bi_encoder.dev import DevSet
from telerank.training.bi_encoder.objectives import objective
from telerank.training.task import TrainingDevice
from telerank.types import Progress


@dataclass(eq=False)
class BiEncoderTask:
    """Several processes encode a share of each batch's texts and hand each other the vectors.

    So the negatives of a query are the documents of the whole batch, as in the training of DPR and RepBERT.
    """

    config: BiEncoderTraining
    batches: Batches
    trained: tuple[BiEncoder, Tokenizers]
    dev_set: DevSet | None
    place: TrainingDevice

    def __post_init__(self) -> None:
        self.model, self.tokenizers = self.trained
        self.objective = objective(self.config.loss, self.model.width)
        if self.batches.size < self.place.processes.size:
            says = f"{self.batches.size} pairs for {self.place.processes.size} processes"
            raise ModelError(f"batch: {says}: each needs one at least")

    @property
    def modules(self) -> Sequence[nn.Module]:
        return self.model, self.objective

    @property
    def examples(self) -> int:
        return len(self.batches.examples.pairs)

    def prepare(self, number: int, progress: Progress) -> None:
        pass

    def backward(self, number: int) -> float:
        batch, processes = self.batches[number], self.place.processes
        queries = self._chunks(self.model.encode_queries, self.tokenizers.queries, batch.queries)
        documents = self._chunks(self.model.encode_documents, self.tokenizers.documents, batch.documents)

        def loss(asked: Tensor, found: Tensor) -> Tensor:
            asked = processes.gathered(asked[queries.places], len(batch.queries))
            found = processes.gathered(found[documents.places], len(batch.documents))
            value: Tensor = self.objective(asked, found, batch)
            return value / processes.size

        run = backward_at_once if self.config.optimisation.chunk is None else backward
        return run(queries.encodes, documents.encodes, loss)

    def dev(self, progress: Progress) -> float | None:
        if self.dev_set is None:
            return None
        return self.dev_set.value(self.model, self.tokenizers, self.place.precision, progress)

    def save(self, folder: Path) -> None:
        save(self.model, self.tokenizers, folder)

    def state(self) -> Mapping[str, Any]:
        return {"objective": self.objective.state_dict()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.objective.load_state_dict(state["objective"])

    def _chunks(
        self, encode: Callable[[Mapping[str, Tensor]], Tensor], tokenizer: SideTokenizer, texts: Sequence[str]
    ) -> Chunks:
        """Of this process's share of the texts; like lengths together, where they are encoded in parts."""
        own = [texts[place] for place in self.place.processes.share(len(texts))]
        ids = tokenizer.ids(own or texts[:1])  # where there are fewer texts than processes, one for nothing
        size = self.config.optimisation.chunk or len(ids)
        order = sorted(range(len(ids)), key=lambda place: len(ids[place]))
        parts = [[ids[place] for place in order[first : first + size]] for first in range(0, len(ids), size)]

        def encoding(part: list[list[int]]) -> Encode:
            padded = tokenizer.pad(part)

            def encoded() -> Tensor:
                with self.place.precision():
                    return encode(padded).float()

            return encoded

        return Chunks([encoding(part) for part in parts], torch.tensor(order).argsort())


@dataclass(frozen=True, eq=False)
class Chunks:
    """Encodings of parts; ``places`` brings their vectors, joined, into the order of the texts."""

    encodes: list[Encode]
    places: Tensor
