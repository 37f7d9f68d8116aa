"""The record of one kind of re-ranker: everything that differs from kind to kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from torch import Tensor, nn

from telerank.models.pairs.pair import PairBatch, PairTexts

if TYPE_CHECKING:
    from telerank.models.rerankers.reranker import Shape

Loaded: TypeAlias = tuple[nn.Module, PairTexts]
"""A model, and what makes its pairs of texts."""
Dropout: TypeAlias = float | None
"""Overrides every probability of dropout in an encoder."""
Vocabulary: TypeAlias = Collection[str] | None
"""The words that are kept of a table of word vectors; None keeps all."""

BERT_DMN_PAPER: Mapping[str, Any] = {
    "loss": {"objective": "margin"},
    "optimisation": {"epochs": 10.0, "batch": 32, "learning_rate": 3e-5, "warm_up": 1000},
}
"""How Leonhardt et al. train (section 5). They do not give the number of epochs, nor say whether the learning
rate falls after the warm-up."""


@dataclass(frozen=True, eq=False)
class ModelParts:
    """The parts of a model, which are saved and hashed: a transformer, with its configuration, and layers.

    The weights of the layers are saved in ``file``.
    """

    transformer: Any = None
    layers: nn.Module | None = None
    file: str = ""


@dataclass(frozen=True)
class ModelExplanation:
    """Values that a model computes for one pair, each with its name; ``title`` says what their sum is."""

    title: str
    values: tuple[tuple[float, str], ...]


class Family(ABC):
    """How models of related kinds are created, loaded and taken apart."""

    over_words: ClassVar[bool] = False
    """Whether a model starts from word vectors, and has no transformer."""
    has_head: ClassVar[bool] = False
    """Whether a model is an encoder with a head, so that the encoder may be frozen."""
    takes_settings: ClassVar[bool] = True
    """Whether a model takes settings (:attr:`~telerank.models.rerankers.reranker.Shape.head`)."""

    @abstractmethod
    def create(self, start: str | Path, shape: Shape, dropout: Dropout, keep: Vocabulary, /) -> Loaded:
        """A model before training; see :func:`telerank.models.rerankers.reranker.fresh_reranker`."""

    @abstractmethod
    def load(self, folder: Path, shape: Shape, dropout: Dropout, /) -> Loaded:
        """A model whose :meth:`parts` were saved in ``folder``."""

    @abstractmethod
    def parts(self, model: Any) -> ModelParts:
        """The parts of a model of this family."""


@dataclass(frozen=True)
class RerankerKind:
    """A kind of re-ranker.

    Attributes
    ----------
    family
        How its models are created, loaded and taken apart.
    training
        The settings of its paper's training, by section, where they differ from the general defaults.
    reads_sentences
        Whether passages must be given with the spans of their sentences.
    gates
        From a model and a batch to logits, (B,), and the attention that each episode pays to each sentence,
        (B, episodes, S).
    explain
        What a model shows of the score of a single pair: from the model, its texts and a batch of one pair.
    """

    family: Family
    training: Mapping[str, Any]
    reads_sentences: bool = False
    gates: Callable[[Any, PairBatch], tuple[Tensor, Tensor]] | None = None
    explain: Callable[[Any, Any, PairBatch], ModelExplanation] | None = None
