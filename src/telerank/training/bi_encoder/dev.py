"""Batches of queries and documents, the losses of their vectors, and queries that are not learned from.

Dev is dense search in memory over a small corpus, and the loss of batches made as those of the training.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from telerank.corpus.collection import Collection
from telerank.errors import CollectionError
from telerank.evaluation.measures import measure, parse_measures
from telerank.models.encoders.bi_encoder import BiEncoder, SideTokenizer, Tokenizers
from telerank.models.inference import Batching, Room
from telerank.models.losses import (
    PairClassifier,
    cosine_regression,
    in_batch_softmax,
    multi_label_margin,
)
from telerank.models.precision import Precision
from telerank.training.bi_encoder.config import BiEncoderDev, BiEncoderLoss, BiEncoderTraining
from telerank.training.examples.groups import Groups
from telerank.training.examples.reading import (
    Reading,
    candidate_lists,
    read_groups,
    read_texts,
    relevant_pairs,
)
from telerank.training.parallel import ALONE, Processes
from telerank.training.task import TrainingDevice, evaluating
from telerank.types import Progress, Qrels, Query, Ranking, silent

_TOKENS = 8192  # of a batch, padding included
_BATCHES = 16  # of a process that are shared out together
_QUERIES = 64  # searched at a time
_DEPTH = 1000
_PROCESSOR = torch.device("cpu")


@dataclass(frozen=True, eq=False)
class EncoderBatch:
    """Texts of ``Q`` queries and of ``N`` different documents.

    ``relevant`` is (Q, N): which documents are known to be relevant to which query, whether as that query's
    pair or as another's. ``positives`` is (Q,), the row of each query's own document. ``negatives`` is
    (pairs, 2), rows of queries and of the documents in their groups that are not relevant to them.
    """

    queries: list[str]
    documents: list[str]
    relevant: Tensor
    positives: Tensor
    negatives: Tensor


@dataclass(frozen=True, eq=False)
class Batches:
    """EncoderBatch 0, 1, 2 …, of ``size`` groups each; groups decide it, so that training resumes anywhere.

    ``relevant`` has the documents that the qrels call relevant to a query, by qid.
    """

    groups: Groups
    size: int
    relevant: Mapping[str, Iterable[str]] = field(default_factory=dict)

    def __getitem__(self, number: int) -> EncoderBatch:
        """A batch, in which a document of several groups is once.

        A document is relevant to a query if the qrels say so, or if it is the relevant one of any group of
        the same query (RepBERT, section 3.2).
        """
        groups = [self.groups[position] for position in range(number * self.size, (number + 1) * self.size)]
        texts = {
            docno: text for group in groups for docno, text in zip(group.docnos, group.documents, strict=True)
        }
        rows = {docno: row for row, docno in enumerate(texts)}
        positives = defaultdict[str, set[str]](set)
        for group in groups:
            positives[group.qid].add(group.docnos[0])
        table = torch.zeros((len(groups), len(rows)), dtype=torch.bool)
        for row, group in enumerate(groups):
            known = positives[group.qid].union(self.relevant.get(group.qid, ()))
            table[row, [rows[docno] for docno in known if docno in rows]] = True
        others = [(row, rows[docno]) for row, group in enumerate(groups) for docno in group.docnos[1:]]
        negatives = [pair for pair in others if not table[pair]]
        return EncoderBatch(
            [group.query for group in groups],
            list(texts.values()),
            table,
            torch.tensor([rows[group.docnos[0]] for group in groups]),
            torch.tensor(negatives, dtype=torch.int64).reshape(-1, 2),
        )


class Contrastive(nn.Module):
    """A loss of every document of the batch against every query."""

    def __init__(self, loss: Callable[[Tensor, Tensor], Tensor], scale: float) -> None:
        super().__init__()
        self._loss, self._scale = loss, scale

    def forward(self, queries: Tensor, documents: Tensor, batch: EncoderBatch) -> Tensor:
        """Vectors (Q, H) and (N, H) -> a number."""
        return self._loss(queries @ documents.T * self._scale, batch.relevant)


class Pairwise(nn.Module):
    """A loss of each query with its document (1) and with negatives (0): :func:`labelled_pairs`.

    It takes vectors of any length: to be ranked by cosine, they are not normalised for it.
    """

    def __init__(self, loss: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, queries: Tensor, documents: Tensor, batch: EncoderBatch) -> Tensor:
        """Vectors (Q, H) and (N, H) -> a number."""
        rows, columns, labels = (
            tensor.to(queries.device, non_blocking=True) for tensor in labelled_pairs(batch)
        )
        loss: Tensor = self.loss(queries[rows], documents[columns], labels)
        return loss


def labelled_pairs(batch: EncoderBatch) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of queries, rows of documents, and labels, 1 or 0; each is (pairs,).

    The negatives are those of the query's group. A query without any takes the document of the next
    query that is not relevant to it, if the batch has one.
    """
    total = len(batch.queries)
    rows, columns = list(range(total)), batch.positives.tolist()
    negatives = batch.negatives.tolist()
    with_negatives = {row for row, _ in negatives}
    for row in range(total):
        if row not in with_negatives:
            others = (columns[(row + step) % total] for step in range(1, total))
            other = next((column for column in others if not batch.relevant[row, column]), None)
            negatives += [] if other is None else [[row, other]]
    labels = [1] * total + [0] * len(negatives)
    rows, columns = rows + [row for row, _ in negatives], columns + [column for _, column in negatives]
    return torch.tensor(rows), torch.tensor(columns), torch.tensor(labels)


def build_objective(settings: BiEncoderLoss, width: int) -> nn.Module:
    """The objective that the settings name, for vectors of this width."""
    builders: Mapping[str, Callable[[], nn.Module]] = {
        "margin": lambda: Contrastive(
            lambda products, relevant: multi_label_margin(products, relevant, settings.margin), settings.scale
        ),
        "softmax": lambda: Contrastive(in_batch_softmax, settings.scale),
        "classification": lambda: Pairwise(PairClassifier(width)),
        "cosine": lambda: Pairwise(cosine_regression),
    }
    return builders[settings.objective]()


@dataclass(frozen=True, eq=False)
class DevSet:
    """Queries, documents by docno, and the qrels of the queries."""

    queries: tuple[Query, ...]
    documents: Mapping[str, str]
    qrels: Qrels
    measure: str

    def value(
        self,
        model: BiEncoder,
        tokenizers: Tokenizers,
        precision: Precision = nullcontext,
        progress: Progress = silent,
        processes: Processes = ALONE,
    ) -> float:
        """The measure's mean over the queries, searching all documents; inner products are in float32.

        Several processes encode the texts that the first one has, and it searches.
        """
        with precision():
            queries, documents = encode_texts(
                model, tokenizers, self.queries, self.documents, progress, processes=processes
            )

        def search_all() -> float:
            rankings = search(self.queries, tuple(self.documents), queries, documents)
            return measure(rankings, self.qrels, self.measure).mean[self.measure]

        return processes.first(search_all)


def choose_queries(
    collection: Collection, settings: BiEncoderDev, random: np.random.Generator
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


def read_dev(collection: Collection, settings: BiEncoderDev, seed: int) -> DevSet:
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


def encode_texts(
    model: BiEncoder,
    tokenizers: Tokenizers,
    queries: Sequence[Query],
    documents: Mapping[str, str],
    progress: Progress = silent,
    *,
    processes: Processes = ALONE,
) -> tuple[Tensor, Tensor]:
    """The vectors of queries, (queries, H), and of documents, (documents, H), without dropout."""
    with evaluating(model):
        texts = list(documents.values())
        encode = partial(encode_side, processes=processes, device=model.device)
        encoded = encode(model.encode_documents, tokenizers.documents, texts, progress)
        texts = [query.text for query in queries]
        vectors = encode(model.encode_queries, tokenizers.queries, texts)
        return vectors.to(model.device), encoded.to(model.device)


def search(
    queries: Sequence[Query], docnos: Sequence[str], query_vectors: Tensor, document_vectors: Tensor
) -> Iterator[Ranking]:
    """The best thousand documents of each query by inner product: (queries, H) and (documents, H)."""
    for first in range(0, len(queries), _QUERIES):
        products = query_vectors[first : first + _QUERIES] @ document_vectors.T  # (queries, documents)
        best = products.topk(min(_DEPTH, len(docnos)), dim=1)
        for row, query in enumerate(queries[first : first + _QUERIES]):
            names = [docnos[column] for column in best.indices[row].tolist()]
            yield Ranking.ranked(query, names, best.values[row].cpu().numpy())


def encode_side(
    encode: Callable[[Mapping[str, Tensor]], Tensor],
    tokenizer: SideTokenizer,
    texts: Sequence[str],
    progress: Progress = silent,
    processes: Processes = ALONE,
    *,
    device: torch.device = _PROCESSOR,
) -> Tensor:
    """The vectors of texts, (texts, H), in float32; texts of like length are encoded together, on ``device``.

    Several processes encode the batches that the first one would have alone; only that one gets the vectors,
    on the processor.
    """
    ids = tokenizer.ids(texts)
    lengths = np.array([len(tokens) for tokens in ids], np.int64)
    parts = list(Batching(device, tokenizer.side.max_length, _TOKENS, Room()).cut(lengths))
    is_alone = processes.size == 1

    def encode_batches(batches: Sequence[tuple[list[list[int]], int]]) -> list[Tensor]:
        vectors = [encode(tokenizer.pad(*batch)).float() for batch in batches]
        return vectors if is_alone else [own.cpu() for own in vectors]

    batches = (([ids[row] for row in rows], width) for rows, width in parts)
    vectors: list[Tensor] = []
    for encoded in processes.share_out(encode_batches, batches, 1 if is_alone else _BATCHES):
        vectors += encoded
        progress("encoding", sum(map(len, vectors)), len(ids))
    order = [row for rows, _ in parts for row in rows]
    return torch.cat(vectors)[torch.tensor(np.argsort(order))] if vectors else torch.empty(0)


@dataclass(frozen=True, eq=False)
class DevLoss:
    """The first ``count`` batches, which have every pair of dev; the last one is filled with pairs again.

    There are none if no query has a relevant document, and in processes that are not the first.
    """

    batches: Batches | Sequence[EncoderBatch] = ()
    count: int = 0

    def value(
        self,
        model: BiEncoder,
        tokenizers: Tokenizers,
        objective: nn.Module,
        hardware: TrainingDevice,
        progress: Progress,
    ) -> float | None:
        """The mean of ``objective`` over the batches, without dropout; losses are in float32.

        Several processes compute the batches of the first one. None if there are none.
        """

        def compute(batches: Sequence[EncoderBatch]) -> list[float]:
            losses = []
            for batch in batches:
                sides = (
                    (model.encode_queries, tokenizers.queries, batch.queries),
                    (model.encode_documents, tokenizers.documents, batch.documents),
                )
                with hardware.precision():
                    queries, documents = (encode_side(*side, device=model.device) for side in sides)
                losses.append(float(objective(queries, documents, batch)))
            return losses

        total, done = 0.0, 0
        with evaluating(model), evaluating(objective):
            batches = (self.batches[number] for number in range(self.count))
            for own in hardware.processes.share_out(compute, batches, 1):
                for loss in own:
                    total, done = total + loss, done + 1
                    progress("computing the dev loss", done, self.count)
        return hardware.processes.first(lambda: total / done if done else None)


def read_dev_loss(
    config: BiEncoderTraining, dev: BiEncoderDev, qids: frozenset[str], reading: Reading
) -> DevLoss:
    """Batches of the relevant pairs of the dev queries ``qids``, made as those that are learned from.

    Their negatives come from where those of the training come from, if it has lists for dev; or else they are
    the documents of the batch alone, as they are with triples. ``reading`` is the training's: its counts tell
    which.
    """
    collection, negatives = reading.collection, config.data.negatives
    relevant = relevant_pairs(collection, dev.split)
    known = {qid: relevant[qid] for qid in qids if qid in relevant}
    if not known:
        return DevLoss()
    if negatives and negatives.pool and f"{dev.split}/{negatives.pool}" not in collection.pools:
        negatives = None
    elif negatives and not negatives.random:
        lists = candidate_lists(collection, dev.split, negatives)
        tops = ((ranking.query.qid, {*ranking.docnos[: negatives.depth]}) for ranking in lists)
        if not any(docnos.difference(known[qid]) for qid, docnos in tops if qid in known):
            negatives = None
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
