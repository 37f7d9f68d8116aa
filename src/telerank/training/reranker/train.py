"""Train a re-ranker, from a configuration to a folder, and measure it on its test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from typing import Unpack

from telerank.corpus.collection import Collection
from telerank.corpus.formats import open_collection
from telerank.errors import ModelError
from telerank.models.pairs.words import words_in
from telerank.models.rerankers.kinds import Shape, find_kind
from telerank.models.rerankers.reranker import Reranker, fresh_reranker, load_reranker
from telerank.reranking.texts import make_pairs
from telerank.show.tables import Table
from telerank.training.examples.groups import Groups
from telerank.training.examples.read_groups import TEXTS, read_groups
from telerank.training.examples.reading import Reading, write_counts
from telerank.training.faults import explaining
from telerank.training.parallel import ALONE, Processes, join_processes
from telerank.training.reranker.candidates import (
    NO_CANDIDATES,
    NO_DEV,
    QueryParts,
    RerankerDevSet,
    assign_queries,
    read_candidates,
    read_dev_set,
)
from telerank.training.reranker.config import RerankerStart, RerankerTest, RerankerTraining
from telerank.training.reranker.outcome import BEHIND, measure_test, read_outcome
from telerank.training.reranker.pair_logits import CutCounts, EndToEnd, MakePairs, PairScorer, PairScores
from telerank.training.reranker.stored_logits import FromStore, Stored
from telerank.training.reranker.task import RerankerTask
from telerank.training.settings import dump_settings, write_settings
from telerank.training.task import TrainingDevice
from telerank.training.trained import MODEL, RESULT, read_counts
from telerank.training.training import (
    TrainingOptions,
    choose_device,
    choose_precision,
    count_updates,
    train,
)
from telerank.types import Progress, silent

FEATURES, TEST = "features", "test.yaml"
JOBS = {
    "documents": "telerank.training.reranker.train:RerankerJob",
    "segments": "telerank.training.segments.tasks:SegmentJob",
    "best": "telerank.training.segments.iterations:BestJob",
}
"""The class that trains, by what is learned from; it is loaded when it is first used."""


def train_reranker(
    config: RerankerTraining,
    output: str | Path,
    *,
    shared: Path | None = None,
    **options: Unpack[TrainingOptions],
) -> Path:
    """Train as the configuration says, and measure the test if it has one; return the model's folder.

    ``output/data.json`` counts what was learned from, and how much of it was cut. Features of a frozen
    encoder are stored in ``shared/features``, the texts for triples of ids in ``shared/texts``; ``shared``
    defaults to ``output``.

    Raises
    ------
    ModelError
        As :func:`telerank.training.training.train`; if there are folds and none of them is held out.
    CollectionError
        If the collection lacks what is to be learned from or measured on.
    """
    if config.folds and config.held_out is None:
        raise ModelError("folds: this is one training; say which fold is held_out, or train them all")
    job = RerankerJob.open(config, Path(output), shared or Path(output))
    with explaining(config), join_processes(choose_device(config.device)) as processes:
        model, learned = job.train(**options)
        counts = learned.describe("pairs learned from")
        processes.first(lambda: write_counts({**read_counts(job.output), **counts}, job.output))
        progress = options.get("progress", silent) if processes.leads else silent
        job.measure(progress, processes=processes)
    return model


def job_kind(config: RerankerTraining) -> type[RerankerJob]:
    """The class that trains with these settings."""
    kind: type[RerankerJob] = resolve_name(JOBS[config.data.learns_from])
    return kind


def start_reranker(start: RerankerStart, seed: int, keep: set[str] | None = None) -> Reranker:
    """The model before its first update; of a table of word vectors, only the words in ``keep``.

    Raises ModelError if there is no such model, or it does not take these settings.
    """
    shape = Shape(**start.model_dump(exclude={"start", "dropout"}))
    return fresh_reranker(start.start, shape, seed=seed, dropout=start.dropout, keep=keep)


def describe_cut(output: Path, test: Path | None = None) -> str:
    """In how many pairs of a training, of its dev and of a test a text was cut; empty if in none.

    Both are folders: ``output`` of the training, ``test`` of what its model re-ranked. Of segments, what is
    behind the last one that was learned from counts, too.

    Raises ModelError if it has no counts, or damaged ones.
    """
    counts = read_counts(output)
    if test is not None and (test / RESULT).exists():
        tested = read_outcome(test)
        cut = CutCounts(tested.candidates, tested.cut_queries, tested.cut_documents)
        counts |= cut.describe("test pairs") | {"test pairs whose title was cut": tested.cut_titles}
    cuts = {what: count for what, count in counts.items() if what.endswith("cut") or BEHIND in what}
    return ", ".join(f"{count:,} {what}" for what, count in cuts.items() if count)


@dataclass(frozen=True, eq=False)
class RerankerJob:
    """A training with its collection, its folders, and the queries of dev and test; it learns from documents.

    Those that learn from something else are below, in :data:`JOBS`.
    """

    config: RerankerTraining
    output: Path
    shared: Path
    collection: Collection
    queries: QueryParts

    @staticmethod
    def open(config: RerankerTraining, output: Path, shared: Path) -> RerankerJob:
        """The job of a training: what it learns from decides its kind."""
        data = config.data
        collection = open_collection(data.collection, format=data.format, encoding=data.encoding)
        return job_kind(config)(config, output, shared, collection, assign_queries(collection, config))

    @staticmethod
    def read_tables(output: Path) -> list[Table]:  # noqa: ARG004
        """The tables of a training in a folder, besides that of its test."""
        return []

    def train(self, **options: Unpack[TrainingOptions]) -> tuple[Path, CutCounts]:
        """Train; the folder of the model, and the pairs that it learned from."""
        tasks: list[RerankerTask] = []

        def make_task(begun: Path | None, hardware: TrainingDevice, progress: Progress) -> RerankerTask:
            tasks.append(self.make_task(begun, hardware, progress))
            return tasks[0]

        model = train(self.config, self.output, make_task, **options)
        return model, tasks[0].count_learned()

    def make_task(self, begun: Path | None, hardware: TrainingDevice, progress: Progress) -> RerankerTask:
        """The task, with a fresh model or that of the checkpoint ``begun``."""
        reading = self.reading(progress)
        groups = read_groups(reading, self.shared / TEXTS)
        dev = self.dev_set(reading, hardware)
        reranker = self.model_of(begun)
        scorer = self.make_scorer(reranker, groups, hardware)
        task = RerankerTask(self.config, reranker, groups, scorer, scorer, dev, hardware)
        self.write_counts(task, reading)
        return task

    def test_scores(
        self,
        reranker: Reranker,
        documents: Mapping[str, str],  # noqa: ARG002
        hardware: TrainingDevice,
    ) -> PairScores:
        """Scores the test's pairs; ``documents[docno]`` are the texts that stand for documents."""
        return self.test_scorer(reranker, hardware)

    def test_scorer(
        self, reranker: Reranker, hardware: TrainingDevice, make: MakePairs = make_pairs
    ) -> PairScores:
        """Scores pairs of texts as they are; ``make`` makes their tokens."""
        tokens = self.config.optimisation.tokens
        if self.config.test is not None and self.config.test.store:
            return Stored.of(reranker, self.shared / FEATURES, hardware, tokens)
        return EndToEnd(reranker, tokens, hardware.precision, make)

    def reading(self, progress: Progress) -> Reading:
        """The data to learn from, to be read."""
        config, kept_back = self.config, self.queries.kept_back
        return Reading(
            config.data, config.data_seed, self.collection, kept_back, progress, config.loss.teacher
        )

    def dev_set(self, reading: Reading, hardware: TrainingDevice) -> RerankerDevSet | None:
        """The dev queries with their candidates, in the first process."""
        dev, qids = self.config.dev, self.queries.dev
        if dev is None:
            return None
        return hardware.processes.alone(lambda: read_dev_set(reading, dev, qids), NO_DEV)

    def model_of(self, begun: Path | None) -> Reranker:
        """A fresh model, or that of the folder ``begun``."""
        start = self.config.model
        if begun is not None:
            reranker = load_reranker(begun, dropout=start.dropout)
        else:
            words = None
            if find_kind(start.kind).over_words:  # of a table of word vectors only these are kept
                splits, docs = (
                    map(self.collection.split_queries, self.collection.queries),
                    self.collection.docs(),
                )
                queries = (query.text for split in splits for query in split)
                words = words_in(chain(queries, (doc.full_text for doc in docs)))
            reranker = start_reranker(start, self.config.seed, words)
        for weight in (*reranker.model.parameters(), *reranker.model.buffers()):
            weight.data = weight.data.clone()  # aligned as if never read from a file: sums depend on it
        return reranker

    def make_scorer(
        self, reranker: Reranker, groups: Groups, hardware: TrainingDevice, make: MakePairs = make_pairs
    ) -> PairScorer:
        """What computes the logits of the groups; ``make`` makes the tokens of pairs."""
        tokens = self.config.optimisation.tokens
        if not self.config.model.frozen:
            return EndToEnd(reranker, tokens, hardware.precision, make)
        last = self.count_groups(groups)
        return FromStore.of(reranker, self.shared / FEATURES, hardware, tokens, groups=groups, last=last)

    def count_groups(self, groups: Groups) -> int:
        """The number of groups that are learned from, in all epochs."""
        optimisation = self.config.optimisation
        return count_updates(self.config, groups.__len__) * optimisation.accumulation * optimisation.batch

    def write_counts(self, task: RerankerTask, reading: Reading) -> None:
        """Write what is learned from, and what is cut of dev."""
        if not task.hardware.processes.leads:
            return
        if task.dev_set is not None:
            cut, titles = task.dev_scorer.count_cut(task.dev_set.pairs, reading.progress)
            reading.counts.update(cut.describe("dev pairs"))
            if titles is not None:
                reading.counts["dev pairs whose title was cut"] = titles
        write_counts(reading.counts, self.output)

    def check_pairs(self) -> None:
        """Check that the collection has as many pairs to learn from as ``data.pairs``.

        Raises CollectionError if it has fewer. Triples are not checked, because their file is streamed.
        """
        if not self.config.data.triples:
            read_groups(self.reading(silent), self.shared / TEXTS)

    def measure(self, progress: Progress, model: Path | None = None, processes: Processes = ALONE) -> None:
        """Re-rank the test's candidates, unless that was done with the same settings.

        The folder ``model`` is by default that of the training in ``output``. Each process scores a share.
        """
        test = self.config.test
        if test is None or not test.measures or processes.first(lambda: self._is_measured(test)):
            return
        where = choose_device(self.config.device)
        hardware = TrainingDevice(where, choose_precision(self.config.precision, where), processes)
        reranker = load_reranker(model or self.output / MODEL)
        reranker.model.to(where)
        candidates = processes.alone(
            lambda: read_candidates(self.collection, test, self.queries.test, progress), NO_CANDIDATES
        )
        pairs, scorer = candidates.pairs, self.test_scores(reranker, candidates.documents, hardware)
        scores = scorer.share(pairs, processes, progress)

        def write() -> None:
            cut, titles = scorer.count_cut(pairs, progress)
            measure_test(candidates, scores, cut, test, self.output, cut_titles=titles or 0)
            write_settings(test, self.output / TEST)

        processes.first(write)

    def _is_measured(self, test: RerankerTest) -> bool:
        """Whether this test was measured; if it was not, nothing says so until it is."""
        record = self.output / TEST
        is_same = record.exists() and record.read_text(encoding="utf-8") == dump_settings(test)
        if is_same and (self.output / RESULT).exists():
            return True
        record.unlink(missing_ok=True)
        return False
