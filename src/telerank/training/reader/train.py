"""Train a reader on batches of windows, from a configuration to a folder; measure it, and fit it on dev."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Unpack

import numpy as np
import torch
from torch import Tensor, nn

from telerank.answers.calibration import DevQuestion, ReaderFit, fit_reader
from telerank.answers.combine import AnswerRules, ReadText, choose_answers
from telerank.answers.scorer import SpanReader
from telerank.drafts import replace_file
from telerank.errors import ModelError
from telerank.evaluation.answers.measures import GoldAnswers, measure_answers
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
from telerank.training.examples.reading import write_counts
from telerank.training.kinds import TrainingKind
from telerank.training.parallel import ALONE, Processes, join_processes, share_by_length
from telerank.training.reader.config import ReaderTraining
from telerank.training.reader.questions import REPAIRED, QuestionSet, describe_left_out, read_questions
from telerank.training.reader.windows import LearningWindows, WindowOrder, open_windows
from telerank.training.task import Task, TrainingDevice, choose_device, freeze_embeddings, pin_all
from telerank.training.trained import LEFT_OUT
from telerank.training.training import TrainingOptions, explaining, train
from telerank.types import Progress, silent

WINDOWS, FIT = "windows", "fit.json"


@dataclass(frozen=True, eq=False)
class ReadQuestions:
    """Questions with what a reader says of the text of each."""

    questions: Sequence[DevQuestion]

    @cached_property
    def gold(self) -> GoldAnswers:
        """The gold answers of the questions."""
        return GoldAnswers(
            {question.query.qid: question.query.text for question in self.questions},
            {question.query.qid: question.answers for question in self.questions},
        )

    def predict(self, rules: AnswerRules) -> dict[str, str]:
        """The text of each question's answer, empty if there is none."""
        return {
            question.query.qid: choose_answers(question.query, question.texts, rules).text
            for question in self.questions
        }

    def no_answer(self, rules: AnswerRules) -> dict[str, float]:
        """The score of no answer minus that of the best span, for each question."""
        always = replace(rules, threshold=None)
        return {
            question.query.qid: choose_answers(question.query, question.texts, always).no_answer
            for question in self.questions
        }


def read_sets(
    reader: SpanReader,
    sets: Sequence[QuestionSet],
    progress: Progress = silent,
    processes: Processes = ALONE,
) -> ReadQuestions:
    """Read the text of each question of these sets; several processes read a share of the first one's.

    Qids of several sets are told apart by the number of the set.
    """
    numbered = [(number, question) for number, own in enumerate(sets) for question in own.questions]
    readings = share_by_length(
        processes,
        lambda pairs: reader.read(pairs, progress=progress),
        [(question.query.text, question.doc.text) for _, question in numbered],
        lambda pair: len(pair[0]) + len(pair[1]),
    )
    questions = []
    for (number, question), reading in zip(numbered, readings, strict=True):
        qid = f"{number}:{question.query.qid}{'/unrelated' if question.unrelated else ''}"
        text = ReadText(question.doc.docno, question.doc.text, reading)
        answers = tuple(answer.text for answer in question.answers)
        questions.append(DevQuestion(replace(question.query, qid=qid), [text], answers))
    return ReadQuestions(questions)


@dataclass(frozen=True, eq=False)
class ReaderDevSet:
    """Dev questions, the measure that decides, and how they are computed.

    Processes that are not the first have no questions, and read a share of its questions.
    """

    sets: Sequence[QuestionSet]
    measure: str
    precision: str
    device: str
    processes: Processes = ALONE

    def read(self, reader: Reader, progress: Progress = silent) -> ReadQuestions:
        """What the reader says of the questions; the model is in training mode again afterwards."""
        training = reader.model.training
        try:
            own = SpanReader(reader, precision=self.precision, device=self.device)
            return read_sets(own, self.sets, progress, self.processes)
        finally:
            reader.model.train(training)

    def value(self, reader: Reader, progress: Progress = silent) -> float:
        """The measure's mean over the questions.

        If some of them have no answer, a threshold of 0 decides whether there is one.
        """
        read, language = self.read(reader, progress), reader.settings.language

        def evaluate() -> float:
            rules = AnswerRules(threshold=0.0 if read.gold.unanswerable else None, language=language)
            return measure_answers(read.gold, read.predict(rules), self.measure).mean[self.measure]

        return self.processes.first(evaluate)

    def fit(self, reader: Reader, progress: Progress = silent) -> tuple[Reader, ReaderFit]:
        """The reader with the threshold and the temperature that fit the questions best.

        The threshold makes the mean of the measure highest.
        """
        read, rules = self.read(reader, progress), AnswerRules(language=reader.settings.language)
        fitted = self.processes.first(lambda: fit_reader(read.questions, rules, self.measure))
        threshold, temperature = fitted.rules.threshold, float(np.float64(fitted.rules.temperature))
        return reader.with_settings(threshold=threshold, temperature=temperature), fitted


@dataclass(frozen=True, eq=False)
class WindowBatch:
    """The windows of this process in a batch of ``size``; the first and last token of each answer, (B, 2)."""

    pairs: PairBatch
    answers: Tensor
    size: int


@dataclass(eq=False)
class ReaderTask(Task):
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
            freeze_embeddings(self.reader.model)

    @property
    def models(self) -> Sequence[Sequence[nn.Module]]:
        return ((self.reader.model,),)

    @property
    def examples(self) -> int:
        return self._order.epoch_length

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

    def save(self, folder: Path) -> None:
        save_reader(self.reader, folder)


def span_loss(logits: Tensor, batch: PairBatch, targets: Tensor) -> Tensor:
    """The sum over pairs of the mean of both cross-entropies: logits (B, L, 2), targets (B, 2)."""
    allowed = batch.parts == PASSAGE
    allowed[:, 0] = True
    masked = logits.masked_fill(~allowed[:, :, None], float("-inf"))  # (B, L, 2)
    return nn.functional.cross_entropy(masked, targets, reduction="sum") / 2


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
    folder, progress = Path(output), options.get("progress", silent)
    make_task = partial(make_reader_task, config=config, output=folder, shared=shared or folder)
    model, _ = train(config, output, make_task, **options)
    device = choose_device(config.device)
    with explaining(config), join_processes(device) as processes:
        progress = progress if processes.leads else silent
        if processes.first((folder / FIT).exists):
            return model
        if dev := open_dev(config, device, processes, progress):
            reader, fit = dev.fit(load_reader(model), progress)

            def write() -> None:
                write_settings(model, reader.settings)
                replace_file(folder / FIT, f"{json.dumps(fit.record(), indent=1)}\n".encode())

            processes.first(write)
    return model


def make_reader_task(
    begun: Path | None,
    hardware: TrainingDevice,
    progress: Progress,
    *,
    config: ReaderTraining,
    output: Path,
    shared: Path,
) -> ReaderTask:
    """The task of a training, with a fresh model or that of the checkpoint ``begun``."""
    processes, start, seed = hardware.processes, config.model, config.data_seed
    sets = [read_questions(source, config.articles, seed, progress) for source in config.data.sets]
    if begun is None:
        reader = fresh_reader(start.start, start.settings, seed=config.seed, dropout=start.dropout)
    else:
        reader = load_reader(begun, dropout=start.dropout)
    open_own = partial(open_windows, shared / WINDOWS, reader, sets, seed, progress)
    if processes.size > 1:  # the first makes them, the others map them
        processes.first(lambda: len(open_own()))
    windows = open_own()
    if processes.leads:
        counts: dict[str, int] = {}
        for own in sets:
            for name, count in own.counts.items():
                names = [name]
                if name in REPAIRED and len(sets) > 1:
                    names.append(f"{name}, {Path(own.source.collection).name}")
                counts.update({each: counts.get(each, 0) + count for each in names})
        write_counts({**counts, **windows.counts}, output)
        left_out = "".join(f"{line}\n" for line in describe_left_out(sets))
        replace_file(output / LEFT_OUT, left_out.encode())
    dev_set = open_dev(config, hardware.device, processes, progress)
    return ReaderTask(config, reader, windows, dev_set, hardware)


def open_dev(
    config: ReaderTraining, device: torch.device, processes: Processes, progress: Progress
) -> ReaderDevSet | None:
    """The dev questions of a training; None if it has none."""
    dev = config.dev
    if dev is None:
        return None

    def read() -> list[QuestionSet]:
        return [read_questions(own, config.articles, config.data_seed, progress) for own in dev.sets]

    precision = AUTO if config.precision == "float16" else config.precision  # for gradients
    return ReaderDevSet(processes.alone(read, []), dev.measures, precision, str(device), processes)


KIND = TrainingKind(ReaderTraining, train_reader)
