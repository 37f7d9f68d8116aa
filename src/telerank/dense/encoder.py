"""What makes vectors of texts, as encoding and searching see it; a bi-encoder as that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


class Encoder(Protocol):
    """Texts to vectors, as a value: equal and hashed by what decides the vectors."""

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str:
        """The identity of everything that decides a vector."""

    @property
    def dimension(self) -> int: ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """What else a reader of the vectors may want to know, as JSON."""

    def queries(self, texts: Sequence[str]) -> Encoded: ...

    def tokens(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """The tokens of documents, and how many of them were longer than the model reads."""

    def documents(self, tokens: Sequence[Sequence[int]]) -> Floats:
        """(B, D): the vectors of documents that :meth:`tokens` made tokens of."""


@dataclass(frozen=True)
class TorchEncoder:
    """A bi-encoder by its name: ``minilm``, a folder, or a name on the hub.

    ``device`` None is the GPU where there is one; ``precision`` is that of matrix products (``bfloat16``
    where the device is fast at it). It is loaded when first used, and pickles as its name.

    Raises
    ------
    ModelError
        where the precision is unknown; on first use where there is no such model.
    MissingExtra
        on first use where torch or the model's package is not installed.
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
    def place(self) -> str:
        """The kind of device that it computes on."""
        return str(self._loaded[0].device.type)

    def queries(self, texts: Sequence[str]) -> Encoded:
        model, tokenizers = self._loaded
        side = tokenizers.queries
        return Encoded(self._vectors(model.encode_queries, side, side.ids(list(texts))), self.fingerprint)

    def tokens(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        from dataclasses import replace

        side = self._loaded[1].documents
        found = side.ids(list(texts))
        most = side.side.max_length
        full = [text for text, ids in zip(texts, found, strict=True) if len(ids) >= most]
        one_more = replace(side, side=replace(side.side, max_length=most + 1))
        return found, sum(len(ids) > most for ids in one_more.ids(full))

    def documents(self, tokens: Sequence[Sequence[int]]) -> Floats:
        model, tokenizers = self._loaded
        return self._vectors(model.encode_documents, tokenizers.documents, tokens)

    def __reduce__(self) -> tuple[Any, ...]:
        return TorchEncoder, (self.model, self.device, self.precision)

    @cached_property
    def _loaded(self) -> tuple[BiEncoder, Tokenizers]:
        try:
            import torch

            from telerank.models.loading import load_bi_encoder
        except ModuleNotFoundError as error:
            raise MissingExtra(error.name or "torch", "neural") from error
        model, tokenizers = load_bi_encoder(_place(self.model))
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
            found = encode(side.pad(tokens))
        return np.asarray(found.float().cpu().numpy(), np.float32)


def _place(name: str) -> str | Path:
    """A folder that is there is one, whatever else the name may be."""
    return Path(name) if Path(name).is_dir() else name
