"""How good a model is on queries that it does not learn from: dense search in memory over a small corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from telerank.batches import batch_by_length
from telerank.corpus.collection import Collection
from telerank.errors import CollectionError
from telerank.evaluate.measures import measure, parse_measures
from telerank.models.encoders.bi_encoder import BiEncoder
from telerank.models.encoders.tokens import SideTokenizer, Tokenizers
from telerank.models.precision import Precision
from telerank.training.bi_encoder.config import BiEncoderDev
from telerank.training.reading import read_texts
from telerank.types import Progress, Qrels, Query, Ranking, silent

_TOKENS = 8192  # of a batch, padding counted
_QUERIES = 64  # searched at a time
_DEPTH = 1000


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
    ) -> float:
        """The measure's mean over the queries, searching all documents; products of vectors are float32."""
        with precision():
            found = encoded(model, tokenizers, self.queries, self.documents, progress)
        rankings = ranked(self.queries, tuple(self.documents), *found)
        return measure(rankings, self.qrels, self.measure).mean[self.measure]


def dev_queries(
    collection: Collection, wanted: BiEncoderDev, random: np.random.Generator
) -> dict[Query, Mapping[str, int]]:
    """The queries of the split that have judgments, or as many as are asked for, with these.

    Raises
    ------
    CollectionError
        where no query of the split is judged.
    """
    qrels = collection.judged(wanted.split)
    queries = [one for one in collection.split_queries(wanted.split) if one.qid in qrels]
    if not queries:
        raise CollectionError(f"{collection.name}: split {wanted.split!r} has no judged query")
    if wanted.queries is not None and wanted.queries < len(queries):
        places = np.sort(random.choice(len(queries), wanted.queries, replace=False))
        queries = [queries[place] for place in places.tolist()]
    return {one: qrels[one.qid] for one in queries}


def read_dev(collection: Collection, wanted: BiEncoderDev, seed: int) -> DevSet:
    """The queries of :func:`dev_queries`, and the documents, or as many as are asked for.

    Raises
    ------
    CollectionError
        as :func:`dev_queries` does.
    """
    (name,) = parse_measures([wanted.measure])
    random = np.random.default_rng(seed)
    queries = dev_queries(collection, wanted, random)
    judged = {query.qid: grades for query, grades in queries.items()}
    if wanted.documents is None:
        documents = {doc.docno: doc.full_text for doc in collection.docs()}
    else:
        needed = {docno for grades in judged.values() for docno in grades}
        others = [doc.docno for doc in collection.docs() if doc.docno not in needed]
        more = min(max(0, wanted.documents - len(needed)), len(others))
        drawn = {others[place] for place in random.choice(len(others), more, replace=False).tolist()}
        documents = read_texts(collection, needed | drawn)
    return DevSet(tuple(queries), documents, judged, name)


def encoded(
    model: BiEncoder,
    tokenizers: Tokenizers,
    queries: Sequence[Query],
    documents: Mapping[str, str],
    progress: Progress = silent,
) -> tuple[Tensor, Tensor]:
    """The vectors of queries and of documents, without dropout."""
    training = model.training
    model.eval()
    try:
        found = vectors(model.encode_documents, tokenizers.documents, list(documents.values()), progress)
        return vectors(model.encode_queries, tokenizers.queries, [one.text for one in queries]), found
    finally:
        model.train(training)


def ranked(
    queries: Sequence[Query], docnos: Sequence[str], asked: Tensor, found: Tensor
) -> Iterator[Ranking]:
    """The best thousand documents of each query by inner product: (queries, H) and (documents, H)."""
    for first in range(0, len(queries), _QUERIES):
        products = asked[first : first + _QUERIES] @ found.T  # (queries, documents)
        best = products.topk(min(_DEPTH, len(docnos)), dim=1)
        for row, query in enumerate(queries[first : first + _QUERIES]):
            names = [docnos[place] for place in best.indices[row].tolist()]
            yield Ranking.ranked(query, names, best.values[row].cpu().numpy())


@torch.no_grad()
def vectors(
    encode: Callable[[Mapping[str, Tensor]], Tensor],
    tokenizer: SideTokenizer,
    texts: Sequence[str],
    progress: Progress = silent,
) -> Tensor:
    """The vectors of texts, (texts, H), in float32; texts of like length are encoded together."""
    ids = tokenizer.ids(texts)
    order: list[int] = []
    made: list[Tensor] = []
    for places in batch_by_length([len(one) for one in ids], _TOKENS):
        made.append(encode(tokenizer.pad([ids[place] for place in places])).float())
        order += places
        progress("encoding", len(order), len(ids))
    return torch.cat(made)[torch.tensor(np.argsort(order))]
