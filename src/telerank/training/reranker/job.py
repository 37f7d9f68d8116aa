"""A re-ranker's training with its collection: what its tasks are made of, and the test of its model."""

from __future__ import annotations

import json
import random
from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Unpack

from telerank.corpus.collection import Collection
from telerank.corpus.formats import open_collection
from telerank.drafts import replace_file
from telerank.errors import CollectionError, ModelError
from telerank.evaluation.measures import measure
from telerank.models.pairs.words import words_in
from telerank.models.rerankers.kinds import Shape, find_kind
from telerank.models.rerankers.reranker import Reranker, fresh_reranker, load_reranker
from telerank.reranking.texts import make_pairs
from telerank.segments.split import Segmenter
from telerank.training.examples.groups import Groups
from telerank.training.examples.reading import MANY, TEXTS, Reading, read_groups, write_counts
from telerank.training.optimisation import count_updates
from telerank.training.parallel import ALONE, Processes
from telerank.training.reranker.config import RerankerStart, RerankerTest, RerankerTraining, SegmentTraining
from telerank.training.reranker.plan import RerankerOutcome
from telerank.training.reranker.scoring import (
    CutCounts,
    EndToEnd,
    FromStore,
    MakePairs,
    PairScorer,
    PairScores,
    Stored,
)
from telerank.training.reranker.segments import (
    Choose,
    DocumentScores,
    SegmentTable,
    SegmentTokens,
    qrel_groups,
)
from telerank.training.reranker.selection import Truth, read_truth
from telerank.training.reranker.task import (
    CandidateSet,
    QueryParts,
    RerankerDevSet,
    RerankerTask,
    assign_queries,
    read_candidates,
    read_dev_set,
)
from telerank.training.settings import dump_settings, write_settings
from telerank.training.task import TrainingDevice, choose_device, choose_precision
from telerank.training.trained import MODEL, RESULT, RUN
from telerank.training.training import TrainingOptions, train
from telerank.trec import write_run
from telerank.types import Progress, silent

FEATURES, TEST = "features", "test.yaml"


def start_reranker(start: RerankerStart, seed: int, keep: set[str] | None = None) -> Reranker:
    """The model before its first update; of a table of word vectors, only the words in ``keep``.

    Raises ModelError if there is no such model, or it does not take these settings.
    """
    shape = Shape(**start.model_dump(exclude={"start", "dropout", "fresh", "frozen_embeddings"}))
    return fresh_reranker(start.start, shape, seed=seed, dropout=start.dropout, fresh=start.fresh, keep=keep)


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
        """The training of these settings."""
        data = config.data
        collection = open_collection(data.collection, format=data.format, encoding=data.encoding)
        return cls(config, output, shared, collection, assign_queries(collection, config))

    @property
    def segments(self) -> SegmentTraining:
        """The settings of segments. Raises ModelError if whole documents are learned from."""
        if self.config.data.segments is None:
            raise ModelError("this training has no data.segments")
        return self.config.data.segments

    def train(self, **options: Unpack[TrainingOptions]) -> tuple[Path, CutCounts]:
        """Train; the folder of the model, and the pairs that it learned from."""
        model, task = train(self.config, self.output, self.make_task, **options)
        return model, task.count_learned()

    def make_task(self, begun: Path | None, hardware: TrainingDevice, progress: Progress) -> RerankerTask:
        """The task, with a fresh model or that of the checkpoint ``begun``."""
        return self.open_tasks(begun, hardware, progress).select()

    def open_tasks(self, begun: Path | None, hardware: TrainingDevice, progress: Progress) -> RerankerTasks:
        """What tasks are made of; with known passages if they are learned from.

        Raises CollectionError if there are none, or none is found in its document.
        """
        reading, truth = self.reading(progress), Truth({}, 0, 0)
        segments, dev_settings = self.config.data.segments, self.config.dev
        if segments is not None and segments.select == "gold":
            split = reading.data.split
            truth = read_truth(segments, self.collection, split, progress=progress)
            if not truth.spans:
                lacks = (
                    f"{self.collection.name}: split {split!r} has no known passage that is in its document"
                )
                raise CollectionError(f"{lacks}: select gold needs them")
            reading.counts.update(truth.describe())
            reading = replace(reading, keeps=truth.spans.keys())
        groups, dev = read_groups(reading, self.shared / TEXTS), None
        if dev_settings is not None:
            dev = hardware.processes.alone(
                lambda: read_dev_set(reading, dev_settings, self.queries.dev), RerankerDevSet()
            )
        reranker = self.model_of(begun)
        table = SegmentTable({}, SegmentTokens())
        if segments is not None:
            table = _cut(segments, reading, groups, reranker, truth)
        return RerankerTasks(self, reading, truth, groups, table, reranker, dev, hardware)

    def reading(self, progress: Progress) -> Reading:
        """The data to learn from, to be read."""
        config, kept_back = self.config, self.queries.kept_back
        teacher = config.loss.teacher
        return Reading(config.data, config.data_seed, self.collection, kept_back, progress, teacher)

    def model_of(self, begun: Path | None) -> Reranker:
        """A fresh model, or that of the folder ``begun``."""
        start = self.config.model
        if begun is not None:
            reranker = load_reranker(begun, dropout=start.dropout)
        else:
            words = None
            if find_kind(start.kind).over_words:  # of a table of word vectors only these are kept
                splits = map(self.collection.split_queries, self.collection.queries)
                queries = (query.text for split in splits for query in split)
                words = words_in(chain(queries, (doc.full_text for doc in self.collection.docs())))
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

    def document_scores(
        self, scorer: PairScores, reranker: Reranker, documents: Mapping[str, str], tokens: SegmentTokens
    ) -> DocumentScores:
        """Scores documents by all of their segments; ``documents[docno]`` are their texts in pairs."""
        segmenter = Segmenter.of(reranker, self.segments.ranked)
        docs = self.collection.docs() if documents else ()
        by_text = {documents[doc.docno]: doc for doc in docs if doc.docno in documents}
        return DocumentScores(scorer, segmenter, self.segments.score, by_text, tokens)

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
        reranker, make = load_reranker(model or self.output / MODEL), SegmentTokens()
        reranker.model.to(where)
        candidates = processes.alone(
            lambda: read_candidates(self.collection, test, self.queries.test, progress), CandidateSet()
        )
        tokens, pairs = self.config.optimisation.tokens, candidates.pairs
        scorer: PairScores = EndToEnd(reranker, tokens, hardware.precision, make)
        if test.store:
            scorer = Stored.of(reranker, self.shared / FEATURES, hardware, tokens)
        if self.config.data.segments is not None:
            scorer = self.document_scores(scorer, reranker, candidates.documents, make)
        scores = scorer.share(pairs, processes, progress)

        def write() -> None:
            qrels = candidates.qrels
            if test.listed:
                listed = {ranking.query.qid for ranking in candidates.rankings}
                qrels = {qid: grades for qid, grades in qrels.items() if qid in listed}
            rankings = candidates.rerank(scores)
            after = measure(rankings, qrels, test.measures)
            before = measure(candidates.rankings, qrels, test.measures)
            write_run(self.output / RUN, rankings)
            cut = scorer.count_cut(pairs, progress)
            sizes = len(after.qids), len(scores), len(after.missing)
            cuts = cut.queries, cut.passages, cut.titles or 0
            outcome = RerankerOutcome(*sizes, after.mean, before.mean, *cuts)
            replace_file(self.output / RESULT, f"{json.dumps(asdict(outcome), indent=2)}\n".encode())
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


def _cut(
    settings: SegmentTraining, reading: Reading, groups: Groups, reranker: Reranker, truth: Truth
) -> SegmentTable:
    """The segments of all documents of the groups, in the re-ranker's tokens.

    All of them, where known passages are learned from; otherwise the leading ones.
    """
    is_gold, first = settings.select == "gold", settings.leading
    learned = qrel_groups(groups).documents
    every = reading.collection.read_docs("reading documents", reading.progress, MANY)
    docs = [doc for doc in every if doc.docno in learned]
    segmenter = Segmenter.of(reranker, settings.learned(reading.seed, whole=is_gold))
    table = SegmentTable.cut(segmenter, docs, SegmentTokens())
    if is_gold and first:
        kept: Container[str] = {docno for _, docno in truth.spans}
        cut = {docno: own if docno in kept else own.first(first) for docno, own in table.segments.items()}
        table = replace(table, segments=cut)
    reading.counts.update(table.counts())
    return table


@dataclass(frozen=True, eq=False)
class RerankerTasks:
    """Tasks of the same documents, model and dev set.

    ``groups`` are of documents, ``table`` has the segments that are learned from, if they are.
    """

    job: RerankerJob
    reading: Reading
    truth: Truth
    groups: Groups
    table: SegmentTable
    reranker: Reranker
    dev: RerankerDevSet | None
    hardware: TrainingDevice

    @property
    def apart(self) -> bool:
        """Whether the loss takes each document alone, so that segments need no partner."""
        loss = self.job.config.loss
        return loss.objective == "pointwise" and not loss.class_weights

    def select(self) -> RerankerTask:
        """Learn from documents, or from the segments that the settings select."""
        seed, settings, table = self.reading.seed, self.job.config.data.segments, self.table

        def draw(qid: str, docno: str) -> int:
            return random.Random(f"{seed} {qid} {docno}").randrange(table.count(docno))

        def find_gold(qid: str, docno: str) -> int:
            known = (qid, docno) in self.truth.spans
            return self.truth.gold(qid, table.segments[docno]) if known else draw(qid, docno)

        match settings.select if settings else None:
            case None:
                return self.task(self.groups)
            case "all":
                share = self.job.segments.others
                return self.task(table.sample(self.groups, share, seed, apart=self.apart))
            case "gold":
                return self.learn(find_gold)
            case "random":
                return self.learn(draw)
            case _:
                return self.learn(lambda _qid, _docno: 0)

    def learn(self, choose: Choose) -> RerankerTask:
        """Learn from these segments."""
        return self.task(self.table.select(self.groups, choose))

    def task(self, groups: Groups, prepared: Groups | None = None) -> RerankerTask:
        """Learn from groups; features are stored of all that are ``prepared``.

        What is learned from, and what is cut of dev, is written beside the training.
        """
        reranker, dev, counts = self.reranker, self.dev, self.reading.counts
        scorer = self.job.make_scorer(reranker, prepared or groups, self.hardware, self.table.tokens)
        scores: PairScores = scorer
        if dev is not None and self.job.config.data.segments is not None:
            documents = dev.candidates.documents
            scores = self.job.document_scores(scorer, reranker, documents, self.table.tokens)
        if self.hardware.processes.leads:
            if dev is not None:
                counts.update(scores.count_cut(dev.pairs, self.reading.progress).describe("dev pairs"))
            write_counts(counts, self.job.output)
        return RerankerTask(self.job.config, reranker, groups, scorer, scores, dev, self.hardware)

    def score_with(self, reranker: Reranker) -> PairScorer:
        """The scorer of segments with another model."""
        reranker.model.to(self.hardware.device)
        every = self.table.spread(self.groups)
        return self.job.make_scorer(reranker, every, self.hardware, self.table.tokens)
