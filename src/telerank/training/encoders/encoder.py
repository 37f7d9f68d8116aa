"""What learns to encode: two sides of texts, the score of a query and a document, and what is saved.

Bi-encoders, SPLADE and late interaction differ in this alone: one task trains them
(:mod:`telerank.training.encoders.task`), and one dev search measures them.

=====  ==============================================
``Q``  queries
``N``  documents
``L``  tokens of a text
``V``  terms, if vectors have a weight for each
=====  ==============================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from telerank.models.encoders.bi_encoder import SideTokenizer


@dataclass(frozen=True, eq=False)
class EncoderSide:
    """How the texts of one side, queries or documents, become tokens and vectors.

    ``tokenize`` gives the tokens of each text, at most ``longest``. ``pad`` makes tensors by name of the
    tokens of several texts, each (B, L), of a width or of the longest text's. ``encode`` makes vectors of
    these: (B, H), one for each text, or (B, L, H), where rows of zeros at the end of a text do not count.
    Without gradients, texts of up to ``tokens`` tokens are encoded together.
    """

    tokenize: Callable[[Sequence[str]], Sequence[Sized]]
    pad: Callable[[Sequence[Any], int | None], Mapping[str, Tensor]]
    encode: Callable[[Mapping[str, Tensor]], Tensor]
    longest: int
    tokens: int = 8192

    @classmethod
    def of(cls, tokenizer: SideTokenizer, encode: Callable[[Mapping[str, Tensor]], Tensor]) -> EncoderSide:
        """The side of a tokenizer."""
        return cls(tokenizer.ids, tokenizer.pad, encode, tokenizer.side.max_length)


class TrainableEncoder(ABC):
    """An encoder of queries and documents that a training can make better.

    ``module`` has all of its weights, and moves between devices.
    """

    module: nn.Module
    queries: EncoderSide
    documents: EncoderSide

    def score(self, queries: Tensor, documents: Tensor) -> Tensor:
        """The scores (Q, N) of vectors: inner products."""
        return queries @ documents.T

    def penalty(self, queries: Tensor, documents: Tensor, update: int) -> Tensor | None:  # noqa: ARG002
        """What is added to the loss of a batch at an update, counted from 0; None: nothing."""
        return None

    def count_terms(self, vectors: Tensor) -> Tensor | None:  # noqa: ARG002 — most have none
        """How many of the texts have each term, (V,); None if vectors are not weights of terms."""
        return None

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the model into a folder that does not exist yet."""

    def state(self) -> Mapping[str, Tensor]:
        """The tensors by name that a checkpoint needs besides the files of :meth:`save`."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:  # noqa: ARG002 — nothing by default
        """Restore the :meth:`state` of a checkpoint; the encoder was opened from its files."""
        return
