"""What a training of a bi-encoder is asked to do: a YAML file; every default is RepBERT's (section 4.3.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from telerank.training import settings
from telerank.training.settings import (
    Interval,
    Looks,
    Section,
    Share,
    Training,
    TrainingData,
    read_settings,
    write_settings,
)


class BiEncoderStart(Section):
    """The encoder that training begins with, and how it makes a vector."""

    start: str = "bert-base-uncased"
    """`minilm`, a folder, or a name on the hub."""
    fresh: bool = False
    """Take the shape and the vocabulary of `start` alone; draw the weights anew by the seed."""
    towers: Literal["shared", "two"] = "shared"
    """One encoder for both sides (RepBERT), or one for each, alike at the start (DPR)."""
    document_start: str | None = None
    """Of two towers: the encoder of documents, where it is another one; its vocabulary may be, too."""
    pooling: Literal["mean", "cls"] = "mean"
    """The mean of the tokens' vectors, or the first token's."""
    similarity: Literal["inner_product", "cosine"] = "inner_product"
    """The raw inner product, or that of vectors of length 1."""
    query_length: PositiveInt = 20
    """Tokens of a query, special ones counted; the rest is cut."""
    document_length: PositiveInt = 256
    """Tokens of a document, special ones counted; the rest is cut."""
    query_segment: int = Field(default=0, ge=0)
    """Token type of queries, where the encoder knows types."""
    document_segment: int = Field(default=1, ge=0)
    """Token type of documents, where the encoder knows types (footnote 2)."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Probability of dropout, on all layers."""

    @model_validator(mode="after")
    def _has_a_tower_for_each_start(self) -> BiEncoderStart:
        if self.document_start is not None and self.towers != "two":
            raise ValueError("document_start is of two towers: set towers to two")
        return self


class HardNegatives(Section):
    """Hard negatives: documents that a run ranks high for a query and that are not relevant to it."""

    run: str
    """A run file with the queries of the training split."""
    depth: PositiveInt = 1000
    """The first so many of each list are drawn from."""
    per_query: PositiveInt = 1
    """So many are drawn for each pair, anew in each epoch; they are negatives of the whole batch."""


class BiEncoderData(TrainingData):
    """What is learned from: the relevant pairs of a split."""

    negatives: HardNegatives | None = None
    """Hard negatives besides those of the batch; the paper has none."""


class BiEncoderLoss(Section):
    """What is to be small."""

    objective: Literal["margin", "softmax", "classification", "cosine"] = "margin"
    """RepBERT's equation 4, DPR's softmax, or one of Sentence-BERT's two objectives over pairs."""
    margin: float = Field(default=1.0, gt=0)
    """By how much a relevant document's product should be greater (objective `margin`)."""
    scale: float = Field(default=1.0, gt=0)
    """Products are multiplied by it (`margin`, `softmax`); 20 is usual where the similarity is cosine."""


class BiEncoderOptimisation(settings.OptimisationSettings):
    """AdamW with a warm-up and linear decay to 0."""

    steps: PositiveInt = 350_000
    """Updates of the weights."""
    batch: PositiveInt = 26
    """Pairs of a batch, those of all processes together; the other pairs' documents are negatives."""
    accumulation: PositiveInt = 2
    """Batches to an update."""
    chunk: PositiveInt | None = None
    """Texts that are encoded at a time: the batch's gradients are cached, so that it may be any size."""
    learning_rate: float = Field(default=3e-6, gt=0)
    """The highest, at the end of the warm-up."""
    warm_up: NonNegativeInt | Share = 10_000
    """Updates during which the rate rises from 0, or, below 1, their share of all."""


class BiEncoderDev(Looks):
    """Queries that tell when to stop, and which weights to keep."""

    split: str
    """Their split, of the same collection."""
    measure: str = "RR@10"
    """As ir_measures writes it; higher is better."""
    every: Interval = 10_000
    """Updates between two looks, or epochs, as `0.5 epochs`."""
    patience: Interval = 100_000
    """Stop after so many updates, or epochs, without a better value."""
    queries: PositiveInt | None = None
    """At most so many queries, drawn by the seed."""
    documents: PositiveInt | None = None
    """The judged documents, and others drawn by the seed up to so many; without it, all documents."""


class BiEncoderTraining(Training):
    """One training."""

    data: BiEncoderData
    model: BiEncoderStart = BiEncoderStart()
    loss: BiEncoderLoss = BiEncoderLoss()
    optimisation: BiEncoderOptimisation = BiEncoderOptimisation()
    dev: BiEncoderDev | None = None
    """Without it the last weights are kept."""


def read_config(path: str | Path) -> BiEncoderTraining:
    """The configuration of a YAML file.

    Raises
    ------
    FormatError
        where it is no YAML, has an unknown key, or a value that cannot be.
    """
    return read_settings(path, BiEncoderTraining)


write_config = write_settings
