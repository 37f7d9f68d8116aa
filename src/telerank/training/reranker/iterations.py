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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from torch import Tensor, nn

from telerank.drafts import DRAFT, remove, replace_file, replace_folder
from telerank.errors import ModelError
from telerank.models.rerankers.reranker import Reranker, load_reranker, save_reranker
from telerank.training import checkpoint
from telerank.training.examples.groups import Group
from telerank.training.log import read_log
from telerank.training.parallel import ALONE, Processes, join_processes
from telerank.training.reranker.iteration_results import IterationResult, Iterations, read_result
from telerank.training.reranker.job import RerankerJob, RerankerTasks
from telerank.training.reranker.scoring import CutCounts, EndToEnd, FromStore, PairScorer
from telerank.training.reranker.segments import SegmentTable, qrel_groups
from telerank.training.reranker.selection import (
    Selection,
    mean_share,
    read_selection,
    read_truth,
    select_best,
)
from telerank.training.reranker.task import RerankerTask, group_loss
from telerank.training.task import TrainingDevice, choose_device
from telerank.training.trained import CHECKPOINTS, ITERATIONS, LOG, MODEL
from telerank.training.training import TrainingOptions, train
from telerank.types import Progress, silent

SELECTIONS = "selections"
SELECTOR = "selector"
"""The folder of theta(0) in that of theta(1)."""


def train_iterations(job: RerankerJob, **options: Unpack[TrainingOptions]) -> tuple[Path, CutCounts]:
    """Train all iterations; return the folder of the best model, and what it learned from.

    With ``resume`` an interrupted iteration continues from its last checkpoint, and finished ones are not
    repeated. Raises ModelError if the output holds a training and ``resume`` is not set, or one with
    other settings.
    """
    output, settings = job.output, job.segments
    results = Iterations(job.config.dev.measures if job.config.dev else "", [])

    def begin() -> None:
        output.mkdir(parents=True, exist_ok=True)
        checkpoint.sweep_output(output)
        checkpoint.check_output(job.config, output, resume=options.get("resume", False))
        checkpoint.write_record(job.config, output)

    def keep(number: int) -> None:
        """Make the model and the log of an iteration those of the training."""
        source, folder = output / ITERATIONS / str(number), output / MODEL
        draft = folder.with_name(folder.name + DRAFT)
        remove(draft)
        shutil.copytree(source / MODEL, draft, ignore=shutil.ignore_patterns(SELECTOR))
        replace_folder(folder, draft)
        replace_file(output / LOG, (source / LOG).read_bytes())

    with join_processes(choose_device(job.config.device)) as processes:
        processes.first(begin)
        options["resume"] = True
        progress = options.get("progress", silent) if processes.leads else silent
        for number in range(1, settings.iterations + 1):
            results.iterations.append(_Iteration(job, number).run(**options))
            progress(results.iterations[-1].describe(results.measure), number, settings.iterations)
            processes.first(partial(results.write, output))
            best = results.best
            if settings.patience and number - best.iteration >= settings.patience:
                break
        processes.first(partial(keep, best.iteration))
    return output / MODEL, CutCounts(best.pairs, best.cut_queries, best.cut_segments)


@dataclass(eq=False)
class _Iteration:
    """One iteration: a complete training, with its own early stop, and what its model selects."""

    job: RerankerJob
    number: int
    tasks: RerankerTasks = field(init=False)

    @property
    def folder(self) -> Path:
        return self.job.output / ITERATIONS / str(self.number)

    def run(self, **options: Unpack[TrainingOptions]) -> IterationResult:
        """Train unless that was done, write the selection for the next iteration, and measure."""
        if (result := read_result(self.folder)) is not None:
            return result
        model, task = train(self.job.config, self.folder, self.make_task, **options)
        learned, processes = task.count_learned(), self.tasks.hardware.processes
        progress = options.get("progress", silent) if processes.leads else silent
        if self.number == 1:
            self._select(model / SELECTOR, 1, progress)
        following = self._select(model, self.number + 1, progress)

        def finish() -> IterationResult:
            result = self._measure(following, learned, progress)
            result.write(self.folder)
            remove(self.folder / CHECKPOINTS)  # with a result nothing of it is resumed
            return result

        return processes.first(finish)

    def make_task(self, begun: Path | None, hardware: TrainingDevice, progress: Progress) -> RerankerTask:
        self.tasks = self.job.open_tasks(begun, hardware, progress)
        if self.number > 1:
            return self.tasks.learn(self._read(self.number))
        return join_tasks(self.tasks, self.job.model_of(None if begun is None else begun / SELECTOR))

    def _select(self, model: Path, number: int, progress: Progress) -> Selection:
        """I(``number``): the best segment of each document of each query that is learned from, by a model.

        Each process scores a share, but the first one alone reads the features of a frozen encoder; it
        writes, and gets the selection.
        """
        tasks, processes = self.tasks, self.tasks.hardware.processes
        groups, queries = tasks.groups, qrel_groups(tasks.groups).queries
        first_epoch = range(int(min(self.job.count_groups(groups), groups.repeats_from)))
        keys = sorted(
            {(group.qid, docno) for n in first_epoch for group in (groups[n],) for docno in group.docnos}
        )
        scorer = tasks.score_with(load_reranker(model))

        def select(among: Processes = ALONE) -> Selection:
            return select_best(keys, queries, tasks.table, scorer, progress, processes=among)

        if isinstance(scorer, EndToEnd):
            selection = select(processes)
        else:
            selection = processes.alone(select, Selection({}))
        processes.first(lambda: selection.write(self._path(number), tasks.table, self._head(number)))
        return selection

    def _read(self, number: int) -> Selection:
        return read_selection(self._path(number), self._head(number))

    def _path(self, number: int) -> Path:
        return self.job.output / SELECTIONS / f"{number}.jsonl"

    def _head(self, number: int) -> Mapping[str, Any]:
        """The first line of the file of a selection."""
        return {"iteration": number, "segments": self.tasks.table.record, "seed": self.tasks.reading.seed}

    def _measure(self, following: Selection, learned: CutCounts, progress: Progress) -> IterationResult:
        """Measure ``following``, I(N + 1), and what the model selects of the dev documents."""
        table, split = self.tasks.table, self.job.config.data.split
        now = self._read(self.number)
        records = [record for record in read_log(self.folder / LOG) if record.dev is not None]
        if not records:
            raise ModelError(f"{self.folder / LOG}: no dev measure")
        best = max(records, key=lambda record: (record.dev or 0.0, -record.step))
        # P@1 and its limit are of the relevant documents, and of the segments that are learned from alone
        docs = [segments.doc for segments in table.segments.values()]
        truth = read_truth(self.job.segments, self.job.collection, split, docs)
        relevant = [key for key in qrel_groups(self.tasks.groups).pairs if key in following.scores]
        of_relevant = Selection({key: following.scores[key] for key in relevant})
        return IterationResult(
            self.number,
            best.dev or 0.0,
            best.step,
            of_relevant.precision(truth, table),
            self._dev_precision(progress),
            None if self.number == 1 else now.changed(self._read(self.number - 1)),
            learned.pairs,
            learned.queries,
            learned.passages,
            of_relevant.reachable(truth, table),
        )

    def _dev_precision(self, progress: Progress) -> float | None:
        """P@1 of the segments of the relevant dev documents whose passage is known, all of their segments."""
        tasks, dev, settings = self.tasks, self.tasks.dev, self.job.config.dev
        if dev is None or settings is None:
            return None
        reranker = load_reranker(self.folder / MODEL)
        candidates, qids, pairs = dev.candidates, [], []
        scorer, tokens = tasks.score_with(reranker), tasks.table.tokens
        scores = self.job.document_scores(scorer, reranker, candidates.documents, tokens)
        docs = list(scores.docs.values())
        truth = read_truth(self.job.segments, self.job.collection, settings.split, docs)
        for query in (ranking.query for ranking in candidates.rankings):
            for docno, grade in candidates.qrels[query.qid].items():
                if grade > 0 and (query.qid, docno) in truth.spans:
                    qids.append(query.qid)
                    pairs.append((query.text, candidates.documents[docno]))
        best = zip(qids, scores.best(pairs, progress), strict=True)
        return mean_share(truth.is_right(qid, *segment) for qid, segment in best)


def join_tasks(tasks: RerankerTasks, selector: Reranker) -> JointTask:
    """Learn beside ``selector`` from the segments that it selects; features of all of them are stored."""
    task = tasks.task(tasks.groups, prepared=tasks.table.spread(tasks.groups))
    scorer = tasks.score_with(selector)
    if isinstance(scorer, FromStore) and isinstance(task.scorer, FromStore):
        scorer.store = task.scorer.store
    parts = {each.name: getattr(task, each.name) for each in fields(task) if each.init}
    return JointTask(**parts, selector=selector, selecting=scorer, table=tasks.table, apart=tasks.apart)


@dataclass(frozen=True, eq=False)
class JointTask(RerankerTask):
    """The first iteration of BeST: theta(0), the ``selector``, learns from all segments; theta(1), the
    ``reranker``, from those with its highest scores (equations 2 and 3).

    The scores are those of the same update, before the weights change: the arg-max is under the current
    theta(0), with its dropout. Both losses are means over groups of documents, that of theta(0) a sum over
    the segments' numbers. The loss that is logged, dev and the model are those of theta(1).
    """

    selector: Reranker
    selecting: PairScorer
    table: SegmentTable
    apart: bool

    @property
    def models(self) -> Sequence[Sequence[nn.Module]]:
        return ((self.selector.model,), (self.reranker.model,))

    def read(self, number: int) -> tuple[list[Group], int]:
        return self.batch(number)  # which segments theta(1) reads, theta(0) decides

    def backward(self, batch: tuple[list[Group], int]) -> Tensor:
        groups, new = batch
        return super().backward(self.scorer.read(self.learn_from_all(groups), new))

    def learn_from_all(self, groups: Sequence[Group]) -> list[Group]:
        """Add the gradients of theta(0) from all segments; return groups of those that it scores best."""
        parts = [
            (row, part)
            for row, group in enumerate(groups)
            for part in self.table.parts(group, apart=self.apart)
        ]
        origins = {id(part.group): (row, part) for row, part in parts}
        best: dict[tuple[int, int], tuple[float, int]] = {}
        size = self.config.optimisation.batch
        read = self.selecting.read([part.group for _, part in parts], 0)
        for learned, logits, _ in self.selecting.group_logits(read):
            documents = len(groups[0].docnos) if self.apart else 1
            loss = group_loss(self.config.loss, learned, logits) * (len(learned) / (size * documents))
            self.hardware.backward(loss, last=False)
            for group, scores in zip(learned, logits.detach().tolist(), strict=True):
                row, part = origins[id(group)]
                for position, number, score in zip(part.positions, part.numbers, scores, strict=True):
                    if number < part.index:  # it came before: another draw of dropout is no second chance
                        continue
                    # of equal scores the first segment's
                    best[row, position] = max(best.get((row, position), (score, -number)), (score, -number))
        chosen = []
        for row, group in enumerate(groups):
            numbers = [-best[row, position][1] for position in range(len(group.docnos))]
            chosen.append(replace(group, documents=tuple(map(self.table.text, group.docnos, numbers))))
        return chosen

    def save(self, folder: Path) -> None:
        super().save(folder)
        save_reranker(self.selector, folder / SELECTOR)
