"""The training of a bi-encoder, from a configuration to a folder."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import torch
from filelock import FileLock, Timeout

from telerank.corpus.formats import open_collection
from telerank.errors import ModelError
from telerank.models.bi_encoder import BiEncoder, Settings, Side
from telerank.models.loading import fresh_bi_encoder, load_bi_encoder
from telerank.models.tokens import Tokenizers
from telerank.train import checkpoint, log
from telerank.train.batches import Batches
from telerank.train.config import BiEncoderTraining, Start
from telerank.train.dev import DevSet, read_dev
from telerank.train.examples import Examples, read_examples
from telerank.train.log import Report, unheard
from telerank.train.loop import Loop
from telerank.train.objectives import objective
from telerank.trec import read_run
from telerank.types import Progress, silent


def train_bi_encoder(
    config: BiEncoderTraining,
    output: str | Path,
    *,
    resume: bool = False,
    report: Report = unheard,
    progress: Progress = silent,
) -> Path:
    """Train as the configuration says; the folder of the model, ``output/model``.

    A training that was killed goes on from its last checkpoint with ``resume``, to the same losses as if it
    had not been killed.

    Raises
    ------
    ModelError
        where ``output`` holds a training and ``resume`` is not set, or one with other settings; where another
        training is at work there; where the loss is no number any more.
    CollectionError
        where the collection lacks what is to be learned from.
    """
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".lock", timeout=0):
            checkpoint.sweep(folder)
            _check(folder, config, resume=resume)
            return _loop(config, folder, *_read(config, progress)).run(report, progress)
    except Timeout as error:
        raise ModelError(f"{folder}: another training is at work there") from error


def start_model(start: Start, seed: int) -> tuple[BiEncoder, Tokenizers]:
    """The model before its first update.

    Raises
    ------
    ModelError
        where there is no such encoder, or it cannot be given these settings.
    """
    settings = Settings(
        start.pooling,
        normalise=start.similarity == "cosine",
        query=Side(start.query_length, start.query_segment),
        document=Side(start.document_length, start.document_segment),
    )
    if start.fresh:
        model, tokenizers = fresh_bi_encoder(start.start, seed, settings, dropout=start.dropout)
    else:
        model, tokenizers = load_bi_encoder(start.start, settings, dropout=start.dropout)
    if start.towers == "two" and model.shared:
        return BiEncoder(
            model.query_encoder, copy.deepcopy(model.query_encoder), settings=settings
        ), tokenizers
    if start.towers == "shared" and not model.shared:
        raise ModelError(f"{start.start} has two towers, which cannot become one: set towers to two")
    return model, tokenizers


def _check(folder: Path, config: BiEncoderTraining, *, resume: bool) -> None:
    if (folder / checkpoint.CONFIG).exists():
        if not resume:
            raise ModelError(f"{folder} holds a training: resume it, or name another folder")
        checkpoint.check_same(config, folder)


def _read(config: BiEncoderTraining, progress: Progress) -> tuple[Examples, DevSet | None]:
    data = config.data
    collection = open_collection(data.collection, format=data.format, encoding=data.encoding)
    dev = None if config.dev is None else read_dev(collection, config.dev, config.seed)
    hard = data.negatives
    run = () if hard is None else read_run(hard.run)
    depth = 1 if hard is None else hard.depth
    return read_examples(collection, data.split, run, depth=depth, progress=progress), dev


def _loop(config: BiEncoderTraining, folder: Path, examples: Examples, dev: DevSet | None) -> Loop:
    per_query = config.data.negatives.per_query if config.data.negatives else 1
    batches = Batches(examples, config.optimisation.batch, config.seed, per_query)
    checkpoint.write_record(config, folder)
    begun = checkpoint.last_checkpoint(folder)
    torch.manual_seed(config.seed)
    model, tokenizers = start_model(config.model, config.seed) if begun is None else load_bi_encoder(begun)
    trained = objective(config.loss, model.width)
    steps = _steps(config, len(examples.pairs))
    loop = Loop(config, folder, steps, batches, model, tokenizers, trained, dev)
    if begun is not None:
        loop.restore(checkpoint.read_state(begun))
    log.cut(folder / checkpoint.LOG, loop.reached.step)
    (folder / checkpoint.CHECKPOINTS).mkdir(exist_ok=True)
    return loop


def _steps(config: BiEncoderTraining, pairs: int) -> int:
    wanted = config.optimisation
    if wanted.epochs is None:
        return wanted.steps
    steps = math.ceil(wanted.epochs * pairs / (wanted.batch * wanted.accumulation))
    if wanted.warm_up >= steps:
        raise ModelError(f"warm_up ({wanted.warm_up}) must be less than the {steps} updates of these epochs")
    return steps
