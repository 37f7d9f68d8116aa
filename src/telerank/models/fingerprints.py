"""The identity of a model: a hash of everything that its vectors or scores depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from telerank.models.encoders.bi_encoder import BiEncoder, Tokenizers, rules_of, token_types

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
    sides = [
        # how it frames a text, read off an example: token types are set by our settings
        {"rules": rules_of(side.tokenizer), "framed": side.tokenizer("a b")["input_ids"]}
        for side in (tokenizers.queries, tokenizers.documents)
    ]
    return hash_parts(
        {"shared": model.shared, **settings}, model.query_encoder, model.document_encoder, *sides
    )


def hash_parts(*parts: nn.Module | Mapping[str, Any] | None) -> str:
    """64 hexadecimal digits of records and models: the configuration, if they have one, then each weight."""
    digest = hashlib.sha256()

    def add(record: object) -> None:
        digest.update(json.dumps(record, sort_keys=True, default=str).encode())

    for part in parts:
        if isinstance(part, nn.Module):
            if (config := getattr(part, "config", None)) is not None:
                values = config.to_dict().items()
                add({key: v for key, v in values if key not in _UNHASHED and "dropout" not in key})
            for name, weight in sorted(part.state_dict().items()):
                if not name.startswith("pooler."):
                    add([name, str(weight.dtype), list(weight.shape)])
                    digest.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
        elif part is not None:
            add(part)
    return digest.hexdigest()
