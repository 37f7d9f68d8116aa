"""Train a reader, from a configuration to a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

import torch

from telerank.drafts import replace_file
from telerank.models.precision import AUTO
from telerank.models.readers.reader import Reader, fresh_reader, load_reader, write_settings
from telerank.training.examples.reading import write_counts
from telerank.training.faults import explaining
from telerank.training.parallel import Processes, join_processes
from telerank.training.reader.config import QuestionSource, ReaderStart, ReaderTraining
from telerank.training.reader.dev import ReaderDevSet
from telerank.training.reader.questions import REPAIRED, QuestionSet, describe_left_out, read_questions
from telerank.training.reader.task import ReaderTask
from telerank.training.reader.windows import open_windows
from telerank.training.task import TrainingDevice
from telerank.training.training import TrainingOptions, choose_device, train
from telerank.types import Progress, silent

WINDOWS, LEFT_OUT, FIT = "windows", "left-out.txt", "fit.json"


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
