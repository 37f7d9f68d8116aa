"""BeST: iterations in which a model selects the segments that the next one learns from (paper, section 3).

::

    OUTPUT/iterations/N/             a whole training: log, model of theta(N), checkpoints until it is over;
                                     in the first also theta(0), the folder ``selector`` of each model
    OUTPUT/iterations/N/result.json  its dev measure, P@1 of its segments (of train documents only those that
                                     are learned from, of dev documents all), what it learned from
    OUTPUT/selections/N.jsonl        I(N): from theta(N - 1); I(1) of the file is that of the theta(0)
                                     that is saved with theta(1), at the best dev measure of theta(1)
    OUTPUT/iterations.json .md .svg .png
    OUTPUT/model/                    theta of the iteration with the highest dev measure
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Unpack

from telerank.drafts import DRAFT, remove, replace_file, replace_folder
from telerank.errors import ModelError
from telerank.models.rerankers.reranker import Reranker, load_reranker
from telerank.training import checkpoint
from telerank.training.log import read_log
from telerank.training.parallel import ALONE, Processes, join_processes
from telerank.training.reranker.config import RerankerTraining
from telerank.training.reranker.pair_logits import CutCounts, EndToEnd
from telerank.training.reranker.task import RerankerTask
from telerank.training.segments.groups import pairs_of, queries_of, relevant_of
from telerank.training.segments.joint import SELECTOR, JointTask
from telerank.training.segments.learning import read_truth
from telerank.training.segments.report import IterationResult, read_results, write_result, write_results
from telerank.training.segments.selection import (
    Key,
    Selection,
    dev_precision,
    read_selection,
    select_best,
)
from telerank.training.segments.settings import SegmentTraining
from telerank.training.segments.tasks import SegmentTasks
from telerank.training.segments.truth import Truth
from telerank.training.task import TrainingDevice
from telerank.training.training import TrainingOptions, choose_device, count_updates, train
from telerank.types import Progress, silent

ITERATIONS, SELECTIONS = "iterations", "selections"


class BestJob(Protocol):
    """What an iteration needs of its training."""

    @property
    def config(self) -> RerankerTraining: ...

    def open_segments(
        self, begun: Path | None, hardware: TrainingDevice, progress: Progress
    ) -> SegmentTasks: ...

    def model_of(self, begun: Path | None) -> Reranker: ...


def train_best(job: BestJob, output: Path, **options: Unpack[TrainingOptions]) -> tuple[Path, CutCounts]:
    """Train all iterations; return the folder of the best model, and what it learned from.

    With ``resume`` an interrupted iteration continues from its last checkpoint, and finished ones are not
    repeated.

    Raises
    ------
    ModelError
        If ``output`` holds a training and ``resume`` is not set, or one with other settings.
    """
    config, results = job.config, list[IterationResult]()
    settings = _settings(config)
    with join_processes(choose_device(config.device)) as processes:
        processes.first(partial(_begin, config, output, resume=options.get("resume", False)))
        options["resume"] = True
        progress = options.get("progress", silent) if processes.leads else silent
        for number in range(1, settings.iterations + 1):
            results.append(_Iteration(job, output, number).run(**options))
            progress(results[-1].describe(_measure_of(config)), number, settings.iterations)
            processes.first(partial(write_results, output, results, _measure_of(config)))
            if settings.patience and number - _best(results).iteration >= settings.patience:
                break
        best = _best(results)
        processes.first(partial(_keep, output, best.iteration))
    return output / checkpoint.MODEL, CutCounts(best.pairs, best.cut_queries, best.cut_segments)


def _settings(config: RerankerTraining) -> SegmentTraining:
    if config.data.segments is None:
        raise ModelError("this training has no data.segments")
    return config.data.segments


def _measure_of(config: RerankerTraining) -> str:
    return config.dev.measure if config.dev else ""


def _best(results: list[IterationResult]) -> IterationResult:
    """The iteration with the highest dev measure; of equal ones the first."""
    return max(results, key=lambda result: (result.dev, -result.iteration))


def _begin(config: RerankerTraining, output: Path, *, resume: bool) -> None:
    output.mkdir(parents=True, exist_ok=True)
    checkpoint.sweep_output(output)
    if (output / checkpoint.CONFIG).exists():
        if not resume:
            raise ModelError(f"{output} holds a training: resume it (--resume), or name another folder")
        checkpoint.check_same(config, output)
    checkpoint.write_record(config, output)


def _keep(output: Path, number: int) -> None:
    """Make the model and the log of an iteration those of the training."""
    source, folder = output / ITERATIONS / str(number), output / checkpoint.MODEL
    draft = folder.with_name(folder.name + DRAFT)
    remove(draft)
    shutil.copytree(source / checkpoint.MODEL, draft, ignore=shutil.ignore_patterns(SELECTOR))
    replace_folder(folder, draft)
    replace_file(output / checkpoint.LOG, (source / checkpoint.LOG).read_bytes())


@dataclass(eq=False)
class _Iteration:
    """One iteration: a complete training, with its own early stop, and what its model selects."""

    job: BestJob
    output: Path
    number: int
    _opened: list[tuple[SegmentTasks, RerankerTask | JointTask]] = field(default_factory=list, init=False)

    def run(self, **options: Unpack[TrainingOptions]) -> IterationResult:
        """Train unless that was done, write the selection for the next iteration, and measure."""
        folder = self.output / ITERATIONS / str(self.number)
        known = {result.iteration: result for result in read_results(folder)}
        if self.number in known:
            return known[self.number]
        train(self.job.config, folder, self._make_task, **options)
        tasks, task = self._opened[0]
        ranker = task.ranker if isinstance(task, JointTask) else task
        learned = ranker.count_learned()
        processes = tasks.hardware.processes
        progress = options.get("progress", silent) if processes.leads else silent
        model = folder / checkpoint.MODEL
        if self.number == 1:
            self._select(tasks, model / SELECTOR, 1, progress)
        following = self._select(tasks, model, self.number + 1, progress)

        def finish() -> IterationResult:
            result = self._measure(tasks, following, learned, progress)
            write_result(folder, result)
            remove(folder / checkpoint.CHECKPOINTS)  # with a result nothing of it is resumed
            return result

        return processes.first(finish)

    def _make_task(
        self, begun: Path | None, hardware: TrainingDevice, progress: Progress
    ) -> RerankerTask | JointTask:
        tasks = self.job.open_segments(begun, hardware, progress)
        task: RerankerTask | JointTask
        if self.number == 1:
            task = tasks.joint(self.job.model_of(None if begun is None else begun / SELECTOR))
        else:
            task = tasks.of(self._read(tasks, self.number))
        self._opened.append((tasks, task))
        return task

    def _measure(
        self, tasks: SegmentTasks, following: Selection, learned: CutCounts, progress: Progress
    ) -> IterationResult:
        """Measure ``following``, I(N + 1), and what the model selects of the dev documents."""
        folder = self.output / ITERATIONS / str(self.number)
        now = self._read(tasks, self.number)
        records = [record for record in read_log(folder / checkpoint.LOG) if record.dev is not None]
        if not records:
            raise ModelError(f"{folder / checkpoint.LOG}: no dev measure")
        best = max(records, key=lambda record: (record.dev or 0.0, -record.step))
        precision, reachable = _precision(tasks, following)
        return IterationResult(
            self.number,
            best.dev or 0.0,
            best.step,
            precision,
            self._dev_precision(tasks, folder / checkpoint.MODEL, progress),
            None if self.number == 1 else now.changed(self._read(tasks, self.number - 1)),
            learned.pairs,
            learned.queries,
            learned.passages,
            reachable,
        )

    def _select(self, tasks: SegmentTasks, model: Path, number: int, progress: Progress) -> Selection:
        """I(``number``): the best segment of each document of each query that is learned from, by a model.

        Each process scores a share, but the first one alone reads the features of a frozen encoder; it
        writes, and gets the selection.
        """
        optimisation, processes = self.job.config.optimisation, tasks.hardware.processes
        updates = count_updates(self.job.config, tasks.groups.__len__)
        keys = pairs_of(tasks.groups, updates * optimisation.accumulation * optimisation.batch)
        scorer, queries = tasks.score_with(load_reranker(model)), queries_of(tasks.groups)

        def select(among: Processes = ALONE) -> Selection:
            return select_best(keys, queries, tasks.table, scorer.score, progress, processes=among)

        if isinstance(scorer, EndToEnd):
            selection = select(processes)
        else:
            selection = processes.alone(select, Selection({}))
        path, head = self._path(number), _head(tasks, number)
        processes.first(lambda: selection.write(path, tasks.table, head))
        return selection

    def _read(self, tasks: SegmentTasks, number: int) -> Selection:
        return read_selection(self._path(number), _head(tasks, number))

    def _path(self, number: int) -> Path:
        return self.output / SELECTIONS / f"{number}.jsonl"

    def _dev_precision(self, tasks: SegmentTasks, model: Path, progress: Progress) -> float | None:
        """P@1 of the segments of the relevant dev documents whose passage is known, all of their segments."""
        reranker = load_reranker(model)
        scores, dev, split = tasks.dev_scores(reranker), tasks.dev, self.job.config.dev
        if scores is None or dev is None or split is None:
            return None
        docs = list(scores.docs.values())
        truth = read_truth(tasks.learning.settings, tasks.learning.reading.collection, split.split, docs)
        queries = {one.query.qid: one.query.text for one in dev.candidates.rankings}
        keys = _known(
            truth, [(q, d) for q in queries for d, grade in dev.candidates.qrels[q].items() if grade > 0]
        )
        pairs = [(queries[qid], dev.candidates.documents[docno]) for qid, docno in keys]
        best = scores.best(pairs, tasks.score_with(reranker).score, progress)
        return dev_precision(truth, [(key[0], *own) for key, own in zip(keys, best, strict=True)])


def _head(tasks: SegmentTasks, number: int) -> Mapping[str, Any]:
    learning = tasks.learning
    record = tasks.table.record
    return {"iteration": number, "segments": record, "seed": learning.reading.seed}


def _precision(tasks: SegmentTasks, selection: Selection) -> tuple[float | None, float | None]:
    """P@1 of a selection, over the relevant documents, and the highest that there is.

    Both are of the segments that are learned from alone.
    """
    reading, settings = tasks.learning.reading, tasks.learning.settings
    docs = [segments.doc for segments in tasks.table.segments.values()]
    truth = read_truth(settings, reading.collection, reading.data.split, docs)
    keys = [key for key in _known(truth, relevant_of(tasks.groups)) if key in selection.scores]
    own = Selection({key: selection.scores[key] for key in keys})
    return own.precision(truth, tasks.table), own.reachable(truth, tasks.table)


def _known(truth: Truth, keys: list[Key] | Any) -> list[Key]:
    return [key for key in keys if key in truth.spans]
