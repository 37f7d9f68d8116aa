"""Train a bi-encoder, from a configuration to a folder."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np

from telerank.corpus.formats import open_collection
from telerank.errors import ModelError, UnlikelySetting
from telerank.models.encoders.bi_encoder import BiEncoder, BiEncoderSettings, Side, Tokenizers
from telerank.models.encoders.folders import fresh_bi_encoder, is_for_cosines, load_bi_encoder, read_settings
from telerank.training.bi_encoder.batches import Batches
from telerank.training.bi_encoder.config import BiEncoderStart, BiEncoderTraining
from telerank.training.bi_encoder.dev import NO_BATCHES, DevSet, choose_queries, read_dev, read_dev_loss
from telerank.training.bi_encoder.task import BiEncoderTask
from telerank.training.examples.read_groups import TEXTS, read_groups
from telerank.training.examples.reading import Reading, relevant_pairs, write_counts
from telerank.training.task import TrainingDevice
from telerank.training.training import TrainingOptions, train
from telerank.types import Progress


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
    job = BiEncoderJob(config, Path(output), shared or Path(output))
    return train(config, output, job.make_task, **options)


@dataclass(frozen=True)
class BiEncoderJob:
    """A training and its folders."""

    config: BiEncoderTraining
    output: Path
    shared: Path

    def make_task(self, begun: Path | None, hardware: TrainingDevice, progress: Progress) -> BiEncoderTask:
        """The task, with a fresh model or that of the checkpoint ``begun``."""
        config, data, dev = self.config, self.config.data, self.config.dev
        collection = open_collection(data.collection, format=data.format, encoding=data.encoding)
        qids = kept_back = frozenset[str]()
        if dev is not None:
            queries = choose_queries(collection, dev, np.random.default_rng(config.seed))
            qids = frozenset(query.qid for query in queries)
            kept_back = qids if dev.split == data.split else kept_back
        reading = Reading(data, config.data_seed, collection, kept_back, progress)
        batches = read_batches(config, reading, self.shared / TEXTS)
        dev_set = loss_set = None
        processes = hardware.processes
        if dev is not None:
            loss_set = processes.alone(partial(read_dev_loss, config, dev, qids, reading), NO_BATCHES)
        if dev is not None and not dev.by_loss:
            nothing = DevSet((), {}, {}, dev.measure)  # the first process shares out what it has read
            dev_set = processes.alone(partial(read_dev, collection, dev, config.seed), nothing)
        if processes.leads:
            write_counts(reading.counts, self.output)
        if processes.leads and begun is None:
            _warn_of_products(config.model)
        model, tokenizers = (
            start_model(config.model, config.seed) if begun is None else load_bi_encoder(begun)
        )
        return BiEncoderTask(config, batches, model, tokenizers, dev_set, loss_set, hardware)


def read_batches(config: BiEncoderTraining, reading: Reading, folder: Path) -> Batches:
    """The batches to learn from; the qrels of the split, if it has any, say what else is relevant."""
    groups, collection, split = read_groups(reading, folder), reading.collection, reading.data.split
    relevant = relevant_pairs(collection, split) if split in collection.qrels else {}
    return Batches(groups, config.optimisation.batch // config.data.group_size, relevant)


def _warn_of_products(start: BiEncoderStart) -> None:
    """Warn if a start that was trained for cosines gets inner products by default."""
    if start.fresh or "similarity" in start.model_fields_set or not is_for_cosines(start.start):
        return
    warnings.warn(
        f"{start.start} was trained for cosines, and starts worse with inner products: "
        "set model.similarity to cosine, or to inner_product to keep it",
        UnlikelySetting,
        stacklevel=2,
    )


def start_model(start: BiEncoderStart, seed: int) -> tuple[BiEncoder, Tokenizers]:
    """The model before its first update.

    Raises ModelError if there is no such encoder, or it does not take these settings.
    """
    settings = BiEncoderSettings(
        start.pooling, normalise=start.similarity == "cosine", query=_query(start), document=_document(start)
    )
    model, tokenizers = _load_start(start, start.start, settings, seed)
    if start.towers == "shared":
        if not model.shared:
            raise ModelError(f"{start.start} has two towers, which cannot become one: set towers to two")
        return model, tokenizers
    if start.document_start is not None:
        other, others = _load_start(start, start.document_start, settings, seed + 1)
        document = other.document_encoder or other.query_encoder
        tokenizers = Tokenizers(tokenizers.queries, others.documents)
    elif model.document_encoder is not None:
        return model, tokenizers
    else:
        document = copy.deepcopy(model.query_encoder)
    return BiEncoder(model.query_encoder, document, settings=settings), tokenizers


def _query(start: BiEncoderStart) -> Side:
    prompt = start.query_prompt
    if prompt is None:
        prompt = read_settings(start.start).query.prompt
    return Side(start.query_length, start.query_segment, prompt)


def _document(start: BiEncoderStart) -> Side:
    prompt, segment = start.document_prompt, start.document_segment
    if prompt is None:
        prompt = read_settings(start.document_start or start.start).document.prompt
    if segment is None:
        segment = 0 if prompt else 1  # one of them tells the sides apart
    return Side(start.document_length, segment, prompt)


def _load_start(
    start: BiEncoderStart, name: str, settings: BiEncoderSettings, seed: int
) -> tuple[BiEncoder, Tokenizers]:
    if start.fresh:
        return fresh_bi_encoder(name, seed, settings, dropout=start.dropout)
    return load_bi_encoder(name, settings, dropout=start.dropout)
