"""The training of a re-ranker, from a configuration to a folder, and what it then measures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from telerank.corpus.collection import Collection
from telerank.corpus.formats import open_collection
from telerank.errors import ModelError
from telerank.models.pairs.words import words_in
from telerank.models.rerankers.reranker import Reranker, Shape, fresh_reranker, load_reranker
from telerank.models.rerankers.word_rankers import WORD_KINDS
from telerank.training import checkpoint
from telerank.training.log import Report, unheard
from telerank.training.parallel import Processes, joined
from telerank.training.reranker.candidates import read_candidates
from telerank.training.reranker.config import RerankerStart, RerankerTraining
from telerank.training.reranker.examples import read_groups
from telerank.training.reranker.folds import QueryParts, parted
from telerank.training.reranker.groups import Groups
from telerank.training.reranker.outcome import RESULT, measure_test
from telerank.training.reranker.pair_logits import EndToEnd
from telerank.training.reranker.reading import Reading, relevant_pairs
from telerank.training.reranker.stored_logits import FromStore, Stored
from telerank.training.reranker.task import Passes, RerankerTask
from telerank.training.settings import is_written, write_settings
from telerank.training.task import TrainingDevice
from telerank.training.training import chosen_precision, device, train, updates
from telerank.types import Progress, silent

DATA, FEATURES, TEXTS, TEST = "data.json", "features", "texts", "test.yaml"


def train_reranker(
    config: RerankerTraining,
    output: str | Path,
    *,
    shared: Path | None = None,
    resume: bool = False,
    report: Report = unheard,
    progress: Progress = silent,
) -> Path:
    """Train as the configuration says, and measure where it has a test; the folder of the model.

    ``output/data.json`` counts what was learned from. Features of a frozen encoder lie in
    ``shared/features``, the texts for triples of ids in ``shared/texts``; without ``shared``, in ``output``.

    Raises
    ------
    ModelError
        as :func:`telerank.training.training.train` does; where there are folds and none of them is held out.
    CollectionError
        where the collection lacks what is to be learned from or measured on.
    """
    if config.folds and config.held_out is None:
        raise ModelError("folds: this is one training; say which fold is held_out, or train them all")
    asked = _Asked.of(config, Path(output), shared or Path(output))
    with joined(device(config.device)) as processes:
        model = train(config, output, asked.task, resume=resume, report=report, progress=progress)
        processes.first(lambda: asked.measure(model, progress))
    return model


def measure_reranker(
    config: RerankerTraining, output: Path, *, shared: Path, progress: Progress = silent
) -> None:
    """What :func:`train_reranker` does last, for a training that is over; its checkpoints may be gone."""
    _Asked.of(config, output, shared).measure(output / checkpoint.MODEL, progress)


def check_queries(config: RerankerTraining) -> None:
    """See that the collection has as many queries to learn from as the configuration asks for.

    Raises
    ------
    CollectionError
        where it has fewer. Triples are not looked at, which name their queries as they come.
    """
    if config.data.triples or config.data.queries is None:
        return
    asked = _Asked.of(config, Path(), Path())
    reading = Reading(config, asked.collection, asked.parts.kept_back)
    reading.chosen(relevant_pairs(asked.collection, config.data.split))


def start_reranker(start: RerankerStart, seed: int, keep: set[str] | None = None) -> Reranker:
    """The model before its first update.

    Raises
    ------
    ModelError
        where there is no such model, or it cannot be given these settings.
    """
    shape = Shape(
        start.kind,
        frozen=start.frozen,
        max_query=start.max_query,
        max_length=start.max_length,
        language=start.language,
        head=start.head,
    )
    return fresh_reranker(start.start, shape, seed=seed, dropout=start.dropout, keep=keep)


@dataclass(frozen=True, eq=False)
class _Asked:
    config: RerankerTraining
    output: Path
    shared: Path
    collection: Collection
    parts: QueryParts

    @classmethod
    def of(cls, config: RerankerTraining, output: Path, shared: Path) -> _Asked:
        data = config.data
        collection = open_collection(data.collection, format=data.format, encoding=data.encoding)
        return cls(config, output, shared, collection, parted(collection, config))

    def task(self, begun: Path | None, place: TrainingDevice, progress: Progress) -> RerankerTask:
        config, start = self.config, self.config.model
        reading = Reading(config, self.collection, self.parts.kept_back, progress)
        groups = read_groups(reading, self.shared / TEXTS)
        dev = None
        if config.dev is not None and place.processes.leads:
            dev = read_candidates(self.collection, config.dev, self.parts.dev, progress)
        reranker = (
            start_reranker(start, config.seed, self._words())
            if begun is None
            else load_reranker(begun, dropout=start.dropout)
        )
        for weight in (*reranker.model.parameters(), *reranker.model.buffers()):
            weight.data = weight.data.clone()  # as aligned as if never read from a file: sums depend on it
        if place.processes.leads:
            counts = json.dumps(reading.counts, indent=2)
            (self.output / DATA).write_text(f"{counts}\n", encoding="utf-8")
        return RerankerTask(config, reranker, groups, self._passes(reranker, groups, place), dev, place)

    def _words(self) -> set[str] | None:
        """The words to keep of a table of vectors: those of the collection."""
        if self.config.model.kind not in WORD_KINDS:
            return None
        queries = (
            one.text for split in self.collection.queries for one in self.collection.split_queries(split)
        )
        return words_in(chain(queries, (doc.full_text for doc in self.collection.docs())))

    def measure(self, model: Path, progress: Progress) -> None:
        """Re-rank the test's candidates with the model that was kept; once, unless the test is another."""
        test, told = self.config.test, self.output / TEST
        if test is None or not test.measures or ((self.output / RESULT).exists() and is_written(test, told)):
            return
        told.unlink(missing_ok=True)  # until the other test is measured
        where = device(self.config.device)
        place = TrainingDevice(where, chosen_precision(self.config.precision, where), Processes())
        reranker = load_reranker(model)
        reranker.model.to(where)
        tokens = self.config.optimisation.tokens
        passes: EndToEnd | Stored = EndToEnd(reranker, tokens, place.precision)
        if test.store:
            passes = Stored.of(reranker, self.shared / FEATURES, place, tokens)
        candidates = read_candidates(self.collection, test, self.parts.test, progress)
        measure_test(candidates, passes.scores(candidates.pairs, progress), test, self.output)
        write_settings(test, told)

    def _passes(self, reranker: Reranker, groups: Groups, place: TrainingDevice) -> Passes:
        wanted = self.config.optimisation
        if not self.config.model.frozen:
            return EndToEnd(reranker, wanted.tokens, place.precision)
        stored = Stored.of(reranker, self.shared / FEATURES, place, wanted.tokens)
        return FromStore(
            stored, groups, updates(self.config, groups.__len__) * wanted.accumulation * wanted.batch
        )
