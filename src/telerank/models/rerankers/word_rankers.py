"""Re-rankers over word vectors, by kind: made of a table of vectors, and their weights on disk."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from telerank.errors import ModelError
from telerank.models.loading import first_line
from telerank.models.pairs.word_vectors import VOCABULARY, load_vectors, load_vocabulary, save_vocabulary
from telerank.models.pairs.words import SPECIAL
from telerank.models.rerankers.dmn import Dmn
from telerank.models.rerankers.knrm import Knrm
from telerank.models.rerankers.qa_lstm import QaLstm

WEIGHTS = "model.safetensors"
WORD_KINDS: Mapping[str, type[nn.Module]] = {"dmn": Dmn, "qa-lstm": QaLstm, "k-nrm": Knrm}
_TABLE = "words.weight"


def fresh_word_ranker(
    kind: str, start: str | Path, settings: Mapping[str, Any], keep: Collection[str] | None
) -> tuple[nn.Module, list[str]]:
    """A model over the word vectors at ``start``, and its vocabulary: all of it, or the words to ``keep``.

    Raises
    ------
    ModelError
        where there are no such vectors, or the model cannot be given these settings.
    """
    vocabulary, table = load_vectors(start, keep)
    return _made(kind, table, settings), vocabulary


def load_word_ranker(kind: str, folder: Path, settings: Mapping[str, Any]) -> tuple[nn.Module, list[str]]:
    """What :func:`save_word_ranker` wrote.

    Raises
    ------
    ModelError
        where a file is missing or damaged.
    """
    vocabulary = load_vocabulary(folder / VOCABULARY)
    try:
        weights = load_file(folder / WEIGHTS)
        model = _made(kind, torch.zeros_like(weights[_TABLE]), settings)
        model.load_state_dict(weights)
    except (OSError, RuntimeError, ValueError, KeyError, SafetensorError) as error:
        raise ModelError(f"{folder / WEIGHTS}: these are no weights of a {kind}, or damaged ones") from error
    rows = len(weights[_TABLE]) - SPECIAL
    if rows != len(vocabulary):
        raise ModelError(f"{folder / VOCABULARY}: expected {rows:,} words, got {len(vocabulary):,}")
    return model, vocabulary


def save_word_ranker(model: nn.Module, vocabulary: Collection[str], folder: Path) -> None:
    """Write ``model.safetensors`` and ``vocab.txt``."""
    save_file({name: one.contiguous() for name, one in model.state_dict().items()}, folder / WEIGHTS)
    save_vocabulary(folder / VOCABULARY, list(vocabulary))


def _made(kind: str, table: Tensor, settings: Mapping[str, Any]) -> nn.Module:
    try:
        return WORD_KINDS[kind](table, **settings)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ModelError(f"these are no settings of a {kind}: {first_line(error)}") from error
