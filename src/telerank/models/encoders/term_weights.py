"""A weight for each token of a text from its contextual vector, and for its pieces or words: three models.

==============  ===========================================================================================
``deepct``      w · h + b, learned as the share of a document's queries that hold the word: DeepCT (Dai and
                Callan 2019, equation 1). A word has the weight of its first piece.
``unicoil``     max(0, w · h + b) of each piece, learned through the scores; of a document the largest over
                the occurrences of a piece, of a query their sum: uniCOIL (Lin and Ma 2021)
``deepimpact``  max(0, w · h + b), or two layers, of the first piece of each word, learned through the scores:
                DeepImpact (Mallia, Khattab, Suel and Tonellotto 2021)
==============  ===========================================================================================

=====  ==============================================
``B``  texts
``L``  tokens of a text, special ones among them
``V``  pieces of the vocabulary
``H``  width of the encoder
=====  ==============================================
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from pydantic import with_config
from torch import Tensor, nn

from telerank.errors import ModelError
from telerank.models.encoders.bi_encoder import width
from telerank.models.precision import in_float32

WeightKind = Literal["deepct", "unicoil", "deepimpact"]
QueryKind = Literal["model", "counts", "ones"]
_LARGEST_SCALE = 10_000


@with_config(extra="forbid")
@dataclass(frozen=True)
class TermWeightSettings:
    """Everything besides weights and vocabulary that decides a vector.

    ``word``: a word has the weight of its ``first`` piece, or the ``largest`` of its pieces.
    ``queries``: a query's terms have weights of the ``model``, how often it holds them (``counts``), or 1.
    ``scale``: N makes a weight w the whole number round(N · w), a frequency for BM25; 0 leaves it. With
    ``root`` w is √w before that (HDCT, Dai and Callan 2020).
    ``separator``: the piece at the end of a text has a weight, too, as in Pyserini's uniCOIL.
    """

    kind: WeightKind
    head: Literal["linear", "mlp"] = "linear"
    word: Literal["first", "largest"] = "first"
    queries: QueryKind = "counts"
    scale: int = 0
    root: bool = False
    query_length: int = 128
    document_length: int = 512
    separator: bool = False

    def __post_init__(self) -> None:
        by_pieces = self.kind == "unicoil"
        if self.queries == "model" and not by_pieces:
            raise ModelError(f"{self.kind}: queries must be counts or ones, got model")
        if by_pieces and (self.scale or self.root or self.word != "first"):
            raise ModelError("unicoil has weights of pieces: leave out word, scale and root")
        if not 0 <= self.scale <= _LARGEST_SCALE:
            raise ModelError(f"scale must be from 0 to {_LARGEST_SCALE:,}, got {self.scale:,}")
        if min(self.query_length, self.document_length) < 1:
            raise ModelError("a text must be given at least one token")

    @property
    def has_words(self) -> bool:
        """Whether the terms are words, not pieces."""
        return self.kind != "unicoil"

    def record(self) -> dict[str, Any]:
        return asdict(self)


def make_head(kind: Literal["linear", "mlp"], size: int) -> nn.Module:
    """The layers from a vector (H,) to a number (1,): one, or two with a ReLU between them."""
    if kind == "linear":
        return nn.Linear(size, 1)
    return nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, 1))


class TokenWeigher(nn.Module):
    """An encoder of transformers with a ``head`` on its outputs; of DeepCT alone weights may be below 0."""

    def __init__(self, encoder: Any, head: nn.Module, kind: WeightKind, dropout: float = 0.0) -> None:
        super().__init__()
        self.encoder, self.head, self.kind = encoder, head, kind
        self.dropout = nn.Dropout(dropout)

    @property
    def config(self) -> Any:
        """That of the encoder."""
        return self.encoder.config

    @property
    def width(self) -> int:
        """``H``."""
        return width(self.encoder)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Tokens and their mask, both (B, L) -> the weight of each, (B, L)."""
        outputs = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return self._weigh(self.dropout(outputs))

    @in_float32
    def _weigh(self, outputs: Tensor) -> Tensor:
        weights: Tensor = self.head(outputs.float()).squeeze(-1)
        return weights if self.kind == "deepct" else torch.relu(weights)


class PieceWeights(nn.Module):
    """Weights of the pieces of texts, (B, V): the largest of each one's occurrences, or their sum.

    Without a ``weigher`` each occurrence has the weight 1. Pieces of ``skipped`` have none.
    """

    skipped: Tensor

    def __init__(
        self,
        weigher: TokenWeigher | None,
        width: int,
        *,
        skipped: Collection[int] = (),
        pooling: Literal["max", "sum"] = "max",
    ) -> None:
        super().__init__()
        self.weigher, self.width, self.pooling = weigher, width, pooling
        self.register_buffer("skipped", torch.tensor(sorted(skipped), dtype=torch.int64))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Tokens and their mask, both (B, L) -> weights of at least 0, (B, V)."""
        kept = (attention_mask > 0) & ~torch.isin(input_ids, self.skipped)
        weights = kept.float()
        if self.weigher is not None:
            weights = self.weigher(input_ids=input_ids, attention_mask=attention_mask) * weights
        pooled = weights.new_zeros(len(input_ids), self.width)
        if self.pooling == "sum":
            return pooled.scatter_add(1, input_ids, weights)
        return pooled.scatter_reduce(1, input_ids, weights, "amax")

    def record(self) -> dict[str, Any]:
        """What decides its vectors besides weights."""
        is_model = self.weigher is not None
        return {"pooling": self.pooling, "skipped": self.skipped.tolist(), "model": is_model}


def make_piece_weights(
    weigher: TokenWeigher, tokenizer: Any, settings: TermWeightSettings
) -> tuple[PieceWeights, PieceWeights]:
    """The models of queries and of documents over the pieces of a vocabulary."""
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    if settings.separator:
        special.discard(tokenizer.sep_token_id)
    size = max(len(tokenizer), int(weigher.encoder.get_input_embeddings().weight.shape[0]))
    of_queries = weigher if settings.queries == "model" else None
    queries = PieceWeights(
        of_queries, size, skipped=special, pooling="max" if settings.queries == "ones" else "sum"
    )
    return queries, PieceWeights(weigher, size, skipped=special)
