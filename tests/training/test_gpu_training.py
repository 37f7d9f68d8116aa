"""A training on a GPU, asserted without one: what waits for the device, what is read beside it."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from telerank.errors import ModelError
from telerank.models.encoders.bi_encoder import Side, SideTokenizer
from telerank.models.losses import in_batch_softmax, multi_label_margin
from telerank.models.rerankers.kinds import Shape
from telerank.models.rerankers.reranker import fresh_reranker
from telerank.training.encoders.dev import encode_side
from telerank.training.encoders.encoder import EncoderSide
from telerank.training.loop import BatchesAhead
from telerank.training.parallel import ALONE
from telerank.training.reranker.config import RerankerLoss
from telerank.training.reranker.scoring import PairBatches, batch_pairs_of
from telerank.training.reranker.task import ranking_loss
from telerank.training.task import TrainingDevice

GPU, META = torch.device("cuda"), torch.device("meta")


def test_an_error_of_the_thread_is_raised_where_its_batch_is_taken():
    threads = []

    def make(number):
        threads.append(threading.current_thread())
        if number == 2:
            raise ModelError("no such batch")
        return number

    ahead = BatchesAhead(make, GPU)
    assert ahead.take(0) == 0
    ahead.begin(1)
    ahead.rest()
    assert len(threads) == 2
    assert threads[0] is threading.current_thread() is not threads[1]
    assert ahead.take(1) == 1
    ahead.begin(2)
    ahead.rest()
    with pytest.raises(ModelError, match="no such batch"):
        ahead.take(2)
    plain = BatchesAhead(make, torch.device("cpu"))
    plain.begin(1)
    assert len(threads) == 3
    assert plain.take(1) == 1


def test_batches_for_a_gpu_are_not_cut_at_two_thirds_of_the_longest_pair():
    lengths = np.array([30, 100, 100, 60, 40])

    def cut(tokens, device):
        return [rows for rows, _ in batch_pairs_of(device, 512, tokens).cut(lengths)]

    assert cut(1000, GPU) == [[1, 2, 3, 4, 0]]
    assert cut(312, GPU) == [[1, 2, 3], [4, 0]]
    assert cut(1000, torch.device("cpu")) == [[1, 2], [3, 4], [0]]


def test_batches_for_a_gpu_have_lengths_of_eight_or_what_the_model_reads_at_most(ranking_set):
    texts = fresh_reranker(ranking_set / "encoder", Shape("monobert", max_query=8, max_length=30)).texts
    reranker = SimpleNamespace(device=GPU, texts=texts)
    pairs = [texts.pair(*texts.queries(["q1"]), texts.passages(["d1 " * count])[0]) for count in (9, 3, 40)]
    found = [batch.input_ids for batch in PairBatches.of(reranker, pairs, tokens=30).batches]
    assert [batch.shape for batch in found] == [(1, 30), (1, 16), (1, 8)]
    reranker.device = torch.device("cpu")
    plain = [batch.input_ids for batch in PairBatches.of(reranker, pairs, tokens=30).batches]
    assert [batch.shape for batch in plain] == [(1, 30), (1, 13), (1, 7)]
    tokenizer = SideTokenizer(texts.tokenizer, Side(max_length=30))
    widths = []

    def encode(batch):
        widths.append(batch["input_ids"].shape[1])
        return torch.zeros(len(batch["input_ids"]), 2)

    side = EncoderSide.of(tokenizer, encode)
    for device in (META, torch.device("cpu")):  # tokens can be moved to ``meta``
        for count in (9, 40):
            encode_side(side, ["d1 " * count], TrainingDevice(device, nullcontext, ALONE))
    assert widths == [16, 30, 11, 30]


@pytest.mark.parametrize("objective", ["pointwise", "margin", "ranknet", "softmax", "margin-mse"])
def test_losses_of_re_rankers_depend_on_no_number_of_the_device(objective):
    """A tensor on ``meta`` has no numbers: what needs one, and so would wait for a GPU, is an error."""
    teacher = torch.randn(6, 4) if objective == "margin-mse" else None
    settings = RerankerLoss(objective=objective, teacher=None if teacher is None else "run")
    logits = torch.zeros(6, 4, device=META, requires_grad=True)
    loss = ranking_loss(settings, logits, teacher)
    loss.backward()
    assert loss.device == META
    assert loss.shape == ()


@pytest.mark.parametrize("loss", [multi_label_margin, in_batch_softmax])
def test_losses_of_bi_encoders_depend_on_no_number_of_the_device(loss):
    products = torch.zeros(6, 9, device=META, requires_grad=True)
    value = loss(products, torch.eye(6, 9, dtype=torch.bool))
    value.backward()
    assert value.device == META
