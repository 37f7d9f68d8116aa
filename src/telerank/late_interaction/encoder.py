"""The encoder of late interaction: texts to vectors of tokens, in torch, which is loaded when it is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from telerank.dense.kinds import Floats
from telerank.errors import MissingExtra

if TYPE_CHECKING:
    import torch

    from telerank.models.encoders.late_interaction import LateInteraction, LateTokenizer, TokenizedText

_BATCH = 4096  # tokens, padding included


class EncodedText(NamedTuple):
    """The number of a text among those given, and the vectors (T, D) float32 of its tokens.

    ``is_cut``: it has more tokens than the model reads.
    """

    number: int
    vectors: Floats
    is_cut: bool


@dataclass(frozen=True)
class LateEncoder:
    """A model with a vector for each token, by its name: a folder, or a name on the hub.

    ``device`` None is the GPU if there is one. It computes in float32. The model is loaded when it is first
    used, and pickles as its name. If there is no such model the first use raises ModelError; without torch,
    MissingExtra.
    """

    model: str
    device: str | None = None

    @property
    def name(self) -> str:
        return self.model

    @cached_property
    def fingerprint(self) -> str:
        """Identifies everything that decides a vector."""
        from telerank.models.encoders.late_folders import fingerprint_late

        return fingerprint_late(*self._loaded)

    @property
    def dimension(self) -> int:
        return self._loaded[0].dimension

    @property
    def settings(self) -> Mapping[str, Any]:
        return self._loaded[0].settings.record()

    def encode_query(self, text: str) -> tuple[Floats, list[str]]:
        """The vectors (Q, D) float32 of a query's tokens, and the tokens."""
        [row] = self._loaded[1].queries([text])
        [vectors] = self._encode([row])
        return vectors, self._loaded[1].words(row.kept_ids)

    def encode_documents(self, texts: Sequence[str]) -> Iterator[EncodedText]:
        """The vectors of the tokens of each text; the longest come first."""
        rows = self._loaded[1].documents(texts)
        order = sorted(range(len(rows)), key=lambda number: -len(rows[number].ids))
        begin = 0
        while begin < len(order):
            count = max(1, _BATCH // max(1, len(rows[order[begin]].ids)))
            part = order[begin : begin + count]
            vectors = self._encode([rows[number] for number in part])
            for number, own in zip(part, vectors, strict=True):
                yield EncodedText(number, own, rows[number].is_cut)
            begin += count

    def document_words(self, text: str) -> list[str]:
        """The tokens of a document that have vectors."""
        tokenizer = self._loaded[1]
        [row] = tokenizer.documents([text])
        return tokenizer.words(row.kept_ids)

    def __reduce__(self) -> tuple[Any, ...]:
        return LateEncoder, (self.model, self.device)

    def _encode(self, rows: Sequence[TokenizedText]) -> list[Floats]:
        from telerank.models.encoders.late_interaction import encode_rows

        model, tokenizer = self._loaded
        return encode_rows(model, rows, tokenizer.tokenizer.pad_token_id or 0, self._device)

    @cached_property
    def _device(self) -> torch.device:
        from telerank.models.precision import device_of

        return device_of(self.device or "auto")

    @cached_property
    def _loaded(self) -> tuple[LateInteraction, LateTokenizer]:
        try:
            import_module("torch")
            from telerank.models.encoders.late_folders import load_late
        except ModuleNotFoundError as error:
            raise MissingExtra(error.name or "torch", "neural") from error
        model, tokenizer = load_late(self.model)
        return model.to(self._device), tokenizer
