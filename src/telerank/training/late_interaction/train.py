"""Train a late-interaction model, from a configuration to a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from telerank.errors import ModelError
from telerank.models.encoders.late_folders import PUNCTUATION, load_late, save_late, start_late
from telerank.models.encoders.late_interaction import (
    LateInteraction,
    LateSettings,
    LateTokenizer,
    max_sim,
    pad_rows,
)
from telerank.models.loading import locate
from telerank.sentence_folders import late_kind
from telerank.training.encoders.encoder import EncoderSide, TrainableEncoder
from telerank.training.encoders.train import EncoderContext, Learner, train_encoder
from telerank.training.kinds import TrainingKind
from telerank.training.late_interaction.config import LateStart, LateTraining

_PRODUCTS = 1 << 24  # of tokens, that dev computes at a time


class LateLearner(TrainableEncoder):
    """A late-interaction model that learns.

    Its vectors of a text are (L, D + 1): those of its tokens, and whether each of them counts.
    """

    def __init__(self, model: LateInteraction, tokenizer: LateTokenizer) -> None:
        self.module: LateInteraction = model
        self._tokenizer, settings = tokenizer, model.settings
        longest = max(settings.query_length, settings.expand_to)
        self.queries = self._side(tokenizer.queries, longest)
        self.documents = self._side(tokenizer.documents, settings.document_length)

    def score(self, queries: Tensor, documents: Tensor) -> Tensor:
        """The scores (Q, N): MaxSim. Without gradients, of some queries at a time."""
        if torch.is_grad_enabled():
            return max_sim(queries, documents)
        each = queries.shape[1] * documents.shape[0] * documents.shape[1]
        size = max(1, _PRODUCTS // max(1, each))
        parts = [queries[first : first + size] for first in range(0, max(1, len(queries)), size)]
        return torch.cat([max_sim(part, documents) for part in parts])

    def save(self, folder: Path) -> None:
        save_late(self.module, self._tokenizer, folder)

    def _side(self, tokenize: Callable[..., Any], longest: int) -> EncoderSide:
        pad = self._tokenizer.tokenizer.pad_token_id or 0
        return EncoderSide(tokenize, lambda rows, width: pad_rows(rows, pad, width), self._encode, longest)

    def _encode(self, batch: Mapping[str, Tensor]) -> Tensor:
        kept = batch["kept"].unsqueeze(-1)
        vectors: Tensor = self.module(batch["input_ids"], batch["attention_mask"])
        return torch.cat([vectors * kept, kept.to(vectors.dtype)], dim=-1)


def open_late(config: LateTraining, begun: Path | None, context: EncoderContext) -> Learner:  # noqa: ARG001
    """The model before its first update, or in the folder of a checkpoint."""
    opened = load_late(begun) if begun is not None else start_model(config.model, config.seed)
    return Learner(LateLearner(*opened))


def start_model(start: LateStart, seed: int) -> tuple[LateInteraction, LateTokenizer]:
    """The model before its first update.

    Raises
    ------
    ModelError
        If there is no such encoder, or it does not take these settings.
    """
    if late_kind(locate(start.start)) is None:
        settings = change_settings(LateSettings(skipped=PUNCTUATION), start)
        dimension = start.dimension or 128
        return start_late(start.start, seed, settings, dimension, dropout=start.dropout, marks=True)
    model, tokenizer = load_late(start.start, dropout=start.dropout)
    if start.dimension not in (None, model.dimension):
        raise ModelError(
            f"{start.start}: its vectors have {model.dimension} dimensions, not {start.dimension}"
        )
    settings = change_settings(model.settings, start)
    changed = LateInteraction(model.encoder, list(model.projections), settings).eval()  # type: ignore[arg-type]
    return changed, LateTokenizer(tokenizer.tokenizer, settings)


def change_settings(own: LateSettings, start: LateStart) -> LateSettings:
    """The settings of a model, with what a training sets."""
    query_length = start.query_length or own.query_length
    expands = own.expand_to > 0 if start.expand is None else start.expand
    skipped = own.skipped
    if start.skip_punctuation is not None:
        skipped = PUNCTUATION if start.skip_punctuation else ()
    return replace(
        own,
        query_length=query_length,
        document_length=start.document_length or own.document_length,
        expand_to=query_length if expands else 0,
        attend=own.attend if start.attend is None else start.attend,
        skipped=skipped,
    )


train_late = partial(train_encoder, open_late)
KIND = TrainingKind(LateTraining, train_late)
