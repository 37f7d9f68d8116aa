"""The settings of an expander's training, a YAML file.

The lengths are docTTTTTquery's (Nogueira and Lin, 2019); rate and length of a training are for small models.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveInt

from telerank.training import settings


class ExpanderStart(settings.CheckedSection):
    """The model that training starts from, and how it reads and writes."""

    start: str = "minilm"
    """A model that writes texts (T5, BART, an encoder-decoder), or an encoder (`minilm`, a folder, a name on
    the hub), which becomes both halves of one."""
    max_length: PositiveInt = 512
    """Most pieces of a document, special ones among them; the rest is cut off."""
    max_query: PositiveInt = 64
    """Most pieces of a query, with the one that ends it; the rest is cut off."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Probability of dropout, in all layers."""


class ExpanderData(settings.TrainingData):
    """Pairs of a query and a relevant document: of a split, or of triples, whose third text is not read."""

    def problems(self) -> Iterator[tuple[object, str]]:
        yield self.negatives or self.listed, "an expander learns from relevant documents alone"


class ExpanderOptimisation(settings.OptimisationSettings):
    """AdamW with a warm-up and linear decay to 0; `batch` counts pairs."""

    steps: PositiveInt = 10_000
    batch: PositiveInt = 32
    learning_rate: float = Field(default=1e-4, gt=0)
    warm_up: NonNegativeInt | settings.Share = 0.1
    max_gradient_norm: Annotated[float | None, Field(gt=0), settings.OFF] = 1.0


class ExpanderDev(settings.PerplexityDev):
    """Queries whose perplexity decides which weights to keep, and when to stop; they are not learned from.

    It is the exponential of the mean loss of a piece of a query, given its document and the pieces before.
    """

    split: str
    """The split of the dev queries, in the same collection."""
    queries: PositiveInt | None = None
    """Use at most this many queries, drawn by the seed."""
    every: settings.Interval = 500
    patience: settings.Interval = 10_000
    at_start: bool = True


class ExpanderTraining(settings.Training):
    """The settings of a training."""

    data: ExpanderData
    model: ExpanderStart = ExpanderStart()
    optimisation: ExpanderOptimisation = ExpanderOptimisation()
    dev: ExpanderDev | None = None
