"""Losses of bi-encoders and of re-rankers.

======  ==============================================================================================
``Q``   queries of a batch
``B``   groups of a batch: the documents of one query each
``N``   documents of a batch of a bi-encoder; documents of the largest group
``H``   width of a vector
======  ==============================================================================================

Losses of bi-encoders read ``products``, (Q, N), the inner product of each query with each document: those
that are relevant to the queries, and negatives. ``relevant`` is (Q, N), true if a document is relevant to a
query: every other document of the batch is a negative of the query. They are means over queries, or over
pairs. ``relevant`` may be on the processor while ``products`` are on a GPU. SPLADE and late interaction have
other scores in place of products.

Those of re-rankers read ``logits`` and ``labels``, both (B, N); a label above zero is relevant, and a label
below zero marks the padding of a smaller group, which is ignored. Pairwise losses take every pair of a group
with different labels, the higher label first, and are means over all pairs of the batch; the others are means
over documents or groups. The loss of nothing is zero. With labels on the processor, none of them waits for a
GPU that has the logits.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from telerank.errors import ArgumentError


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


def cross_entropy(logits: Tensor, labels: Tensor, weights: tuple[float, float] | None = None) -> Tensor:
    """-y log(s) - (1 - y) log(1 - s) with s the sigmoid of a logit: monoBERT, and Piaf's equation 16.

    ``weights`` are those of the classes 0 and 1, see :func:`class_weights`; the sum is divided by the number
    of documents, not by their weights. (Equation 16 as printed lacks the minus.)
    """
    relevant = (labels > 0).to(logits.device, logits.dtype, non_blocking=True)
    losses = functional.binary_cross_entropy_with_logits(logits, relevant, reduction="none")
    if weights is not None:
        losses = losses * (weights[0] + (weights[1] - weights[0]) * relevant)
    return _mean(_choose(losses, labels >= 0))


def class_weights(not_relevant: int, relevant: int) -> tuple[float, float]:
    """Piaf's equation 17, n_samples / (n_classes n_class), of the counts of both classes.

    Raises
    ------
    ValueError
        If a class has no sample.
    """
    if not_relevant < 1 or relevant < 1:
        raise ArgumentError(
            f"both classes need a sample, got {not_relevant} not relevant and {relevant} relevant"
        )
    samples = not_relevant + relevant
    return samples / (2 * not_relevant), samples / (2 * relevant)


def max_margin(logits: Tensor, labels: Tensor, margin: float = 0.2, *, of: str = "prob") -> Tensor:
    """max(0, margin - R(q, p+) + R(q, p-)): BERT-DMN's equation 4.

    R is the probability, the sigmoid of a logit, as in its equation 3; with ``of="logit"`` it is the model's
    output: for QA-LSTM and K-NRM, whose scores lie between -1 and 1 already. For each pair it is
    torch's ``MarginRankingLoss``, max(0, -y (s_i - s_j) + margin).

    With ``margin=0`` it is Piaf's equation 18, max(0, y_i (s_i - s_j)): the report prints no margin, although
    its text mentions one. With y_i = 1 for a relevant document i the printed sign would punish the right
    order, so y_i is taken as -1 there (or the minus as lost, as in its equation 16). Without a margin the
    loss of equal scores is 0: a model that gives every document the same score satisfies it, and a pair is
    not learned from once its order is right.

    Raises
    ------
    ValueError
        If ``of`` is anything else.
    """
    if of not in ("prob", "logit"):
        raise ArgumentError(f"the margin is of 'prob' or 'logit', got {of!r}")
    better, worse = _pairs(logits.sigmoid() if of == "prob" else logits, labels)
    return _mean((margin - better + worse).clamp(min=0))


def ranknet(logits: Tensor, labels: Tensor) -> Tensor:
    """-log(sigmoid(s+ - s-)), Burges et al. 2005."""
    better, worse = _pairs(logits, labels)
    return _mean(functional.softplus(worse - better))


def listwise_softmax(logits: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of the softmax of a group with its labels as shares: ListNet (Cao et al. 2007).

    With one relevant document it is -log of its share. Groups without a relevant document do not count.
    """
    device, limits = logits.device, torch.finfo(logits.dtype)
    padding = (labels < 0).to(device, non_blocking=True)
    logs = logits.masked_fill(padding, limits.min).log_softmax(1)  # -inf times a share of zero would be NaN
    grades = labels.clamp(min=0).to(logits.dtype)
    total = grades.sum(1, keepdim=True)
    losses = -((grades / total.clamp(min=limits.tiny)).to(device, non_blocking=True) * logs).sum(1)  # (B,)
    return _mean(_choose(losses, total.squeeze(1) > 0))


def margin_mse(logits: Tensor, labels: Tensor, teacher: Tensor) -> Tensor:
    """((s+ - s-) - (t+ - t-))² with the teacher's logits t, (B, N): Hofstätter et al. 2020."""
    better, worse = _pairs(logits, labels)
    of_better, of_worse = _pairs(teacher.to(logits.device, logits.dtype, non_blocking=True), labels)
    return _mean(((better - worse) - (of_better - of_worse)) ** 2)


def kl_divergence(logits: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    """The divergence of the softmax of a group's logits from that of a teacher's, each (B, N) of full groups.

    It is the mean over groups of KL(teacher || model), of logits divided by a temperature, times its square,
    which keeps the size of the gradients (Hinton et al. 2015).
    """
    own = (logits / temperature).log_softmax(1)
    target = (teacher.to(logits.device, logits.dtype, non_blocking=True) / temperature).log_softmax(1)
    return functional.kl_div(own, target, reduction="batchmean", log_target=True) * temperature**2


def _pairs(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The scores of both documents of each pair with different labels, (pairs,) and (pairs,)."""
    counts = (labels.unsqueeze(2) > labels.unsqueeze(1)) & (labels.unsqueeze(1) >= 0)  # (B, N, N)
    group, better, worse = counts.nonzero().to(scores.device, non_blocking=True).unbind(1)
    return scores[group, better], scores[group, worse]


def _choose(losses: Tensor, mask: Tensor) -> Tensor:
    """The losses where a mask of their shape, on any device, is true."""
    return losses.flatten()[mask.flatten().nonzero().squeeze(1).to(losses.device, non_blocking=True)]


def _mean(losses: Tensor) -> Tensor:
    """The mean; zero, without a gradient, if there are none."""
    return losses.sum() / max(1, losses.numel())
