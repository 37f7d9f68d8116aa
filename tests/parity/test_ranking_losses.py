"""Losses of re-rankers against their formulas, pair by pair, and torch's own."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from telerank.models.losses.ranking import (  # noqa: E402
    class_weights,
    cross_entropy,
    listwise_softmax,
    margin_mse,
    max_margin,
    ranknet,
)
from telerank.training.reranker.config import RerankerLoss  # noqa: E402
from telerank.training.reranker.task import ranking_loss  # noqa: E402

PAIRWISE = {"max_margin": max_margin, "ranknet": ranknet}
EVERY = {**PAIRWISE, "cross_entropy": cross_entropy, "listwise_softmax": listwise_softmax}


def drawn(seed, grades=2, padded=True):
    """Logits, labels and a teacher's logits of groups; a label of -1 is padding."""
    random = np.random.default_rng(seed)
    labels = torch.tensor(random.integers(-1 if padded else 0, grades, (5, 6)))
    logits, teacher = (torch.tensor(random.normal(0, 2, (5, 6))) for _ in range(2))
    return logits.requires_grad_(), labels, teacher.masked_fill(labels < 0, torch.nan)


def over_pairs(formula, labels):
    """The mean of ``formula(group, better, worse)`` over all pairs of documents whose labels differ."""
    found = [
        formula(group, i, j)
        for group, row in enumerate(labels.tolist())
        for i, own in enumerate(row)
        for j, other in enumerate(row)
        if own > other >= 0
    ]
    return sum(found) / max(1, len(found))


def sigmoid(value):
    return 1 / (1 + math.exp(-value))


@given(st.integers(0, 10_000), st.sampled_from([2, 4]))
def test_the_margin_is_of_probabilities_as_in_the_paper(seed, grades):
    logits, labels, _ = drawn(seed, grades)
    s = logits.tolist()
    probs = over_pairs(lambda g, i, j: max(0.0, 0.2 - sigmoid(s[g][i]) + sigmoid(s[g][j])), labels)
    assert max_margin(logits, labels).item() == pytest.approx(probs)
    bare = over_pairs(lambda g, i, j: max(0.0, 1.5 - s[g][i] + s[g][j]), labels)
    assert max_margin(logits, labels, 1.5, of="logit").item() == pytest.approx(bare)


@pytest.mark.parametrize("of", ["probability", "logit"])
@pytest.mark.parametrize("margin", [0.0, 0.2, 1.0])
def test_the_margin_loss_is_torchs_for_one_document_of_each_kind(margin, of):
    """Piaf's equation 18 as printed has no margin; the minus that it lacks is that of torch's formula."""
    logits = torch.randn(7, 2, generator=torch.Generator().manual_seed(0))
    logits[0, 1] = logits[0, 0]
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss = ranking_loss(RerankerLoss(objective="margin", margin=margin, of=of), ours)
    scores = theirs.sigmoid() if of == "probability" else theirs
    expected = torch.nn.MarginRankingLoss(margin)(scores[:, 0], scores[:, 1], torch.ones(7))
    torch.testing.assert_close(loss, expected)
    loss.backward()
    expected.backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_without_a_margin_a_constant_score_satisfies_the_loss():
    for margin in (0.0, 0.2):
        loss = ranking_loss(RerankerLoss(objective="margin", margin=margin), torch.full((3, 4), 0.7))
        assert loss.item() == pytest.approx(margin)
    with pytest.raises(ValueError, match="of 'prob' or 'logit', got 'score'"):
        max_margin(torch.zeros(1, 2), torch.zeros(1, 2), of="score")


@given(st.integers(0, 10_000), st.sampled_from([2, 4]))
def test_ranknet_and_margin_mse_are_their_formulas(seed, grades):
    logits, labels, teacher = drawn(seed, grades)
    s, t = logits.tolist(), teacher.tolist()
    expected = over_pairs(lambda g, i, j: -math.log(sigmoid(s[g][i] - s[g][j])), labels)
    assert ranknet(logits, labels).item() == pytest.approx(expected)
    expected = over_pairs(lambda g, i, j: (s[g][i] - s[g][j] - t[g][i] + t[g][j]) ** 2, labels)
    loss = margin_mse(logits, labels, teacher)
    assert loss.item() == pytest.approx(expected)
    loss.backward()
    assert logits.grad.isfinite().all()


@given(st.integers(0, 10_000))
def test_the_softmax_is_over_a_group_with_its_labels_as_shares(seed):
    logits, labels, _ = drawn(seed, 3)
    losses = []
    for row, given_labels in zip(logits.tolist(), labels.tolist(), strict=True):
        real = [(s, y) for s, y in zip(row, given_labels, strict=True) if y >= 0]
        total = sum(y for _, y in real)
        if total:
            whole = math.log(sum(math.exp(s) for s, _ in real))
            losses.append(sum(y / total * (whole - s) for s, y in real))
    expected = sum(losses) / max(1, len(losses))
    loss = listwise_softmax(logits, labels)
    assert loss.item() == pytest.approx(expected)
    loss.backward()
    assert logits.grad.isfinite().all()


@given(st.integers(0, 10_000), st.tuples(st.floats(0.1, 9), st.floats(0.1, 9)) | st.none())
def test_the_cross_entropy_is_equation_16_with_its_sign(seed, weights):
    logits, labels, _ = drawn(seed, 3)
    losses = []
    for s, y in zip(logits.flatten().tolist(), labels.flatten().tolist(), strict=True):
        if y >= 0:
            loss = -math.log(sigmoid(s)) if y else -math.log(1 - sigmoid(s))
            losses.append(loss * (weights or (1, 1))[y > 0])
    expected = sum(losses) / max(1, len(losses))
    assert cross_entropy(logits, labels, weights).item() == pytest.approx(expected)


def test_class_weights_are_equation_17():
    assert class_weights(90, 10) == (100 / (2 * 90), 100 / (2 * 10))
    weights = class_weights(90, 10)
    # a whole set of samples weighs as much as it has samples, and both classes as much
    assert weights[0] * 90 == weights[1] * 10 == 50
    with pytest.raises(ValueError, match="both classes need a sample, got 3 not relevant and 0 relevant"):
        class_weights(3, 0)


@pytest.mark.parametrize("name", sorted(EVERY))
def test_padding_and_groups_without_a_pair_count_nowhere_and_the_loss_falls_as_the_relevant_rise(name):
    logits, labels, _ = drawn(1, padded=False)
    loss = EVERY[name](logits, labels)
    wider = torch.cat([logits, torch.full((5, 2), 1e4)], 1)
    padded = torch.cat([labels, torch.full((5, 2), -1)], 1)
    assert EVERY[name](wider, padded).item() == pytest.approx(loss.item())
    empty = EVERY[name](logits, torch.full((5, 6), -1))
    assert empty.item() == 0
    empty.backward()
    assert not logits.grad.any()
    labels = torch.zeros(5, 6).index_fill(1, torch.tensor([1]), 1).index_fill(1, torch.tensor([4]), -1)
    step = torch.autograd.grad(EVERY[name](logits, labels), logits)[0]
    assert (step[labels == 1] <= 0).all()
    assert (step[labels == 0] >= 0).all()
    assert step.any()
    assert not step[labels < 0].any()
