"""The settings of a masked language model's training, a YAML file.

The shares of masks are BERT's (Devlin et al., 2019); length and rate are for an encoder that goes on learning
from texts of its future use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, PositiveInt

from telerank.training import settings


class TextSource(settings.CollectionSettings):
    """The documents of a collection: their titles and texts."""

    documents: PositiveInt | None = None
    """Use at most this many documents, drawn by the seed; a smaller number is part of a larger one."""


class TextData(settings.DataSettings):
    """Collections whose documents are learned from, together; their queries are not read."""

    sets: Annotated[tuple[TextSource, ...], Field(min_length=1)]
    """The collections."""


class MaskedStart(settings.CheckedSection):
    """The encoder that training starts from, and how it reads."""

    start: str = "e5-small"
    """`minilm`, `e5-small`, a folder, or a name on the hub: an encoder, with or without a head for masks, or
    any model on one."""
    fresh: bool = False
    """Use only the shape and the vocabulary of `start`; the seed draws new weights."""
    max_length: PositiveInt = 256
    """Most pieces of a window, special ones among them; a document is cut into as many as it needs."""
    pieces: PositiveInt | None = None
    """Choose among only this many pieces, the most frequent of the texts; a word with another piece is never
    masked. By default all of the vocabulary, of `e5-small` 250,037 pieces of a hundred languages."""
    frozen_embeddings: bool = False
    """Whether word embeddings, and with them the head's last layer, stay as they are: of `e5-small` they are
    four fifths of all weights, and a processor's updates are faster without them."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Probability of dropout, in all layers."""

    def problems(self) -> Iterator[tuple[object, str]]:
        both = self.fresh and self.frozen_embeddings
        yield both, "fresh draws the word embeddings anew, and frozen_embeddings would leave them so"


class Masks(settings.CheckedSection):
    """Which pieces are to be named, and what stands in their place. Each epoch has others."""

    share: float = Field(default=0.15, gt=0, lt=1)
    """The share of the pieces of a window that are chosen, at least one."""
    masked: float = Field(default=0.8, ge=0, le=1)
    """The share of the chosen pieces in whose place the mask stands."""
    random: float = Field(default=0.1, ge=0, le=1)
    """The share of the chosen pieces in whose place any other piece stands; the rest stays as it is."""
    whole_words: bool = True
    """Choose all pieces of a word or none; a word is what the tokenizer takes for one: of BERT what is
    between blanks and punctuation, of `e5-small` what is between blanks."""

    def problems(self) -> Iterator[tuple[object, str]]:
        total = self.masked + self.random
        yield total > 1 + 1e-9, f"masked ({self.masked}) and random ({self.random}) are more than all"


class MaskedOptimisation(settings.WindowOptimisation):
    """AdamW with a warm-up and linear decay to 0; `batch` counts windows."""

    learning_rate: float = Field(default=1e-4, gt=0)


class MaskedDev(settings.PerplexityDev):
    """Documents whose perplexity decides which weights to keep, and when to stop; they are not learned from.

    The perplexity is the exponential of the mean loss of a chosen piece, without dropout; the same pieces are
    chosen each time.
    """

    documents: PositiveInt = 500
    """Number of documents, drawn by the seed from those of all sets together."""
    measures: str = "perplexity"
    """`perplexity` of the chosen pieces, or `loss`, its logarithm; lower is better."""
    every: settings.Interval = 500
    patience: settings.Interval = 10_000
    at_start: bool = True


class MaskedTraining(settings.Training):
    """The settings of a training."""

    data: TextData
    model: MaskedStart = MaskedStart()
    masks: Masks = Masks()
    optimisation: MaskedOptimisation = MaskedOptimisation()
    dev: MaskedDev | None = None
