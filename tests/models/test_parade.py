"""PARADE: a document's passages are encoded with the query, and joined by a head."""

from __future__ import annotations

import pytest
import torch

from long_texts import said
from small_ranking import ranking_training, small_ranking
from small_rerankers import small_reranker
from telerank.errors import ModelError
from telerank.models.pairs.pair import batch_of
from telerank.models.rerankers.parade import AGGREGATES
from telerank.models.rerankers.reranker import load_reranker, save_reranker
from telerank.reranking.scorer import Scorer
from telerank.reranking.texts import make_pairs
from telerank.training.reranker.train import train_reranker

HEAD = {"length": 10, "stride": 6, "passages": 5}  # 34 tokens at most
PAIRS = [("q1 q2", said(30)), ("q3", said(4)), ("", said(11)), ("q1", ""), ("q1 q2 q3", said(17))]


def parade(folder, aggregate="transformer", **more):
    return small_reranker(folder, "parade", max_length=37, head={**HEAD, "aggregate": aggregate, **more})


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_a_document_has_the_same_score_alone_in_a_batch_and_from_the_disk(tmp_path, aggregate):
    reranker = parade(tmp_path, aggregate)
    together = Scorer(reranker).score(PAIRS)
    alone = [Scorer(reranker).score([pair])[0] for pair in PAIRS]
    assert together.tolist() == pytest.approx(alone, abs=1e-5)
    assert len(set(together.round(4))) == len(PAIRS)
    save_reranker(reranker, tmp_path / "saved")
    loaded = Scorer(load_reranker(tmp_path / "saved")).score(PAIRS)
    assert loaded.tolist() == pytest.approx(together.tolist(), abs=1e-6)


def test_passages_overlap_and_each_has_the_query(tmp_path):
    reranker = parade(tmp_path)
    pairs = make_pairs(reranker, PAIRS)
    (ids, mask, types), rows = reranker.model.cut(batch_of(pairs, reranker.texts.pad_id))
    (query,) = reranker.texts.queries(["q1 q2"])
    (text,) = reranker.texts.queries([PAIRS[0][1]])
    frame = reranker.texts.frame
    expected = [
        [*frame.before, *query, *frame.between, *text[start : start + 10], *frame.after]
        for start in (0, 6, 12, 18, 24)
    ]
    rows_of_first = [
        row[: count.sum()].tolist() for row, count in zip(ids[rows == 0], mask[rows == 0], strict=True)
    ]
    assert rows_of_first == expected
    assert torch.bincount(rows).tolist() == [5, 1, 2, 1, 3]
    assert types[0, : len(query) + 2].sum() == 0
    assert types[0, len(query) + 2 : int(mask[0].sum())].min() == 1


def test_the_transformer_begins_with_the_encoders_vector_of_cls_and_every_weight_learns(tmp_path):
    reranker = parade(tmp_path)
    model = reranker.model
    vectors, start = model.encoder.get_input_embeddings().weight, model.head.start
    token = reranker.texts.tokenizer.cls_token_id
    assert torch.equal(start[0, 0], vectors[token])
    assert start.data_ptr() != vectors[token].data_ptr()
    model(batch_of(make_pairs(reranker, PAIRS), reranker.texts.pad_id)).pow(2).sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in model.head.parameters())
    assert vectors.grad.any()


@pytest.mark.parametrize("aggregate", ["avg", "max", "attn"])
def test_the_simple_aggregates_are_what_they_say(tmp_path, aggregate):
    head = parade(tmp_path, aggregate).model.head
    passages, mask = torch.randn(2, 3, 32), torch.tensor([[True, True, True], [True, True, False]])
    kept = passages[1, :2]
    if aggregate == "attn":
        weights = head.weigh(passages, mask)
        assert weights.sum(1).tolist() == pytest.approx([1, 1])
        assert weights[1, 2] == 0
        expected = (weights[1, :2, None] * kept).sum(0)
    else:
        expected = kept.mean(0) if aggregate == "avg" else kept.amax(0)
    torch.testing.assert_close(head(passages, mask)[1], head.answer(expected)[0])


def test_the_transformer_knows_the_order_of_passages_and_ignores_padding(tmp_path):
    head = parade(tmp_path).model.head
    passages, mask = torch.randn(1, 3, 32), torch.ones(1, 3, dtype=torch.bool)
    score = head(passages, mask)
    assert not torch.allclose(score, head(passages.flip(1), mask), atol=1e-5)
    padded = torch.cat([passages, torch.randn(1, 2, 32)], 1)
    assert torch.allclose(score, head(padded, torch.tensor([[True, True, True, False, False]])), atol=1e-5)


def test_a_document_beyond_the_passages_is_cut_and_counted_and_there_is_no_graph(tmp_path):
    scorer = Scorer(parade(tmp_path))
    scorer.score([("q1", said(100))])
    assert scorer.describe_cut() == "1 pair longer than 37 tokens: cut there, 67 tokens were not read"
    pytest.importorskip("openvino")
    with pytest.raises(ModelError, match="its back end is torch"):
        Scorer(scorer.model, backend="openvino").score(PAIRS[:1])


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"max_length": 38}, "pairs of 38 tokens, but 5 passages hold 34 tokens: at most 37"),
        ({"head": {"aggregate": "sum"}}, "no aggregate is called 'sum'; there are: avg, max"),
        ({"head": {"stride": 11, "length": 10}}, "passages of 10 tokens, every 11"),
        ({"head": {"aggregate": "avg", "heads": 2}}, "heads: settings of the transformer, not of 'avg'"),
        ({"head": {"length": 60, "stride": 60}, "max_length": 100}, "but the model has 66 positions"),
        ({"head": {"depth": 2}}, "these are no settings of a head of parade"),
    ],
)
def test_what_cannot_be_built_is_refused_in_one_line(tmp_path, shape, message):
    with pytest.raises(ModelError, match=message):
        small_reranker(tmp_path, "parade", **{"max_length": 37, "head": HEAD, **shape})


def test_the_ordinary_training_of_re_rankers_trains_a_parade(tmp_path):
    config = ranking_training(
        small_ranking(tmp_path / "place"),
        model={"kind": "parade", "max_query": 8, "max_length": 37, "head": {**HEAD, "heads": 2}},
        optimisation={"steps": 3, "batch": 4},
    )
    trained = load_reranker(train_reranker(config, tmp_path / "out"))
    assert trained.shape.kind == "parade"
    assert trained.shape.head["passages"] == 5
