"""Late interaction: a vector for each token of a text, and MaxSim of two texts.

It is ColBERT's (Khattab and Zaharia 2020): ``E = normalise(W h)`` for each token. The score of a query and a
document is the sum, over the query's tokens i, of the largest ``E_i . E_j`` over the document's tokens j.

Each side has a marker behind the first token, ``[Q]`` or ``[D]``. Queries are filled up with ``[MASK]``,
whose vectors count, too (query augmentation, section 3.2); punctuation of documents has none (section 3.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from telerank.errors import ModelError
from telerank.models.encoders.bi_encoder import width


@dataclass(frozen=True)
class LateSettings:
    """Everything besides weights and vocabulary that decides the vectors of tokens.

    Lengths count all tokens. Queries are filled up to ``expand_to`` tokens, 0 for none; ``attend`` lets the
    others see those; ``expand_with`` is their token, None the mask. ``query`` and ``document`` are
    put before texts: as one token behind the first, if the tokenizer has it, else as text. Documents'
    tokens that are among ``skipped`` have no vector.
    """

    query_length: int = 32
    document_length: int = 180
    expand_to: int = 32
    attend: bool = False
    expand_with: str | None = None
    query: str = "[Q] "
    document: str = "[D] "
    skipped: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if min(self.query_length, self.document_length) < 3 or self.expand_to < 0:
            raise ModelError("a text must be given at least 3 tokens")

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "document": {"max_length": self.document_length, "prompt": self.document}}


class LateInteraction(nn.Module):
    """``encoder`` is any of transformers; ``projections`` are linear layers after it, mostly one, (H, D)."""

    def __init__(self, encoder: nn.Module, projections: Sequence[nn.Linear], settings: LateSettings) -> None:
        super().__init__()
        self.encoder, self.projections, self.settings = encoder, nn.ModuleList(projections), settings
        size = width(encoder)
        for layer in projections:
            if layer.in_features != size:
                raise ModelError(f"a projection of {layer.in_features} dimensions follows {size}")
            size = layer.out_features

    @property
    def dimension(self) -> int:
        """``D``: the width of a token's vector."""
        layers: Any = list(self.projections)
        return int(layers[-1].weight.shape[0]) if layers else width(self.encoder)

    def forward(self, ids: Tensor, attention: Tensor) -> Tensor:
        """The vectors (B, L, D) of tokens (B, L), each of length 1."""
        inputs = {"input_ids": ids, "attention_mask": attention}
        if int(getattr(self.encoder.config, "type_vocab_size", 0) or 0) > 1:
            inputs["token_type_ids"] = torch.zeros_like(ids)
        vectors = self.encoder(**inputs).last_hidden_state
        for layer in self.projections:
            vectors = layer(vectors)
        return normalize(vectors.float(), dim=-1)


def max_sim(queries: Tensor, documents: Tensor) -> Tensor:
    """The scores (Q, N) of vectors of tokens, (Q, L, D + 1) and (N, M, D + 1), as training has them.

    The last number of a token is 1 if the token counts, else 0. For each of a query's tokens it is the
    largest product with one of the document's, summed. A document without a token has 0.
    """
    counts, asks = documents[..., -1] > 0, queries[..., -1]  # (N, M), (Q, L)
    products = torch.einsum("qld,nmd->qlnm", queries[..., :-1], documents[..., :-1])
    products = products.masked_fill(~counts, torch.finfo(products.dtype).min)
    best = products.amax(-1).masked_fill(~counts.any(1), 0)  # (Q, L, N)
    return (best * asks.unsqueeze(-1)).sum(1)


@dataclass(frozen=True)
class TokenizedText:
    """The tokens of a text, which the model attends to, and which have a vector that counts.

    ``is_cut``: the text has more than the model reads.
    """

    ids: list[int]
    attended: list[bool]
    kept: list[bool]
    is_cut: bool

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def kept_ids(self) -> list[int]:
        return [token for token, keeps in zip(self.ids, self.kept, strict=True) if keeps]


@dataclass(frozen=True, eq=False)
class LateTokenizer:
    """``tokenizer`` is one of transformers', the fast kind."""

    tokenizer: Any
    settings: LateSettings

    def queries(self, texts: Sequence[str]) -> list[TokenizedText]:
        """Queries, filled up with masks, which count."""
        settings, rows = self.settings, []
        for ids, is_cut in self._ids(texts, settings.query, settings.query_length):
            more = max(0, settings.expand_to - len(ids))
            attended = [True] * len(ids) + [settings.attend] * more
            kept = [True] * (len(ids) + more)
            rows.append(TokenizedText(ids + [self._mask] * more, attended, kept, is_cut))
        return rows

    def documents(self, texts: Sequence[str]) -> list[TokenizedText]:
        """Documents, whose punctuation does not count."""
        rows = []
        for ids, is_cut in self._ids(texts, self.settings.document, self.settings.document_length):
            kept = [token not in self._skipped for token in ids]
            rows.append(TokenizedText(ids, [True] * len(ids), kept, is_cut))
        return rows

    def words(self, ids: Sequence[int]) -> list[str]:
        """The tokens as they are written."""
        return list(self.tokenizer.convert_ids_to_tokens(list(ids)))

    def marker(self, prompt: str) -> int | None:
        """The number of the token that a prompt is; None if it is a text."""
        numbers = map(self._find, (prompt, prompt.strip()))
        return next((number for number in numbers if number is not None), None)

    def _find(self, name: str) -> int | None:
        """The number of a token; the whole vocabulary as a dict takes a quarter of a second of E5's."""
        number: int | None = self.tokenizer.backend_tokenizer.token_to_id(name)
        return number

    def _ids(self, texts: Sequence[str], prompt: str, most: int) -> list[tuple[list[int], bool]]:
        """The tokens of each text, at most so many, and whether it has more."""
        if not texts:
            return []
        marker = self.marker(prompt) if prompt else None
        plain = [text if marker is not None else prompt + text for text in texts]
        length = most - (marker is not None)
        rows = self.tokenizer(plain, truncation=True, max_length=length, return_attention_mask=False)
        marked = [] if marker is None else [marker]
        cut = [bool(encoding.overflowing) for encoding in rows.encodings]
        return [([*ids[:1], *marked, *ids[1:]], own) for ids, own in zip(rows["input_ids"], cut, strict=True)]

    @cached_property
    def _mask(self) -> int:
        name = self.settings.expand_with
        token = self.tokenizer.mask_token_id if name is None else self._find(name)
        token = self.tokenizer.eos_token_id if token is None and name is None else token
        if token is None:
            raise ModelError("the tokenizer has no mask to fill queries up with")
        return int(token)

    @cached_property
    def _skipped(self) -> frozenset[int]:
        numbers = map(self._find, self.settings.skipped)
        return frozenset(number for number in numbers if number is not None)


def pad_rows(rows: Sequence[TokenizedText], pad: int, width: int | None = None) -> dict[str, Tensor]:
    """``input_ids``, ``attention_mask`` and ``kept`` of texts, (B, L), with a ``width``, or the longest's."""
    longest = max((len(row) for row in rows), default=0) if width is None else width
    ids = np.full((len(rows), longest), pad, np.int64)
    attention, kept = np.zeros((len(rows), longest), np.int64), np.zeros((len(rows), longest), np.int64)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row.ids
        attention[number, : len(row)] = row.attended
        kept[number, : len(row)] = row.kept
    named = {"input_ids": ids, "attention_mask": attention, "kept": kept}
    return {name: torch.from_numpy(own) for name, own in named.items()}


def encode_rows(
    model: LateInteraction, rows: Sequence[TokenizedText], pad: int, device: torch.device
) -> list[np.ndarray]:
    """The vectors (tokens that count, D) float32 of each text, as one batch."""
    batch = pad_rows(rows, pad)
    with torch.inference_mode():
        vectors = model(batch["input_ids"].to(device), batch["attention_mask"].to(device))
    computed = vectors.float().cpu().numpy()
    return [computed[number, : len(row.ids)][row.kept] for number, row in enumerate(rows)]
