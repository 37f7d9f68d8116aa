"""The settings of a bi-encoder's training, a YAML file; every default is RepBERT's (section 4.3.1)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from telerank.records import Section
from telerank.training import settings


class BiEncoderStart(Section):
    """The encoder that training starts from, and how it computes a vector."""

    start: str = "bert-base-uncased"
    """`minilm`, a folder, or a name on the hub."""
    fresh: bool = False
    """Use only the shape and the vocabulary of `start`; the seed draws new weights."""
    towers: Literal["shared", "two"] = "shared"
    """One encoder for queries and documents (RepBERT), or one for each, equal at the start (DPR)."""
    document_start: str | None = None
    """The encoder of documents, if two towers start from different encoders; vocabularies may differ."""
    pooling: Literal["mean", "cls"] = "mean"
    """The mean of the tokens' vectors, or the first token's."""
    similarity: Literal["inner_product", "cosine"] = "inner_product"
    """The inner product of the vectors, or of the vectors divided by their lengths."""
    query_length: PositiveInt = 20
    """Most tokens of a query, including special ones; the rest is cut off."""
    document_length: PositiveInt = 256
    """Most tokens of a document, including special ones; the rest is cut off."""
    query_segment: int = Field(default=0, ge=0)
    """Token type of queries, if the encoder has token types."""
    document_segment: int = Field(default=1, ge=0)
    """Token type of documents, if the encoder has token types (footnote 2)."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Probability of dropout, in all layers."""

    @model_validator(mode="after")
    def _has_a_tower_for_each_start(self) -> BiEncoderStart:
        if self.document_start is not None and self.towers != "two":
            raise ValueError("document_start needs two towers: set towers to two")
        return self


class HardNegatives(Section):
    """Hard negatives: documents that a run ranks high for a query, but that are not relevant to it."""

    run: str
    """A run file for the queries of the training split."""
    depth: PositiveInt = 1000
    """Negatives are drawn from the first `depth` documents of each ranking."""
    per_query: PositiveInt = 1
    """Negatives drawn for each pair, anew in each epoch; the whole batch shares them."""


class BiEncoderData(settings.TrainingData):
    """The relevant pairs of a split, and negatives for them."""

    negatives: HardNegatives | None = None
    """Hard negatives, in addition to the other documents of the batch; the paper has none."""


class BiEncoderLoss(Section):
    """The loss to minimise."""

    objective: Literal["margin", "softmax", "classification", "cosine"] = "margin"
    """RepBERT's equation 4, DPR's softmax over the batch, or one of Sentence-BERT's two losses of pairs."""
    margin: float = Field(default=1.0, gt=0)
    """How much higher the product of a relevant document should be (objective `margin`)."""
    scale: float = Field(default=1.0, gt=0)
    """Factor of the products (`margin`, `softmax`); 20 is usual if the similarity is cosine."""


class BiEncoderOptimisation(settings.OptimisationSettings):
    """AdamW with a warm-up and linear decay to 0."""

    steps: PositiveInt = 350_000
    """Number of updates of the weights; ignored if `epochs` is set, and then saved as `null`."""
    batch: PositiveInt = 26
    """Pairs in a batch, over all processes together; the documents of other pairs are negatives."""
    accumulation: PositiveInt = 2
    """Batches whose gradients are averaged for each update."""
    chunk: PositiveInt | None = None
    """Texts encoded at a time: gradients are cached, so that a batch of any size fits into memory."""
    learning_rate: float = Field(default=3e-6, gt=0)
    """The highest learning rate, reached at the end of the warm-up."""
    warm_up: NonNegativeInt | settings.Share = 10_000
    """Updates during which the rate rises from 0; a number below 1 is a share of all updates."""


class BiEncoderDev(settings.DevSettings):
    """Queries that decide which weights to keep, and when to stop; they are not learned from."""

    split: str
    """The split of the dev queries, in the same collection."""
    measure: str = "RR@10"
    """A measure by its name in ir_measures; higher is better."""
    every: settings.Interval = 10_000
    """Updates between two dev measures, or epochs: `0.5 epochs`."""
    patience: settings.Interval = 100_000
    """Stop after this many updates without a better dev measure, or epochs: `3 epochs`."""
    queries: PositiveInt | None = None
    """Use at most this many queries, drawn by the seed."""
    documents: PositiveInt | None = None
    """Search the judged documents and others drawn by the seed, this many in all; by default, all."""


class BiEncoderTraining(settings.Training):
    """The settings of a training."""

    data: BiEncoderData
    model: BiEncoderStart = BiEncoderStart()
    loss: BiEncoderLoss = BiEncoderLoss()
    optimisation: BiEncoderOptimisation = BiEncoderOptimisation()
    dev: BiEncoderDev | None = None
    """Dev queries; without them the last weights are kept."""
