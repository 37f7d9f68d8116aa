"""A masked language model: an encoder with the head that names the pieces behind masks, and its folder.

The folder is an ordinary one of transformers (``AutoModelForMaskedLM``): every training that starts from an
encoder starts from it, too. An encoder without a head gets one whose last layer is its table of word
embeddings ("tied"), and one whose vocabulary has no piece for masks gets that.

=====  ==============================================
``B``  windows
``L``  pieces of a window, special ones among them
``M``  chosen places of all windows
``V``  pieces of the vocabulary, or those to choose from
``H``  width
=====  ==============================================
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModelForMaskedLM

from telerank.errors import ModelError
from telerank.models.loading import (
    architecture_of,
    locate,
    naming,
    quiet,
    read_config,
    read_tokenizer,
    read_weights,
    reading,
    save_weights,
)
from telerank.models.random_numbers import seeded
from telerank.models.rerankers.monobert import LastLayer
from telerank.models.rerankers.transformer_ranker import positions

_HEAD = "ForMaskedLM"
_WITH_HEAD = (_HEAD, "ForPreTraining")
"""Ends of the names of architectures whose folders have a head."""


@dataclass(frozen=True, eq=False)
class MaskedLanguageModel:
    """``model`` is one of transformers with a head for masks; ``last`` is that head's last layer."""

    model: Any
    last: LastLayer
    tokenizer: Any

    @property
    def mask_id(self) -> int:
        """The piece that stands for what is masked."""
        return int(self.tokenizer.mask_token_id)

    def score(
        self, input_ids: Tensor, attention_mask: Tensor, chosen: Tensor, pieces: Tensor | None = None
    ) -> Tensor:
        """The logits of the pieces at the ``chosen`` places, (M, V), of windows, each (B, L).

        With ``pieces``, (V,), only theirs are computed.
        """
        outputs = self.model(input_ids=input_ids, attention_mask=attention_mask).logits  # (B, L, H)
        layer = self.last
        if pieces is None:
            return layer.answer(outputs[chosen])
        bias = None if layer.bias is None else layer.bias[pieces]
        return functional.linear(outputs[chosen], layer.weight[pieces], bias)


def fresh_masked_model(
    start: str | Path, max_length: int, *, seed: int = 0, dropout: float | None = None, fresh: bool = False
) -> MaskedLanguageModel:
    """The encoder of that name (``minilm``, ``e5-small``, a folder, a name on the hub), with its head.

    A head that it lacks is drawn by ``seed``, on its word embeddings; of a ``fresh`` one all weights are.

    Raises
    ------
    ModelError
        If there is no such encoder, no head for masks can be put on it, or it has fewer positions than
        ``max_length``.
    """
    folder = locate(start)
    config = read_config(folder, dropout)
    has_head = architecture_of(config).endswith(_WITH_HEAD)
    config.tie_word_embeddings = config.tie_word_embeddings or not has_head
    with seeded(seed):
        model = read_weights(AutoModelForMaskedLM, folder, config)
        bias = getattr(model.get_output_embeddings(), "bias", None)
        if not has_head and bias is not None:
            bias.data.zero_()  # transformers leaves that of a Longformer as the memory was
        if fresh:
            model.load_state_dict(type(model)(model.config).state_dict())
        with naming(folder):
            return _with_mask(model, read_tokenizer(folder), max_length)


def load_masked_model(folder: Path, max_length: int, *, dropout: float | None = None) -> MaskedLanguageModel:
    """The model in a folder that :func:`save_masked_model` wrote. Raises ModelError if it is damaged."""
    model = read_weights(AutoModelForMaskedLM, folder, read_config(folder, dropout), whole=True)
    with naming(folder):
        return _with_mask(model, read_tokenizer(folder), max_length)


def save_masked_model(masked: MaskedLanguageModel, folder: Path) -> None:
    """Write the model and its tokenizer into ``folder``, as every other encoder's."""
    save_weights(masked.model, folder)
    with quiet():
        masked.tokenizer.save_pretrained(folder)


def _with_mask(model: Any, tokenizer: Any, max_length: int) -> MaskedLanguageModel:
    """The model with a piece for masks, whose head gives what its last layer reads."""
    longest = positions(model)
    if longest is not None and max_length > longest:
        raise ModelError(f"windows of {max_length} pieces, but the model has {longest} positions")
    if tokenizer.mask_token_id is None:
        _add_mask(model, tokenizer)
    layer = model.get_output_embeddings()
    name = next((name for name, module in model.named_modules() if module is layer), "")
    if not isinstance(layer, nn.Linear) or not name:
        raise ModelError(f"{type(model).__name__} has no linear layer that names pieces")
    last = LastLayer.of(layer)
    model.set_submodule(name, last)
    return MaskedLanguageModel(model.eval(), last, tokenizer)


def _add_mask(model: Any, tokenizer: Any) -> None:
    """Give the tokenizer a piece for masks and, if the table has no row for it, a row: the others' mean."""
    bracketed = str(tokenizer.cls_token or "").startswith("[")
    tokenizer.add_special_tokens({"mask_token": "[MASK]" if bracketed else "<mask>"})
    table = model.get_input_embeddings()
    if tokenizer.mask_token_id < table.num_embeddings:
        return
    mean = table.weight.detach().mean(0)
    with reading(f"{type(model).__name__} takes no further piece"):
        model.resize_token_embeddings(tokenizer.mask_token_id + 1, mean_resizing=False)
    with torch.no_grad():
        model.get_input_embeddings().weight[tokenizer.mask_token_id] = mean
