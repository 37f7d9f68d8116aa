"""Train a bi-encoder, from a configuration to a folder."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Unpack

import numpy as np

from telerank.corpus.formats import open_collection
from telerank.errors import ModelError
from telerank.models.encoders.bi_encoder import BiEncoder, BiEncoderSettings, Side
from telerank.models.encoders.folders import fresh_bi_encoder, load_bi_encoder
from telerank.models.encoders.tokens import Tokenizers
from telerank.training.bi_encoder.batches import Batches
from telerank.training.bi_encoder.config import BiEncoderStart, BiEncoderTraining
from telerank.training.bi_encoder.dev import DevSet, choose_queries, read_dev
from telerank.training.bi_encoder.examples import Examples, read_examples
from telerank.training.bi_encoder.task import BiEncoderTask
from telerank.training.task import TrainingDevice
from telerank.training.training import TrainingOptions, train
from telerank.trec import read_run
from telerank.types import Progress


def train_bi_encoder(
    config: BiEncoderTraining, output: str | Path, **options: Unpack[TrainingOptions]
) -> Path:
    """Train as the configuration says, and return the folder of the model, ``output/model``.

    Raises
    ------
    CollectionError
        If the collection lacks what is to be learned from.
    """

    def make_task(begun: Path | None, hardware: TrainingDevice, progress: Progress) -> BiEncoderTask:
        examples, dev = _read(config, hardware, progress)
        per_query = config.data.negatives.per_query if config.data.negatives else 1
        batches = Batches(examples, config.optimisation.batch, config.seed, per_query)
        model, tokenizers = (
            start_model(config.model, config.seed) if begun is None else load_bi_encoder(begun)
        )
        return BiEncoderTask(config, batches, model, tokenizers, dev, hardware)

    return train(config, output, make_task, **options)


def start_model(start: BiEncoderStart, seed: int) -> tuple[BiEncoder, Tokenizers]:
    """The model before its first update.

    Raises ModelError if there is no such encoder, or it does not take these settings.
    """
    settings = BiEncoderSettings(
        start.pooling,
        normalise=start.similarity == "cosine",
        query=Side(start.query_length, start.query_segment),
        document=Side(start.document_length, start.document_segment),
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


def _load_start(
    start: BiEncoderStart, name: str, settings: BiEncoderSettings, seed: int
) -> tuple[BiEncoder, Tokenizers]:
    if start.fresh:
        return fresh_bi_encoder(name, seed, settings, dropout=start.dropout)
    return load_bi_encoder(name, settings, dropout=start.dropout)


def _read(
    config: BiEncoderTraining, hardware: TrainingDevice, progress: Progress
) -> tuple[Examples, DevSet | None]:
    data = config.data
    collection = open_collection(data.collection, format=data.format, encoding=data.encoding)
    dev, kept_back = None, frozenset[str]()
    if config.dev is not None and config.dev.split == data.split:
        queries = choose_queries(collection, config.dev, np.random.default_rng(config.seed))
        kept_back = frozenset(query.qid for query in queries)
    if config.dev is not None and hardware.processes.leads:
        dev = read_dev(collection, config.dev, config.seed)
    hard = data.negatives
    run = () if hard is None else read_run(hard.run)
    depth = 1 if hard is None else hard.depth
    examples = read_examples(collection, data.split, run, depth=depth, kept_back=kept_back, progress=progress)
    return examples, dev
