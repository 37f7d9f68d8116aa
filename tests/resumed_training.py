"""A training of a re-ranker that is stopped and gone on with, beside one that is not."""

from __future__ import annotations

import pytest
import torch

from small_ranking import ranking_training, small_ranking
from telerank.models.rerankers.reranker import load_reranker
from telerank.training.reranker.train import train_reranker


def check_resumed(folder, model):
    """A training that is stopped after two of four updates and resumed has the weights of one that is not."""
    steps = {"optimisation": {"steps": 4, "batch": 4}, "checkpoint_every": 2, "model": model}
    config = ranking_training(small_ranking(folder / "place"), **steps)

    class StoppedError(Exception):
        pass

    def stop(record):
        if record.step == 3:
            raise StoppedError

    with pytest.raises(StoppedError):
        train_reranker(config.model_copy(update={"log_every": 1}), folder / "out", report=stop)
    resumed = load_reranker(train_reranker(config, folder / "out", resume=True))
    whole = load_reranker(train_reranker(config, folder / "whole"))
    assert resumed.shape.kind == model["kind"]
    weights, others = (own.model.state_dict() for own in (resumed, whole))
    assert all(torch.equal(weight, others[name]) for name, weight in weights.items())
