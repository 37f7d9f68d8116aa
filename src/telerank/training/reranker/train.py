"""Train a re-ranker, from a configuration to a folder, and measure it on its test."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Unpack

from telerank.corpus.collection import Collection
from telerank.corpus.formats import open_collection
from telerank.drafts import replace_file
from telerank.errors import ModelError
from telerank.models.pairs.words import words_in
from telerank.models.rerankers.kinds import find_kind
from telerank.models.rerankers.reranker import Reranker, Shape, fresh_reranker, load_reranker
from telerank.training import checkpoint
from telerank.training.parallel import Processes, join_processes
from telerank.training.reranker.candidates import QueryParts, assign_queries, read_candidates
from telerank.training.reranker.config import RerankerStart, RerankerTraining
from telerank.training.reranker.examples import read_groups
from telerank.training.reranker.groups import Groups
from telerank.training.reranker.outcome import RESULT, measure_test
from telerank.training.reranker.pair_logits import EndToEnd
from telerank.training.reranker.reading import Reading, relevant_pairs
from telerank.training.reranker.stored_logits import FromStore, Stored
from telerank.training.reranker.task import PairScorer, RerankerTask
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

DATA, FEATURES, TEXTS, TEST = "data.json", "features", "texts", "test.yaml"


def train_reranker(
    config: RerankerTraining,
    output: str | Path,
    *,
    shared: Path | None = None,
    **options: Unpack[TrainingOptions],
) -> Path:
    """Train as the configuration says, and measure the test if it has one; return the model's folder.

    ``output/data.json`` counts what was learned from. Features of a frozen encoder are stored in
    ``shared/features``, the texts for triples of ids in ``shared/texts``; ``shared`` defaults to ``output``.

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
    with join_processes(choose_device(config.device)) as processes:
        model = train(config, output, job.make_task, **options)
        processes.first(lambda: job.measure(options.get("progress", silent)))
    return model


def start_reranker(start: RerankerStart, seed: int, keep: set[str] | None = None) -> Reranker:
    """The model before its first update; of a table of word vectors, only the words in ``keep``.

    Raises ModelError if there is no such model, or it does not take these settings.
    """
    shape = Shape(**start.model_dump(exclude={"start", "dropout"}))
    return fresh_reranker(start.start, shape, seed=seed, dropout=start.dropout, keep=keep)


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
        config, start = self.config, self.config.model
        reading = Reading(config, self.collection, self.queries.kept_back, progress)
        groups = read_groups(reading, self.shared / TEXTS)
        dev = None
        if config.dev is not None and hardware.processes.leads:
            dev = read_candidates(self.collection, config.dev, self.queries.dev, progress)
        reranker = (
            start_reranker(start, config.seed, self._words())
            if begun is None
            else load_reranker(begun, dropout=start.dropout)
        )
        for weight in (*reranker.model.parameters(), *reranker.model.buffers()):
            weight.data = weight.data.clone()  # aligned as if never read from a file: sums depend on it
        if hardware.processes.leads:
            counts = json.dumps(reading.counts, indent=2)
            replace_file(self.output / DATA, f"{counts}\n".encode())
        scorer = self._scorer(reranker, groups, hardware)
        return RerankerTask(config, reranker, groups, scorer, dev, hardware)

    def check_queries(self) -> None:
        """Check that the collection has as many queries to learn from as ``data.queries``.

        Raises CollectionError if it has fewer. Triples are not checked, because they name their queries as
        they are read.
        """
        if not self.config.data.triples:
            reading = Reading(self.config, self.collection, self.queries.kept_back)
            reading.choose(relevant_pairs(self.collection, self.config.data.split))

    def measure(self, progress: Progress) -> None:
        """Re-rank the test's candidates with the model, unless that was done with the same settings."""
        test, record = self.config.test, self.output / TEST
        if test is None or not test.measures:
            return
        is_same = record.exists() and record.read_text(encoding="utf-8") == dump_settings(test)
        if is_same and (self.output / RESULT).exists():
            return
        record.unlink(missing_ok=True)  # until the new test is measured
        where = choose_device(self.config.device)
        hardware = TrainingDevice(where, choose_precision(self.config.precision, where), Processes())
        reranker = load_reranker(self.output / checkpoint.MODEL)
        reranker.model.to(where)
        tokens = self.config.optimisation.tokens
        scorer: EndToEnd | Stored = EndToEnd(reranker, tokens, hardware.precision)
        if test.store:
            scorer = Stored.of(reranker, self.shared / FEATURES, hardware, tokens)
        candidates = read_candidates(self.collection, test, self.queries.test, progress)
        measure_test(candidates, scorer.score(candidates.pairs, progress), test, self.output)
        write_settings(test, record)

    def _words(self) -> set[str] | None:
        """The collection's words, of which a table of word vectors keeps the vectors."""
        if not find_kind(self.config.model.kind).over_words:
            return None
        collection = self.collection
        queries = (query.text for split in collection.queries for query in collection.split_queries(split))
        return words_in(chain(queries, (doc.full_text for doc in collection.docs())))

    def _scorer(self, reranker: Reranker, groups: Groups, hardware: TrainingDevice) -> PairScorer:
        optimisation = self.config.optimisation
        if not self.config.model.frozen:
            return EndToEnd(reranker, optimisation.tokens, hardware.precision)
        stored = Stored.of(reranker, self.shared / FEATURES, hardware, optimisation.tokens)
        batches = count_updates(self.config, groups.__len__) * optimisation.accumulation
        return FromStore(stored, groups, batches * optimisation.batch)
