"""Models of term weights on disk, and the checkpoints of others that are opened as they are.

::

    config.json  model.safetensors  tokenizer.json …   the encoder, which opens as any other
    term_weights.safetensors                           the head
    term_weights.json                                  our settings

====================================  =======================================================================
``castorini/unicoil-msmarco-passage``  Pyserini's ``UniCoilEncoder``: an encoder and ``tok_proj``
``soyuj/deeper-impact``                DeepImpact: an encoder and ``impact_score_encoder``
``macavaney/deepct``                   DeepCT in transformers' own form: a token classifier of one label
====================================  =======================================================================
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from telerank.errors import ModelError
from telerank.models.encoders.bi_encoder import width
from telerank.models.encoders.folders import longest_text
from telerank.models.encoders.term_weights import TermWeightSettings, TokenWeigher, WeightKind, make_head
from telerank.models.loading import (
    architecture_of,
    bounded_by_files,
    draw_encoder,
    locate,
    naming,
    read_config,
    read_encoder,
    read_tokenizer,
    reading,
    save_weights,
)
from telerank.models.random_numbers import seeded
from telerank.models.rerankers.transformer_ranker import positions
from telerank.records import read_record
from telerank.sentence_folders import MODULES

SETTINGS, HEAD = "term_weights.json", "term_weights.safetensors"
_WORDS = "embeddings.word_embeddings.weight"
_HEADS: Mapping[str, WeightKind] = {
    "tok_proj.": "unicoil",
    "impact_score_encoder.": "deepimpact",
    "classifier.": "deepct",
}
"""What the names of the weights of a head begin with, by the kind of the model."""
_QUERY_LENGTH = 128  # Pyserini's


def read_term_weight_settings(folder: Path) -> TermWeightSettings | None:
    """The settings of the model in a folder; None if it is of another kind.

    Raises
    ------
    ModelError
        If they cannot be read.
    """
    if (folder / SETTINGS).exists():
        return read_record(folder / SETTINGS, TermWeightSettings, ModelError)
    if (folder / MODULES).exists() or not (folder / "config.json").exists():
        return None
    kind = _find_kind(folder)
    return None if kind is None else _foreign_settings(folder, kind)


def _find_kind(folder: Path) -> WeightKind | None:
    """The kind of a model of others; None if it has no weights of terms."""
    config = read_config(folder, None)
    architecture = architecture_of(config)
    if architecture.endswith("ForTokenClassification"):
        return "deepct" if config.num_labels == 1 else None
    others = ("ForMaskedLM", "ForPreTraining", "ForSequenceClassification")
    return None if architecture.endswith(others) else _find_head(folder)


def _foreign_settings(folder: Path, kind: WeightKind) -> TermWeightSettings:
    """The settings of a checkpoint of others, as their programs encode with it."""
    length = longest_text(folder)
    if kind == "deepct":
        return TermWeightSettings(kind, scale=100, document_length=length)
    if kind == "deepimpact":
        layers = len(_linear_parts(_read_tensors(folder), kind))
        head: Literal["linear", "mlp"] = "linear" if layers == 1 else "mlp"
        return TermWeightSettings(kind, head, queries="ones", document_length=length)
    shorter = min(_QUERY_LENGTH, length)
    return TermWeightSettings(
        kind, queries="model", query_length=shorter, document_length=length, separator=True
    )


def load_term_weights(
    name: str | Path, settings: TermWeightSettings | None = None, *, dropout: float | None = None
) -> tuple[TokenWeigher, Any, TermWeightSettings]:
    """The model of that name, its tokenizer, and its settings, unless others are given.

    Raises
    ------
    ModelError
        If there is no such model, or its files are damaged.
    """
    folder = locate(name)
    with naming(folder):
        own = settings or read_term_weight_settings(folder)
        if own is None:
            raise ModelError(f"expected a model of weights of terms, but there is no {SETTINGS}")
        if (folder / SETTINGS).exists():
            encoder, tensors = read_encoder(folder, dropout), _read_head(folder)
        else:
            tensors = _read_tensors(folder)
            encoder = _read_inner(folder, tensors, dropout)
            parts = _linear_parts(tensors, own.kind)
            names = [""] if len(parts) == 1 else [f"{2 * number}." for number in range(len(parts))]
            named = zip(names, parts, strict=True)
            tensors = {f"{name}{end}": value for name, part in named for end, value in part.items()}
        head = make_head(own.head, width(encoder))
        with reading(f"{folder}: the head cannot be read"):
            head.load_state_dict({key: value.float() for key, value in tensors.items()})
        if not all(bool(torch.isfinite(weight).all()) for weight in head.parameters()):
            raise ModelError("the head has weights that are not finite")
        return _checked(encoder, head, own, read_tokenizer(folder), dropout)


def start_term_weights(
    start: str | Path, settings: TermWeightSettings, seed: int, *, dropout: float | None = None
) -> tuple[TokenWeigher, Any, TermWeightSettings]:
    """An encoder with a head that is drawn by ``seed``; a model of term weights goes on with its own head.

    Raises
    ------
    ModelError
        If there is no such encoder, or it has fewer positions than the lengths.
    """
    folder = locate(start)
    with naming(folder):
        before = read_term_weight_settings(folder)
        if before is not None and (before.kind, before.head) == (settings.kind, settings.head):
            return load_term_weights(folder, settings, dropout=dropout)
        encoder = read_encoder(folder, dropout)
        with seeded(seed):
            head = make_head(settings.head, width(encoder))
        if (
            settings.kind != "deepct"
        ):  # in the beginning terms count about 1: below 0 nothing would be learned
            nn.init.ones_(dict(head.named_parameters())["bias" if settings.head == "linear" else "2.bias"])
        return _checked(encoder, head, settings, read_tokenizer(folder), dropout)


def save_term_weights(
    weigher: TokenWeigher, tokenizer: Any, settings: TermWeightSettings, folder: Path
) -> None:
    """Write the model into a folder, which is made if there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    save_weights(weigher.encoder, folder)
    tokenizer.save_pretrained(folder)
    save_file({key: value.contiguous() for key, value in weigher.head.state_dict().items()}, folder / HEAD)
    (folder / SETTINGS).write_text(f"{json.dumps(settings.record(), indent=2)}\n", encoding="utf-8")


def _checked(
    encoder: Any, head: nn.Module, settings: TermWeightSettings, tokenizer: Any, dropout: float | None
) -> tuple[TokenWeigher, Any, TermWeightSettings]:
    lengths = [settings.document_length, settings.query_length if settings.queries == "model" else 1]
    longest, longer = positions(encoder), max(lengths)
    if longest is not None and longer > longest:
        raise ModelError(f"texts of {longer} tokens, but the model has {longest} positions")
    weigher = TokenWeigher(encoder, head, settings.kind, dropout or 0.0)
    return weigher.eval(), tokenizer, settings


def _read_head(folder: Path) -> Mapping[str, Tensor]:
    with reading(f"{folder / HEAD} cannot be read"):
        return load_file(folder / HEAD)


def _read_tensors(folder: Path) -> Mapping[str, Tensor]:
    """The weights of a folder by name, from the one file that has them."""
    with reading(f"{folder}: the weights cannot be read"):
        if (folder / "model.safetensors").exists():
            return load_file(folder / "model.safetensors")
        pickled = folder / "pytorch_model.bin"
        loaded: Mapping[str, Tensor] = torch.load(pickled, map_location="cpu", weights_only=True, mmap=True)
    return loaded


def _find_head(folder: Path) -> WeightKind | None:
    """The kind of the model whose head is among the weights of a folder."""
    names: Iterable[str] = ()
    with reading(f"{folder}: the weights cannot be read"):
        if (folder / "model.safetensors").exists():
            with safe_open(folder / "model.safetensors", "pt") as tensors:
                names = list(tensors.keys())
        elif (folder / "pytorch_model.bin").exists():
            names = _read_tensors(folder)
    kinds = (kind for begin, kind in _HEADS.items() for name in names if f".{begin}" in f".{name}")
    return next(kinds, None)


def _linear_parts(tensors: Mapping[str, Tensor], kind: WeightKind) -> list[dict[str, Tensor]]:
    """The weight and the bias of each layer of a head, in their order."""
    begin = next(begin for begin, each in _HEADS.items() if each == kind)
    layers: dict[str, dict[str, Tensor]] = {}
    for name in sorted(tensors):
        _, head, rest = f".{name}".partition(f".{begin}")
        if head:
            layer, _, end = rest.rpartition(".")
            layers.setdefault(layer, {})[end] = tensors[name]
    return list(layers.values())


def _read_inner(folder: Path, tensors: Mapping[str, Tensor], dropout: float | None) -> Any:
    """The encoder among the weights of a model that transformers has no class for."""
    begins = [name.removesuffix(_WORDS) for name in tensors if name.endswith(_WORDS)]
    if len(begins) != 1:
        raise ModelError(f"{folder}: expected the weights of one encoder, got {len(begins)}")
    begin = begins[0]
    own = {name.removeprefix(begin): value for name, value in tensors.items() if name.startswith(begin)}
    with reading(f"{folder}: the model cannot be read"), bounded_by_files(folder):
        encoder = draw_encoder(folder, dropout).float()
        missing = encoder.load_state_dict(own, strict=False).missing_keys
    lacking = sorted(name for name in missing if not name.startswith("pooler."))
    if lacking:
        raise ModelError(f"{folder}: {len(lacking)} weights are missing, {lacking[0]} the first")
    if missing:
        encoder.pooler = None
    return encoder
