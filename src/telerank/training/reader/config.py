"""The settings of a reader's training, a YAML file; the defaults are those of BERT on SQuAD (Devlin et al.,
2019).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from telerank.errors import ModelError
from telerank.evaluation.answers.overlap import parse_answer_measures
from telerank.models.readers import ReaderSettings
from telerank.training import settings


class QuestionSource(settings.CollectionSettings):
    """Questions of a collection with the texts that answer them: SQuAD's, PIAF, FQuAD, or any with
    answers.
    """

    split: str | None = None
    """The split with the questions; by default the only one."""
    part: Literal["train", "dev", "test"] | None = None
    """Only the questions about the articles of this part (`articles` of the training); by default all."""
    questions: PositiveInt | None = None
    """Use at most this many questions, drawn by the seed; a smaller number is part of a larger one."""
    weight: float = Field(default=1.0, gt=0)
    """How often an epoch has each window: 0.5 has half of them, others in the next epoch. Dev ignores it."""
    other_windows: NonNegativeInt | None = None
    """Most windows without the answer that a question which has one keeps, drawn by the seed; by default all.
    Long documents have many."""
    unrelated: float = Field(default=0.0, ge=0, le=1)
    """For this share of the questions that have an answer, add a text of another article, which has none."""
    unrelated_from: str | None = None
    """A collection that unrelated texts are drawn from, of its articles of the same part; by default the set
    itself."""
    unanswerable: bool = True
    """Whether questions without an answer are used."""


class ArticleShares(settings.CheckedSection):
    """Articles that are kept apart; the part of an article depends on its title, in every set the same."""

    test: float = Field(default=0.2, ge=0, lt=1)
    """The share of articles in the part `test`, which is never learned from."""
    dev: float = Field(default=0.1, ge=0, lt=1)
    """The share of articles in the part `dev`."""
    seed: settings.Seed = 0
    """The seed that draws the parts; that of the training does not change them."""

    def problems(self) -> Iterator[tuple[object, str]]:
        none_left = self.test + self.dev >= 1
        yield none_left, f"test ({self.test}) and dev ({self.dev}) leave no article for training"


class ReaderStart(settings.CheckedSection):
    """The encoder that training starts from, and how it reads."""

    start: str = "e5-small"
    """`minilm`, `e5-small`, a folder, or a name on the hub: an encoder, a reader, or a re-ranker or
    bi-encoder of ours."""
    language: Literal["en", "fr"] = "en"
    """Whose articles make no difference between two answers."""
    max_length: PositiveInt = 384
    """Most tokens of a window, with its question and special ones."""
    stride: NonNegativeInt = 128
    """Tokens that neighbouring windows share."""
    max_question: PositiveInt = 64
    """Most tokens of a question; the rest is cut off, and counted."""
    max_answer: PositiveInt = 30
    """Most tokens of an answer that is given; longer ones are learned all the same."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Probability of dropout, in all layers."""
    frozen_embeddings: bool = False
    """Whether word embeddings stay as they are: of `e5-small` they are four fifths of all weights, and a
    processor's updates are faster without them."""

    @property
    def settings(self) -> ReaderSettings:
        """The settings of the reader before its training."""
        return ReaderSettings(
            max_length=self.max_length,
            stride=self.stride,
            max_question=self.max_question,
            max_answer=self.max_answer,
            language=self.language,
        )

    def problems(self) -> Iterator[tuple[object, str]]:
        try:
            _ = self.settings
        except ModelError as error:
            yield True, str(error)


class ReaderData(settings.DataSettings):
    """Question-answering sets to learn from, together."""

    sets: Annotated[tuple[QuestionSource, ...], Field(min_length=1)]
    """The sets, each with its weight."""


class ReaderOptimisation(settings.WindowOptimisation):
    """AdamW with a warm-up and linear decay to 0; `batch` counts windows."""

    learning_rate: float = Field(default=5e-5, gt=0)


class ReaderDev(settings.DevSettings):
    """Questions that decide which weights to keep, and when to stop; they are not learned from.

    At the end they fit the threshold of no answer, which makes the measure highest, if some of them have no
    answer, and the temperature.
    """

    sets: Annotated[tuple[QuestionSource, ...], Field(min_length=1)]
    """The sets, together: `part: dev` of those that are learned from, or others."""
    measures: str = "F1"
    """A measure of answers, higher is better: `EM`, `F1`, `EM(fr)`, `F1(fr)`, `EM(literal)` or
    `F1(characters)`."""
    every: settings.Interval = 1000
    patience: settings.Interval = 10_000

    @classmethod
    def parse(cls, measures: str) -> tuple[str, ...]:
        return parse_answer_measures(measures)


class ReaderTraining(settings.Training):
    """The settings of a training."""

    data: ReaderData
    articles: ArticleShares = ArticleShares()
    """Which articles are of which part; used by sets that name a `part`."""
    model: ReaderStart = ReaderStart()
    optimisation: ReaderOptimisation = ReaderOptimisation()
    dev: ReaderDev | None = None

    def problems(self) -> Iterator[tuple[object, str]]:
        yield from super().problems()
        for source in self.data.sets:
            kept_apart = source.part in ("dev", "test")
            yield kept_apart, f"data.sets: {source.collection}: the part {source.part} is not learned from"
