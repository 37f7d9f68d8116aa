"""Texts to tokens: one side's tokenizer with its length and prompt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
        if not texts:
            return []
        prompted = [self.side.prompt + text for text in texts]
        cut = {"truncation": True, "max_length": self.side.max_length}
        encodings = self.tokenizer(prompted, **cut, return_attention_mask=False, return_token_type_ids=False)
        return list(encodings["input_ids"])

    def pad(self, ids: Sequence[Sequence[int]]) -> dict[str, Tensor]:
        """``input_ids`` and ``attention_mask``, (B, L), of texts, from their :meth:`ids`."""
        shape = len(ids), max(map(len, ids), default=0)
        tokens = torch.full(shape, self.tokenizer.pad_token_id or 0, dtype=torch.int64)
        mask = torch.zeros(shape, dtype=torch.int64)
        for row, text in enumerate(ids):
            tokens[row, : len(text)] = torch.tensor(text, dtype=torch.int64)
            mask[row, : len(text)] = 1
        return {"input_ids": tokens, "attention_mask": mask}

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
