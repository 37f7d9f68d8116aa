"""The settings of a SPLADE model's training, a YAML file.

Defaults are SPLADE++'s where its paper says them (Formal, Lassance, Piwowarski and Clinchant 2022), and
sentence-transformers' for the regulariser. What is learned from has no default.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from telerank.records import Section
from telerank.training import settings
from telerank.training.encoders.config import EncoderOptimisation, EncoderTraining


class SpladeStart(settings.CheckedSection):
    """The model that training starts from, and how it weighs the pieces of its vocabulary."""

    start: str = "distilbert-base-uncased"
    """A masked language model, a sparse encoder, or another encoder, which gets a head for masks: `minilm`,
    a folder, or a name on the hub."""
    fresh: bool = False
    """Use only the shape and the vocabulary of `start`; the seed draws new weights."""
    queries: Literal["shared", "own", "static"] = "shared"
    """`shared`: one encoder for queries and documents. `own`: one for each. `static`: queries have one weight
    for each piece, and no model is computed for them."""
    query_start: str | None = None
    """What the encoder of queries starts from (queries `own`); by default `start`. The vocabulary is the
    same."""
    static_start: Literal["idf", "ones"] = "idf"
    """The weights of pieces before the first update: 1, or ln(1 + (N - n + 0.5) / (n + 0.5)), if n of the N
    documents of the collection have the piece. A `start` that has such weights keeps them."""
    static_frozen: bool = False
    """Leave the weights of pieces as they are."""
    static_rate: float = Field(default=50.0, gt=0)
    """How many times as fast the weights of pieces learn as the encoder."""
    pooling: Literal["max", "sum"] | None = None
    """The largest weight of a piece over the tokens of a text (SPLADE v2), or the sum (SPLADE); by default
    that of `start`, or else `max`."""
    activation: Literal["log", "log-log"] | None = None
    """`log`: ln(1 + max(x, 0)); `log-log`: ln(1 + ln(1 + max(x, 0))). By default that of `start`, or else
    `log`."""
    start_terms: PositiveInt | None = None
    """Add one number to all logits of `start` before the first update, so that the first 64 documents of the
    collection have so many terms on average; `query_start` stays as it is. A head that was trained for masks,
    or drawn, may give every piece a logit above 0, since its softmax is the same whatever is added to all."""
    max_length: PositiveInt = 256
    """Most tokens of a text, including special ones; the rest is cut off."""
    query_length: PositiveInt | None = None
    """Most tokens of a query, if queries have an encoder or weights of their own; by default `max_length`."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Probability of dropout, in all layers."""

    def problems(self) -> Iterator[tuple[object, str]]:
        yield self.query_start and self.queries != "own", "query_start needs queries: own"
        shared = self.query_length is not None and self.queries == "shared"
        yield shared, "one encoder cuts queries and documents to max_length: no query_length"
        fields = type(self).model_fields
        for name in ("static_start", "static_frozen", "static_rate"):
            alone = self.queries != "static" and getattr(self, name) != fields[name].default
            yield alone, f"{name} goes with queries: static"


class SideRegulariser(Section):
    """What keeps the vectors of a side sparse."""

    kind: Literal["flops", "l1"] = "flops"
    """`flops`: the squares of the mean weights of all pieces, summed (Paria et al. 2020). `l1`: the mean sum
    of a text's weights."""
    weight: NonNegativeFloat
    """The factor in the loss, when it is reached; a larger one leaves fewer terms."""
    threshold: NonNegativeInt = 0
    """Texts with no more terms than this do not count."""


class RegulariserSettings(Section):
    """What is added to the loss to keep vectors sparse, and how fast it rises."""

    queries: SideRegulariser = SideRegulariser(weight=5e-5)
    """Of queries, unless they have one weight for each piece."""
    documents: SideRegulariser = SideRegulariser(weight=3e-5)
    """Of documents."""
    warm_up: NonNegativeInt | settings.Share = 1 / 3
    """Updates during which the factors rise from 0; a number below 1 is a share of all updates."""
    rise: Literal["quadratic", "linear"] = "quadratic"
    """The factors rise with the square of the update (SPLADE), or with the update."""


class SpladeOptimisation(EncoderOptimisation):
    """AdamW with a warm-up and linear decay to 0."""

    steps: PositiveInt = 150_000
    learning_rate: float = Field(default=2e-5, gt=0)
    warm_up: NonNegativeInt | settings.Share = 6000


class SpladeTraining(EncoderTraining):
    """The settings of a training."""

    model: SpladeStart = SpladeStart()
    regulariser: RegulariserSettings = RegulariserSettings()
    optimisation: SpladeOptimisation = SpladeOptimisation()

    def problems(self) -> Iterator[tuple[object, str]]:
        yield from super().problems()
        differs = self.regulariser.queries != type(self.regulariser).model_fields["queries"].default
        static = self.model.queries == "static" and differs
        yield (
            static,
            "regulariser.queries: queries with one weight for each piece are as sparse as their texts",
        )
