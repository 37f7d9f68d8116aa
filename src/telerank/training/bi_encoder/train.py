"""Train a bi-encoder on batches of pairs, from a configuration to a folder."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from telerank.corpus.formats import open_collection
from telerank.errors import ModelError, UnlikelySetting
from telerank.models.encoders.bi_encoder import BiEncoder, BiEncoderSettings, Side, SideTokenizer, Tokenizers
from telerank.models.encoders.folders import (
    fresh_bi_encoder,
    is_for_cosines,
    load_bi_encoder,
    read_settings,
    save_bi_encoder,
)
from telerank.models.encoders.grad_cache import backward, backward_at_once
from telerank.models.inference import batch_width, pin
from telerank.training.bi_encoder.config import BiEncoderStart, BiEncoderTraining
from telerank.training.bi_encoder.dev import (
    Batches,
    DevLoss,
    DevSet,
    EncoderBatch,
    Pairwise,
    build_objective,
    choose_queries,
    read_dev,
    read_dev_loss,
)
from telerank.training.examples.reading import TEXTS, Reading, read_groups, relevant_pairs, write_counts
from telerank.training.kinds import TrainingKind
from telerank.training.task import Task, TrainingDevice
from telerank.training.training import TrainingOptions, train
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
class BiEncoderTask(Task):
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

        model = self._encoder
        queries = [partial(self._encode, model.encode_queries, chunk) for chunk in batch.queries.chunks]
        documents = [partial(self._encode, model.encode_documents, chunk) for chunk in batch.documents.chunks]
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
        chunks = []
        for first in range(0, len(ids), size):
            chunk = [ids[row] for row in order[first : first + size]]
            padded = tokenizer.pad(chunk, batch_width(chunk, device, tokenizer.side.max_length))
            chunks.append({name: pin(tensor, device) for name, tensor in padded.items()})
        return TextChunks(chunks, pin(torch.tensor(order).argsort(), device))

    def _encode(self, encode: Callable[[Tokens], Tensor], chunk: Tokens) -> Tensor:
        device = self.hardware.device
        tokens = {name: tensor.to(device, non_blocking=True) for name, tensor in chunk.items()}
        with self.hardware.precision():
            return encode(tokens).float()


def train_bi_encoder(
    config: BiEncoderTraining,
    output: str | Path,
    *,
    shared: Path | None = None,
    **options: Unpack[TrainingOptions],
) -> Path:
    """Train as the configuration says, and return the folder of the model, ``output/model``.

    ``output/data.json`` counts what was learned from. The texts for triples of ids are stored in
    ``shared/texts``; ``shared`` defaults to ``output``.

    Raises
    ------
    CollectionError
        If the collection lacks what is to be learned from.
    """
    make_task = partial(make_encoder_task, config=config, output=Path(output), shared=shared or Path(output))
    return train(config, output, make_task, **options)[0]


def make_encoder_task(
    begun: Path | None,
    hardware: TrainingDevice,
    progress: Progress,
    *,
    config: BiEncoderTraining,
    output: Path,
    shared: Path,
) -> BiEncoderTask:
    """The task of a training, with a fresh model or that of the checkpoint ``begun``."""
    data, dev, processes = config.data, config.dev, hardware.processes
    collection = open_collection(data.collection, format=data.format, encoding=data.encoding)
    qids = kept_back = frozenset[str]()
    if dev is not None:
        queries = choose_queries(collection, dev, np.random.default_rng(config.seed))
        qids = frozenset(query.qid for query in queries)
        kept_back = qids if dev.split == data.split else kept_back
    reading = Reading(data, config.data_seed, collection, kept_back, progress)
    batches = read_batches(config, reading, shared / TEXTS)
    dev_set = loss_set = None
    if dev is not None:
        loss_set = processes.alone(partial(read_dev_loss, config, dev, qids, reading), DevLoss())
    if dev is not None and not dev.by_loss:
        nothing = DevSet((), {}, {}, dev.measures)  # the first process shares out what it has read
        dev_set = processes.alone(partial(read_dev, collection, dev, config.seed), nothing)
    if processes.leads:
        write_counts(reading.counts, output)
        start = config.model
        is_chosen = start.fresh or "similarity" in start.model_fields_set
        if begun is None and not is_chosen and is_for_cosines(start.start):
            warnings.warn(
                f"{start.start} was trained for cosines, and starts worse with inner products: "
                "set model.similarity to cosine, or to inner_product to keep it",
                UnlikelySetting,
                stacklevel=2,
            )
    model, tokenizers = start_model(config.model, config.seed) if begun is None else load_bi_encoder(begun)
    return BiEncoderTask(config, batches, model, tokenizers, dev_set, loss_set, hardware)


def read_batches(config: BiEncoderTraining, reading: Reading, folder: Path) -> Batches:
    """The batches to learn from; the qrels of the split, if it has any, say what else is relevant."""
    groups, collection, split = read_groups(reading, folder), reading.collection, reading.data.split
    relevant = relevant_pairs(collection, split) if split in collection.qrels else {}
    return Batches(groups, config.optimisation.batch // config.data.group_size, relevant)


def start_model(start: BiEncoderStart, seed: int) -> tuple[BiEncoder, Tokenizers]:
    """The model before its first update.

    Raises ModelError if there is no such encoder, or it does not take these settings.
    """
    query_prompt, prompt, segment = start.query_prompt, start.document_prompt, start.document_segment
    if query_prompt is None:
        query_prompt = read_settings(start.start).query.prompt
    if prompt is None:
        prompt = read_settings(start.document_start or start.start).document.prompt
    if segment is None:
        segment = 0 if prompt else 1  # one of them tells the sides apart
    settings = BiEncoderSettings(
        start.pooling,
        normalise=start.similarity == "cosine",
        query=Side(start.query_length, start.query_segment, query_prompt),
        document=Side(start.document_length, segment, prompt),
    )

    def load(name: str, seed: int) -> tuple[BiEncoder, Tokenizers]:
        if start.fresh:
            return fresh_bi_encoder(name, seed, settings, dropout=start.dropout)
        return load_bi_encoder(name, settings, dropout=start.dropout)

    model, tokenizers = load(start.start, seed)
    if start.towers == "shared":
        if not model.shared:
            raise ModelError(f"{start.start} has two towers, which cannot become one: set towers to two")
        return model, tokenizers
    if start.document_start is not None:
        other, others = load(start.document_start, seed + 1)
        document = other.document_encoder or other.query_encoder
        tokenizers = Tokenizers(tokenizers.queries, others.documents)
    elif model.document_encoder is not None:
        return model, tokenizers
    else:
        document = copy.deepcopy(model.query_encoder)
    return BiEncoder(model.query_encoder, document, settings=settings), tokenizers


KIND = TrainingKind(BiEncoderTraining, train_bi_encoder)
