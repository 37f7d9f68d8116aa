"""Train an encoder of queries and documents on batches of pairs, from a configuration to a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, Unpack

import numpy as np
from torch import nn

from telerank.corpus.collection import Collection
from telerank.corpus.formats import open_collection
from telerank.training.encoders.batches import read_batches
from telerank.training.encoders.config import EncoderTraining
from telerank.training.encoders.dev import DevLoss, DevSet, choose_queries, read_dev, read_dev_loss
from telerank.training.encoders.encoder import TrainableEncoder
from telerank.training.encoders.objectives import build_losses
from telerank.training.encoders.task import EncoderTask
from telerank.training.encoders.teacher import TEACHER, write_teacher_run
from telerank.training.examples.reading import TEXTS, Reading, write_counts
from telerank.training.optimisation import count_updates
from telerank.training.task import TrainingDevice
from telerank.training.training import TrainingOptions, train
from telerank.types import Progress


class Learner(NamedTuple):
    """An encoder and what it learns by: by default the losses that the settings name.

    ``vectors`` makes the vectors that the objective sees, if they are not those that are searched.
    """

    encoder: TrainableEncoder
    objective: nn.Module | None = None
    vectors: TrainableEncoder | None = None


@dataclass(frozen=True)
class EncoderContext:
    """What an encoder may need when it is opened: the collection, the length of the training, the device."""

    collection: Collection
    updates: int
    hardware: TrainingDevice
    progress: Progress


OpenEncoder: TypeAlias = Callable[[Any, Path | None, EncoderContext], Learner]
"""Opens the encoder of settings, fresh or from the folder of a checkpoint."""


@dataclass(frozen=True)
class EncoderJob:
    """A training: its settings, what opens its encoder, and its folders.

    ``output/data.json`` counts what was learned from. The texts for triples of ids are stored in
    ``shared/texts``.
    """

    config: EncoderTraining
    open_encoder: OpenEncoder
    output: Path
    shared: Path

    def make_task(self, begun: Path | None, hardware: TrainingDevice, progress: Progress) -> EncoderTask:
        """The task, with a fresh model or that of the checkpoint ``begun``.

        Raises
        ------
        CollectionError
            If the collection lacks what is to be learned from.
        """
        config, data, dev, processes = self.config, self.config.data, self.config.dev, hardware.processes
        collection = open_collection(data.collection, format=data.format, encoding=data.encoding)
        qids = kept_back = frozenset[str]()
        if dev is not None:
            queries = choose_queries(collection, dev, np.random.default_rng(config.seed))
            qids = frozenset(query.qid for query in queries)
            kept_back = qids if dev.split == data.split else kept_back
        reading = Reading(data, config.data_seed, collection, kept_back, progress)
        reading = replace(reading, teacher_run=self._find_teacher(reading, hardware))
        batches = read_batches(config, reading, self.shared / TEXTS)
        dev_set = loss_set = None
        if dev is not None:
            loss_set = processes.alone(partial(read_dev_loss, config, dev, qids, reading), DevLoss())
        if dev is not None and not dev.by_loss:
            nothing = DevSet((), {}, {}, dev.measures)  # the first process shares out what it has read
            dev_set = processes.alone(partial(read_dev, collection, dev, config.seed), nothing)
        if processes.leads:
            write_counts(reading.counts, self.output)
        updates = count_updates(config, lambda: len(batches.groups) * data.group_size)
        context = EncoderContext(collection, updates, hardware, progress)
        encoder, objective, vectors = self.open_encoder(config, begun, context)
        objective = objective or build_losses(config.loss, encoder.score)
        return EncoderTask(config, batches, encoder, objective, dev_set, loss_set, hardware, vectors)

    def _find_teacher(self, reading: Reading, hardware: TrainingDevice) -> str | None:
        """The run with a teacher's scores, which a re-ranker makes first if the settings name one."""
        model, file = self.config.loss.teacher_model, self.output / TEACHER
        if model is None:
            return self.config.loss.teacher

        def write() -> None:
            if not file.exists():
                write_teacher_run(model, reading, file, hardware.device)

        hardware.processes.first(write)
        return str(file)


def train_encoder(
    open_encoder: OpenEncoder,
    config: EncoderTraining,
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
    ModelError
        If there is no such model, or it does not take these settings.
    """
    job = EncoderJob(config, open_encoder, Path(output), shared or Path(output))
    return train(config, output, job.make_task, **options)[0]
