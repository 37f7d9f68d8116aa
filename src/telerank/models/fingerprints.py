"""The identity of a model: a hash of everything that its vectors or scores depend on."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch
from torch import nn

from telerank.models.encoders.bi_encoder import BiEncoder, token_types
from telerank.models.encoders.tokens import Tokenizers, rules_of
from telerank.models.readers.reader import Reader
from telerank.models.rerankers.reranker import Reranker

_UNHASHED = (
    "_name_or_path",
    "transformers_version",
    "architectures",
    "dtype",
    "torch_dtype",
    "use_cache",
    "sentence_transformers",
)
"""Entries of a configuration that saving changes, and that no vector depends on; nor on dropout."""


def fingerprint(model: BiEncoder, tokenizers: Tokenizers) -> str:
    """64 hexadecimal digits that depend on configuration, weights, vocabulary and settings.

    They are the same before a model is saved and after it is loaded, in any folder. The pooler of some
    encoders is left out: no vector depends on it.
    """
    settings = model.settings.record()
    for name, encoder in (("query", model.query_encoder), ("document", model.document_encoder)):
        if token_types(encoder or model.query_encoder) < 2:
            settings[name]["segment"] = 0
    digest = hashlib.sha256(_text({"shared": model.shared, **settings}))
    for encoder in (model.query_encoder, model.document_encoder):
        if encoder is not None:
            _add_encoder(digest, encoder)
    for side in (tokenizers.queries, tokenizers.documents):
        # how it frames a text, read off an example: token types are set by our settings
        framed = side.tokenizer("a b")["input_ids"]
        digest.update(_text({"rules": rules_of(side.tokenizer), "framed": framed}))
    return digest.hexdigest()


def reranker_fingerprint(reranker: Reranker) -> str:
    """64 hexadecimal digits that depend on everything that decides a re-ranker's scores."""
    digest = hashlib.sha256(_text(reranker.shape.record()))
    parts = reranker.parts
    if parts.transformer is not None:
        _add_encoder(digest, parts.transformer)
    if parts.layers is not None:
        _add_weights(digest, parts.layers)
    digest.update(_text(reranker.texts.record()))
    return digest.hexdigest()


def reader_fingerprint(reader: Reader) -> str:
    """64 hexadecimal digits that depend on everything that decides a reader's logits."""
    digest = hashlib.sha256(_text({"kind": "reader", **reader.texts.record()}))
    _add_encoder(digest, reader.model)
    return digest.hexdigest()


def encoder_fingerprint(reranker: Reranker) -> str:
    """64 hexadecimal digits that depend on what decides a re-ranker's features: encoder and tokens of pairs.

    Raises
    ------
    ModelError
        If the re-ranker is not an encoder with a head.
    """
    encoder = reranker.encoder_ranker.encoder
    digest = hashlib.sha256(_text({"language": reranker.shape.language, **reranker.texts.record()}))
    _add_encoder(digest, encoder)
    return digest.hexdigest()


def _add_encoder(digest: Any, encoder: nn.Module) -> None:
    config = encoder.config.to_dict()  # type: ignore[union-attr, operator]
    kept = {name: value for name, value in config.items() if name not in _UNHASHED and "dropout" not in name}
    digest.update(_text(kept))
    _add_weights(digest, encoder)


def _add_weights(digest: Any, model: nn.Module) -> None:
    weights = model.state_dict()
    for name in sorted(weights):
        if not name.startswith("pooler."):
            digest.update(_text([name, str(weights[name].dtype), list(weights[name].shape)]))
            digest.update(weights[name].detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())


def _text(record: object) -> bytes:
    return json.dumps(record, sort_keys=True, default=str).encode()
