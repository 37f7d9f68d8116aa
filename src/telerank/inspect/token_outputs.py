"""What a re-ranker's transformer gives for each token of a pair, whatever stands on top of it.

======  ==============================================================================================
``B``   pairs of a batch
``L``   tokens of the longest of them
``H``   width of the outputs
======  ==============================================================================================
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from telerank.batches import batch_by_length
from telerank.models.loading import locate
from telerank.models.pairs.pair import Pair, PairBatch, batch_of
from telerank.models.rerankers.reranker import (
    SETTINGS,
    Reranker,
    Shape,
    fresh_reranker,
    load_reranker,
    readable_length,
)
from telerank.types import Progress, silent

BATCH = 8192
"""Tokens of a batch by default, padding counted."""


def open_checkpoint(name: str | Path, *, like: Shape | None = None) -> Reranker:
    """The re-ranker of that name; or an encoder that has no head yet, as it is before any training.

    The latter gets a head that was never trained, which outputs of tokens do not depend on, and the lengths
    of ``like``, so that it reads the same tokens as the re-rankers it is compared with.

    Raises
    ------
    ModelError
        where there is no such model.
    """
    folder = Path(name) if (Path(name) / SETTINGS).exists() else locate(name)
    if is_reranker(folder):
        return load_reranker(name)
    pair = like.max_length if like else readable_length(folder)
    query = like.max_query if like else min(64, pair // 2)
    return fresh_reranker(name, Shape("bert", frozen=True, max_query=query, max_length=pair))


def is_reranker(folder: Path) -> bool:
    """Whether the model of a folder scores pairs, rather than being an encoder alone."""
    if (folder / SETTINGS).exists():
        return True
    made = str((_config(folder).get("architectures") or [""])[0])
    return made.endswith("ForSequenceClassification")


def shape_among(names: Sequence[str | Path]) -> Shape | None:
    """The shape of the first of these that is a re-ranker, not an encoder alone."""
    for name in names:
        folder = locate(name)
        if is_reranker(folder):
            return load_reranker(name).shape
    return None


@torch.no_grad()
def token_outputs(reranker: Reranker, batch: PairBatch) -> Tensor:
    """The last hidden states for a batch, in float32 on the processor: (B, L, H).

    Raises
    ------
    ModelError
        If the re-ranker has none: over word vectors, a token's vector does not depend on the others.
    """
    model = reranker.transformer
    return model.token_outputs(on_device_of(model, batch)).float().cpu()


def on_device_of(model: nn.Module, batch: PairBatch) -> PairBatch:
    return batch.to(next(model.parameters()).device)


def batches(
    pairs: Sequence[Pair], pad_id: int, tokens: int, *, what: str, progress: Progress = silent
) -> Iterator[tuple[list[int], PairBatch]]:
    """Batches of at most so many tokens, padding counted, with the places of their pairs; the longest first.

    A pair that is longer stands alone.
    """
    done = 0
    for places in batch_by_length([len(one) for one in pairs], tokens):
        yield places, batch_of([pairs[place] for place in places], pad_id)
        done += len(places)
        progress(what, done, len(pairs))


def _config(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return found
