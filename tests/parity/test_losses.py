"""Losses and rates against torch's own, transformers' own, and the formulas written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from telerank.models.losses.contrastive import (  # noqa: E402
    PairClassifier,
    cosine_regression,
    in_batch_softmax,
    multi_label_margin,
)
from telerank.training.bi_encoder.config import BiEncoderOptimisation  # noqa: E402
from telerank.training.loop import compute_rate  # noqa: E402


def drawn(seed, queries=7, documents=11, most=4):
    """Products, and for each query one to ``most`` relevant documents."""
    random = np.random.default_rng(seed)
    products = torch.tensor(random.normal(0, 2, (queries, documents)), requires_grad=True)
    relevant = torch.zeros((queries, documents), dtype=torch.bool)
    for row in range(queries):
        relevant[row, random.choice(documents, random.integers(1, most + 1), replace=False).tolist()] = True
    return products, relevant


def equation_4(products, relevant, margin):
    """One query: the sum over relevant i and others j, divided by the number of documents."""
    total = 0.0
    for i, own in enumerate(relevant):
        for j, other in enumerate(relevant):
            if own and not other:
                total += max(0.0, margin - (products[i] - products[j]))
    return total / len(products)


@given(st.integers(0, 10_000), st.sampled_from([1, 5]))
def test_the_margin_loss_is_equation_4(seed, margin):
    products, relevant = drawn(seed)
    rows = zip(products.tolist(), relevant.tolist(), strict=True)
    expected = sum(equation_4(*row, margin) for row in rows) / len(products)
    assert multi_label_margin(products, relevant, margin=margin).item() == pytest.approx(expected, rel=1e-12)


@given(st.integers(0, 10_000))
def test_the_margin_loss_and_its_gradient_are_those_of_torch(seed):
    products, relevant = drawn(seed)
    labels = torch.full(products.shape, -1)
    for row, own in enumerate(relevant):
        places = own.nonzero().flatten()
        labels[row, : len(places)] = places
    expected = torch.nn.MultiLabelMarginLoss()(products, labels)
    ours = multi_label_margin(products, relevant)
    torch.testing.assert_close(ours, expected)
    gradients = [torch.autograd.grad(one, products)[0] for one in (ours, expected)]
    torch.testing.assert_close(*gradients)


@given(st.integers(0, 10_000))
def test_the_softmax_of_several_is_dprs_equation_for_each(seed):
    products, relevant = drawn(seed)
    values = []
    for row, own in zip(products.tolist(), relevant.tolist(), strict=True):
        negatives = sum(math.exp(x) for x, is_own in zip(row, own, strict=True) if not is_own)
        each = [
            -math.log(math.exp(x) / (math.exp(x) + negatives))
            for x, is_own in zip(row, own, strict=True)
            if is_own
        ]
        values.append(sum(each) / len(each))
    assert in_batch_softmax(products, relevant).item() == pytest.approx(sum(values) / len(values), rel=1e-9)


def test_a_query_to_which_all_is_relevant_teaches_nothing():
    products = torch.randn(2, 3, requires_grad=True)
    relevant = torch.tensor([[True, True, True], [True, False, False]])
    for loss in (in_batch_softmax, multi_label_margin):
        (gradient,) = torch.autograd.grad(loss(products, relevant), products)
        assert gradient[0].tolist() == [0, 0, 0]
        assert torch.isfinite(gradient).all()


def test_the_classifier_is_sentence_berts_equation():
    torch.manual_seed(0)
    classifier = PairClassifier(4, classes=3)
    u, v, labels = torch.randn(5, 4), torch.randn(5, 4), torch.tensor([0, 1, 2, 1, 0])
    weight = classifier.weight.weight.detach().numpy().astype(float)
    losses = []
    for one, other, label in zip(u.double().numpy(), v.double().numpy(), labels.tolist(), strict=True):
        logits = np.exp(weight @ np.concatenate([one, other, np.abs(one - other)]))
        losses.append(-math.log(logits[label] / logits.sum()))
    assert classifier(u, v, labels).item() == pytest.approx(np.mean(losses), rel=1e-5)


def test_the_regression_is_the_squared_error_of_cosines():
    torch.manual_seed(0)
    u, v, grades = torch.randn(5, 4), torch.randn(5, 4), torch.tensor([0, 1, 1, 0, 1])
    one, other = u.numpy(), v.numpy()
    cosines = (one * other).sum(1) / np.sqrt((one**2).sum(1) * (other**2).sum(1))
    expected = np.mean((cosines - grades.numpy()) ** 2)
    assert cosine_regression(u, v, grades).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("warm_up", [0, 5])
def test_the_rate_is_that_of_transformers(warm_up):
    from transformers import get_linear_schedule_with_warmup

    wanted = BiEncoderOptimisation(steps=20, warm_up=warm_up, learning_rate=1e-3)
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1e-3)
    schedule = get_linear_schedule_with_warmup(optimiser, warm_up, 20)
    for update in range(20):
        assert compute_rate(update, 20, wanted) == pytest.approx(schedule.get_last_lr()[0], rel=1e-12)
        optimiser.step()
        schedule.step()
