"""What all re-rankers over word vectors share: they are made of a table of vectors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from telerank.errors import ModelError
from telerank.models.loading import first_line
from telerank.models.pairs.word_vectors import load_vectors
from telerank.models.pairs.words import SPECIAL, VOCABULARY, Words, load_vocabulary
from telerank.models.rerankers.kind import Family, Loaded, ModelParts

if TYPE_CHECKING:
    from telerank.models.rerankers.reranker import Shape

WEIGHTS = "model.safetensors"
_TABLE = "words.weight"


@dataclass(frozen=True)
class WordFamily(Family):
    """Models that are made from a table of word vectors and the settings of a shape."""

    over_words: ClassVar[bool] = True

    model: Callable[..., nn.Module]

    def create(
        self,
        start: str | Path,
        shape: Shape,
        *,
        dropout: float | None,  # noqa: ARG002 — of an encoder
        keep: Collection[str] | None,
    ) -> Loaded:
        """A model over the word vectors at ``start``: all of them, or those of the words to ``keep``."""
        vocabulary, table = load_vectors(start, keep)
        return self._model(table, shape), _words(vocabulary, shape)

    def load(self, folder: Path, shape: Shape, *, dropout: float | None) -> Loaded:  # noqa: ARG002
        """A model and its vocabulary.

        Raises
        ------
        ModelError
            If a file is missing or damaged.
        """
        vocabulary = load_vocabulary(folder / VOCABULARY)
        try:
            weights: Mapping[str, Tensor] = load_file(folder / WEIGHTS)
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
        """All of it."""
        return ModelParts(layers=model, file=WEIGHTS)

    def _model(self, table: Tensor, shape: Shape) -> nn.Module:
        try:
            return self.model(table, **shape.head)
        except (TypeError, ValueError, RuntimeError) as error:
            message = f"these are no settings of a {shape.kind}: {first_line(error)}"
            raise ModelError(message) from error


def _words(vocabulary: Any, shape: Shape) -> Words:
    return Words(vocabulary, max_query=shape.max_query, max_length=shape.max_length)
