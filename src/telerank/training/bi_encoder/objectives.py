"""The losses of a batch's vectors, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from telerank.models.losses.contrastive import (
    PairClassifier,
    cosine_regression,
    in_batch_softmax,
    multi_label_margin,
)
from telerank.training.bi_encoder.batches import EncoderBatch
from telerank.training.bi_encoder.config import BiEncoderLoss


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
