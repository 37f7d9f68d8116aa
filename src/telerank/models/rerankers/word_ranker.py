"""What all re-rankers over word vectors share: they are made of a table of vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from telerank.errors import ModelError
from telerank.models.loading import first_line
from telerank.models.pairs.word_vectors import load_vectors
from telerank.models.pairs.words import SPECIAL, VOCABULARY, Words, load_vocabulary
from telerank.models.rerankers.kind import Dropout, Family, Loaded, ModelParts, Vocabulary

if TYPE_CHECKING:
    from telerank.models.rerankers.reranker import Shape

WEIGHTS = "model.safetensors"
_TABLE = "words.weight"


@dataclass(frozen=True)
class WordFamily(Family):
    """Models that are made from a table of word vectors and the settings of a shape."""

    over_words: ClassVar[bool] = True

    model: Callable[..., nn.Module]

    def create(self, start: str | Path, shape: Shape, _dropout: Dropout, keep: Vocabulary, /) -> Loaded:
        vocabulary, table = load_vectors(start, keep)
        return self._model(table, shape), _words(vocabulary, shape)

    def load(self, folder: Path, shape: Shape, _dropout: Dropout, /) -> Loaded:
        vocabulary = load_vocabulary(folder / VOCABULARY)
        try:
            weights = load_file(folder / WEIGHTS)
            model = self._model(torch.zeros_like(weights[_TABLE]), shape)
            model.load_state_dict(weights)
        except (OSError, RuntimeError, ValueError, KeyError, SafetensorError) as error:
            message = f"{folder / WEIGHTS}: these are no weights of a {shape.kind}, or damaged ones"
            raise ModelError(message) from error
        rows = len(weights[_TABLE]) - SPECIAL
        if rows != len(vocabulary):
            raise ModelError(f"{folder / VOCABULARY}: expected {rows:,} words, got {len(vocabulary):,}")
        return model, _words(vocabulary, shape)

    def parts(self, model: nn.Module) -> ModelParts:
        return ModelParts(layers=model, file=WEIGHTS)

    def _model(self, table: Tensor, shape: Shape) -> nn.Module:
        try:
            return self.model(table, **shape.head)
        except (TypeError, ValueError, RuntimeError) as error:
            message = f"these are no settings of a {shape.kind}: {first_line(error)}"
            raise ModelError(message) from error


def _words(vocabulary: Sequence[str], shape: Shape) -> Words:
    return Words(vocabulary, max_query=shape.max_query, max_length=shape.max_length)
