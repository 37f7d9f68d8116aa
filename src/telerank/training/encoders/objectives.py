"""The losses of a batch of queries and documents, by name, and their sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import torch
from torch import Tensor, nn

from telerank.models import losses
from telerank.training.encoders.batches import EncoderBatch
from telerank.training.encoders.config import EncoderLoss

BatchLoss: TypeAlias = Callable[[Tensor, EncoderBatch], Tensor]
"""A loss of the scores (Q, N) of every query and document of a batch."""


class WeightedLosses(nn.Module):
    """The sum of losses of the scores of every query and every document, each times its weight."""

    def __init__(
        self,
        score: Callable[[Tensor, Tensor], Tensor],
        weighted: Mapping[str, float],
        known: Mapping[str, BatchLoss],
        scale: float,
    ) -> None:
        super().__init__()
        self._score, self._scale = score, scale
        self._losses = [(known[name], weight) for name, weight in weighted.items()]

    def forward(self, queries: Tensor, documents: Tensor, batch: EncoderBatch) -> Tensor:
        """Vectors of all queries and all documents -> a number."""
        scores = self._score(queries, documents) * self._scale
        parts = [loss(scores, batch) * weight for loss, weight in self._losses]
        return torch.stack(parts).sum()


def build_losses(
    settings: EncoderLoss,
    score: Callable[[Tensor, Tensor], Tensor],
    more: Mapping[str, BatchLoss] = MappingProxyType({}),
) -> WeightedLosses:
    """The losses that the settings name, of the scores that ``score`` gives vectors; ``more`` has others."""

    def in_batch(scores: Tensor, batch: EncoderBatch) -> Tensor:
        return losses.in_batch_softmax(scores, batch.relevant)

    def in_group(scores: Tensor, batch: EncoderBatch) -> Tensor:
        own = _own_scores(scores, batch)
        return losses.listwise_softmax(own, _labels(batch))

    def margin_mse(scores: Tensor, batch: EncoderBatch) -> Tensor:
        assert batch.teacher is not None  # the settings ask for one
        return losses.margin_mse(_own_scores(scores, batch), _labels(batch), batch.teacher)

    def kl(scores: Tensor, batch: EncoderBatch) -> Tensor:
        assert batch.teacher is not None
        return losses.kl_divergence(_own_scores(scores, batch), batch.teacher, settings.temperature)

    known: dict[str, BatchLoss] = {
        "softmax": in_batch,
        "group-softmax": in_group,
        "margin-mse": margin_mse,
        "kl": kl,
        **more,
    }
    return WeightedLosses(score, settings.weights, known, settings.scale)


def _own_scores(scores: Tensor, batch: EncoderBatch) -> Tensor:
    """The scores of the documents of each query's own group, (Q, G)."""
    return scores.gather(1, batch.members.to(scores.device, non_blocking=True))


def _labels(batch: EncoderBatch) -> Tensor:
    """(Q, G): 1 for the first document of a group, 0 for the others."""
    labels = torch.zeros(batch.members.shape, dtype=torch.int64)
    labels[:, 0] = 1
    return labels


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
