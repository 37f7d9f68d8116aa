"""Time three trainings in turns: fine-tuning, and a head on a frozen encoder in its first and later epochs.

In the first epoch the frozen encoder's outputs are computed and stored; all later epochs read them. The three
take turns, in rounds, so that other programs on the machine slow down all of them alike.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from telerank.models.precision import train_plainly
from telerank.models.rerankers.reranker import Reranker
from telerank.reranking.texts import TextPair, make_pairs
from telerank.show.tables import Cell, Table
from telerank.training.features.store import FeatureStore, FrozenEncoder
from telerank.training.optimisation import build_optimiser
from telerank.training.reranker.config import RerankerOptimisation
from telerank.training.reranker.scoring import PairBatches
from telerank.types import Progress, silent

TUNED, FIRST, LATER = "fine-tuned", "frozen, first epoch", "frozen, later epochs"
READING, HEAD, UPDATE = "reading features", "the head and its gradients", "updating its weights"
PAPER = {TUNED: 1.69, FIRST: 2.55, LATER: 5.67}
"""Batches of 16 a second on InsuranceQA, on a GTX 1080Ti (BERT-DMN, table 3)."""

DEFAULTS = RerankerOptimisation()

Times: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rounds:
    """What each of ``number`` rounds trains on: ``batches`` of ``size`` pairs that no other round has.

    ``tuned`` of the batches are fine-tuned on. All are encoded, stored and learned from, and then learned
    from ``epochs`` times more. A first round, in which everything is loaded, does not count.
    """

    number: int = 5
    size: int = 16
    batches: int = 4
    tuned: int = 2
    epochs: int = 10

    @property
    def pairs(self) -> int:
        """How many pairs the rounds need, with the one that does not count."""
        return (self.number + 1) * self.batches * self.size


@dataclass(frozen=True, eq=False)
class Timings:
    """Seconds a batch, (rounds, 2) each: processor time and elapsed time.

    ``seconds`` has those of :data:`TUNED`, :data:`FIRST` and :data:`LATER`; ``parts`` add up to the last.
    """

    seconds: Mapping[str, Times]
    parts: Mapping[str, Times]

    def pace(self, training: str) -> float:
        """Batches a second of processor time: the median of the rounds."""
        return float(1 / np.median(self.seconds[training][:, 0]))

    def ratio(self, training: str, *, elapsed: bool = False) -> float:
        """How many times as fast as fine-tuning: the median of the rounds."""
        column = int(elapsed)
        return float(np.median(self.seconds[TUNED][:, column] / self.seconds[training][:, column]))


def measure_rounds(
    tuned: Reranker,
    frozen: Reranker,
    folder: Path,
    pairs: Sequence[TextPair],
    labels: Sequence[float],
    *,
    plan: Rounds,
    progress: Progress = silent,
) -> Timings:
    """Time both re-rankers on the first :attr:`Rounds.pairs` pairs; features are stored in ``folder``.

    Both minimise the cross-entropy of labels, 1 or 0, as ``telerank train`` does: in parts of like length,
    with its optimiser and its limit on gradients. Tokenising is not timed in fine-tuning, but is part of the
    first epoch.
    """
    if len(pairs) < plan.pairs:
        raise ModelError(f"{plan.number} rounds and one before need {plan.pairs} pairs, got {len(pairs)}")
    fingerprint = frozen.encoder_fingerprint
    encoder = FrozenEncoder(frozen.model, frozen.texts, fingerprint, frozen.shape.language)
    store = FeatureStore(folder, fingerprint, encoder.width)
    if len(store.missing(pairs[: plan.pairs])) < plan.pairs:
        raise ModelError(f"{store.folder}: some of these pairs are stored already, or come twice")
    track = Track(tuned, Learner.of(tuned.model), Learner.of(frozen.model.head), encoder, store)
    step = plan.batches * plan.size
    for number in range(plan.number + 1):
        rows = slice(number * step, (number + 1) * step)
        track.run(plan, pairs[rows], torch.tensor(labels[rows], dtype=torch.float32))
        progress("measuring", number + 1, plan.number + 1)
    return track.watch.timings(plan)


def labelled(
    source: CandidateLists, count: int, *, seed: int = 0, progress: Progress = silent
) -> tuple[list[TextPair], list[float]]:
    """Different pairs in an order that the seed decides, with their labels, half of them relevant.

    If the collection has too few of one class, more of the other are taken.
    """
    drawn = draw_by_class(source, relevant=count, others=count, seed=seed, progress=progress)
    labels = {(pair.query, pair.passage): float(bool(pair.relevant)) for pair in drawn}
    if len(labels) < count:
        raise CollectionError(f"{source.collection.name}: {count} pairs are needed, it has {len(labels)}")
    pairs, order = list(labels), random.Random(seed)
    order.shuffle(pairs)
    good, bad = ([pair for pair in pairs if labels[pair] == value] for value in (1, 0))
    relevant = min(len(good), max(count // 2, count - len(bad)))
    chosen = [*good[:relevant], *bad[: count - relevant]]
    order.shuffle(chosen)
    return chosen, [labels[pair] for pair in chosen]


def timings_table(timings: Timings) -> Table:
    """The measured paces beside those of the paper's table 3, for InsuranceQA."""
    rows = []
    for training in (TUNED, FIRST, LATER):
        ratio = Cell(f"{timings.ratio(training):.2f}", strong=training != TUNED)
        published = f"{PAPER[training]:.2f}", f"{PAPER[training] / PAPER[TUNED]:.2f}"
        rows.append((training, f"{timings.pace(training):,.2f}", ratio, *published))
    columns = ("training", "batches/s", "times fine-tuning", "the paper’s batches/s", "times")
    medians = {name: np.median(times[:, 0]) for name, times in timings.parts.items()}
    parts = ", ".join(f"{name} {1e3 * median:.1f} ms" for name, median in medians.items())
    notes = (
        "batches/s: by the processor time of all threads together, as one core alone would make them.",
        f"A batch of a later epoch: {parts}.",
    )
    return Table.of(columns, rows, notes=notes)


@dataclass(frozen=True, eq=False)
class Learner:
    """A model and its optimiser, both as in a training."""

    model: nn.Module
    weights: list[nn.Parameter]
    optimiser: torch.optim.Optimizer

    @classmethod
    def of(cls, model: nn.Module) -> Learner:
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        train_plainly(model.train())
        return cls(model, weights, build_optimiser(weights, DEFAULTS))

    def gradients(self, logits: Tensor, labels: Tensor) -> None:
        binary_cross_entropy_with_logits(logits.float(), labels).backward()

    def update(self) -> None:
        self.optimiser.step()
        self.optimiser.zero_grad()


@dataclass(eq=False)
class Stopwatch:
    """``rounds[number][name]``: seconds of processor time and of elapsed time."""

    rounds: list[dict[str, Times]] = field(default_factory=list)

    def begin(self) -> None:
        """Begin a round."""
        self.rounds.append(defaultdict(lambda: np.zeros(2)))

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Add the time of the block to that of the same name in this round."""
        began = self._now()
        yield
        self.rounds[-1][name] += self._now() - began

    def timings(self, plan: Rounds) -> Timings:
        def each(name: str, batches: int) -> Times:
            return np.array([times[name] for times in self.rounds[1:]]) / batches

        parts = {name: each(name, plan.batches * plan.epochs) for name in (READING, HEAD, UPDATE)}
        later: Times = np.sum(list(parts.values()), axis=0)
        return Timings(
            {TUNED: each(TUNED, plan.tuned), FIRST: each(FIRST, plan.batches), LATER: later}, parts
        )

    @staticmethod
    def _now() -> Times:
        return np.array([time.process_time(), time.perf_counter()])


@dataclass(frozen=True, eq=False)
class Track:
    """The two learners, and the store that one of them reads."""

    tuned: Reranker
    tuner: Learner
    head: Learner
    encoder: FrozenEncoder
    store: FeatureStore
    watch: Stopwatch = field(default_factory=Stopwatch)

    def run(self, plan: Rounds, pairs: Sequence[TextPair], labels: Tensor) -> None:
        """Run one round."""
        self.watch.begin()
        batches = cut(torch.arange(len(pairs)), plan.size)
        for batch in batches[: plan.tuned]:
            tokens = make_pairs(self.tuned, [pairs[row] for row in batch.tolist()])
            with self.watch(TUNED):
                logits = PairBatches.of(self.tuned, tokens, DEFAULTS.tokens).logits(self.tuned)
                self.tuner.gradients(logits, labels[batch])
                self.tuner.update()
        with self.watch(FIRST):
            self.store.fill(pairs, self.encoder)
            rows = self.store.rows(pairs)
            for batch in batches:
                self.head.gradients(self.head.model(self.store.batch(rows[batch])), labels[batch])
                self.head.update()
        for _ in range(plan.epochs):
            for batch in cut(torch.randperm(len(pairs)), plan.size):
                with self.watch(READING):
                    features = self.store.batch(rows[batch])
                with self.watch(HEAD):
                    self.head.gradients(self.head.model(features), labels[batch])
                with self.watch(UPDATE):
                    self.head.update()


def cut(rows: Tensor, size: int) -> list[Tensor]:
    return [rows[first : first + size] for first in range(0, len(rows), size)]
