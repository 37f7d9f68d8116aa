"""Make an encoder better on a collection: settings that suit the encoder, and negatives that it finds itself.

An encoder that has learned vectors of texts (``minilm``, ``e5-small``) keeps what it computes: its pooling,
similarity, prompts and lengths. It learns by a softmax over the documents of a batch (DPR), among them
documents that the encoder itself ranks high for a query of the batch and that are not relevant (ANCE, Xiong
et al., 2021). Where few documents are judged, those that it ranks above the relevant one often are relevant
all the same: only documents below it are taken. Dev is first measured before any update, and the encoder is
kept as it is if no update is better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from telerank.corpus.collection import Collection
from telerank.corpus.formats import open_collection
from telerank.errors import CollectionError, count_noun
from telerank.models.encoders.folders import check_makes_vectors, is_for_cosines, read_settings
from telerank.models.losses import in_batch_softmax
from telerank.show.report import Report
from telerank.show.tables import Table
from telerank.training.bi_encoder.config import BiEncoderTraining, FineTuning
from telerank.training.bi_encoder.train import DenseLearner, check_start, start_model
from telerank.training.encoders.dev import BestScores, choose_queries, encode_side
from telerank.training.log import read_log
from telerank.training.parallel import ALONE
from telerank.training.settings import read_settings as read_config
from telerank.training.task import TrainingDevice, choose_device, evaluating
from telerank.training.trained import CONFIG, LOG, MODEL
from telerank.trec import write_run
from telerank.types import Progress, Query, Ranking, silent

NEGATIVES = "negatives.run.gz"
"""The run with the negatives of each query, beside the model."""
_DEV_SPLITS = ("dev", "valid", "validation", "val")
_LEAST, _MOST = 50, 300  # dev queries that are taken from those to learn from
_DEV_DOCUMENTS = 10_000
_SCALES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_SAMPLED = 256  # queries that the scale is fitted on
_LISTED = 50  # negatives in a query's list
_APART = 25  # updates at least between two measurements of dev, which may take longer than they do
_CHUNK = 16  # texts: what a whole batch keeps for its gradients may not fit the memory
_QUERIES, _DEPTH = 64, 1000  # searched at a time; documents of each


def plan_fine_tuning(source: str, start: str, output: Path, options: FineTuning) -> BiEncoderTraining:
    """The settings of the training on a collection; the scale of its loss is that of :func:`prepare`.

    Raises
    ------
    CollectionError
        If the collection has no split to learn from, or too few judged queries.
    ModelError
        If there is no such encoder, or it is of another kind: a static one, a re-ranker, a reader.
    """
    check_start(start)
    check_makes_vectors(start)
    collection = open_collection(source)
    train = "train" if "train" in collection.splits else None
    split = collection.resolve_split(options.split or train)
    negatives = {"run": str(output / NEGATIVES), "depth": _LISTED, "resample": True}
    updates = max(len(collection.judged(split)) / options.batch, 1)  # of an epoch, nearly
    every = max(0.1, _APART / updates)
    record = {
        "data": {
            "collection": source,
            "split": split,
            "negatives": {**negatives, "per_positive": options.negatives},
        },
        "model": _own_settings(start, options),
        "loss": {"objective": "softmax"},
        "optimisation": {
            "epochs": options.epochs,
            "batch": options.batch * (1 + options.negatives),
            "accumulation": 1,
            "learning_rate": options.learning_rate,
            "warm_up": 0.1,
            "chunk": options.chunk or (_CHUNK if choose_device("auto").type == "cpu" else None),
        },
        "dev": {
            **_choose_dev(collection, split, options),
            "documents": _DEV_DOCUMENTS,
            "every": f"{every:.4g} epochs",
            "patience": f"{5 * every:.4g} epochs",
            "at_start": True,
        },
        "precision": options.precision,
        "seed": options.seed,
    }
    return BiEncoderTraining.model_validate(record)


def _own_settings(start: str, options: FineTuning) -> dict[str, Any]:
    """What the encoder computes, as settings of a training."""
    own = read_settings(start)
    return {
        "start": start,
        "pooling": own.pooling,
        # vectors of an encoder whose folder says nothing are best compared by their angle
        "similarity": "inner_product" if is_for_cosines(start) is False else "cosine",
        "query_length": min(own.query.max_length, options.query_length),
        "document_length": min(own.document.max_length, options.document_length),
        "query_segment": own.query.segment,
        "document_segment": own.document.segment,
        "query_prompt": own.query.prompt,
        "document_prompt": own.document.prompt,
    }


def _choose_dev(collection: Collection, split: str, options: FineTuning) -> dict[str, Any]:
    """The split of dev; if it is the one to learn from, how many of its queries are kept back."""
    others = (name for name in _DEV_SPLITS if name in collection.qrels and name != split)
    dev: dict[str, Any] = {"split": options.dev_split or next(others, split), "measures": options.measures}
    if dev["split"] == split:
        judged = len(collection.judged(split))
        if judged < 2 * _LEAST:
            few = f"split {split!r} has {judged} judged queries to learn from and to decide when to stop"
            raise CollectionError(f"{collection.name}: {few}: at least {2 * _LEAST}, or a split for dev")
        dev["queries"] = min(max(judged // 10, _LEAST), _MOST)
    return dev


def prepare(config: BiEncoderTraining, run: Path, progress: Progress = silent) -> BiEncoderTraining:
    """Write each query's negatives to ``run``, found by the encoder among all documents; fit the scale.

    The vectors of all documents are in memory: 1.5 GB for a million of 384 dimensions.

    Raises
    ------
    CollectionError
        If no query has a relevant document.
    """
    data, dev = config.data, config.dev
    collection = open_collection(data.collection, format=data.format, encoding=data.encoding)
    relevant = collection.relevant([data.split])
    if dev is not None and dev.split == data.split:
        for query in choose_queries(collection, dev, np.random.default_rng(config.seed)):
            relevant.pop(query.qid, None)
    queries = [query for query in collection.split_queries(data.split) if query.qid in relevant]
    if not queries:
        raise CollectionError(f"{collection.name}: no query of split {data.split!r} has a relevant document")
    documents = {doc.docno: doc.full_text for doc in collection.docs()}
    learner = DenseLearner(*start_model(config.model, config.seed))
    with torch.inference_mode():
        vectors = encode_texts(learner, queries, documents, choose_device(config.device), progress)
        write_run(run, find_negatives(queries, relevant, tuple(documents), vectors), tag="negatives")
        scale = fit_scale(queries, relevant, tuple(documents), vectors)
    loss = config.loss.model_copy(update={"scale": scale})
    return config.model_copy(update={"loss": loss})


def encode_texts(
    learner: DenseLearner,
    queries: Sequence[Query],
    documents: Mapping[str, str],
    device: torch.device,
    progress: Progress = silent,
) -> tuple[Tensor, Tensor]:
    """The vectors of queries, (Q, H), and of documents, (N, H), in memory: float32, without dropout."""
    hardware = TrainingDevice(device, nullcontext, ALONE)
    learner.module.to(device)
    with evaluating(learner.module):
        encoded = encode_side(learner.documents, list(documents.values()), hardware, progress).cpu()
        return encode_side(learner.queries, [query.text for query in queries], hardware).cpu(), encoded


def search(
    queries: Sequence[Query], docnos: Sequence[str], vectors: tuple[Tensor, Tensor]
) -> Iterator[Ranking]:
    """The best thousand documents of each query by inner product of vectors, (Q, H) and (N, H)."""
    for first in range(0, len(queries), _QUERIES):
        part, best = slice(first, first + _QUERIES), BestScores(_DEPTH)
        best.add(range(len(docnos)), vectors[0][part] @ vectors[1].T)
        yield from best.rankings(queries[part], docnos)


def find_negatives(
    queries: Sequence[Query],
    relevant: Mapping[str, Sequence[str]],
    docnos: Sequence[str],
    vectors: tuple[Tensor, Tensor],
) -> Iterator[Ranking]:
    """For each query the first documents below its best relevant one, none of them relevant.

    ``vectors`` are those of queries, (Q, H), and of documents, (N, H). A query whose relevant documents are
    all beyond the first thousand gets the first documents of all.
    """
    for ranking in search(queries, docnos, vectors):
        own = set(relevant[ranking.query.qid])
        first = next((rank for rank, docno in enumerate(ranking.docnos) if docno in own), -1)
        below = [(docno, score) for docno, score in list(ranking)[first + 1 :] if docno not in own][:_LISTED]
        yield Ranking.ranked(ranking.query, [docno for docno, _ in below], [score for _, score in below])


def fit_scale(
    queries: Sequence[Query],
    relevant: Mapping[str, Sequence[str]],
    docnos: Sequence[str],
    vectors: tuple[Tensor, Tensor],
) -> float:
    """The factor of the products with which the encoder, untrained, has the least softmax loss.

    Over the first relevant documents of some of the queries, as in a batch of the training: cosines of E5 lie
    closer together than those of MiniLM, and so learn from a larger factor.
    """
    rows = np.linspace(0, len(queries) - 1, min(_SAMPLED, len(queries))).astype(int).tolist()
    columns = {docno: column for column, docno in enumerate(docnos)}
    chosen = [queries[row].qid for row in rows]
    firsts = [next((docno for docno in relevant[qid] if docno in columns), None) for qid in chosen]
    pairs = [(row, qid, docno) for row, qid, docno in zip(rows, chosen, firsts, strict=True) if docno]
    products = (
        vectors[0][[row for row, _, _ in pairs]] @ vectors[1][[columns[docno] for _, _, docno in pairs]].T
    )
    known = torch.tensor([[docno in relevant[qid] for _, _, docno in pairs] for _, qid, _ in pairs])
    return min(_SCALES, key=lambda scale: float(in_batch_softmax(products * scale, known)))


@dataclass(frozen=True, eq=False)
class FineTuned(Report):
    """A fine-tuned encoder: dev before any update and at the best one, over ``queries``.

    ``step`` is the update whose weights were kept; with 0 they are those of ``start``.
    """

    title: ClassVar[str] = "Fine-tuning"
    model: Path
    start: str
    measure: str
    queries: int
    before: float
    best: float
    step: int

    def tables(self) -> list[Table]:
        rows = [(self.start, self.before, "–"), ("fine-tuned", self.best, f"{self.step:,}")]
        notes = [f"Of dev, {count_noun(self.queries, 'query')}, which decided when to stop."]
        return [Table.of(("encoder", self.measure, "update"), rows if self.step else rows[:1], notes=notes)]

    @property
    def remarks(self) -> list[str]:
        if self.step:
            return []
        return [f"no update was better on dev: {self.model} has the weights of {self.start}"]

    def record(self) -> Mapping[str, Any]:
        return {**vars(self), "model": str(self.model)}


def read_fine_tuned(folder: Path) -> FineTuned:
    """What a finished fine-tuning has brought, from its log."""
    config = read_config(folder / CONFIG, BiEncoderTraining)
    measured = [(record.dev, record.step) for record in read_log(folder / LOG) if record.dev is not None]
    best = max(value for value, _ in measured)
    collection, dev = open_collection(config.data.collection), config.dev
    assert dev is not None  # every fine-tuning has one
    return FineTuned(
        model=folder / MODEL,
        start=config.model.start,
        measure=dev.measures,
        queries=len(choose_queries(collection, dev, np.random.default_rng(config.seed))),
        before=measured[0][0],
        best=best,
        step=next(step for value, step in measured if value == best),
    )
