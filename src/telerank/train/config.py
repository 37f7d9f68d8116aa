"""What a training of a bi-encoder is asked to do: a YAML file; every default is RepBERT's (section 4.3.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, model_validator

from telerank.errors import FormatError


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Start(_Part):
    """The encoder that training begins with, and how it makes a vector."""

    start: str = "bert-base-uncased"
    """`minilm`, a folder, or a name on the hub."""
    fresh: bool = False
    """Take the shape and the vocabulary of `start` alone; draw the weights anew by the seed."""
    towers: Literal["shared", "two"] = "shared"
    """One encoder for both sides (RepBERT), or one for each, alike at the start (DPR)."""
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


class Negatives(_Part):
    """Hard negatives: documents that a run ranks high for a query and that are not relevant to it."""

    run: str
    """A run file with the queries of the training split."""
    depth: PositiveInt = 1000
    """The first so many of each list are drawn from."""
    per_query: PositiveInt = 1
    """So many are drawn for each pair, anew in each epoch; they are negatives of the whole batch."""


class Data(_Part):
    """What is learned from: the relevant pairs of a split."""

    collection: str
    """A folder, a file, or an ir_datasets id."""
    split: str = "train"
    """The split whose qrels are learned from."""
    format: str | None = None
    """The collection's format, if it is not recognised."""
    encoding: str = "utf-8"
    """Encoding of its texts."""
    negatives: Negatives | None = None
    """Hard negatives besides those of the batch; the paper has none."""


class Loss(_Part):
    """What is to be small."""

    objective: Literal["margin", "softmax", "classification", "cosine"] = "margin"
    """RepBERT's equation 4, DPR's softmax, or one of Sentence-BERT's two objectives over pairs."""
    margin: float = Field(default=1.0, gt=0)
    """By how much a relevant document's product should be greater (objective `margin`)."""
    scale: float = Field(default=1.0, gt=0)
    """Products are multiplied by it (`margin`, `softmax`); 20 is usual where the similarity is cosine."""


class Optimisation(_Part):
    """AdamW with a warm-up and linear decay to 0."""

    steps: PositiveInt = 350_000
    """Updates of the weights."""
    epochs: float | None = Field(default=None, gt=0)
    """Instead of steps: so many times as many pairs as there are."""
    batch: PositiveInt = 26
    """Pairs of a batch; the other pairs' documents are negatives."""
    accumulation: PositiveInt = 2
    """Batches to an update."""
    chunk: PositiveInt | None = None
    """Texts that are encoded at a time: the batch's gradients are cached, so that it may be any size."""
    learning_rate: float = Field(default=3e-6, gt=0)
    """The highest, at the end of the warm-up."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay of the two means of AdamW."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Not of biases and of layer norms."""
    warm_up: int = Field(default=10_000, ge=0)
    """Updates during which the rate rises from 0."""
    max_gradient_norm: float = Field(default=1.0, gt=0)
    """Longer gradients are shortened to this, as in the training of BERT."""


class Dev(_Part):
    """Queries that tell when to stop, and which weights to keep."""

    split: str
    """Their split, of the same collection."""
    measure: str = "RR@10"
    """As ir_measures writes it; higher is better."""
    every: PositiveInt = 10_000
    """Updates between two looks."""
    patience: PositiveInt = 100_000
    """Stop after so many updates without a better value."""
    queries: PositiveInt | None = None
    """At most so many queries, drawn by the seed."""
    documents: PositiveInt | None = None
    """The judged documents, and others drawn by the seed up to so many; without it, all documents."""


class BiEncoderTraining(_Part):
    """One training."""

    data: Data
    model: Start = Start()
    loss: Loss = Loss()
    optimisation: Optimisation = Optimisation()
    dev: Dev | None = None
    """Without it the last weights are kept."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """bfloat16 where `auto` finds a GPU that computes in it, else float32."""
    device: str = "auto"
    """`cpu`, `cuda`, `cuda:1`; `auto` is the GPU where there is one."""
    seed: int = Field(default=0, ge=0)
    """Of the order of pairs, of negatives, of dropout and of fresh weights."""
    log_every: PositiveInt = 10
    """Updates between two lines of the log."""
    checkpoint_every: PositiveInt = 1000
    """Updates between two checkpoints."""
    keep: PositiveInt = 2
    """Checkpoints that stay on disk, besides the best weights."""

    @model_validator(mode="after")
    def _warms_up_within_the_training(self) -> BiEncoderTraining:
        wanted = self.optimisation
        if wanted.epochs is None and wanted.warm_up >= wanted.steps:
            raise ValueError(f"warm_up ({wanted.warm_up}) must be less than steps ({wanted.steps})")
        return self


def read_config(path: str | Path) -> BiEncoderTraining:
    """The configuration of a YAML file.

    Raises
    ------
    FormatError
        where it is no YAML, has an unknown key, or a value that cannot be.
    """
    try:
        record: Any = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise FormatError(path, mark.line + 1 if mark else None, "YAML", str(error).split("\n")[0]) from error
    if not isinstance(record, dict):
        raise FormatError(path, None, "a mapping with at least data: {collection: …}", repr(record))
    try:
        return BiEncoderTraining.model_validate(record)
    except ValidationError as error:
        raise FormatError(path, None, _said(error)) from error


def write_config(config: BiEncoderTraining, path: Path) -> None:
    """Write every setting, defaults among them, as :func:`read_config` reads it."""
    path.write_text(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False), encoding="utf-8")


def _said(error: ValidationError) -> str:
    first, more = error.errors()[0], error.error_count() - 1
    place = ".".join(str(part) for part in first["loc"])
    what = (
        f"no key {place!r}"
        if first["type"] == "extra_forbidden"
        else f"{place or 'settings'}: {first['msg']}"
    )
    return f"{what} (and {more} more)" if more else what
