"""A text to tokens, and to a vector: one encoder for queries and documents, or one for each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from pydantic import with_config
from torch import Tensor, nn
from torch.nn.functional import normalize

from telerank.errors import ModelError


def mean(tokens: Tensor, mask: Tensor) -> Tensor:
    """The mean over the tokens, special tokens among them (RepBERT, equation 2)."""
    weights = mask.unsqueeze(-1).to(tokens.dtype)  # (B, L, 1)
    # at least 1: a text without a token, for which some tokenizers give an empty row, is the zero vector
    return (tokens * weights).sum(1) / weights.sum(1).clamp(min=1)


def first(tokens: Tensor, mask: Tensor) -> Tensor:
    """The first token that is not padding, with padding on the left, too: ``[CLS]``, ``<s>``."""
    return tokens[torch.arange(tokens.shape[0], device=tokens.device), mask.to(torch.int64).argmax(1)]


POOLINGS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {"mean": mean, "cls": first}


@with_config(extra="forbid")
@dataclass(frozen=True)
class Side:
    """How the texts of one side, queries or documents, become tokens.

    ``max_length`` counts special tokens; longer texts are cut. ``segment`` is the token type of every
    token, if the model has several types. ``prompt`` is put before every text.
    """

    max_length: int
    segment: int = 0
    prompt: str = ""

    def __post_init__(self) -> None:
        if self.max_length < 1:
            raise ModelError(f"a text must be given at least one token, got max_length {self.max_length}")


@with_config(extra="forbid")
@dataclass(frozen=True)
class BiEncoderSettings:
    """Everything besides weights and vocabulary that decides a vector; the defaults are RepBERT's.

    ``normalise`` divides a vector by its length, so that inner products are cosines.
    """

    pooling: str = "mean"
    normalise: bool = False
    query: Side = field(default_factory=lambda: Side(20))
    document: Side = field(default_factory=lambda: Side(256, segment=1))

    def __post_init__(self) -> None:
        if self.pooling not in POOLINGS:
            raise ModelError(f"no pooling is called {self.pooling!r}; there are: {', '.join(POOLINGS)}")

    def record(self) -> dict[str, Any]:
        return asdict(self)


class BiEncoder(nn.Module):
    """Relevance is the inner product of a query's vector and a document's (RepBERT, equations 2 and 3).

    ``query_encoder`` is any encoder of transformers that gives ``last_hidden_state``; without a
    ``document_encoder`` it encodes both sides (RepBERT, Sentence-BERT), with one there are two towers (DPR).
    Nothing is assumed about special tokens or positions. Token types are set if ``type_vocab_size`` says that
    there are several (RepBERT, footnote 2).

    Raises
    ------
    ModelError
        If a segment is not among the model's token types, or the towers differ in width.
    """

    def __init__(
        self,
        query_encoder: nn.Module,
        document_encoder: nn.Module | None = None,
        *,
        settings: BiEncoderSettings,
    ) -> None:
        super().__init__()
        self.query_encoder, self.document_encoder, self.settings = query_encoder, document_encoder, settings
        sides = ((query_encoder, settings.query), (document_encoder or query_encoder, settings.document))
        for encoder, side in sides:
            types = token_types(encoder)
            if not 0 <= side.segment < max(2, types):
                raise ModelError(f"segment {side.segment} is not among the {types} token types")
        if document_encoder is not None and width(query_encoder) != width(document_encoder):
            raise ModelError(
                f"the towers' vectors differ in width: {width(query_encoder)} and {width(document_encoder)}"
            )

    @property
    def shared(self) -> bool:
        """Whether one encoder encodes both sides."""
        return self.document_encoder is None

    @property
    def width(self) -> int:
        """``H``."""
        return width(self.query_encoder)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def without_normalising(self) -> BiEncoder:
        """The same encoders, whose vectors keep their lengths; weights are shared."""
        settings = replace(self.settings, normalise=False)
        return BiEncoder(self.query_encoder, self.document_encoder, settings=settings)

    def encode_queries(self, batch: Mapping[str, Tensor]) -> Tensor:
        """``input_ids`` and ``attention_mask`` of queries, both (B, L) -> (B, H)."""
        return self._encode(self.query_encoder, batch, self.settings.query.segment)

    def encode_documents(self, batch: Mapping[str, Tensor]) -> Tensor:
        """``input_ids`` and ``attention_mask`` of documents, both (B, L) -> (B, H)."""
        encoder = self.document_encoder or self.query_encoder
        return self._encode(encoder, batch, self.settings.document.segment)

    def forward(self, queries: Mapping[str, Tensor], documents: Mapping[str, Tensor]) -> Tensor:
        """The inner products of every query with every document: (queries, documents)."""
        return self.encode_queries(queries) @ self.encode_documents(documents).T

    def _encode(self, encoder: nn.Module, batch: Mapping[str, Tensor], segment: int) -> Tensor:
        inputs = {name: batch[name].to(self.device) for name in ("input_ids", "attention_mask")}
        if token_types(encoder) > 1:
            inputs["token_type_ids"] = torch.full_like(inputs["input_ids"], segment)
        tokens = encoder(**inputs).last_hidden_state  # (B, L, H)
        if not torch.is_autocast_enabled(tokens.device.type):
            tokens = tokens.float()  # of weights in bfloat16: a mean counts to 256 with its digits
        vectors = POOLINGS[self.settings.pooling](tokens, inputs["attention_mask"])  # (B, H)
        return normalize(vectors, dim=-1) if self.settings.normalise else vectors


def token_types(encoder: nn.Module) -> int:
    """How many token types the encoder has; DistilBERT's and MPNet's configurations do not say."""
    return int(getattr(encoder.config, "type_vocab_size", 0) or 0)


def width(encoder: nn.Module) -> int:
    return int(encoder.config.hidden_size)  # type: ignore[union-attr, arg-type]


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
