"""Train a model of term weights, from a configuration to a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from telerank.corpus.formats import open_collection
from telerank.errors import ModelError
from telerank.models.encoders.bi_encoder import SideTokenizer
from telerank.models.encoders.term_weight_folders import (
    load_term_weights,
    save_term_weights,
    start_term_weights,
)
from telerank.models.encoders.term_weights import TermWeightSettings, TokenWeigher
from telerank.models.encoders.word_weights import WordPieces, WordWeigher, document_side
from telerank.models.inference import batch_width, pin
from telerank.text import Analyzer
from telerank.training.encoders.dev import DevSet, choose_queries, read_dev
from telerank.training.encoders.train import EncoderContext, Learner, train_encoder
from telerank.training.examples.reading import Reading, relevant_pairs, write_counts
from telerank.training.kinds import TrainingKind
from telerank.training.reader.windows import WindowOrder
from telerank.training.task import Task, TrainingDevice, evaluating
from telerank.training.term_weights.config import TermWeightTraining
from telerank.training.term_weights.dev import measure_impacts
from telerank.training.term_weights.learners import PieceLearner, WordLearner
from telerank.training.term_weights.recall import JudgedDocument, RecallTargets, WordTargets, read_documents
from telerank.training.training import TrainingOptions, train
from telerank.types import Progress


@dataclass(frozen=True, eq=False)
class RecallBatch:
    """Tokens and their mask, (B, L); the targets of words, (W,); ``words`` divides the sum of their losses.

    ``pieces``, (P,), are the numbers of pieces among the B · L tokens, and ``slots``, (P,), those of their
    words.
    """

    input_ids: Tensor
    attention_mask: Tensor
    pieces: Tensor
    slots: Tensor
    targets: Tensor
    words: int


@dataclass(eq=False)
class RecallTask(Task):
    """The loss is the mean squared error over the words of a batch (Dai and Callan 2019, equation 2).

    Every process makes the tokens of a whole batch, and computes its share of the documents.
    """

    config: TermWeightTraining
    weigher: TokenWeigher
    targets: RecallTargets
    settings: TermWeightSettings
    learned: Sequence[JudgedDocument]
    held_out: Sequence[JudgedDocument]
    dev_set: DevSet | None
    hardware: TrainingDevice
    _order: WindowOrder = field(init=False)

    def __post_init__(self) -> None:
        size, processes = self.config.optimisation.batch, self.hardware.processes.size
        if size < processes:
            raise ModelError(f"batch: {size} documents for {processes} processes: each needs at least one")
        lengths = np.array([len(document.text) for document in self.learned], np.int64)
        sets = np.zeros(len(lengths), np.int64)
        self._order = WindowOrder(lengths, sets, (1.0,), size=size, seed=self.config.data_seed)

    @property
    def models(self) -> Sequence[Sequence[nn.Module]]:
        return ((self.weigher,),)

    @property
    def examples(self) -> int:
        return self._order.epoch_length

    def read(self, number: int) -> RecallBatch:
        documents = self.targets([self.learned[row] for row in self._order[number].tolist()])
        own = [documents[row] for row in self.hardware.processes.share(len(documents))]
        return self._batch(own, max(1, sum(len(words) for _, words in documents)))

    def backward(self, batch: RecallBatch) -> Tensor:
        loss = self._errors(batch) / batch.words
        self.hardware.backward(loss, last=True)
        return loss.detach().double()

    def dev(self, progress: Progress) -> float | None:
        dev_set = self.dev_set
        if dev_set is None:
            return None
        tokenizer, analyzer = self.targets.tokenizer, self.targets.analyzer
        weigher = WordWeigher(self.weigher, tokenizer, self.settings, self.hardware.device)
        with evaluating(self.weigher), self.hardware.precision():
            return self.hardware.processes.first(
                lambda: measure_impacts(dev_set, weigher, analyzer, progress)
            )

    def dev_loss(self, progress: Progress) -> float | None:
        if not self.held_out:
            return None
        size, total, words = self.config.optimisation.batch, 0.0, 0
        batches = [self.held_out[first : first + size] for first in range(0, len(self.held_out), size)]
        with evaluating(self.weigher):
            for number, part in enumerate(self.hardware.processes.share_out(self._measure, batches, 1), 1):
                for error, count in part:
                    total, words = total + error, words + count
                progress("computing the dev loss", number, len(batches))
        return self.hardware.processes.first(lambda: total / words if words else None)

    def save(self, folder: Path) -> None:
        save_term_weights(self.weigher, self.targets.tokenizer.tokenizer, self.settings, folder)

    def _measure(self, batches: Sequence[Sequence[JudgedDocument]]) -> list[tuple[float, int]]:
        """The summed squared errors, and the number of words, of each batch."""
        tensors = (self._batch(self.targets(documents), 1) for documents in batches)
        return [(float(self._errors(batch)), len(batch.targets)) for batch in tensors]

    def _batch(self, documents: Sequence[tuple[WordPieces, WordTargets]], words: int) -> RecallBatch:
        device, tokenizer = self.hardware.device, self.targets.tokenizer
        ids = [text.ids for text, _ in documents]
        width = batch_width(ids, device, self.settings.document_length)
        padded: Mapping[str, Any] = tokenizer.pad(ids, width)
        listed = [(row, pieces, target) for row, (_, own) in enumerate(documents) for pieces, target in own]
        pairs = [(row * width + p, slot) for slot, (row, pieces, _) in enumerate(listed) for p in pieces]
        numbers = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)
        targets = torch.tensor([target for _, _, target in listed], dtype=torch.float32)
        tensors = (padded["input_ids"], padded["attention_mask"], *numbers.T.contiguous(), targets)
        first, second, third, fourth, fifth = (pin(tensor, device) for tensor in tensors)
        return RecallBatch(first, second, third, fourth, fifth, words)

    def _errors(self, batch: RecallBatch) -> Tensor:
        """The sum of the squared errors of the words of a batch."""
        device = self.hardware.device
        inputs = (batch.input_ids, batch.attention_mask, batch.pieces, batch.slots, batch.targets)
        ids, mask, pieces, slots, targets = (tensor.to(device, non_blocking=True) for tensor in inputs)
        with self.hardware.precision():
            weights = self.weigher(ids, mask)
        weights = weights.float().flatten()[pieces]
        of_words = torch.zeros_like(targets)
        of_words = of_words.scatter_reduce(0, slots, weights, "amax", include_self=False)
        return ((of_words - targets) ** 2).sum()


def train_term_weights(
    config: TermWeightTraining,
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
    if not config.by_recall:
        return train_encoder(open_learner, config, output, shared=shared, **options)
    make_task = partial(make_recall_task, config=config, output=Path(output))
    return train(config, output, make_task, **options)[0]


def open_learner(config: TermWeightTraining, begun: Path | None, _: EncoderContext) -> Learner:
    """The model before its first update, or in the folder of a checkpoint."""
    model = open_model(config, begun)
    if not model[2].has_words:
        return Learner(PieceLearner(*model))
    return Learner(WordLearner(*model, Analyzer.parse(config.data.analyzer)))


def open_model(
    config: TermWeightTraining, begun: Path | None
) -> tuple[TokenWeigher, Any, TermWeightSettings]:
    """A fresh model or that of a checkpoint, its tokenizer and its settings."""
    start = config.model
    if begun is not None:
        return load_term_weights(begun, dropout=start.dropout)
    return start_term_weights(start.start, start.settings, config.seed, dropout=start.dropout)


def make_recall_task(
    begun: Path | None,
    hardware: TrainingDevice,
    progress: Progress,
    *,
    config: TermWeightTraining,
    output: Path,
) -> RecallTask:
    """The task of a training, with a fresh model or that of the checkpoint ``begun``."""
    data, dev = config.data, config.dev
    analyzer = Analyzer.parse(data.analyzer)
    collection = open_collection(data.collection, format=data.format, encoding=data.encoding)
    kept_back, held_out, dev_set = frozenset[str](), list[JudgedDocument](), None
    if dev is not None:
        chosen = choose_queries(collection, dev, np.random.default_rng(config.seed))
        qids = frozenset(query.qid for query in chosen)
        kept_back = qids if dev.split == data.split else kept_back
        known = relevant_pairs(collection, dev.split)
        relevant = {qid: known[qid] for qid in sorted(qids & known.keys())}
        held_out = read_documents(collection, dev.split, relevant, progress) if relevant else []
        dev_set = None if dev.by_loss else read_dev(collection, dev, config.seed)
    reading = Reading(data, config.data_seed, collection, kept_back, progress)
    learned = read_learned(reading, {document.docno for document in held_out})
    reading.counts.update({"dev documents": len(held_out)} if dev else {})
    if hardware.processes.leads:
        write_counts(reading.counts, output)
    weigher, tokenizer, settings = open_model(config, begun)
    side: SideTokenizer = document_side(tokenizer, settings)
    targets = RecallTargets(side, analyzer, settings.word == "first")
    return RecallTask(config, weigher, targets, settings, learned, held_out, dev_set, hardware)


def read_learned(reading: Reading, held_out: set[str]) -> list[JudgedDocument]:
    """The documents to learn from, without those that are ``held_out``; ``reading.counts`` has how many."""
    collection, split = reading.collection, reading.data.split
    every = relevant_pairs(collection, split)
    own = {qid: [docno for docno in every[qid] if docno not in held_out] for qid in reading.choose(every)}
    left = {qid: docnos for qid, docnos in own.items() if docnos}
    documents = read_documents(collection, split, left, reading.progress)
    pairs = sum(len(document.queries) for document in documents)
    reading.counts.update({"queries": len(left), "relevant pairs": pairs, "documents": len(documents)})
    without = sum(len(every[qid]) - len(docnos) for qid, docnos in own.items())
    reading.counts.update({"relevant pairs with dev documents, left out": without} if held_out else {})
    return documents


KIND = TrainingKind(TermWeightTraining, train_term_weights)
