"""Models that compute batches: re-rankers, encoders, and the tokenizers of both."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.dense.encoder import TorchEncoder
from telerank.dense.static import StaticEncoder, StaticTokenizers
from telerank.errors import ModelError
from telerank.models.encoders.bi_encoder import Tokenizers
from telerank.models.pairs.pair import PairTokenizer, Passage
from telerank.models.rerankers.reranker import Reranker
from telerank.reranking.scorer import Scorer
from telerank.reranking.texts import TokenizedPairs, tokenize_for
from telerank.service.batching.waiting import PairsToScore, Results, TextsToEncode, TokenizedWork


@dataclass(frozen=True, eq=False)
class BatchedReranker:
    """The logits of a scorer's model, (n,) float64.

    In float32 a logit in one batch and the same pair's in another differ by rounding alone.
    """

    scorer: Scorer

    @property
    def budget(self) -> int:
        return self.scorer.budget

    def tokenize(self, request: PairsToScore) -> TokenizedWork[TokenizedPairs]:
        pairs = tokenize_for(self._reranker, request.pairs)
        cut = pairs.find_cut()
        if request.max_tokens is not None or request.left:
            pairs, passages = _cut_passages(pairs, request.max_tokens, left=request.left)
            cut[:, 1] = passages
        return TokenizedWork(pairs, pairs.lengths, np.asarray(cut.any(1)))

    def compute(self, parts: Sequence[tuple[TokenizedPairs, Sequence[int]]]) -> Results:
        scores = self.scorer.score_batch(parts)
        if not np.isfinite(scores).all():
            raise ModelError(f"{self.scorer.name}: a score is no finite number")
        return scores

    @cached_property
    def _reranker(self) -> Reranker:
        """The model with a tokenizer of its own, which no other thread uses."""
        reranker = self.scorer.reranker
        return replace(reranker, texts=deepcopy(reranker.texts))


def _cut_passages(
    pairs: TokenizedPairs, most: int | None, *, left: bool
) -> tuple[TokenizedPairs, npt.NDArray[np.bool_]]:
    """The pairs with shorter passages, and whether the passage of each is cut, by this or by the model."""
    texts, whole = pairs.texts, np.array([len(passage.ids) for passage in pairs.passages], np.int64)
    room = np.full(len(pairs.passages), whole.max(initial=0) if most is None else most)
    if left:
        queries = np.array([len(query) for query in pairs.queries], np.int64)[pairs.pairs[:, 0]]
        longest = texts.max_length - texts.frame.size - np.minimum(queries, texts.longest_query)
        np.minimum.at(room, pairs.pairs[:, 1], longest)
    cut = []
    for passage, size in zip(pairs.passages, room.tolist(), strict=True):
        if len(passage.ids) > size:
            kept: Any = slice(len(passage.ids) - size, None) if left else slice(size)
            sentences = passage.sentences[kept]
            passage = Passage(passage.ids[kept], sentences - sentences[:1])
        cut.append(passage)
    shorter = replace(pairs, passages=cut)
    return shorter, (whole > room)[pairs.pairs[:, 1]] | shorter.find_cut()[:, 1]


EncodedTexts: TypeAlias = tuple[
    Sequence[Sequence[int]], TextsToEncode
]  # tokens of each text, and the request


@dataclass(frozen=True, eq=False)
class BatchedEncoder:
    """The vectors of an encoder, (n, D) float32."""

    encoder: TorchEncoder | StaticEncoder

    @property
    def budget(self) -> int:
        return self.encoder.batch_tokens

    def tokenize(self, request: TextsToEncode) -> TokenizedWork[EncodedTexts]:
        side = self._tokenizers.queries if request.queries else self._tokenizers.documents
        tokens, cut = side.ids_and_cut(request.texts)
        lengths, lane = np.array([len(ids) for ids in tokens], np.int64), (request.queries, request.normalise)
        return TokenizedWork((tokens, request), lengths, np.array(cut, np.bool_), lane)

    def compute(self, parts: Sequence[tuple[EncodedTexts, Sequence[int]]]) -> Results:
        _, request = parts[0][0]  # the same side and lengths in all of them: a lane
        tokens = list(chain.from_iterable((texts[row] for row in rows) for (texts, _), rows in parts))
        vectors = self.encoder.encode_batch(tokens, queries=request.queries, normalise=request.normalise)
        if not np.isfinite(vectors).all():
            raise ModelError(f"{self.encoder.name}: a vector has no finite numbers")
        return vectors

    @cached_property
    def _tokenizers(self) -> Tokenizers | StaticTokenizers:
        """Tokenizers of its own, which no other thread uses."""
        return self.encoder.copy_tokenizers()


def batch_model(model: Scorer | TorchEncoder | StaticEncoder) -> BatchedReranker | BatchedEncoder:
    """A model that computes batches of several requests."""
    return BatchedReranker(model) if isinstance(model, Scorer) else BatchedEncoder(model)


class PlainTokenizer:
    """A copy of a model's tokenizer that cuts nothing; several threads may use it.

    Raises
    ------
    ModelError
        If the model reads words of a list, and not the tokens of a tokenizer.
    """

    def __init__(self, model: Scorer | TorchEncoder | StaticEncoder) -> None:
        if not isinstance(model, Scorer):
            tokenizer = model.copy_tokenizers().documents.tokenizer
        elif isinstance(model.reranker.texts, PairTokenizer):
            tokenizer = model.reranker.texts.tokenizer
        else:
            raise ModelError(f"{model.name} reads words, and has no tokenizer")
        self._backend: Any = deepcopy(tokenizer.backend_tokenizer)
        self._backend.no_truncation()
        self._backend.no_padding()

    def read(self, texts: Sequence[str], *, special: bool) -> list[list[dict[str, Any]]]:
        """The tokens of each text, with ``special`` those that frame it.

        Each has its number (``id``), its form (``text``), whether it is ``special``, and, if not, its
        characters from ``start`` to ``stop``.
        """
        rows = []
        for encoding in self._backend.encode_batch(list(texts), add_special_tokens=special):
            columns = (encoding.ids, encoding.tokens, encoding.special_tokens_mask, encoding.offsets)
            row = []
            for number, form, frames, (start, stop) in zip(*columns, strict=True):
                span = {} if frames else {"start": start, "stop": stop}
                row.append({"id": number, "text": form, "special": bool(frames), **span})
            rows.append(row)
        return rows
