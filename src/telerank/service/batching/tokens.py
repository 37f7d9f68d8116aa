"""The tokens of texts, with their places, as the tokenizer of a model has them."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

from telerank.errors import ModelError
from telerank.models.pairs.pair import PairTokenizer
from telerank.reranking.scorer import Scorer

if TYPE_CHECKING:
    from telerank.dense.encoder import TorchEncoder


class PlacedToken(NamedTuple):
    """A token: its number, its form, whether it is special, its characters from ``start`` to ``stop``."""

    number: int
    form: str
    special: bool
    start: int
    stop: int


class PlainTokenizer:
    """A copy of a model's tokenizer that cuts nothing; several threads may use it.

    Raises
    ------
    ModelError
        If the model reads words of a list, and not the tokens of a tokenizer.
    """

    def __init__(self, model: Scorer | TorchEncoder) -> None:
        self._backend: Any = deepcopy(_tokenizer(model).backend_tokenizer)
        self._backend.no_truncation()
        self._backend.no_padding()

    def read(self, texts: Sequence[str], *, special: bool) -> list[list[PlacedToken]]:
        """The tokens of each text, with ``special`` those that frame it."""
        encodings = self._backend.encode_batch(list(texts), add_special_tokens=special)
        return [
            [
                PlacedToken(number, form, bool(frames), *place)
                for number, form, frames, place in zip(
                    encoding.ids,
                    encoding.tokens,
                    encoding.special_tokens_mask,
                    encoding.offsets,
                    strict=True,
                )
            ]
            for encoding in encodings
        ]


def _tokenizer(model: Scorer | TorchEncoder) -> Any:
    if not isinstance(model, Scorer):
        return model.copy_tokenizers().documents.tokenizer
    texts = model.reranker.texts
    if not isinstance(texts, PairTokenizer):
        raise ModelError(f"{model.name} reads words, and has no tokenizer")
    return texts.tokenizer
