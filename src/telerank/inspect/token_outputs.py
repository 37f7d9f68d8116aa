"""The outputs of a re-ranker's transformer for each token of a pair, below its head.

======  ==============================================================================================
``B``   pairs of a batch
``L``   tokens of the longest of them
``H``   width of the outputs
======  ==============================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from telerank.errors import ModelError
from telerank.models.pairs.pair import Pair, PairBatch
from telerank.models.rerankers.kinds import Shape
from telerank.models.rerankers.reranker import (
    Reranker,
    fresh_reranker,
    load_reranker,
    locate_reranker,
    read_shape,
    readable_lengths,
)
from telerank.reranking.texts import batch_pairs
from telerank.training.training import choose_device
from telerank.types import Progress, silent

BATCH = 8192
"""Default number of tokens in a batch, padding included."""


def open_checkpoints(models: Sequence[str], device: str = "cpu") -> Iterator[tuple[str, Reranker]]:
    """Open models one after the other, on a device, each with a short name.

    The name is the last part of the model's path, unless two models share it. An encoder that is no re-ranker
    has the lengths of the first re-ranker among them. Raises ModelError if a model is given twice or does not
    exist, or there is no such device.
    """
    if len(set(models)) < len(models):
        raise ModelError("a model is given twice")
    shapes = (read_shape(locate_reranker(model)) for model in models)
    like = next((shape for shape in shapes if shape is not None), None)
    short = [Path(model).name or model for model in models]
    for name, model in zip(short, models, strict=True):
        yield name if short.count(name) == 1 else model, move(open_checkpoint(model, like=like), device)


def open_checkpoint(name: str | Path, *, like: Shape | None = None) -> Reranker:
    """The re-ranker of that name, or an encoder without a head, as it is before any training.

    An encoder gets an untrained head, which does not change the outputs of tokens, and the lengths of
    ``like``, so that it reads the same tokens as the re-rankers it is compared with.

    Raises
    ------
    ModelError
        If there is no such model.
    """
    folder = locate_reranker(name)
    if read_shape(folder) is not None:
        return load_reranker(folder)
    query, length = (like.max_query, like.max_length) if like else readable_lengths(folder)
    return fresh_reranker(folder, Shape("bert", frozen=True, max_query=query, max_length=length))


def move(reranker: Reranker, device: str) -> Reranker:
    """Move the re-ranker's model to a device, and return the re-ranker.

    Raises
    ------
    ModelError
        If there is no such device.
    """
    reranker.model.to(choose_device(device))
    return reranker


@torch.no_grad()
def compute_token_outputs(reranker: Reranker, batch: PairBatch) -> Tensor:
    """The last hidden states for a batch, in float32 on the processor: (B, L, H).

    Raises ModelError if the re-ranker has none: over word vectors, a token's vector does not depend on the
    others.
    """
    model = reranker.transformer
    return model.token_outputs(batch.to(reranker.device)).float().cpu()


def iterate_batches(
    pairs: Sequence[Pair], pad_id: int, tokens: int, progress: Progress = silent, label: str = "reading pairs"
) -> Iterator[tuple[list[int], PairBatch]]:
    """:func:`~telerank.reranking.texts.batch_pairs` with progress."""
    done = 0
    for rows, batch in batch_pairs(pairs, pad_id, tokens):
        yield rows, batch
        done += len(rows)
        progress(label, done, len(pairs))
