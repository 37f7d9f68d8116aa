"""The kinds of re-rankers, by name, and the record of everything in which they differ.

A new kind is a module that holds the model and its record, ``KIND``, and a line in :data:`KINDS`. This file
imports no torch; the modules do, and are loaded when they are first used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from pydantic import with_config

from telerank.errors import ModelError, known_names

if TYPE_CHECKING:
    from torch import Tensor, nn

    from telerank.models.pairs.pair import PairBatch, PairTexts

KINDS = {
    "monobert": "telerank.models.rerankers.monobert",
    "bert": "telerank.models.rerankers.bert",
    "bert-dmn": "telerank.models.rerankers.bert_dmn",
    "dmn": "telerank.models.rerankers.dmn",
    "qa-lstm": "telerank.models.rerankers.qa_lstm",
    "k-nrm": "telerank.models.rerankers.knrm",
    "conv-knrm": "telerank.models.rerankers.conv_knrm",
    "co-pacrr": "telerank.models.rerankers.co_pacrr",
    "drmm": "telerank.models.rerankers.drmm",
    "parade": "telerank.models.rerankers.parade",
    "qds": "telerank.models.long.qds",
    "tkl": "telerank.models.long.tkl",
}
"""The module of each kind."""

Loaded: TypeAlias = "tuple[nn.Module, PairTexts]"
"""A model, and what makes its pairs of texts."""
GatesFunction: TypeAlias = "Callable[[Any, PairBatch], tuple[Tensor, Tensor]]"
"""From a model and a batch to logits, (B,), and the attention that each episode pays to each sentence,
(B, episodes, S)."""

BERT_DMN_PAPER: Mapping[str, Any] = {
    "loss": {"objective": "margin"},
    "optimisation": {"epochs": 10.0, "batch": 32, "learning_rate": 3e-5, "warm_up": 1000},
}
"""How Leonhardt et al. train (section 5). They do not give the number of epochs, nor say whether the learning
rate falls after the warm-up."""


@dataclass(frozen=True, eq=False)
class ModelParts:
    """What is saved and hashed: a transformer with its configuration, and layers, whose file is ``file``."""

    transformer: Any = None
    layers: nn.Module | None = None
    file: str = ""


@dataclass(frozen=True)
class ModelExplanation:
    """Values that a model computes for one pair, each with its name; ``title`` says what their sum is."""

    title: str
    values: tuple[tuple[float, str], ...]


@dataclass(frozen=True, kw_only=True)
class RerankerKind(ABC):
    """A kind of re-ranker.

    Attributes
    ----------
    training
        The settings of its paper's training, by section, where they differ from the general defaults.
    over_words
        Whether a model starts from word vectors, and has no transformer.
    has_head
        Whether a model is an encoder with a head, so that the encoder may be frozen.
    no_graph
        Why no graph of its transformer computes its scores; empty if one does.
    takes_settings
        Whether a model takes settings (:attr:`~Shape.head`).
    reads_parts
        Whether a model reads which tokens are the query's and the passage's, and their sentences; else the
        first token's output alone.
    reads_sentences
        Whether passages must be given with the spans of their sentences.
    gates
        The function of models with gates.
    explain
        What a model shows of the score of a single pair: from the model, its texts and a batch of one pair.
    """

    over_words: ClassVar[bool] = False
    has_head: ClassVar[bool] = False
    no_graph: ClassVar[str] = ""
    takes_settings: ClassVar[bool] = True

    training: Mapping[str, Any]
    reads_parts: bool = True
    reads_sentences: bool = False
    gates: GatesFunction | None = None
    explain: Callable[[Any, Any, PairBatch], ModelExplanation] | None = None

    @abstractmethod
    def create(
        self, start: Path, shape: Shape, dropout: float | None, keep: Collection[str] | None, /
    ) -> Loaded:
        """A model before training; see :func:`telerank.models.rerankers.reranker.fresh_reranker`."""

    @abstractmethod
    def load(self, folder: Path, shape: Shape, dropout: float | None, /) -> Loaded:
        """A model whose :meth:`parts` were saved in ``folder``."""

    @abstractmethod
    def parts(self, model: Any) -> ModelParts:
        """The parts of a model of this kind."""


@with_config(extra="forbid")
@dataclass(frozen=True)
class Shape:
    """Everything besides weights and vocabulary that decides a score.

    ``kind`` is one of :data:`KINDS`. A ``frozen`` encoder is not trained.
    ``max_query`` and ``max_length`` count tokens (monoBERT, section 2); with a ``max_query`` of None no query
    is cut that leaves the passage a token. ``language`` decides how sentences are split, for the kinds that
    read them. ``head`` has the settings of the head, or of a model over word vectors, by the names of its
    arguments.
    """

    kind: str = "monobert"
    frozen: bool = False
    max_query: int | None = 64
    max_length: int = 512
    language: Literal["en", "fr"] = "en"
    head: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kind = find_kind(self.kind)
        if self.head and not kind.takes_settings:
            raise ModelError(f"a {self.kind} has no settings of a head, got {', '.join(self.head)}")
        if self.frozen and not kind.has_head:
            raise ModelError(f"a {self.kind} has no head on a frozen encoder")

    def record(self) -> dict[str, Any]:
        """The settings, for JSON."""
        return {**asdict(self), "head": dict(self.head)}


def find_kind(name: str) -> RerankerKind:
    """The record of a kind.

    Raises
    ------
    ModelError
        If there is no such kind.
    """
    if name not in KINDS:
        raise ModelError(f"no re-ranker is called {name!r}; {known_names(KINDS, name)}")
    kind: RerankerKind = import_module(KINDS[name]).KIND
    return kind


def build(model: Callable[..., Any], size: Any, shape: Shape, part: str = "") -> Any:
    """A model or head from its first argument and the settings of a shape.

    Raises ModelError if they are no settings of it, or describe one that is too large.
    """
    from telerank.models.loading import bounded_by_memory, check_sizes

    check_sizes(dict(shape.head), f"the settings of a {part}{shape.kind}")
    for name, parameter in signature(model).parameters.items():
        value = shape.head.get(name)
        if parameter.annotation == "int" and value is not None and type(value) is not int:
            raise ModelError(f"{name} of a {part}{shape.kind} must be a whole number, got {value!r}")
    try:
        with bounded_by_memory():
            return model(size, **shape.head)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ModelError(f"these are no settings of a {part}{shape.kind}: {error}") from error
