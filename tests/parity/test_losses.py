"""Losses and rates against torch's own, transformers' own, and the formulas written out, pair by pair."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from telerank.models.losses import (  # noqa: E402  # noqa: E402
    PairClassifier,
    class_weights,
    cosine_regression,
    cross_entropy,
    in_batch_softmax,
    listwise_softmax,
    margin_mse,
    max_margin,
    multi_label_margin,
    ranknet,
)
from telerank.training.bi_encoder.config import BiEncoderOptimisation  # noqa: E402
from telerank.training.optimisation import compute_rate  # noqa: E402
from telerank.training.reranker.config import RerankerLoss  # noqa: E402
from telerank.training.reranker.task import ranking_loss  # noqa: E402


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


PAIRWISE = {"max_margin": max_margin, "ranknet": ranknet}
EVERY = {**PAIRWISE, "cross_entropy": cross_entropy, "listwise_softmax": listwise_softmax}


def drawn_groups(seed, grades=2, padded=True):
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
    logits, labels, _ = drawn_groups(seed, grades)
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
    logits, labels, teacher = drawn_groups(seed, grades)
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
    logits, labels, _ = drawn_groups(seed, 3)
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
    logits, labels, _ = drawn_groups(seed, 3)
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
    logits, labels, _ = drawn_groups(1, padded=False)
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
