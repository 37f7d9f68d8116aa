"""The settings of a late-interaction model's training, a YAML file.

Defaults are ColBERT's (Khattab and Zaharia 2020; lengths, dimension, batch and rate of learning), but for the
loss, whose negatives are all documents of the batch (ColBERTv2, Santhanam et al. 2022).
"""

from __future__ import annotations

from pydantic import Field, NonNegativeInt, PositiveInt

from telerank.training import settings
from telerank.training.encoders.config import EncoderOptimisation, EncoderTraining


class LateStart(settings.CheckedSection):
    """The encoder that training starts from, and how it makes vectors of tokens.

    If `start` is a late-interaction model, what is not set here stays as it is there.
    """

    start: str = "bert-base-uncased"
    """Any encoder, or a late-interaction model: `minilm`, a folder, or a name on the hub."""
    dimension: PositiveInt | None = None
    """Numbers in the vector of a token; by default 128."""
    query_length: int | None = Field(default=None, ge=3)
    """Most tokens of a query, special ones and the marker included; by default 32."""
    document_length: int | None = Field(default=None, ge=3)
    """Most tokens of a document; by default 180."""
    expand: bool | None = None
    """Fill queries up to `query_length` with masks, whose vectors count; by default they are filled."""
    attend: bool | None = None
    """Whether other tokens attend to those masks; by default they do not."""
    skip_punctuation: bool | None = None
    """Whether punctuation in documents has no vectors; by default it has none."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Probability of dropout, in all layers."""


class LateOptimisation(EncoderOptimisation):
    """AdamW with a warm-up and linear decay to 0."""

    steps: PositiveInt = 200_000
    learning_rate: float = Field(default=3e-6, gt=0)
    warm_up: NonNegativeInt | settings.Share = 0


class LateTraining(EncoderTraining):
    """The settings of a training."""

    model: LateStart = LateStart()
    optimisation: LateOptimisation = LateOptimisation()
