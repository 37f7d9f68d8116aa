"""Texts to tokens: one side's tokenizer with its length and prompt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from telerank.models.encoders.bi_encoder import BiEncoderSettings, Side


@dataclass(frozen=True, eq=False)
class SideTokenizer:
    """``tokenizer`` is one of transformers', the fast kind."""

    tokenizer: Any
    side: Side

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text, prompt and special tokens among them, cut to the side's length."""
        return list(self._encode(texts)["input_ids"]) if texts else []

    def ids_and_cut(self, texts: Sequence[str]) -> tuple[list[list[int]], list[bool]]:
        """The same, and whether each text was cut."""
        if not texts:
            return [], []
        encoded = self._encode(texts)
        return list(encoded["input_ids"]), [bool(encoding.overflowing) for encoding in encoded.encodings]

    def _encode(self, texts: Sequence[str]) -> Any:
        prompted = [self.side.prompt + text for text in texts]
        cut = {"truncation": True, "max_length": self.side.max_length}
        return self.tokenizer(prompted, **cut, return_attention_mask=False, return_token_type_ids=False)

    def pad(self, ids: Sequence[Sequence[int]], width: int | None = None) -> dict[str, Tensor]:
        """``input_ids`` and ``attention_mask``, (B, L), of texts, from their :meth:`ids`.

        ``L`` is ``width``, or else the longest text's length.
        """
        lengths = np.array([len(text) for text in ids], np.int64)
        mask = np.arange(int(lengths.max(initial=0)) if width is None else width) < lengths[:, None]
        tokens = np.full(mask.shape, self.tokenizer.pad_token_id or 0, np.int64)
        tokens[mask] = np.fromiter(chain.from_iterable(ids), np.int64, int(lengths.sum()))
        masked = torch.from_numpy(mask.astype(np.int64))
        return {"input_ids": torch.from_numpy(tokens), "attention_mask": masked}

    def __call__(self, texts: Sequence[str]) -> dict[str, Tensor]:
        """``input_ids`` and ``attention_mask``, (B, L), of texts."""
        return self.pad(self.ids(texts))


@dataclass(frozen=True, eq=False)
class Tokenizers:
    """The tokenizers of both sides; two towers may have two vocabularies."""

    queries: SideTokenizer
    documents: SideTokenizer

    @classmethod
    def of(cls, tokenizer: Any, settings: BiEncoderSettings, document_tokenizer: Any = None) -> Tokenizers:
        documents = tokenizer if document_tokenizer is None else document_tokenizer
        return cls(SideTokenizer(tokenizer, settings.query), SideTokenizer(documents, settings.document))


def rules_of(tokenizer: Any) -> dict[str, Any]:
    """Rules and vocabulary of a fast tokenizer, without what calls change and the frame of a text."""
    rules: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    for name in ("truncation", "padding", "post_processor"):
        rules.pop(name, None)
    return rules
