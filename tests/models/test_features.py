"""What heads see of a pair, against plain loops."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from telerank.models.pairs.features import gather_tokens, pair_features, sentence_means  # noqa: E402
from telerank.models.pairs.pair import PairBatch  # noqa: E402


@pytest.fixture
def batch():
    parts = torch.tensor([[0, 1, 1, 0, 2, 2, 2, 0], [0, 1, 0, 2, 2, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]])
    sentences = torch.tensor(
        [[-1, -1, -1, -1, 0, 0, 1, -1], [-1, -1, -1, 0, 0, -1, -1, -1], [-1, -1, -1, -1, -1, -1, -1, -1]]
    )
    nothing = torch.zeros_like(parts)
    return PairBatch(nothing, nothing, nothing, parts, sentences)


def test_features_are_the_first_token_the_query_and_the_means_of_sentences(batch):
    tokens = torch.randn(3, 8, 5)
    found = pair_features(tokens, batch)
    assert torch.equal(found.cls, tokens[:, 0])
    assert torch.equal(found.query[0], tokens[0, 1:3])
    assert torch.equal(found.query[1], torch.stack([tokens[1, 1], torch.zeros(5)]))
    assert found.query_mask.tolist() == [[True, True], [True, False], [False, False]]
    torch.testing.assert_close(found.sentences[0, 0], tokens[0, 4:6].mean(0))
    torch.testing.assert_close(found.sentences[0, 1], tokens[0, 6])
    torch.testing.assert_close(found.sentences[1, 0], tokens[1, 3:5].mean(0))
    assert found.sentence_mask.tolist() == [[True, True], [True, False], [False, False]]
    assert not found.sentences[1, 1].any()
    assert not found.sentences[2].any()


def test_gradients_go_to_each_token_that_is_used(batch):
    tokens = torch.randn(3, 8, 5, requires_grad=True)
    found = pair_features(tokens, batch)
    (found.cls.sum() + found.query.sum() + found.sentences.sum()).backward()
    used = (batch.parts > 0) | (torch.arange(8) == 0)
    assert torch.equal(tokens.grad.abs().sum(2) > 0, used)


def test_what_is_picked_keeps_its_order():
    tokens = torch.arange(6.0).view(1, 6, 1)
    moved, mask = gather_tokens(tokens, torch.tensor([[False, True, False, True, True, False]]))
    assert moved.view(-1).tolist() == [1, 3, 4]
    assert mask.all()


def test_padding_changes_no_mean(batch):
    tokens = torch.randn(3, 8, 5)
    longer = PairBatch(
        **{
            name: torch.nn.functional.pad(field, (0, 3), value=-1 if name == "sentences" else 0)
            for name, field in vars(batch).items()
        }
    )
    padded = torch.nn.functional.pad(tokens, (0, 0, 0, 3), value=99.0)
    torch.testing.assert_close(sentence_means(padded, longer)[0], sentence_means(tokens, batch)[0])
