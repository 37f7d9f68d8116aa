"""Queries that are not learned from: exact search with the present encoder, and the loss of their batches.

Vectors of documents are scored as they are made, and not kept: those of SPLADE and of late interaction are
large.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from telerank.corpus.collection import Collection
from telerank.errors import CollectionError
from telerank.evaluation.measures import measure, parse_measures
from telerank.models.encoders.grad_cache import join_chunks
from telerank.models.inference import Batching, Room
from telerank.training.encoders.batches import Batches, EncoderBatch
from telerank.training.encoders.config import EncoderDev, EncoderTraining
from telerank.training.encoders.encoder import EncoderSide, TrainableEncoder
from telerank.training.examples.reading import (
    Reading,
    candidate_lists,
    read_groups,
    read_texts,
    relevant_pairs,
)
from telerank.training.parallel import ALONE
from telerank.training.task import TrainingDevice, evaluating
from telerank.types import Progress, Qrels, Query, Ranking, silent

_BATCHES = 16  # of a process that are shared out together
_DEPTH = 1000
_PENDING = 4096  # documents whose scores wait to be compared with the best

Rows: TypeAlias = tuple[list[int], list[Any], int]
"""The numbers of the texts of a batch, their tokens, and its width."""


class DevValue(NamedTuple):
    """The mean of the measure, and what else there is to say of the encoder, by name."""

    measure: float
    facts: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class DevSet:
    """Queries, documents by docno, and the qrels of the queries."""

    queries: tuple[Query, ...]
    documents: Mapping[str, str]
    qrels: Qrels
    measure: str

    def value(
        self, encoder: TrainableEncoder, hardware: TrainingDevice, progress: Progress = silent
    ) -> DevValue:
        """The measure's mean over the queries, searching all documents; scores are computed in float32.

        Of vectors that are weights of terms, the facts are the mean numbers of terms of a query and of a
        document, and ``flops``: how many products a query and a document have, on average.

        Several processes encode the texts that the first one has, and it ranks.
        """
        processes, texts = hardware.processes, list(self.documents.values())
        with evaluating(encoder.module):
            query_texts = [query.text for query in self.queries]
            own = encode_side(encoder.queries, query_texts, hardware).cpu()
            queries = processes.first(lambda: own).to(hardware.device)
            best, held, done = BestScores(_DEPTH), list[Tensor](), 0
            compute = partial(_score, encoder, queries, hardware)
            for scored in _share_out(encoder.documents, texts, hardware, compute):
                for rows, scores, terms in scored:
                    best.add(rows, scores)
                    held += [] if terms is None else [terms]
                    done += len(rows)
                    progress("encoding", done, len(texts))
            own_terms = encoder.count_terms(queries)

        def rank_all() -> DevValue:
            rankings = best.rankings(self.queries, tuple(self.documents))
            value = measure(rankings, self.qrels, self.measure).mean[self.measure]
            if own_terms is None or not held:
                return DevValue(value, {})
            documents = torch.stack(held).sum(0).double() / len(texts)
            return DevValue(value, _describe_terms(own_terms.double().cpu() / len(query_texts), documents))

        return processes.first(rank_all)


def _describe_terms(queries: Tensor, documents: Tensor) -> dict[str, float]:
    """Facts of the shares of queries and of documents that have each term, (V,)."""
    return {
        "terms of a query": float(queries.sum()),
        "terms of a document": float(documents.sum()),
        "flops": float((queries * documents).sum()),
    }


def _score(
    encoder: TrainableEncoder, queries: Tensor, hardware: TrainingDevice, batches: Sequence[Rows]
) -> list[tuple[list[int], Tensor, Tensor | None]]:
    """The numbers of the documents of each batch, their scores (Q, B), and how many have each term."""
    scored = []
    for rows, tokens, width in batches:
        vectors = _encode(encoder.documents, tokens, width, hardware)
        terms = encoder.count_terms(vectors)
        counts = None if terms is None else terms.cpu()
        scored.append((rows, encoder.score(queries, vectors).cpu(), counts))
    return scored


class BestScores:
    """The best ``depth`` documents of each query among those that were scored so far."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._scores: list[Tensor] = []
        self._rows: list[Tensor] = []
        self._waiting = 0

    def add(self, rows: Sequence[int], scores: Tensor) -> None:
        """Scores (Q, B) of documents, whose numbers are ``rows``."""
        self._scores.append(scores)
        self._rows.append(torch.tensor(rows).expand(len(scores), -1))
        self._waiting += len(rows)
        if self._waiting > self._depth + _PENDING:
            self._keep_best()

    def _keep_best(self) -> tuple[Tensor, Tensor]:
        scores, rows = torch.cat(self._scores, 1), torch.cat(self._rows, 1)
        best = scores.topk(min(self._depth, scores.shape[1]), dim=1)
        self._scores, self._rows = [best.values], [rows.gather(1, best.indices)]
        self._waiting = best.values.shape[1]
        return self._scores[0], self._rows[0]

    def rankings(self, queries: Sequence[Query], docnos: Sequence[str]) -> Iterator[Ranking]:
        """The rankings of the queries, in their order."""
        for query, scores, rows in zip(queries, *self._keep_best(), strict=True):
            yield Ranking.ranked(query, [docnos[row] for row in rows.tolist()], scores.numpy())


def encode_side(
    side: EncoderSide, texts: Sequence[str], hardware: TrainingDevice, progress: Progress = silent
) -> Tensor:
    """The vectors of texts, (texts, …), in float32; texts of like length are encoded together.

    Several processes encode the batches that the first one would have alone; only that one gets the vectors,
    on the processor.
    """
    is_alone = hardware.processes.size == 1

    def encode_batches(batches: Sequence[Rows]) -> list[tuple[list[int], Tensor]]:
        encoded = []
        for rows, tokens, width in batches:
            vectors = _encode(side, tokens, width, hardware)
            encoded.append((rows, vectors if is_alone else vectors.cpu()))
        return encoded

    vectors, order = list[Tensor](), list[int]()
    for encoded in _share_out(side, texts, hardware, encode_batches):
        for rows, own in encoded:
            vectors.append(own)
            order += rows
        progress("encoding", len(order), len(texts))
    return join_chunks(vectors)[torch.tensor(np.argsort(order))] if vectors else torch.empty(0)


def _share_out(side: EncoderSide, texts: Sequence[str], hardware: TrainingDevice, compute: Any) -> Any:
    """What ``compute`` makes of the batches of texts of like lengths, in rounds, in the first process."""
    ids = side.tokenize(texts)
    lengths = np.array([len(tokens) for tokens in ids], np.int64)
    parts = Batching(hardware.device, side.longest, side.tokens, Room()).cut(lengths)
    batches = ((list(rows), [ids[row] for row in rows], width) for rows, width in parts)
    most = 1 if hardware.processes.size == 1 else _BATCHES
    return hardware.processes.share_out(compute, batches, most)


def _encode(side: EncoderSide, tokens: Sequence[Any], width: int, hardware: TrainingDevice) -> Tensor:
    padded = {name: each.to(hardware.device) for name, each in side.pad(tokens, width).items()}
    with hardware.precision():
        return side.encode(padded).float()


def choose_queries(
    collection: Collection, settings: EncoderDev, random: np.random.Generator
) -> dict[Query, Mapping[str, int]]:
    """The queries of the split that have judgments, or as many as the settings allow, with their grades.

    Raises CollectionError if no query of the split is judged.
    """
    qrels = collection.judged(settings.split)
    queries = [query for query in collection.split_queries(settings.split) if query.qid in qrels]
    if not queries:
        raise CollectionError(f"{collection.name}: split {settings.split!r} has no judged query")
    if settings.queries is not None and settings.queries < len(queries):
        chosen = np.sort(random.choice(len(queries), settings.queries, replace=False))
        queries = [queries[row] for row in chosen.tolist()]
    return {query: qrels[query.qid] for query in queries}


def read_dev(collection: Collection, settings: EncoderDev, seed: int) -> DevSet:
    """The queries of :func:`choose_queries`, and all documents or as many as the settings allow."""
    (name,) = parse_measures([settings.measures])
    random = np.random.default_rng(seed)
    queries = choose_queries(collection, settings, random)
    qrels = {query.qid: grades for query, grades in queries.items()}
    if settings.documents is None:
        documents = {doc.docno: doc.full_text for doc in collection.docs()}
    else:
        judged = {docno for grades in qrels.values() for docno in grades}
        others = [doc.docno for doc in collection.docs() if doc.docno not in judged]
        more = min(max(0, settings.documents - len(judged)), len(others))
        drawn = {others[row] for row in random.choice(len(others), more, replace=False).tolist()}
        documents = read_texts(collection, judged | drawn)
    return DevSet(tuple(queries), documents, qrels, name)


@dataclass(frozen=True, eq=False)
class DevLoss:
    """The first ``count`` batches, which have every pair of dev; the last one is filled with pairs again.

    There are none if no query has a relevant document, and in processes that are not the first.
    """

    batches: Batches | Sequence[EncoderBatch] = ()
    count: int = 0

    def value(
        self, encoder: TrainableEncoder, objective: nn.Module, hardware: TrainingDevice, progress: Progress
    ) -> float | None:
        """The mean of ``objective`` over the batches, without dropout; losses are in float32.

        Several processes compute the batches of the first one. None if there are none.
        """
        alone = TrainingDevice(hardware.device, hardware.precision, ALONE)

        def compute(batches: Sequence[EncoderBatch]) -> list[float]:
            losses = []
            for batch in batches:
                queries = encode_side(encoder.queries, batch.queries, alone)
                documents = encode_side(encoder.documents, batch.documents, alone)
                losses.append(float(objective(queries, documents, batch)))
            return losses

        total, done = 0.0, 0
        with evaluating(encoder.module), evaluating(objective):
            batches = (self.batches[number] for number in range(self.count))
            for own in hardware.processes.share_out(compute, batches, 1):
                for loss in own:
                    total, done = total + loss, done + 1
                    progress("computing the dev loss", done, self.count)
        return hardware.processes.first(lambda: total / done if done else None)


def read_dev_loss(
    config: EncoderTraining, dev: EncoderDev, qids: frozenset[str], reading: Reading
) -> DevLoss:
    """Batches of the relevant pairs of the dev queries ``qids``, made as those that are learned from.

    Their negatives come from where those of the training come from, if it has lists for dev; or else they are
    the documents of the batch alone, as they are with triples. ``reading`` is the training's: its counts tell
    which. There are none if a teacher is learned from, or the objective compares the documents of a group and
    dev has no negatives.
    """
    collection, negatives = reading.collection, config.data.negatives
    relevant = relevant_pairs(collection, dev.split)
    known = {qid: relevant[qid] for qid in qids if qid in relevant}
    if not known or config.loss.has_teacher:
        return DevLoss()
    if negatives and negatives.pool and f"{dev.split}/{negatives.pool}" not in collection.pools:
        negatives = None
    elif negatives and not negatives.random:
        lists = candidate_lists(collection, dev.split, negatives)
        tops = ((ranking.query.qid, {*ranking.docnos[: negatives.depth]}) for ranking in lists)
        if not any(docnos.difference(known[qid]) for qid, docnos in tops if qid in known):
            negatives = None
    if negatives is None and "group-softmax" in config.loss.weights:
        return DevLoss()
    changes = {"split": dev.split, "negatives": negatives, "triples": None, "queries": None, "pairs": None}
    data = config.data.model_copy(update=changes)
    others = frozenset(relevant.keys() - qids)
    own = Reading(data, reading.seed, collection, others, reading.progress)
    groups = read_groups(own, Path())  # without triples, which alone need a folder
    left = "relevant pairs" if negatives else "relevant pairs, without negatives besides their batch's"
    own.counts[left] = own.counts.pop("relevant pairs")
    own.counts.pop("queries kept back for dev and test", None)
    reading.counts.update({f"dev loss: {what}": count for what, count in own.counts.items()})
    size = config.optimisation.batch // data.group_size
    return DevLoss(Batches(groups, size, relevant), math.ceil(len(groups) / size))
