"""The settings that the trainings of all encoders of queries and documents share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, PositiveInt, field_validator

from telerank.errors import known_names
from telerank.training import settings

DISTILLATION = ("margin-mse", "kl")
"""Losses that learn a teacher's scores."""


class EncoderData(settings.TrainingData):
    """Triples, or the relevant pairs of a split, with negatives or without.

    The documents of the whole batch are the negatives of a query, its own negatives among them. Without
    triples and negatives it has no others.
    """

    @property
    def group_size(self) -> int:
        """Query-document pairs of a query: its relevant document, and its own negatives."""
        if self.triples:
            return 2
        negatives = self.negatives
        return 1 + (negatives.per_group or negatives.per_positive) if negatives else 1

    def problems(self) -> Iterator[tuple[object, str]]:
        yield self.triples and self.negatives, "expected triples or negatives, got both"
        only = "listed documents are for re-rankers"
        yield self.listed, f"{only}: expected triples, negatives or neither"


class EncoderLoss(settings.CheckedSection):
    """The loss to minimise."""

    known: ClassVar[tuple[str, ...]] = ("softmax", "group-softmax", *DISTILLATION)

    objective: str | dict[str, float] = "softmax"
    """`softmax`: cross-entropy of a relevant document among the documents of the batch. `group-softmax`:
    among the query's own negatives alone. `margin-mse`: squared error of the difference between two scores,
    as a teacher has it (Hofstätter et al. 2020). `kl`: divergence of the softmax of a group's scores from the
    teacher's. Or several with their weights: `{kl: 1, softmax: 0.1}`."""
    scale: float = Field(default=1.0, gt=0)
    """Factor of the scores, in every objective."""
    teacher: str | None = None
    """A run file with a teacher's scores of the pairs to learn from, relevant ones among them (objectives
    `margin-mse` and `kl`)."""
    teacher_model: str | None = None
    """Instead of a run file, a re-ranker, by its name or folder, that scores these pairs before the training,
    into OUTPUT/teacher.run.gz."""
    temperature: float = Field(default=1.0, gt=0)
    """What both scores are divided by (objective `kl`, which is then multiplied by its square)."""

    @field_validator("objective", mode="before")
    @classmethod
    def _known(cls, objective: Any) -> Any:
        weights = objective if isinstance(objective, Mapping) else {objective: 1.0}
        if not weights:
            raise ValueError("expected an objective, or several with their weights, got none")
        for name, weight in weights.items():
            if name not in cls.known:
                raise ValueError(f"no objective is called {name!r}; {known_names(cls.known, str(name))}")
            if not isinstance(weight, int | float) or not 0 < weight < math.inf:
                raise ValueError(f"expected a weight above 0 of {name}, got {weight!r}")
        return objective

    @property
    def has_teacher(self) -> bool:
        """Whether a teacher's scores are learned from."""
        return not (self.teacher is None and self.teacher_model is None)

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each objective by its name."""
        return {self.objective: 1.0} if isinstance(self.objective, str) else dict(self.objective)

    def problems(self) -> Iterator[tuple[object, str]]:
        distils = any(name in DISTILLATION for name in self.weights)
        said = "need a teacher, a run file, or a teacher_model; the others take none"
        yield distils != self.has_teacher, f"objectives margin-mse and kl {said}"
        yield self.teacher and self.teacher_model, "expected teacher or teacher_model, got both"
        cools = self.temperature != 1 and "kl" not in self.weights
        yield cools, "temperature goes with objective kl"


class EncoderOptimisation(settings.OptimisationSettings):
    """AdamW with a warm-up and linear decay to 0."""

    batch: PositiveInt = 32
    """Query-document pairs in a batch, relevant or not, over all processes together: 32 with a negative for
    each query are 16 queries, whose negatives are all other documents of the batch."""
    chunk: PositiveInt | None = None
    """Texts encoded at a time: gradients are cached, so that a batch of any size fits into memory."""
    max_gradient_norm: Annotated[float | None, Field(gt=0), settings.OFF] = 1.0


class EncoderDev(settings.DevSettings):
    """Queries that decide which weights to keep, and when to stop; they are not learned from."""

    split: str
    """The split of the dev queries, in the same collection."""
    measures: str = "RR@10"
    every: settings.Interval = 10_000
    patience: settings.Interval = 100_000
    queries: PositiveInt | None = None
    """Use at most this many queries, drawn by the seed."""
    documents: PositiveInt | None = None
    """Search the judged documents and others drawn by the seed, this many in all; by default, all."""


class EncoderTraining(settings.Training):
    """The settings of a training; each kind of encoder adds its ``model`` and its defaults."""

    data: EncoderData
    loss: EncoderLoss = EncoderLoss()
    optimisation: EncoderOptimisation
    dev: EncoderDev | None = None

    @property
    def smaller_batch(self) -> str:
        chunk = self.optimisation.chunk
        number = "a number of texts, as 32" if chunk is None else f"less than {chunk}"
        return f"optimisation.chunk to {number}"

    def problems(self) -> Iterator[tuple[object, str]]:
        yield from super().problems()
        reason = "its texts are encoded twice, and compiled code may draw other dropout the second time"
        twice = self.compile and self.optimisation.chunk is not None
        yield twice, f"compile does not go with optimisation.chunk: {reason}"
        batch, size = self.optimisation.batch, self.data.group_size
        pairs = f"each query has {size} pairs, of its relevant document and {size - 1} other"
        yield batch % size, f"optimisation.batch ({batch}) must be a multiple of {size}: {pairs}"
        teacher, negatives = self.loss.has_teacher, self.data.negatives
        drawn = negatives and (negatives.random or negatives.judged)
        yield (
            teacher and drawn,
            "a teacher has scores for the documents of lists, not for random or judged ones",
        )
        alone = size == 1 and set(self.loss.weights) & {"group-softmax", *DISTILLATION}
        yield alone, "the objective compares the documents of a group: set data.negatives or data.triples"
        many = self.loss.teacher_model and self.data.triples
        yield many, "teacher_model scores the negatives of lists; triples need a teacher, a run file"
        by_loss = teacher and self.dev and self.dev.by_loss
        yield by_loss, "dev.measures: a teacher has scored no dev queries: name a measure, not loss"
