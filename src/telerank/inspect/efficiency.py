"""Batches a second of fine-tuning, and of training a head on a frozen encoder (BERT-DMN, table 3).

In the first epoch a frozen encoder's outputs are made and stored, in all later ones they are read. The three
take turns, in rounds, so that what else the machine does slows down all of them.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from telerank.errors import CollectionError, ModelError
from telerank.inspect.drawn_pairs import CandidateLists, draw_by_class
from telerank.models.identity import encoder_fingerprint
from telerank.models.pairs.features import PairFeatures
from telerank.models.precision import Precision
from telerank.models.rerankers.attention import train_plainly
from telerank.models.rerankers.encoder_ranker import EncoderRanker
from telerank.models.rerankers.reranker import Reranker
from telerank.reranking.texts import TextPair, pair_texts
from telerank.show.tables import Cell, Table
from telerank.training.features.frozen_encoder import FrozenEncoder
from telerank.training.features.store import FeatureStore
from telerank.training.optimiser import optimiser
from telerank.training.reranker.config import RerankerOptimisation
from telerank.training.reranker.pair_logits import logits
from telerank.types import Progress, silent

TUNED, FIRST, LATER = "fine-tuned", "frozen, first epoch", "frozen, later epochs"
READING, HEAD, UPDATE = "reading features", "the head and its gradients", "updating its weights"
PAPER = {TUNED: 1.69, FIRST: 2.55, LATER: 5.67}
"""Batches of 16 a second on InsuranceQA, on a GTX 1080Ti."""

_USUAL = RerankerOptimisation()  # of a training that is told nothing else
_CLOCK = "batches/s: by the clock."
_PROCESSOR = "batches/s: by the processor time of all threads together, as one core alone would make them."

Times: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rounds:
    """What each of ``number`` rounds measures: ``batches`` of ``size`` pairs that no other round has.

    ``tuned`` of them are fine-tuned on; all are encoded, stored and learned from, and then learned from
    ``epochs`` times more. A round before them, in which everything is loaded, does not count.
    """

    number: int = 5
    size: int = 16
    batches: int = 4
    tuned: int = 2
    epochs: int = 10

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise ModelError(f"{name} must be at least 1, got {value}")
        if self.tuned > self.batches:
            raise ModelError(f"of {self.batches} batches {self.tuned} cannot be fine-tuned on")

    @property
    def pairs(self) -> int:
        """How many are needed."""
        return (self.number + 1) * self.batches * self.size


@dataclass(frozen=True, eq=False)
class Efficiency:
    """Seconds a batch, (rounds, 2) each: of the processor, and by the clock.

    ``seconds`` has them of :data:`TUNED`, :data:`FIRST` and :data:`LATER`; ``parts`` add up to those of the
    last. On a device other than the processor the clock's alone mean something.
    """

    seconds: Mapping[str, Times]
    parts: Mapping[str, Times]

    def pace(self, way: str, *, by_the_clock: bool = False) -> float:
        """Batches a second: the median of the rounds."""
        return float(1 / np.median(self.seconds[way][:, int(by_the_clock)]))

    def ratio(self, way: str, *, by_the_clock: bool = False) -> float:
        """How many times as fast as fine-tuning: the median of the rounds."""
        column = int(by_the_clock)
        return float(np.median(self.seconds[TUNED][:, column] / self.seconds[way][:, column]))


@dataclass(frozen=True, eq=False)
class Contest:
    """A re-ranker that is fine-tuned, and one whose encoder is frozen, with its features in ``folder``.

    ``precision`` makes the context in which both encoders compute.
    """

    tuned: Reranker
    frozen: Reranker
    folder: Path
    precision: Precision = nullcontext

    def measure(
        self,
        pairs: Sequence[TextPair],
        labels: Sequence[float],
        rounds: Rounds | None = None,
        *,
        progress: Progress = silent,
    ) -> Efficiency:
        """The times of both on the first :attr:`Rounds.pairs` pairs.

        Both minimise the cross-entropy of labels, 1 or 0, as a training does: in parts of like length, with
        its optimiser, gradients cut at its length. Tokens are made before fine-tuning, but
        within the first epoch.

        Raises
        ------
        ModelError
            where there are too few pairs, one comes twice or is stored already, or the model that is to be
            frozen has no encoder apart from its head.
        """
        plan = rounds or Rounds()
        if len(pairs) < plan.pairs:
            raise ModelError(f"{plan.number} rounds and one before need {plan.pairs} pairs, got {len(pairs)}")
        track = _Track.of(self)
        if len(track.store.missing(pairs[: plan.pairs])) < plan.pairs:
            raise ModelError(f"{track.store.folder}: has some of these pairs already, or one comes twice")
        step = plan.batches * plan.size
        for number in range(plan.number + 1):
            some = slice(number * step, (number + 1) * step)
            track.run(plan, pairs[some], torch.tensor(labels[some], dtype=torch.float32))
            progress("measuring", number + 1, plan.number + 1)
        return track.watch.efficiency(plan)


def labelled(
    source: CandidateLists, wanted: int, *, seed: int = 0, progress: Progress = silent
) -> tuple[list[TextPair], list[float]]:
    """Different pairs in an order that the seed decides, with their labels, half of them relevant.

    Where a collection has not as many of one kind, there are more of the other.

    Raises
    ------
    CollectionError
        where it has not so many pairs.
    """
    drawn = draw_by_class(source, relevant=wanted, others=wanted, seed=seed, progress=progress)
    labels = {(one.query, one.passage): float(bool(one.relevant)) for one in drawn}
    if len(labels) < wanted:
        raise CollectionError(f"{source.collection.name}: {wanted} pairs are needed, it has {len(labels)}")
    pairs, order = list(labels), random.Random(seed)
    order.shuffle(pairs)
    good, bad = ([pair for pair in pairs if labels[pair] == value] for value in (1, 0))
    some = min(len(good), max(wanted // 2, wanted - len(bad)))
    chosen = [*good[:some], *bad[: wanted - some]]
    order.shuffle(chosen)
    return chosen, [labels[pair] for pair in chosen]


def efficiency_table(found: Efficiency, *, by_the_clock: bool = False) -> Table:
    """What was measured beside the paper's table 3, for InsuranceQA."""
    rows = []
    for way in (TUNED, FIRST, LATER):
        ratio = f"{found.ratio(way, by_the_clock=by_the_clock):.2f}"
        pace = f"{found.pace(way, by_the_clock=by_the_clock):,.2f}"
        published = f"{PAPER[way]:.2f}", f"{PAPER[way] / PAPER[TUNED]:.2f}"
        rows.append((way, pace, Cell(ratio, strong=way != TUNED), *published))
    columns = ("training", "batches/s", "times fine-tuning", "the paper’s batches/s", "times")
    parts = {name: np.median(one[:, int(by_the_clock)]) for name, one in found.parts.items()}
    told = ", ".join(f"{name} {1e3 * one:.1f} ms" for name, one in parts.items())
    notes = _CLOCK if by_the_clock else _PROCESSOR, f"A batch of a later epoch: {told}."
    return Table.of(columns, rows, notes=notes)


@dataclass(frozen=True, eq=False)
class _Learner:
    """A model and what updates it, both as a training has them."""

    model: nn.Module
    weights: list[nn.Parameter]
    optimiser: torch.optim.Optimizer

    @classmethod
    def of(cls, model: nn.Module) -> _Learner:
        weights = [one for one in model.parameters() if one.requires_grad]
        made = cls(model.train(), weights, optimiser(weights, _USUAL))
        if made.device.type == "cpu":
            train_plainly(model)
        return made

    @property
    def device(self) -> torch.device:
        return self.weights[0].device

    def gradients(self, logits: Tensor, labels: Tensor) -> None:
        loss = binary_cross_entropy_with_logits(logits.float(), labels.to(self.device))
        loss.backward()  # type: ignore[no-untyped-call]

    def update(self) -> None:
        if _USUAL.max_gradient_norm is not None:
            nn.utils.clip_grad_norm_(self.weights, _USUAL.max_gradient_norm)
        self.optimiser.step()
        self.optimiser.zero_grad()


@dataclass(eq=False)
class _Stopwatch:
    """``rounds[number][name]``: seconds of the processor, and by the clock."""

    device: torch.device
    rounds: list[dict[str, Times]] = field(default_factory=list)

    def begin(self) -> None:
        """Begin a round."""
        self.rounds.append(defaultdict(lambda: np.zeros(2)))

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Add to what the round has of that name."""
        began = self._now()
        yield
        self.rounds[-1][name] += self._now() - began

    def efficiency(self, plan: Rounds) -> Efficiency:
        def each(name: str, batches: int) -> Times:
            return np.array([one[name] for one in self.rounds[1:]]) / batches

        parts = {name: each(name, plan.batches * plan.epochs) for name in (READING, HEAD, UPDATE)}
        later: Times = np.sum(list(parts.values()), axis=0)
        return Efficiency(
            {TUNED: each(TUNED, plan.tuned), FIRST: each(FIRST, plan.batches), LATER: later}, parts
        )

    def _now(self) -> Times:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return np.array([time.process_time(), time.perf_counter()])


@dataclass(frozen=True, eq=False)
class _Track:
    """Where the rounds are run."""

    contest: Contest
    tuner: _Learner
    head: _Learner
    encoder: FrozenEncoder
    store: FeatureStore
    watch: _Stopwatch

    @classmethod
    def of(cls, contest: Contest) -> _Track:
        frozen, model = contest.frozen, contest.frozen.model
        known = encoder_fingerprint(frozen)
        if not isinstance(model, EncoderRanker):
            raise ModelError(f"a {frozen.shape.kind} has no encoder that could be frozen")
        encoder = FrozenEncoder(model, frozen.texts, known, frozen.shape.language, contest.precision)
        tuner, head = _Learner.of(contest.tuned.model), _Learner.of(model.head)
        store = FeatureStore.open(contest.folder, known, model.width)
        return cls(contest, tuner, head, encoder, store, _Stopwatch(tuner.device))

    def run(self, plan: Rounds, pairs: Sequence[TextPair], labels: Tensor) -> None:
        """One round."""
        self.watch.begin()
        tuned = self.contest.tuned
        places = _cut(torch.arange(len(pairs)), plan.size)
        for some in places[: plan.tuned]:
            queries, passages = zip(*(pairs[place] for place in some.tolist()), strict=True)
            read = pair_texts(tuned, queries, passages)
            with self.watch(TUNED):
                self.tuner.gradients(logits(tuned, read, _USUAL.tokens, self.contest.precision), labels[some])
                self.tuner.update()
        with self.watch(FIRST):
            self.store.fill(pairs, self.encoder)
            rows = self.store.rows(pairs)
            for some in places:
                self.head.gradients(self._judged(self.store.batch(rows[some])), labels[some])
                self.head.update()
        for _ in range(plan.epochs):
            for some in _cut(torch.randperm(len(pairs)), plan.size):
                with self.watch(READING):
                    features = self.store.batch(rows[some])
                with self.watch(HEAD):
                    self.head.gradients(self._judged(features), labels[some])
                with self.watch(UPDATE):
                    self.head.update()

    def _judged(self, features: PairFeatures) -> Tensor:
        """The head's logits, in float32, as in a training, whatever the encoder computes in."""
        found: Tensor = self.head.model(features.to(self.head.device))
        return found


def _cut(places: Tensor, size: int) -> list[Tensor]:
    return [places[first : first + size] for first in range(0, len(places), size)]
