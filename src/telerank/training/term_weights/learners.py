"""Weights of terms that are learned through scores: uniCOIL's of pieces, DeepImpact's of words.

=====  ==============================================
``Q``  queries
``N``  documents
``B``  texts of a batch
``T``  terms of a text, or of the longest of a batch
``L``  tokens of a text
``V``  pieces of the vocabulary
=====  ==============================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from telerank.models.encoders.sparse import make_piece_sides
from telerank.models.encoders.term_weight_folders import save_term_weights
from telerank.models.encoders.term_weights import TermWeightSettings, TokenWeigher
from telerank.models.encoders.word_weights import WordPieces, document_side, split_words
from telerank.text import Analyzer
from telerank.text.analyzer import locate_terms
from telerank.training.encoders.encoder import EncoderSide, TrainableEncoder

_KEY_BITS = 24  # of a whole number that float32 holds


class PieceLearner(TrainableEncoder):
    """Queries and documents are vectors of weights of pieces, (B, V)."""

    def __init__(self, weigher: TokenWeigher, tokenizer: Any, settings: TermWeightSettings) -> None:
        sides = make_piece_sides(weigher, tokenizer, settings)
        self.module = nn.ModuleList(side.model for side in sides)
        self.queries, self.documents = (
            EncoderSide.of(side.tokenizer, partial(_encode_pieces, side.model)) for side in sides
        )
        self._saved = weigher, tokenizer, settings

    def count_terms(self, vectors: Tensor) -> Tensor:
        return (vectors > 0).sum(0)

    def save(self, folder: Path) -> None:
        save_term_weights(*self._saved, folder)


def _encode_pieces(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    weights: Tensor = model(**batch)
    return weights


@dataclass(frozen=True)
class QueryTerms:
    """The weights of the terms of a query."""

    weights: Mapping[str, float]

    def __len__(self) -> int:
        return max(1, len(self.weights))


@dataclass(frozen=True)
class LocatedText:
    """The tokens of a document, and where the pieces of its words are among them."""

    words: WordPieces

    def __len__(self) -> int:
        return len(self.words.ids)


class WordLearner(TrainableEncoder):
    """Queries and documents are lists of terms with weights, (B, T, 3): :func:`term_key`, then the weight.

    Those of queries do not learn.
    """

    def __init__(
        self, weigher: TokenWeigher, tokenizer: Any, settings: TermWeightSettings, analyzer: Analyzer
    ) -> None:
        self.module = self._weigher = weigher
        self._saved = weigher, tokenizer, settings
        self._tokenizer, self._analyzer, self._settings = (
            document_side(tokenizer, settings),
            analyzer,
            settings,
        )
        longest = settings.document_length
        self.queries = EncoderSide(self._read_queries, pad_queries, _join, longest)
        self.documents = EncoderSide(self._read_documents, self._pad_documents, self._encode, longest)

    def score(self, queries: Tensor, documents: Tensor) -> Tensor:
        return score_terms(queries, documents)

    def save(self, folder: Path) -> None:
        save_term_weights(*self._saved, folder)

    def _read_queries(self, texts: Sequence[str]) -> list[QueryTerms]:
        counted = [Counter(self._analyzer.query(text)) for text in texts]
        once = self._settings.queries == "ones"
        return [QueryTerms(dict.fromkeys(terms, 1) if once else terms) for terms in counted]

    def _read_documents(self, texts: Sequence[str]) -> list[LocatedText]:
        spans = [list(locate_terms(self._analyzer, text)) for text in texts]
        only_first = self._settings.word == "first"
        return [
            LocatedText(words) for words in split_words(self._tokenizer, texts, spans, only_first=only_first)
        ]

    def _pad_documents(self, texts: Sequence[LocatedText], width: int | None) -> dict[str, Tensor]:
        """Tokens and their mask, (B, L); keys of the terms, (B, T, 2); pieces and the slots of terms, (P,).

        The latter are numbers among the B · L tokens, and among the B · T terms.
        """
        padded = self._tokenizer.pad([text.words.ids for text in texts], width)
        numbers = [{term: n for n, (term, _) in enumerate(text.words.words)} for text in texts]
        numbers = [{term: n for n, term in enumerate(own)} for own in numbers]
        most, length = max(1, *map(len, numbers)), padded["input_ids"].shape[1]
        pairs = [
            (row * length + piece, row * most + numbers[row][term])
            for row, text in enumerate(texts)
            for term, pieces in text.words.words
            for piece in pieces
        ]
        pieces, slots = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T.contiguous()
        return {
            **padded,
            "keys": _pad_keys([list(own) for own in numbers], most),
            "pieces": pieces,
            "slots": slots,
        }

    def _encode(self, batch: Mapping[str, Tensor]) -> Tensor:
        weights = self._weigher(batch["input_ids"], batch["attention_mask"]).flatten()[batch["pieces"]]
        keys = batch["keys"]
        table = weights.new_zeros(keys.shape[0] * keys.shape[1])
        table = table.scatter_reduce(0, batch["slots"], weights, "amax")
        return torch.cat([keys, table.reshape(*keys.shape[:2], 1)], dim=2)


def pad_queries(queries: Sequence[QueryTerms], width: int | None) -> dict[str, Tensor]:
    """The keys of the terms of queries, (B, T, 2), and their weights, (B, T)."""
    most = max(len(query) for query in queries) if width is None else width
    weights = torch.zeros(len(queries), most)
    for row, query in enumerate(queries):
        weights[row, : len(query.weights)] = torch.tensor(list(query.weights.values()), dtype=torch.float32)
    return {"keys": _pad_keys([list(query.weights) for query in queries], most), "weights": weights}


def score_terms(queries: Tensor, documents: Tensor) -> Tensor:
    """The sums (Q, N) of the products of the weights of shared terms: (Q, T, 3) and (N, T, 3)."""
    terms, columns = torch.unique(_join_keys(queries), return_inverse=True)
    held = queries.new_zeros(len(queries), len(terms)).scatter_add(1, columns, queries[..., 2])
    keys = _join_keys(documents)
    nearest = torch.searchsorted(terms, keys).clamp(max=len(terms) - 1)
    weights = documents[..., 2] * (terms[nearest] == keys)
    return held @ documents.new_zeros(len(documents), len(terms)).scatter_add(1, nearest, weights).T


@lru_cache(1 << 17)
def term_key(term: str) -> tuple[int, int]:
    """Two whole numbers below 2^24 that stand for a term in every process: 48 bits of a hash."""
    number = int.from_bytes(blake2b(term.encode(), digest_size=6).digest())
    return number >> _KEY_BITS, number & ((1 << _KEY_BITS) - 1)


def _pad_keys(terms: Sequence[Sequence[str]], most: int) -> Tensor:
    """The keys of the terms of texts, (B, T, 2)."""
    keys = torch.zeros(len(terms), most, 2)
    for row, own in enumerate(terms):
        if own:
            keys[row, : len(own)] = torch.tensor([term_key(term) for term in own], dtype=torch.float32)
    return keys


def _join_keys(vectors: Tensor) -> Tensor:
    """One whole number for each term, (B, T)."""
    parts = vectors[..., :2].detach().long()
    return (parts[..., 0] << _KEY_BITS) | parts[..., 1]


def _join(batch: Mapping[str, Tensor]) -> Tensor:
    return torch.cat([batch["keys"], batch["weights"].unsqueeze(2)], dim=2)
