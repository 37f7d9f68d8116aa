"""Rows of training: updates of re-rankers and of the bi-encoder, as ``telerank train`` makes them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from telerank.models.rerankers.kinds import find_kind
from telerank.models.rerankers.reranker import Shape as RerankerShape
from telerank.models.rerankers.reranker import fresh_reranker
from telerank.reranking.texts import TextPair, make_pairs
from telerank.training.bi_encoder.config import BiEncoderTraining
from telerank.training.bi_encoder.train import DenseLearner, build_objective, start_model
from telerank.training.encoders.batches import Batches
from telerank.training.encoders.task import EncoderTask
from telerank.training.examples.groups import Group
from telerank.training.log import Record
from telerank.training.parallel import Processes
from telerank.training.reranker.config import RerankerTraining
from telerank.training.reranker.job import RerankerJob, start_reranker
from telerank.training.reranker.scoring import Stored
from telerank.training.reranker.task import RerankerTask
from telerank.training.task import TrainingDevice, choose_precision
from telerank.training.training import train

from .inputs import BASE, MINILM, Inputs
from .measuring import Amount, Probe
from .scoring import SECONDS, Row

STEPS = 100_000  # of the schedule: the rows end long before


class EnoughUpdatesError(Exception):
    """Ends a training before it writes anything."""


@dataclass(frozen=True)
class DrawnGroups:
    """Groups of two documents of a query."""

    pairs: Sequence[TextPair]

    def __len__(self) -> int:
        return len(self.pairs) // 2

    def __getitem__(self, number: int) -> Group:
        first = 2 * (number % len(self))
        query, documents = self.pairs[first][0], tuple(text for _, text in self.pairs[first : first + 2])
        return Group(query, documents, (), query, documents)

    @property
    def window(self) -> int:
        return len(self)

    @property
    def repeats_from(self) -> float:
        return len(self)

    @property
    def most_pairs(self) -> float:
        return len(self.pairs)


@dataclass
class Phases:
    """The report of a training: a phase is ``each`` updates, or the ``timed`` ones; the last one ends it."""

    probe: Probe
    each: int
    timed: int
    current: AbstractContextManager[None] | None = None
    phases: list[tuple[int, Callable[[], AbstractContextManager[None]] | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        probe = self.probe
        self.phases = [(self.each, None), (self.timed, probe.timing), (self.each, probe.counting)]
        if probe.with_profile:
            self.phases += [(self.each, probe.sampling), (self.each, probe.profiling)]
        self.until = 0
        self._next()

    def __call__(self, record: Record) -> None:
        if record.step >= self.until:
            self._close()
            self._next()

    def _next(self) -> None:
        if not self.phases:
            raise EnoughUpdatesError
        updates, opened = self.phases.pop(0)
        self.until += updates
        if opened is not None:
            self.current = opened()
            self.current.__enter__()

    def _close(self) -> None:
        if self.current is not None:
            self.current.__exit__(None, None, None)
            self.current = None


def update(inputs: Inputs, probe: Probe, config: Any, make_task: Callable[..., Any]) -> int:
    """Measure updates, and return how many were timed."""
    each, timed = (1, 2) if inputs.small else (10, 40)
    phases = Phases(probe, each, timed)
    output = inputs.folder / "training"
    try:
        train(config, output, make_task, report=phases)
    except EnoughUpdatesError:
        pass
    finally:
        phases._close()
        shutil.rmtree(output, ignore_errors=True)
    if probe.synchronisations is not None:
        probe.synchronisations /= each
    return timed


def training_rows(inputs: Inputs) -> Iterator[Row]:
    short, long = 60, 130
    for kind, model, tokens in (
        ("monobert", MINILM, short),
        ("monobert", BASE, short),
        ("monobert", BASE, long),
        ("bert", MINILM, short),
        ("bert-dmn", MINILM, short),
        ("dmn", "words", short),
        ("qa-lstm", "words", short),
        ("k-nrm", "words", short),
        ("parade", MINILM, 300 if inputs.small else 700),
    ):
        name = f"{kind} {model} / {tokens} tokens"
        yield Row("training", name, "pairs", partial(update_reranker, inputs, kind, model, tokens))
    name = f"bert-dmn {BASE} frozen / {short} tokens"
    yield Row("training", f"{name} / storing features", "pairs", partial(store, inputs, short))
    yield Row("training", f"{name} / stored", "pairs", partial(update_stored, inputs, short))
    for model, batch, chunk in ((MINILM, 26, None), (BASE, 26, None), (MINILM, 512, 128)):
        cached = f" in chunks of {chunk}" if chunk else ""
        name = f"bi-encoder {model} / batches of {batch}{cached} / {long} tokens"
        run = partial(update_bi_encoder, inputs, model=model, batch=batch, chunk=chunk, tokens=long)
        yield Row("training", name, "pairs", run)


def compiled_training_rows(inputs: Inputs) -> Iterator[Row]:
    for model in (MINILM, BASE):
        run = partial(update_reranker, inputs, "monobert", model, 60, compiled=True)
        yield Row("compiled", f"training monobert {model} / 60 tokens", "pairs", run)


def reranker_training(
    inputs: Inputs, kind: str, model: str, *, frozen: bool = False, compiled: bool = False
) -> RerankerTraining:
    start = inputs.vectors if model == "words" else inputs.encoder(model)
    batch = 2 if inputs.small else 32
    record = {
        "data": {"collection": "drawn", "negatives": {"random": True}},
        "model": {"kind": kind, "start": str(start), "frozen": frozen},
        "optimisation": {"steps": STEPS, "batch": batch},
        "device": str(inputs.device),
        "log_every": 1 if inputs.small else 10,
        **({"compile": True} if compiled else {}),
    }
    return RerankerTraining.model_validate(record)


def update_reranker(
    inputs: Inputs, kind: str, model: str, tokens: int, probe: Probe, **settings: bool
) -> Amount:
    config = reranker_training(inputs, kind, model, **settings)
    batch = config.optimisation.batch
    groups = DrawnGroups(inputs.pairs(tokens, 64 if inputs.small else 8192))
    job = RerankerJob(config, inputs.folder, inputs.folder / "store", None, None)
    lengths: list[int] = []

    def make_task(_: object, hardware: TrainingDevice, __: object) -> RerankerTask:
        reranker = start_reranker(config.model, config.seed)
        lengths.extend(len(pair) for pair in make_pairs(reranker, groups.pairs[:1024]))
        scorer = job.make_scorer(reranker, groups, hardware)
        return RerankerTask(config, reranker, groups, scorer, scorer, None, hardware)

    try:
        timed = update(inputs, probe, config, make_task)
    finally:
        shutil.rmtree(inputs.folder / "store", ignore_errors=True)
    count = timed * batch * 2
    operations = None
    if not find_kind(kind).over_words and not config.model.frozen:
        operations = 3 * inputs.shape(model).operations(np.array(lengths)) / len(lengths) * count
    return Amount(count, count * float(np.mean(lengths)), operations, timed)


def update_stored(inputs: Inputs, tokens: int, probe: Probe) -> Amount:
    return update_reranker(inputs, "bert-dmn", BASE, tokens, probe, frozen=True)


def store(inputs: Inputs, tokens: int, probe: Probe) -> Amount:
    """Encode pairs and write what the head reads of them, as before the first epoch."""
    pairs = inputs.pairs(tokens, 64 if inputs.small else 8192)
    shape = RerankerShape("bert-dmn", frozen=True)
    reranker = fresh_reranker(inputs.encoder(BASE), shape)
    lengths = np.array([len(pair) for pair in make_pairs(reranker, pairs)])
    reranker.model.to(inputs.device)
    hardware = TrainingDevice(inputs.device, choose_precision("auto", inputs.device), Processes())
    folder = inputs.folder / "store"
    limit = reranker_training(inputs, "bert-dmn", BASE, frozen=True).optimisation.tokens

    def run(count: int) -> Amount:
        shutil.rmtree(folder, ignore_errors=True)
        Stored.of(reranker, folder, hardware, limit).fill(pairs[:count])
        own = lengths[:count]
        return Amount(count, float(own.sum()), inputs.shape(BASE).operations(own), own.sum() / limit)

    try:
        return probe.measure(run, 4 if inputs.small else 1024, len(pairs), 0.2 if inputs.small else SECONDS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def update_bi_encoder(
    inputs: Inputs, probe: Probe, *, model: str, batch: int, chunk: int | None, tokens: int
) -> Amount:
    size = min(batch, 8) if inputs.small else batch
    record = {
        "data": {"collection": "drawn", "negatives": {"random": True}},
        "model": {"start": str(inputs.encoder(model))},
        "optimisation": {
            "steps": STEPS,
            "batch": size,
            "chunk": chunk and min(chunk, 4 if inputs.small else chunk),
        },
        "device": str(inputs.device),
        "log_every": 1 if inputs.small else 10,
    }
    config = BiEncoderTraining.model_validate(record)
    groups = DrawnGroups(inputs.pairs(tokens, 512 if inputs.small else 8192))
    lengths: list[int] = []

    def make_task(_: object, hardware: TrainingDevice, __: object) -> EncoderTask:
        encoder, tokenizers = start_model(config.model, config.seed)
        lengths.extend(map(len, tokenizers.queries.ids([query for query, _ in groups.pairs])))
        lengths.extend(map(len, tokenizers.documents.ids([text for _, text in groups.pairs])))
        batches = Batches(groups, size // 2)
        learner = DenseLearner(encoder, tokenizers)
        objective = build_objective(config.loss, learner)
        return EncoderTask(config, batches, learner, objective, None, None, hardware)

    timed = update(inputs, probe, config, make_task)
    count = timed * size * config.optimisation.accumulation
    queries, documents = np.array(lengths).reshape(2, -1)
    # a query has two documents
    own = float(queries.mean() / 2 + documents.mean())
    shape = inputs.shape(model)
    each = shape.operations(queries) / 2 + shape.operations(documents)
    operations = 3 * each / len(queries) * count  # in chunks the forward pass is made twice, but counts once
    return Amount(count, own * count, operations, timed)
