"""Texts in batches: an encoder's vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from telerank.dense.encoder import TorchEncoder
from telerank.errors import ModelError
from telerank.models.encoders.tokens import Tokenizers
from telerank.service.batching.work import Results, TextsToEncode, TokenizedWork


@dataclass(frozen=True, eq=False)
class TokenizedTexts:
    """The tokens of each text, and what the request says of them."""

    tokens: Sequence[Sequence[int]]
    request: TextsToEncode


@dataclass(frozen=True, eq=False)
class BatchedEncoder:
    """The vectors of an encoder, (n, D) float32."""

    encoder: TorchEncoder

    @property
    def budget(self) -> int:
        return self.encoder.batch_tokens

    def tokenize(self, request: TextsToEncode) -> TokenizedWork[TokenizedTexts]:
        side = self._tokenizers.queries if request.queries else self._tokenizers.documents
        tokens, cut = side.ids_and_cut(request.texts)
        lengths = np.array([len(ids) for ids in tokens], np.int64)
        lane = (request.queries, request.normalise)
        return TokenizedWork(TokenizedTexts(tokens, request), lengths, np.array(cut, np.bool_), lane)

    def compute(self, parts: Sequence[tuple[TokenizedTexts, Sequence[int]]]) -> Results:
        request = parts[0][0].request  # the same side and lengths in all of them: a lane
        tokens = list(chain.from_iterable((texts.tokens[row] for row in rows) for texts, rows in parts))
        vectors = self.encoder.encode_batch(tokens, queries=request.queries, normalise=request.normalise)
        if not np.isfinite(vectors).all():
            raise ModelError(f"{self.encoder.name}: a vector has no finite numbers")
        return vectors

    @cached_property
    def _tokenizers(self) -> Tokenizers:
        """Tokenizers of its own, which no other thread uses."""
        return self.encoder.copy_tokenizers()
