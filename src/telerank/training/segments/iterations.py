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
from typing import Any, Unpack

from telerank.drafts import DRAFT, remove, replace_file, replace_folder
from telerank.errors import ModelError
from telerank.models.rerankers.reranker import load_reranker
from telerank.show.tables import Table
from telerank.training import checkpoint
from telerank.training.log import read_log
from telerank.training.parallel import ALONE, Processes, join_processes
from telerank.training.reranker.pair_logits import CutCounts, EndToEnd
from telerank.training.reranker.task import RerankerTask
from telerank.training.segments.groups import pairs_of, qrel_groups
from telerank.training.segments.report import (
    RESULTS,
    IterationResult,
    best_iteration,
    read_result,
    read_table,
    write_result,
    write_results,
)
from telerank.training.segments.selection import (
    Selection,
    mean_share,
    read_selection,
    read_truth,
    select_best,
)
from telerank.training.segments.tasks import SELECTOR, SegmentJob, SegmentTasks
from telerank.training.task import TrainingDevice
from telerank.training.trained import CHECKPOINTS, ITERATIONS, LOG, MODEL
from telerank.training.training import TrainingOptions, choose_device, train
from telerank.types import Progress, silent

SELECTIONS = "selections"


class BestJob(SegmentJob):
    """A training in iterations."""

    def train(self, **options: Unpack[TrainingOptions]) -> tuple[Path, CutCounts]:
        """Train all iterations; return the folder of the best model, and what it learned from.

        With ``resume`` an interrupted iteration continues from its last checkpoint, and finished ones are not
        repeated. Raises ModelError if the output holds a training and ``resume`` is not set, or one with
        other settings.
        """
        results, patience = list[IterationResult](), self.segments.patience
        measure = self.config.dev.measure if self.config.dev else ""
        with join_processes(choose_device(self.config.device)) as processes:
            processes.first(partial(self._begin, resume=options.get("resume", False)))
            options["resume"] = True
            progress = options.get("progress", silent) if processes.leads else silent
            for number in range(1, self.segments.iterations + 1):
                results.append(_Iteration(self, number).run(**options))
                progress(results[-1].describe(measure), number, self.segments.iterations)
                processes.first(partial(write_results, self.output, results, measure))
                best = best_iteration(results)
                if patience and number - best.iteration >= patience:
                    break
            processes.first(partial(self._keep, best.iteration))
        return self.output / MODEL, CutCounts(best.pairs, best.cut_queries, best.cut_segments)

    @staticmethod
    def read_tables(output: Path) -> list[Table]:
        return [read_table(output)] if (output / RESULTS).exists() else []

    def _begin(self, *, resume: bool) -> None:
        self.output.mkdir(parents=True, exist_ok=True)
        checkpoint.sweep_output(self.output)
        checkpoint.check_output(self.config, self.output, resume=resume)
        checkpoint.write_record(self.config, self.output)

    def _keep(self, number: int) -> None:
        """Make the model and the log of an iteration those of the training."""
        source, folder = self.output / ITERATIONS / str(number), self.output / MODEL
        draft = folder.with_name(folder.name + DRAFT)
        remove(draft)
        shutil.copytree(source / MODEL, draft, ignore=shutil.ignore_patterns(SELECTOR))
        replace_folder(folder, draft)
        replace_file(self.output / LOG, (source / LOG).read_bytes())


@dataclass(eq=False)
class _Iteration:
    """One iteration: a complete training, with its own early stop, and what its model selects."""

    job: BestJob
    number: int
    _opened: list[tuple[SegmentTasks, RerankerTask]] = field(default_factory=list, init=False)

    def run(self, **options: Unpack[TrainingOptions]) -> IterationResult:
        """Train unless that was done, write the selection for the next iteration, and measure."""
        folder = self.job.output / ITERATIONS / str(self.number)
        if (result := read_result(folder)) is not None:
            return result
        train(self.job.config, folder, self._make_task, **options)
        tasks, task = self._opened[0]
        learned = task.count_learned()
        processes = tasks.hardware.processes
        progress = options.get("progress", silent) if processes.leads else silent
        model = folder / MODEL
        if self.number == 1:
            self._select(tasks, model / SELECTOR, 1, progress)
        following = self._select(tasks, model, self.number + 1, progress)

        def finish() -> IterationResult:
            result = self._measure(tasks, following, learned, progress)
            write_result(folder, result)
            remove(folder / CHECKPOINTS)  # with a result nothing of it is resumed
            return result

        return processes.first(finish)

    def _make_task(self, begun: Path | None, hardware: TrainingDevice, progress: Progress) -> RerankerTask:
        tasks = self.job.open_tasks(begun, hardware, progress)
        task: RerankerTask
        if self.number == 1:
            task = tasks.joint(self.job.model_of(None if begun is None else begun / SELECTOR))
        else:
            task = tasks.of(self._read(tasks, self.number))
        self._opened.append((tasks, task))
        return task

    def _select(self, tasks: SegmentTasks, model: Path, number: int, progress: Progress) -> Selection:
        """I(``number``): the best segment of each document of each query that is learned from, by a model.

        Each process scores a share, but the first one alone reads the features of a frozen encoder; it
        writes, and gets the selection.
        """
        processes, queries = tasks.hardware.processes, qrel_groups(tasks.groups).queries
        keys = pairs_of(tasks.groups, self.job.count_groups(tasks.groups))
        scorer = tasks.score_with(load_reranker(model))

        def select(among: Processes = ALONE) -> Selection:
            return select_best(keys, queries, tasks.table, scorer, progress, processes=among)

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
        return self.job.output / SELECTIONS / f"{number}.jsonl"

    def _measure(
        self, tasks: SegmentTasks, following: Selection, learned: CutCounts, progress: Progress
    ) -> IterationResult:
        """Measure ``following``, I(N + 1), and what the model selects of the dev documents."""
        folder = self.job.output / ITERATIONS / str(self.number)
        now = self._read(tasks, self.number)
        records = [record for record in read_log(folder / LOG) if record.dev is not None]
        if not records:
            raise ModelError(f"{folder / LOG}: no dev measure")
        best = max(records, key=lambda record: (record.dev or 0.0, -record.step))
        # P@1 and its limit are of the relevant documents, and of the segments that are learned from alone
        docs = [segments.doc for segments in tasks.table.segments.values()]
        truth = read_truth(self.job.segments, self.job.collection, self.job.config.data.split, docs)
        relevant = [key for key in qrel_groups(tasks.groups).pairs if key in following.scores]
        of_relevant = Selection({key: following.scores[key] for key in relevant})
        return IterationResult(
            self.number,
            best.dev or 0.0,
            best.step,
            of_relevant.precision(truth, tasks.table),
            self._dev_precision(tasks, folder / MODEL, progress),
            None if self.number == 1 else now.changed(self._read(tasks, self.number - 1)),
            learned.pairs,
            learned.queries,
            learned.passages,
            of_relevant.reachable(truth, tasks.table),
        )

    def _dev_precision(self, tasks: SegmentTasks, model: Path, progress: Progress) -> float | None:
        """P@1 of the segments of the relevant dev documents whose passage is known, all of their segments."""
        reranker = load_reranker(model)
        scores = tasks.dev_scores(reranker, tasks.score_with(reranker))
        dev, settings = tasks.dev, self.job.config.dev
        if scores is None or dev is None or settings is None:
            return None
        docs = list(scores.docs.values())
        truth = read_truth(self.job.segments, self.job.collection, settings.split, docs)
        candidates, keys, pairs = dev.candidates, [], []
        for query in (ranking.query for ranking in candidates.rankings):
            for docno, grade in candidates.qrels[query.qid].items():
                if grade > 0 and (query.qid, docno) in truth.spans:
                    keys.append((query.qid, docno))
                    pairs.append((query.text, candidates.documents[docno]))
        best = zip(keys, scores.best(pairs, progress), strict=True)
        return mean_share(truth.is_right(qid, *segment) for (qid, _), segment in best)


def _head(tasks: SegmentTasks, number: int) -> Mapping[str, Any]:
    """The first line of the file of a selection."""
    return {"iteration": number, "segments": tasks.table.record, "seed": tasks.reading.seed}
