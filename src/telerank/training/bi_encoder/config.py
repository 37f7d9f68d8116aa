"""The settings of a bi-encoder's training, a YAML file; every default is RepBERT's (section 4.3.1).

What is learned from has no default: the paper's is MS MARCO's "Train Triples", ``data.triples``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from telerank.records import Section
from telerank.training import settings
from telerank.training.encoders.config import EncoderLoss, EncoderOptimisation, EncoderTraining

PAIRWISE = ("classification", "cosine")
"""Sentence-BERT's losses of pairs of vectors."""


class BiEncoderStart(settings.CheckedSection):
    """The encoder that training starts from, and how it computes a vector."""

    start: str = "bert-base-uncased"
    """`minilm`, `e5-small`, a folder, or a name on the hub."""
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
    document_segment: NonNegativeInt | None = None
    """Token type of documents, if the encoder has token types; by default 1 (footnote 2), or 0 if the sides
    have prompts, as E5's have."""
    query_prompt: str | None = None
    """Text before each query; by default the one that `start` has (`e5-small`: `query: `)."""
    document_prompt: str | None = None
    """Text before each document; by default the one that `start` has (`e5-small`: `passage: `)."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Probability of dropout, in all layers."""

    def problems(self) -> Iterator[tuple[object, str]]:
        shared = self.document_start is not None and self.towers != "two"
        yield shared, "document_start needs two towers: set towers to two"


class BiEncoderLoss(EncoderLoss):
    """The loss to minimise."""

    known: ClassVar[tuple[str, ...]] = ("margin", *EncoderLoss.known, *PAIRWISE)

    objective: str | dict[str, float] = "margin"
    """`margin`: RepBERT's equation 4. `softmax`: DPR's, over the batch. `classification` and `cosine`:
    Sentence-BERT's two losses of pairs, which see the vectors as they are: `similarity: cosine` normalises
    them only to rank. `group-softmax`, `margin-mse` and `kl` are of the documents of a group. Or several with
    their weights, as `{kl: 1, softmax: 0.1}`, but for Sentence-BERT's."""
    margin: float = Field(default=1.0, gt=0)
    """How much higher the product of a relevant document should be (objective `margin`)."""
    scale: float = Field(default=1.0, gt=0)
    """Factor of the products, but for Sentence-BERT's objectives; 20 is usual if the similarity is cosine."""

    def problems(self) -> Iterator[tuple[object, str]]:
        yield from super().problems()
        pairwise = not isinstance(self.objective, str) and set(PAIRWISE) & self.objective.keys()
        yield pairwise, "objectives classification and cosine stand alone, without weights"


class BiEncoderOptimisation(EncoderOptimisation):
    """AdamW with a warm-up and linear decay to 0."""

    steps: PositiveInt = 350_000
    batch: PositiveInt = 26
    """Query-document pairs in a batch, relevant or not, over all processes together: 26 with a negative for
    each query are 13 queries, whose negatives are all other documents of the batch."""
    accumulation: PositiveInt = 2
    learning_rate: float = Field(default=3e-6, gt=0)
    warm_up: NonNegativeInt | settings.Share = 10_000


class BiEncoderTraining(EncoderTraining):
    """The settings of a training."""

    model: BiEncoderStart = BiEncoderStart()
    loss: BiEncoderLoss = BiEncoderLoss()
    optimisation: BiEncoderOptimisation = BiEncoderOptimisation()


class FineTuning(Section):
    """What a fine-tuning may be told; everything else follows from the encoder and the collection."""

    split: str | None = None
    """The split to learn from. Default: `train`, or the only one."""
    dev_split: str | None = None
    """The split that decides when to stop. Default: `dev` or `valid`, or a tenth of the queries to learn
    from, which are kept back."""
    measures: str = "nDCG@10"
    """The measure on dev, by its name in ir_measures, higher is better."""
    epochs: float = Field(default=1.0, gt=0)
    """Most passes over the queries; dev ends it earlier."""
    batch: PositiveInt = 32
    """Queries in a batch, each with a relevant document and its negatives."""
    negatives: PositiveInt = 1
    """Documents beside each relevant one that the encoder ranks high and that are not relevant."""
    chunk: PositiveInt | None = None
    """Texts of a batch whose gradients are computed at a time: memory grows with them. Default: 16 on a
    processor, where each text is encoded twice; on a GPU all."""
    learning_rate: float = Field(default=2e-5, gt=0)
    """The highest learning rate."""
    query_length: PositiveInt = 64
    """Most tokens of a query; fewer if the encoder takes fewer."""
    document_length: PositiveInt = 256
    """Most tokens of a document; fewer if the encoder takes fewer."""
    precision: Literal["auto", "float32", "float32-fast", "tf32", "bfloat16", "float16"] = "auto"
    """Precision of matrix products."""
    seed: settings.Seed = 0
    """Seed of the order of queries, of negatives and dropout."""
