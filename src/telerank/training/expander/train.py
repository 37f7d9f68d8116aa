"""Train a model to write the query of a relevant document (doc2query), from a configuration to a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Unpack

import torch
from torch import Tensor, nn

from telerank.corpus.collection import Collection
from telerank.corpus.formats import open_collection
from telerank.errors import ModelError
from telerank.models.inference import batch_width
from telerank.models.seq2seq import Seq2Seq, fresh_seq2seq, load_seq2seq, save_seq2seq
from telerank.training.examples.groups import Groups
from telerank.training.examples.reading import (
    TEXTS,
    Reading,
    check_complete,
    choose_queries,
    read_groups,
    read_texts,
    relevant_pairs,
    write_counts,
)
from telerank.training.expander.config import ExpanderDev, ExpanderTraining
from telerank.training.kinds import TrainingKind
from telerank.training.perplexity import PerplexityTask, tabulate_perplexities
from telerank.training.task import TrainingDevice, pin_all
from telerank.training.training import TrainingOptions, train
from telerank.types import Progress

_IGNORED = -100  # targets beyond the end of a query
TextPairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, eq=False)
class WritingBatch:
    """Documents (B, L) and their mask, what stands before each piece of a query, and the piece, (B, T).

    ``weight`` divides the sum of the losses.
    """

    input_ids: Tensor
    attention_mask: Tensor
    decoder_ids: Tensor
    targets: Tensor
    weight: Tensor


@dataclass(eq=False)
class ExpanderTask(PerplexityTask):
    """The loss is the mean cross-entropy of the pieces of the queries of a batch, each given those before it.

    ``dev_pairs`` are pairs of a query and a document that are not learned from.
    """

    config: ExpanderTraining
    written: Seq2Seq
    groups: Groups
    dev_pairs: TextPairs
    hardware: TrainingDevice

    def __post_init__(self) -> None:
        size, processes = self.config.optimisation.batch, self.hardware.processes.size
        if size < processes:
            raise ModelError(f"batch: {size} pairs for {processes} processes: each needs at least one")
        longest, start = self.written.longest, self.config.model
        for name in ("max_length", "max_query"):
            if longest is not None and getattr(start, name) > longest:
                own = f"{getattr(start, name)}, but the model has {longest} positions"
                raise ModelError(f"model.{name} is {own}")

    @property
    def models(self) -> Sequence[Sequence[nn.Module]]:
        return ((self.written.model,),)

    @property
    def examples(self) -> int:
        return len(self.groups)

    def read(self, number: int) -> WritingBatch:
        size = self.config.optimisation.batch
        groups = [self.groups[place] for place in range(number * size, (number + 1) * size)]
        pairs = [(group.query, group.documents[0]) for group in groups]
        targets = self._frame(pairs)
        own = list(self.hardware.processes.share(size))
        weight = sum(map(len, targets))
        return self._batch([pairs[row] for row in own], [targets[row] for row in own], weight)

    def backward(self, batch: WritingBatch) -> Tensor:
        loss = self._loss(batch) / batch.weight.to(self.hardware.device, non_blocking=True)
        self.hardware.backward(loss, last=True)
        return loss.detach().double()

    def dev_batches(self) -> Sequence[TextPairs] | None:
        if self.config.dev is None:
            return None
        size = self.config.optimisation.batch
        ordered = sorted(self.dev_pairs, key=lambda pair: -len(pair[1]))
        return [ordered[first : first + size] for first in range(0, len(ordered), size)]

    def save(self, folder: Path) -> None:
        save_seq2seq(self.written, folder)

    def measure_batches(self, batches: Sequence[TextPairs]) -> list[tuple[float, int]]:
        """The summed loss and the number of pieces of each batch."""
        values = []
        for pairs in batches:
            targets = self._frame(pairs)
            loss = self._loss(self._batch(pairs, targets, 1))
            values.append((float(loss), sum(map(len, targets))))
        return values

    def _frame(self, pairs: TextPairs) -> list[list[int]]:
        longest = self.config.model.max_query
        return [self.written.frame_target(query, longest) for query, _ in pairs]

    def _batch(self, pairs: TextPairs, targets: Sequence[Sequence[int]], weight: int) -> WritingBatch:
        model, device = self.written, self.hardware.device
        start = self.config.model
        texts, _ = model.read_texts([text for _, text in pairs], start.max_length)
        width = batch_width(texts, device, start.max_length)
        length = batch_width(targets, device, start.max_query)
        input_ids = torch.full((len(texts), width), model.pad_id)
        attention_mask = torch.zeros_like(input_ids)
        decoder_ids = torch.full((len(texts), length), model.pad_id)
        expected = torch.full_like(decoder_ids, _IGNORED)
        for row, (text, target) in enumerate(zip(texts, targets, strict=True)):
            input_ids[row, : len(text)], attention_mask[row, : len(text)] = torch.tensor(text), 1
            expected[row, : len(target)] = torch.tensor(target)
            decoder_ids[row, : len(target)] = torch.tensor([model.start_id, *target[:-1]])
        batch = WritingBatch(
            input_ids, attention_mask, decoder_ids, expected, torch.tensor(weight, dtype=torch.float32)
        )
        return pin_all(batch, device)

    def _loss(self, batch: WritingBatch) -> Tensor:
        """The sum of the cross-entropies of all pieces."""
        device = self.hardware.device
        inputs = (batch.input_ids, batch.attention_mask, batch.decoder_ids, batch.targets)
        ids, mask, before, targets = (tensor.to(device, non_blocking=True) for tensor in inputs)
        with self.hardware.precision():
            logits = self.written.score(ids, mask, before)
        flat = logits.float().flatten(0, 1)
        return nn.functional.cross_entropy(flat, targets.flatten(), ignore_index=_IGNORED, reduction="sum")


def train_expander(
    config: ExpanderTraining,
    output: str | Path,
    *,
    shared: Path | None = None,
    **options: Unpack[TrainingOptions],
) -> Path:
    """Train as the configuration says, and return the folder of the model, ``output/model``.

    ``output/data.json`` counts what was learned from; texts of triples of ids are stored in ``shared``, which
    defaults to ``output``.

    Raises
    ------
    CollectionError
        If the collection lacks what is to be learned from.
    """
    folder = Path(output)
    make_task = partial(make_expander_task, config=config, output=folder, shared=shared or folder)
    return train(config, output, make_task, **options)[0]


def make_expander_task(
    begun: Path | None,
    hardware: TrainingDevice,
    progress: Progress,
    *,
    config: ExpanderTraining,
    output: Path,
    shared: Path,
) -> ExpanderTask:
    """The task of a training, with a fresh model or that of the checkpoint ``begun``."""
    data, start, processes = config.data, config.model, hardware.processes
    collection = open_collection(data.collection, format=data.format, encoding=data.encoding)
    dev_qids = _choose_dev(collection, config.dev, config.seed)
    same = config.dev is not None and config.dev.split == data.split
    kept_back = frozenset(dev_qids) if same else frozenset[str]()
    reading = Reading(data, config.data_seed, collection, kept_back, progress)
    groups = read_groups(reading, shared / TEXTS)
    dev_pairs: TextPairs = []
    if config.dev is not None:
        dev_pairs = processes.alone(partial(_read_dev, collection, config.dev, dev_qids, progress), [])
    if processes.leads:
        write_counts(reading.counts, output)
    written = (
        fresh_seq2seq(start.start, seed=config.seed, dropout=start.dropout)
        if begun is None
        else load_seq2seq(begun, start.dropout)
    )
    return ExpanderTask(config, written, groups, dev_pairs, hardware)


def _choose_dev(collection: Collection, dev: ExpanderDev | None, seed: int) -> list[str]:
    """The dev queries."""
    return [] if dev is None else choose_queries(relevant_pairs(collection, dev.split), dev.queries, seed)


def _read_dev(collection: Collection, dev: ExpanderDev, qids: Sequence[str], progress: Progress) -> TextPairs:
    """The pairs of the dev queries."""
    relevant = relevant_pairs(collection, dev.split)
    chosen = set(qids)
    queries = {query.qid: query.text for query in collection.split_queries(dev.split) if query.qid in chosen}
    check_complete(qids, queries, f"{collection.name}: split {dev.split!r} has no query")
    needed = set(chain.from_iterable(relevant[qid] for qid in qids))
    texts = read_texts(collection, needed, progress)
    check_complete(needed, texts, f"{collection.name} has no document")
    return [(queries[qid], texts[docno]) for qid in qids for docno in relevant[qid]]


KIND = TrainingKind(
    ExpanderTraining, train_expander, results=partial(tabulate_perplexities, of="a piece of the dev queries")
)
