"""Losses of bi-encoders.

======  ==============================================================================================
``Q``   queries of a batch
``N``   documents of a batch: the relevant ones of its queries, and negatives
``H``   width of a vector
======  ==============================================================================================

``products`` is (Q, N), the inner product of each query with each document. ``relevant`` is (Q, N), true if a
document is relevant to a query: every other document of the batch is a negative of the query. Losses
are means over queries, or over pairs. ``relevant`` may be on the processor while ``products`` are on a GPU.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def multi_label_margin(products: Tensor, relevant: Tensor, margin: float = 1.0) -> Tensor:
    """RepBERT's equation 4: 1/N times the sum of max(0, margin - (product of a relevant - of another)).

    The same as torch's ``MultiLabelMarginLoss`` with the relevant documents as labels; its memory is that of
    ``products``, whatever the number of relevant documents.
    """
    most = int(relevant.sum(1).max())
    relevant = relevant.to(products.device, non_blocking=True)
    first = relevant.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :most]  # (Q, most)
    total = products.new_zeros(())
    for documents in first.T:
        column = documents.unsqueeze(1)  # (Q, 1)
        missing = margin - products.gather(1, column) + products  # (Q, N)
        counts = relevant.gather(1, column) & ~relevant  # (Q, N): a relevant against each that is not
        total = total + missing.clamp(min=0).masked_fill(~counts, 0).sum()
    return total / products.numel()


def in_batch_softmax(products: Tensor, relevant: Tensor) -> Tensor:
    """DPR's loss, -log(e^p / (e^p + the sum of e^n over negatives n)).

    The mean over the relevant p of a query. A document that is relevant to the query is not a negative of it.
    """
    relevant = relevant.to(products.device, non_blocking=True)
    least = torch.finfo(products.dtype).min  # -inf has no gradient if all documents are relevant
    log_negatives = products.masked_fill(relevant, least).logsumexp(1, keepdim=True)  # (Q, 1)
    losses = functional.softplus(log_negatives - products)  # -log(e^p / (e^p + e^n)) = log(1 + e^(n - p))
    return (losses.masked_fill(~relevant, 0).sum(1) / relevant.sum(1).clamp(min=1)).mean()


class PairClassifier(nn.Module):
    """Sentence-BERT's classification objective: softmax(W (u, v, |u - v|)), cross-entropy with the labels.

    W is (classes, 3H) and has no bias, as in the paper's equation.
    """

    def __init__(self, width: int, classes: int = 2) -> None:
        super().__init__()
        self.weight = nn.Linear(3 * width, classes, bias=False)

    def forward(self, first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        """Vectors of both texts, each (pairs, H), and the class of each pair, (pairs,)."""
        logits = self.weight(torch.cat([first, second, (first - second).abs()], dim=1))
        return functional.cross_entropy(logits, labels)


def cosine_regression(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
    """Sentence-BERT's regression objective: the mean squared error of the cosine of u and v, (pairs, H)."""
    return functional.mse_loss(functional.cosine_similarity(first, second), grades.to(first.dtype))
