"""Train a SPLADE model, from a configuration to a folder."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from telerank.errors import ModelError
from telerank.models.encoders.sparse import SparseSide, SpladeEncoder, StaticPieces, read_sides
from telerank.models.encoders.sparse_folders import check_length, start_sparse, vocabulary_size, with_length
from telerank.models.loading import naming
from telerank.training.encoders.train import EncoderContext, Learner, train_encoder
from telerank.training.examples.reading import MANY
from telerank.training.kinds import TrainingKind
from telerank.training.splade.config import SpladeStart, SpladeTraining
from telerank.training.splade.encoder import LearnedPieces, Regulariser, SparseLearner

_DOCUMENTS = 1000  # tokenised at a time
_FIRST = 64  # documents whose terms are counted


def open_splade(config: SpladeTraining, begun: Path | None, context: EncoderContext) -> Learner:
    """The model before its first update, or in the folder of a checkpoint."""
    start = config.model
    if begun is None:
        queries, documents = start_sides(start, config.seed, context)
    else:
        queries, documents = read_sides(begun)
    if isinstance(queries.model, StaticPieces):
        queries = replace(queries, model=_learned(queries.model.weight, start))
    regulariser = Regulariser.of(config.regulariser, context.updates, of_queries=start.queries != "static")
    return Learner(SparseLearner(queries, documents, regulariser))


def start_sides(start: SpladeStart, seed: int, context: EncoderContext) -> tuple[SparseSide, SparseSide]:
    """The sides before the first update: queries and documents.

    Raises
    ------
    ModelError
        If there is no such model, or it does not take these settings.
    """
    open_start = partial(start_sparse, seed=seed, dropout=start.dropout, fresh=start.fresh)
    queries, documents = open_start(start.start, start.max_length)
    with naming(Path(start.start)):
        if not isinstance(documents.model, SpladeEncoder):
            raise ModelError("expected an encoder of documents, got weights of pieces")
        if start.start_terms is not None:
            _leave_terms(documents, documents.model.model, start.start_terms, context)
        are_shared, documents = queries.model is documents.model, _pooled(documents, start)
        length = start.query_length or start.max_length
        if start.queries == "static":
            return _static_side(start, queries, documents, context), documents
        if start.queries == "shared":
            if not are_shared:
                raise ModelError("queries have an encoder of their own: set model.queries to own or static")
            return replace(queries, model=documents.model), documents
        if start.query_start is not None:
            queries, _ = open_start(start.query_start, length)
        if not isinstance(queries.model, SpladeEncoder):
            raise ModelError("queries have one weight for each piece: set model.queries to static")
        own = replace(queries, model=copy.deepcopy(queries.model))
        check_length(own, length)
        _check_vocabularies(own, documents)
        return _pooled(with_length(own, length), start), documents


def _leave_terms(side: SparseSide, model: Any, terms: int, context: EncoderContext) -> None:
    """Move the bias of the head so that the first documents have so many terms on average.

    A piece is a term of a text if its largest logit over the tokens is above 0, whatever the pooling.
    """
    bias = model.get_output_embeddings().bias
    if bias is None:
        raise ModelError("start_terms: the layer of its head has no bias")
    if terms >= len(bias):
        raise ModelError(f"start_terms: expected fewer than its {len(bias):,} pieces, got {terms:,}")

    def count() -> Tensor:
        docs = context.collection.read_docs("counting terms", context.progress)
        ids, _ = side.tokenize([doc.full_text for doc in islice(docs, _FIRST)])
        largest = torch.cat([model(input_ids=torch.tensor([own])).logits.amax(1) for own in ids])
        return largest.flatten().topk(terms * len(ids) + 1).values[-1]

    with torch.no_grad():
        bias -= context.hardware.processes.alone(count, torch.zeros(()))


def _pooled(side: SparseSide, start: SpladeStart) -> SparseSide:
    """The side with the pooling and the activation that the settings name."""
    assert isinstance(side.model, SpladeEncoder)
    pooling = start.pooling or side.model.pooling
    twice = side.model.twice if start.activation is None else start.activation == "log-log"
    return replace(side, model=SpladeEncoder(side.model.model, pooling, twice=twice))


def _check_vocabularies(queries: SparseSide, documents: SparseSide) -> None:
    own, other = (side.tokenizer.tokenizer.get_vocab() for side in (queries, documents))
    if own != other:
        raise ModelError(f"{len(own):,} and {len(other):,} pieces: the sides must have the same vocabulary")


def _static_side(
    start: SpladeStart, queries: SparseSide, documents: SparseSide, context: EncoderContext
) -> SparseSide:
    """Queries with one weight for each piece: those of the start, or those that the settings name."""
    length = start.query_length or start.max_length
    if isinstance(queries.model, StaticPieces):
        return with_length(queries, length)
    own = with_length(replace(documents, framed=False), length)
    weight = torch.ones(vocabulary_size(documents))
    if start.static_start == "idf":
        processes = context.hardware.processes
        weight = processes.alone(lambda: count_idf(own, len(weight), context), weight)
    return replace(own, model=StaticPieces(weight))


def count_idf(side: SparseSide, size: int, context: EncoderContext) -> Tensor:
    """ln(1 + (N - n + 0.5) / (n + 0.5)) of each of ``size`` pieces, in all N documents of the collection."""
    collection, total = context.collection, 0
    having = torch.zeros(size, dtype=torch.int64)
    docs = iter(collection.read_docs("counting pieces", context.progress, MANY))
    while part := list(islice(docs, _DOCUMENTS)):
        plain = {"add_special_tokens": False, "verbose": False}
        tokenized = side.tokenizer.tokenizer([doc.full_text for doc in part], **plain)
        for ids in tokenized["input_ids"]:
            having[list(set(ids))] += 1
        total += len(part)
    return torch.log1p((total - having + 0.5) / (having + 0.5))


def _learned(weight: Tensor, start: SpladeStart) -> LearnedPieces:
    pieces = LearnedPieces(weight, start.static_rate)
    pieces.table.requires_grad_(not start.static_frozen)
    return pieces


train_splade = partial(train_encoder, open_splade)
KIND = TrainingKind(SpladeTraining, train_splade)
