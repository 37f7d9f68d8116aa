"""Train a re-ranker, from a configuration to a folder, and measure it on its test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Unpack

from telerank.corpus.collection import Collection
from telerank.corpus.formats import open_collection
from telerank.errors import ModelError
from telerank.models.pairs.words import words_in
from telerank.models.rerankers.kinds import Shape, find_kind
from telerank.models.rerankers.reranker import Reranker, fresh_reranker, load_reranker
from telerank.records import read_record
from telerank.reranking.texts import TextPair, make_pairs
from telerank.training import checkpoint
from telerank.training.examples.groups import Groups
from telerank.training.examples.read_groups import TEXTS, read_groups
from telerank.training.examples.reading import DATA, Reading, write_counts
from telerank.training.faults import explaining
from telerank.training.parallel import ALONE, Processes, join_processes
from telerank.training.reranker.candidates import (
    NO_CANDIDATES,
    QueryParts,
    assign_queries,
    read_candidates,
)
from telerank.training.reranker.config import RerankerStart, RerankerTest, RerankerTraining
from telerank.training.reranker.dev_groups import NO_DEV, RerankerDevSet, read_dev_set
from telerank.training.reranker.outcome import RESULT, measure_test, read_outcome
from telerank.training.reranker.pair_logits import CutCounts, EndToEnd, MakePairs, count_cut
from telerank.training.reranker.scoring import PairScorer, score_documents
from telerank.training.reranker.stored_logits import FromStore, Stored
from telerank.training.reranker.task import RerankerTask
from telerank.training.segments.iterations import train_best
from telerank.training.segments.learning import SegmentLearning, document_scores
from telerank.training.segments.table import BEHIND, DocumentScores, SegmentTokens
from telerank.training.segments.tasks import SegmentTasks
from telerank.training.settings import dump_settings, write_settings
from telerank.training.task import TrainingDevice
from telerank.training.training import (
    TrainingOptions,
    choose_device,
    choose_precision,
    count_updates,
    train,
)
from telerank.types import Progress, silent

FEATURES, TEST = "features", "test.yaml"


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
    tasks: list[RerankerTask] = []

    def make_task(begun: Path | None, hardware: TrainingDevice, progress: Progress) -> RerankerTask:
        tasks.append(job.make_task(begun, hardware, progress))
        return tasks[0]

    with explaining(config), join_processes(choose_device(config.device)) as processes:
        if config.data.segments is not None and config.data.segments.select == "best":
            model, learned = train_best(job, Path(output), **options)
        else:
            model = train(config, output, make_task, **options)
            learned = tasks[0].count_learned()
        processes.first(lambda: job.add_counts(learned.describe("pairs learned from")))
        progress = options.get("progress", silent) if processes.leads else silent
        job.measure(progress, processes=processes)
    return model


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
    counts = read_record(output / DATA, dict[str, int], ModelError)
    if test is not None and (test / RESULT).exists():
        tested = read_outcome(test)
        cut = CutCounts(tested.candidates, tested.cut_queries, tested.cut_documents)
        counts |= cut.describe("test pairs") | {"test pairs whose title was cut": tested.cut_titles}
    cuts = {what: count for what, count in counts.items() if what.endswith("cut") or BEHIND in what}
    return ", ".join(f"{count:,} {what}" for what, count in cuts.items() if count)


def _count_cut_of(
    reranker: Reranker, by_segments: DocumentScores | None, pairs: Sequence[TextPair], progress: Progress
) -> tuple[CutCounts, int]:
    """What was cut of pairs of dev or a test, and in how many the title was, which segments cut by itself."""
    if by_segments is None:
        return count_cut(reranker.texts, pairs, progress), 0
    cut = count_cut(reranker.texts, [(query, "") for query, _ in pairs], progress)
    cut.passages, titles = by_segments.count_cut(pairs)
    return cut, titles


@dataclass(frozen=True, eq=False)
class RerankerJob:
    """A training with its collection, its folders, and the queries of dev and test."""

    config: RerankerTraining
    output: Path
    shared: Path
    collection: Collection
    queries: QueryParts

    @classmethod
    def open(cls, config: RerankerTraining, output: Path, shared: Path) -> RerankerJob:
        data = config.data
        collection = open_collection(data.collection, format=data.format, encoding=data.encoding)
        return cls(config, output, shared, collection, assign_queries(collection, config))

    def make_task(self, begun: Path | None, hardware: TrainingDevice, progress: Progress) -> RerankerTask:
        """The task, with a fresh model or that of the checkpoint ``begun``."""
        if self.config.data.segments is not None:
            return self.open_segments(begun, hardware, progress).select()
        reading = self._reading(progress)
        groups = read_groups(reading, self.shared / TEXTS)
        dev = self._dev_set(reading, hardware)
        reranker = self.model_of(begun)
        if dev is not None:
            reading.counts.update(count_cut(reranker.texts, dev.pairs, progress).describe("dev pairs"))
        if hardware.processes.leads:
            write_counts(reading.counts, self.output)
        scorer = self.make_scorer(reranker, groups, hardware)
        return RerankerTask(self.config, reranker, groups, scorer, dev, hardware)

    def open_segments(self, begun: Path | None, hardware: TrainingDevice, progress: Progress) -> SegmentTasks:
        """What tasks that learn from segments are made of."""
        config, reading = self.config, self._reading(progress)
        if config.data.segments is None:
            raise ModelError("this training has no data.segments")
        learning = SegmentLearning.open(config.data.segments, reading)
        groups = read_groups(learning.reading, self.shared / TEXTS)
        dev = self._dev_set(reading, hardware)
        reranker = self.model_of(begun)
        tasks = SegmentTasks(
            config,
            learning,
            groups,
            reranker,
            dev,
            hardware,
            learning.cut(groups, reranker),
            self.make_scorer,
        )
        if hardware.processes.leads:
            if dev is not None:
                cut, titles = _count_cut_of(reranker, tasks.dev_scores(reranker), dev.pairs, progress)
                reading.counts.update(cut.describe("dev pairs"))
                reading.counts["dev pairs whose title was cut"] = titles
            write_counts(reading.counts, self.output)
        return tasks

    def _dev_set(self, reading: Reading, hardware: TrainingDevice) -> RerankerDevSet | None:
        dev, qids = self.config.dev, self.queries.dev
        if dev is None:
            return None
        return hardware.processes.alone(lambda: read_dev_set(reading, dev, qids), NO_DEV)

    def model_of(self, begun: Path | None) -> Reranker:
        """A fresh model, or that of the folder ``begun``."""
        start = self.config.model
        reranker = (
            start_reranker(start, self.config.seed, self._words())
            if begun is None
            else load_reranker(begun, dropout=start.dropout)
        )
        for weight in (*reranker.model.parameters(), *reranker.model.buffers()):
            weight.data = weight.data.clone()  # aligned as if never read from a file: sums depend on it
        return reranker

    def add_counts(self, counts: Mapping[str, int]) -> None:
        """Add counts to those of the data."""
        write_counts({**read_record(self.output / DATA, dict[str, int], ModelError), **counts}, self.output)

    def check_pairs(self) -> None:
        """Check that the collection has as many pairs to learn from as ``data.pairs``.

        Raises CollectionError if it has fewer. Triples are not checked, because their file is streamed.
        """
        if not self.config.data.triples:
            read_groups(self._reading(silent), self.shared / TEXTS)

    def measure(self, progress: Progress, model: Path | None = None, processes: Processes = ALONE) -> None:
        """Re-rank the test's candidates, unless that was done with the same settings.

        The folder ``model`` is by default that of the training in ``output``. Each process scores a share.
        """
        test = self.config.test
        if test is None or not test.measures or processes.first(lambda: self._is_measured(test)):
            return
        where = choose_device(self.config.device)
        hardware = TrainingDevice(where, choose_precision(self.config.precision, where), processes)
        reranker = load_reranker(model or self.output / checkpoint.MODEL)
        reranker.model.to(where)
        tokens, known = self.config.optimisation.tokens, SegmentTokens()
        scorer: EndToEnd | Stored = EndToEnd(reranker, tokens, hardware.precision, known)
        if test.store:
            scorer = Stored.of(reranker, self.shared / FEATURES, hardware, tokens)
        candidates = processes.alone(
            lambda: read_candidates(self.collection, test, self.queries.test, progress), NO_CANDIDATES
        )
        pairs, segments, by_segments = candidates.pairs, self.config.data.segments, None
        if segments is not None:
            by_segments = document_scores(segments, self.collection, reranker, candidates.documents, known)
        scores = score_documents(scorer, by_segments, pairs, processes, progress)

        def write() -> None:
            cut, titles = _count_cut_of(reranker, by_segments, pairs, progress)
            measure_test(candidates, scores, cut, test, self.output, cut_titles=titles)
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

    def _reading(self, progress: Progress) -> Reading:
        config, kept_back = self.config, self.queries.kept_back
        return Reading(
            config.data, config.data_seed, self.collection, kept_back, progress, config.loss.teacher
        )

    def _words(self) -> set[str] | None:
        """The collection's words, of which a table of word vectors keeps the vectors."""
        if not find_kind(self.config.model.kind).over_words:
            return None
        collection = self.collection
        queries = (query.text for split in collection.queries for query in collection.split_queries(split))
        return words_in(chain(queries, (doc.full_text for doc in collection.docs())))

    def make_scorer(
        self, reranker: Reranker, groups: Groups, hardware: TrainingDevice, make: MakePairs = make_pairs
    ) -> PairScorer:
        """What computes the logits of the groups; ``make`` makes the tokens of pairs."""
        optimisation = self.config.optimisation
        if not self.config.model.frozen:
            return EndToEnd(reranker, optimisation.tokens, hardware.precision, make)
        stored = Stored.of(reranker, self.shared / FEATURES, hardware, optimisation.tokens)
        batches = count_updates(self.config, groups.__len__) * optimisation.accumulation
        return FromStore(stored, groups, batches * optimisation.batch)
