"""Groups to batches: texts, which documents are relevant to which query, and the losses of their vectors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from telerank.models.losses import (
    PairClassifier,
    cosine_regression,
    in_batch_softmax,
    multi_label_margin,
)
from telerank.training.bi_encoder.config import BiEncoderLoss
from telerank.training.examples.groups import Group, Groups


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
        first = number * self.size
        groups = [self.groups[position] for position in range(first, first + self.size)]
        return make_batch(groups, self.relevant)


def make_batch(groups: Sequence[Group], relevant: Mapping[str, Iterable[str]]) -> EncoderBatch:
    """The batch of these groups; a document of several groups is in it once.

    A document is relevant to a query if the qrels say so, or if it is the relevant one of any group of the
    same query (RepBERT, section 3.2).
    """
    texts = {
        docno: text for group in groups for docno, text in zip(group.docnos, group.documents, strict=True)
    }
    rows = {docno: row for row, docno in enumerate(texts)}
    positives = defaultdict[str, set[str]](set)
    for group in groups:
        positives[group.qid].add(group.docnos[0])
    table = torch.zeros((len(groups), len(rows)), dtype=torch.bool)
    for row, group in enumerate(groups):
        known = positives[group.qid].union(relevant.get(group.qid, ()))
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
