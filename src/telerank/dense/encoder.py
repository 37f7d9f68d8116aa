"""The protocol of encoders, which make vectors of texts, and the encoder that is a bi-encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from telerank.dense.kinds import Floats
from telerank.dense.vectors import Encoded
from telerank.errors import MissingExtra, ModelError

if TYPE_CHECKING:
    from telerank.models.encoders.bi_encoder import BiEncoder
    from telerank.models.encoders.tokens import SideTokenizer, Tokenizers

PRECISIONS = ("float32", "bfloat16")
_BATCH, _BATCH_OF_GPU = 4096, 65_536  # tokens


class Encoder(Protocol):
    """Encodes texts; a value, equal and hashed by what decides the vectors."""

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str:
        """Identifies everything that decides a vector."""

    @property
    def dimension(self) -> int: ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """A description of the model for readers of the vectors, as JSON."""

    @property
    def batch_tokens(self) -> int:
        """The number of tokens of a batch that suits the device."""

    def encode_queries(self, texts: Sequence[str]) -> Encoded:
        """The vectors (Q, D) of queries."""

    def tokenize(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """The tokens of documents, and the number of documents that were longer than the model reads."""

    def encode_tokens(self, tokens: Sequence[Sequence[int]]) -> Floats:
        """The vectors (B, D) of tokenized documents."""


@dataclass(frozen=True)
class TorchEncoder:
    """A bi-encoder by its name: ``minilm``, a folder, or a name on the hub.

    ``device`` None is the GPU if there is one; ``precision`` is that of matrix products (``bfloat16`` is fast
    on some devices). The model is loaded when it is first used, and pickles as its name. If the first use
    finds no such model, it raises ModelError; without torch, MissingExtra.
    """

    model: str
    device: str | None = None
    precision: str = "float32"

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise ModelError(f"precision must be {' or '.join(PRECISIONS)}, got {self.precision!r}")

    @property
    def name(self) -> str:
        return self.model

    @cached_property
    def fingerprint(self) -> str:
        from telerank.models.fingerprints import fingerprint

        return fingerprint(*self._loaded)

    @property
    def dimension(self) -> int:
        return self._loaded[0].width

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"model": self._loaded[0].settings.record(), "precision": self.precision}

    @property
    def device_type(self) -> str:
        """The type of the device that it computes on, such as ``cuda``."""
        return str(self._loaded[0].device.type)

    @property
    def batch_tokens(self) -> int:
        """The tokens of a batch that suit the device: larger ones leave the cache of a processor."""
        return _BATCH if self.device_type == "cpu" else _BATCH_OF_GPU

    def encode_queries(self, texts: Sequence[str]) -> Encoded:
        model, tokenizers = self._loaded
        side = tokenizers.queries
        return Encoded(self._vectors(model.encode_queries, side, side.ids(list(texts))), self.fingerprint)

    def tokenize(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        side = self._loaded[1].documents
        tokens = side.ids(list(texts))
        most = side.side.max_length
        full = [text for text, ids in zip(texts, tokens, strict=True) if len(ids) >= most]
        longer = replace(side, side=replace(side.side, max_length=most + 1))
        return tokens, sum(len(ids) > most for ids in longer.ids(full))

    def encode_tokens(self, tokens: Sequence[Sequence[int]]) -> Floats:
        model, tokenizers = self._loaded
        return self._vectors(model.encode_documents, tokenizers.documents, tokens)

    def __reduce__(self) -> tuple[Any, ...]:
        return TorchEncoder, (self.model, self.device, self.precision)

    @cached_property
    def _loaded(self) -> tuple[BiEncoder, Tokenizers]:
        try:
            import torch

            from telerank.models.encoders.folders import load_bi_encoder
        except ModuleNotFoundError as error:
            raise MissingExtra(error.name or "torch", "neural") from error
        model, tokenizers = load_bi_encoder(folder if (folder := Path(self.model)).is_dir() else self.model)
        chosen = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        return model.to(chosen), tokenizers

    def _vectors(self, encode: Any, side: SideTokenizer, tokens: Sequence[Sequence[int]]) -> Floats:
        import torch

        if not tokens:
            return np.empty((0, self.dimension), np.float32)
        half = torch.autocast(
            self._loaded[0].device.type, torch.bfloat16, enabled=self.precision == "bfloat16"
        )
        with torch.inference_mode(), half:
            vectors = encode(side.pad(tokens))
        return np.asarray(vectors.float().cpu().numpy(), np.float32)
