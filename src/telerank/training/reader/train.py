"""Train a reader on batches of windows, from a configuration to a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

import torch
from torch import Tensor, nn

from telerank.drafts import replace_file
from telerank.errors import ModelError
from telerank.models.inference import batch_width, pin
from telerank.models.pairs.pair import PASSAGE, PairBatch, batch_of
from telerank.models.precision import AUTO
from telerank.models.readers import (
    Reader,
    SpanModel,
    fresh_reader,
    load_reader,
    save_reader,
    write_settings,
)
from telerank.training.ahead import pin_all
from telerank.training.examples.reading import write_counts
from telerank.training.faults import explaining
from telerank.training.parallel import Processes, join_processes
from telerank.training.reader.config import QuestionSource, ReaderStart, ReaderTraining
from telerank.training.reader.dev import ReaderDevSet
from telerank.training.reader.questions import REPAIRED, QuestionSet, describe_left_out, read_questions
from telerank.training.reader.windows import LearningWindows, WindowOrder, open_windows
from telerank.training.task import TrainingDevice
from telerank.training.trained import LEFT_OUT
from telerank.training.training import TrainingOptions, choose_device, train
from telerank.types import Progress, silent


@dataclass(frozen=True, eq=False)
class WindowBatch:
    """The windows of this process in a batch of ``size``; the first and last token of each answer, (B, 2)."""

    pairs: PairBatch
    answers: Tensor
    size: int


@dataclass(eq=False)
class ReaderTask:
    """The loss is the mean cross-entropy of start and end (Devlin et al., 2019), over the tokens of the
    context and the first token of all, which is no answer; each process computes its share of a batch.
    """

    config: ReaderTraining
    reader: Reader
    windows: LearningWindows
    dev_set: ReaderDevSet | None
    hardware: TrainingDevice

    def __post_init__(self) -> None:
        size, processes = self.config.optimisation.batch, self.hardware.processes.size
        if size < processes:
            raise ModelError(f"batch: {size} windows for {processes} processes: each needs at least one")
        weights = tuple(source.weight for source in self.config.data.sets)
        self._order = WindowOrder(
            self.windows.lengths,
            self.windows.table["set"].astype("int64"),
            weights,
            size=size,
            seed=self.config.seed,
        )
        self._model = SpanModel(self.reader.model)
        if self.config.model.frozen_embeddings:
            self.reader.model.get_input_embeddings().requires_grad_(False)

    @property
    def models(self) -> Sequence[Sequence[nn.Module]]:
        return ((self.reader.model,),)

    @property
    def examples(self) -> int:
        return self._order.epoch_length

    def prepare(self, number: int, progress: Progress) -> None:
        pass

    def read(self, number: int) -> WindowBatch:
        rows = self._order[number].tolist()
        own = [rows[place] for place in self.hardware.processes.share(len(rows))]
        device, texts = self.hardware.device, self.windows.texts
        pairs = [self.windows.pair(row) for row in own]
        batch = batch_of(pairs, texts.pad_id, batch_width(pairs, device, texts.max_length))
        answers = torch.tensor([self.windows.answer(row) for row in own])
        return WindowBatch(pin_all(batch, device), pin(answers, device), len(rows))

    def backward(self, batch: WindowBatch) -> Tensor:
        device = self.hardware.device
        pairs, answers = batch.pairs.to(device), batch.answers.to(device, non_blocking=True)
        with self.hardware.precision():
            logits = self._model(pairs)  # (B, L, 2)
        loss = span_loss(logits.float(), pairs, answers) / batch.size
        self.hardware.backward(loss, last=True)
        return loss.detach().double()

    def dev(self, progress: Progress) -> float | None:
        return None if self.dev_set is None else self.dev_set.value(self.reader, progress)

    def dev_loss(self, progress: Progress) -> float | None:  # noqa: ARG002 — dev is measured by answers
        return None

    def save(self, folder: Path) -> None:
        save_reader(self.reader, folder)

    def state(self) -> Mapping[str, Tensor]:
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        pass


def span_loss(logits: Tensor, batch: PairBatch, targets: Tensor) -> Tensor:
    """The sum over pairs of the mean of both cross-entropies: logits (B, L, 2), targets (B, 2)."""
    allowed = batch.parts == PASSAGE
    allowed[:, 0] = True
    masked = logits.masked_fill(~allowed[:, :, None], float("-inf"))  # (B, L, 2)
    return nn.functional.cross_entropy(masked, targets, reduction="sum") / 2


WINDOWS, FIT = "windows", "fit.json"


def train_reader(
    config: ReaderTraining,
    output: str | Path,
    *,
    shared: Path | None = None,
    **options: Unpack[TrainingOptions],
) -> Path:
    """Train as the configuration says, and return the folder of the model, ``output/model``.

    ``output/data.json`` counts what was learned from, and ``output/left-out.txt`` names questions whose
    answer does not occur in their text. The windows are stored in ``shared/windows``; ``shared`` defaults to
    ``output``. With dev questions, the threshold of no answer and the temperature are fitted on them at the
    end (``output/fit.json``).

    Raises
    ------
    CollectionError
        If a set lacks what is to be learned from.
    """
    job = ReaderJob(config, Path(output), shared or Path(output))
    model = train(config, output, job.make_task, **options)
    progress = options.get("progress", silent)
    with explaining(config), join_processes(choose_device(config.device)) as processes:
        if not processes.first((Path(output) / FIT).exists):
            job.fit(model, processes, progress if processes.leads else silent)
    return model


@dataclass(frozen=True)
class ReaderJob:
    """A training and its folders."""

    config: ReaderTraining
    output: Path
    shared: Path

    def make_task(self, begun: Path | None, hardware: TrainingDevice, progress: Progress) -> ReaderTask:
        """The task, with a fresh model or that of the checkpoint ``begun``."""
        config = self.config
        sets = tuple(self._read(source, progress) for source in config.data.sets)
        if begun is None:
            reader = start_reader(config.model, config.seed)
        else:
            reader = load_reader(begun, dropout=config.model.dropout)
        folder, seed = self.shared / WINDOWS, config.data_seed
        if hardware.processes.size > 1:  # the first makes them, the others map them
            hardware.processes.first(lambda: len(open_windows(folder, reader, sets, seed, progress)))
        windows = open_windows(folder, reader, sets, seed, progress)
        if hardware.processes.leads:
            self._write_counts(sets, windows.counts)
        dev_set = self._open_dev(hardware.device, hardware.processes, progress)
        return ReaderTask(config, reader, windows, dev_set, hardware)

    def fit(self, model: Path, processes: Processes, progress: Progress = silent) -> None:
        """Fit threshold and temperature of the reader in a folder on dev, if there is one, and write them
        into it.
        """
        dev = self._open_dev(choose_device(self.config.device), processes, progress)
        if dev is None:
            return
        reader, fit = dev.fit(load_reader(model), progress)

        def write() -> None:
            write_settings(model, reader.settings)
            replace_file(self.output / FIT, f"{json.dumps(fit.record(), indent=1)}\n".encode())

        processes.first(write)

    def _read(self, source: QuestionSource, progress: Progress) -> QuestionSet:
        return read_questions(source, self.config.articles, self.config.data_seed, progress)

    def _open_dev(
        self, device: torch.device, processes: Processes, progress: Progress
    ) -> ReaderDevSet | None:
        dev = self.config.dev
        if dev is None:
            return None
        sets: list[QuestionSet] = processes.alone(
            lambda: [self._read(source, progress) for source in dev.sets], []
        )
        precision = AUTO if self.config.precision == "float16" else self.config.precision  # for gradients
        return ReaderDevSet(tuple(sets), dev.measure, precision, str(device), processes)

    def _write_counts(self, sets: tuple[QuestionSet, ...], of_windows: Mapping[str, int]) -> None:
        counts: dict[str, int] = {}
        for own in sets:
            for name, count in own.counts.items():
                counts[name] = counts.get(name, 0) + count
                if name in REPAIRED and len(sets) > 1:
                    where = f"{name}, {Path(own.source.collection).name}"
                    counts[where] = counts.get(where, 0) + count
        write_counts({**counts, **of_windows}, self.output)
        replace_file(
            self.output / LEFT_OUT, "".join(f"{line}\n" for line in describe_left_out(sets)).encode()
        )


def start_reader(start: ReaderStart, seed: int) -> Reader:
    """The reader before its first update. Raises ModelError if there is no such encoder."""
    return fresh_reader(start.start, start.settings, seed=seed, dropout=start.dropout)
