"""The settings of a training of term weights, a YAML file; lengths and rate are DeepCT's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from telerank.errors import ModelError
from telerank.models.encoders.term_weights import QueryKind, TermWeightSettings, WeightKind
from telerank.training import settings
from telerank.training.encoders.config import (
    EncoderData,
    EncoderDev,
    EncoderLoss,
    EncoderOptimisation,
    EncoderTraining,
)

_SCALE = 100  # of DeepCT's frequencies


class TermWeightStart(settings.CheckedSection):
    """The model and the encoder that training starts from."""

    start: str = "bert-base-uncased"
    """An encoder: `minilm`, `e5-small`, a folder, or a name on the hub; or a model of term weights."""
    kind: WeightKind = "deepct"
    """`deepct`: the share of a document's queries that hold a word, learned by regression. `unicoil`, of
    pieces, and `deepimpact`, of words: what adds up to scores, learned through them."""
    head: Literal["linear", "mlp"] | None = None
    """What makes a weight of a token's vector: a `linear` layer, or two layers; by default one, of
    `deepimpact` two."""
    word: Literal["first", "largest"] = "first"
    """A word has the weight of its `first` piece (DeepCT, DeepImpact), or the `largest` of its pieces."""
    queries: QueryKind | None = None
    """The weights of a query's terms: those of the `model` (the default of `unicoil`), how often the query
    holds them (`counts`, of `deepct`), or `ones` (of `deepimpact`)."""
    scale: int | None = None
    """N: an index stores round(N · w), which BM25 reads as a frequency; 0 stores w. By default 100 of
    `deepct`, else 0."""
    root: bool = False
    """Store round(N · √w) (HDCT)."""
    query_length: PositiveInt = 32
    """Most tokens of a query, if the model weighs queries; the rest is cut off."""
    document_length: PositiveInt = 128
    """Most tokens of a document, including special ones; the rest is cut off."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Probability of dropout, in all layers and before the head."""

    @property
    def settings(self) -> TermWeightSettings:
        """The settings of the model."""
        heads: dict[WeightKind, Literal["linear", "mlp"]] = {"deepimpact": "mlp"}
        weighs: dict[WeightKind, QueryKind] = {"unicoil": "model", "deepct": "counts", "deepimpact": "ones"}
        return TermWeightSettings(
            self.kind,
            self.head or heads.get(self.kind, "linear"),
            self.word,
            self.queries or weighs[self.kind],
            (_SCALE if self.kind == "deepct" else 0) if self.scale is None else self.scale,
            self.root,
            self.query_length,
            self.document_length,
        )

    def problems(self) -> Iterator[tuple[object, str]]:
        try:
            self.settings  # noqa: B018
        except ModelError as error:
            yield True, str(error)


class TermWeightData(EncoderData):
    """The relevant pairs of a split, and for what is learned through scores triples, or negatives."""

    analyzer: str = "english"
    """What makes terms of documents and queries, as in the index that the model is for (`deepct` and
    `deepimpact`)."""


class TermWeightOptimisation(EncoderOptimisation):
    """AdamW with a warm-up and linear decay to 0."""

    steps: PositiveInt = 10_000
    batch: PositiveInt = 32
    """Documents of `deepct`; query-document pairs of the others, relevant or not, over all processes."""
    learning_rate: float = Field(default=2e-5, gt=0)
    warm_up: NonNegativeInt | settings.Share = 0.1


class TermWeightDev(EncoderDev):
    """Queries that decide which weights to keep, and when to stop; they are not learned from.

    Of `deepct` neither are their documents, whose mean squared error is the dev loss. Measures are those of
    rankings by the sum of a document's weights of the query's terms.
    """

    every: settings.Interval = 500
    patience: settings.Interval = 10_000


class TermWeightTraining(EncoderTraining):
    """The settings of a training."""

    data: TermWeightData
    model: TermWeightStart = TermWeightStart()
    optimisation: TermWeightOptimisation = TermWeightOptimisation()
    dev: TermWeightDev | None = None

    @property
    def by_recall(self) -> bool:
        """Whether words of documents are learned from, not scores."""
        return self.model.kind == "deepct"

    @property
    def smaller_batch(self) -> str:
        if not self.by_recall:
            return super().smaller_batch
        return f"optimisation.batch to less than {self.optimisation.batch}, and accumulation to more"

    def problems(self) -> Iterator[tuple[object, str]]:
        yield from super().problems()
        given = [f"data.{name}" for name in ("negatives", "triples", "pairs") if getattr(self.data, name)]
        given += ["optimisation.chunk"] if self.optimisation.chunk else []
        given += ["loss"] if self.loss != EncoderLoss() else []
        learns = "deepct learns from documents with their queries, by mean squared error"
        yield self.by_recall and given, f"{learns}: leave out {', '.join(given)}"
