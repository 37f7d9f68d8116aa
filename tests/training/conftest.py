"""Trainings that several tests look at."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest


@pytest.fixture(scope="session")
def toys(tmp_path_factory) -> Path:
    """The folder of what toy trainings read."""
    from toy_trainings import toy_place

    return toy_place(tmp_path_factory.mktemp("toys") / "place")


class Shared(NamedTuple):
    """What two processes trained, and what each of them says of it."""

    folder: Path
    reports: list[dict]


SHARED = """
from telerank.errors import TelerankError
from telerank.training import parallel
from telerank.training.bi_encoder.train import train_bi_encoder
from telerank.training.parallel import GradientSums, join_processes
from telerank.training.reranker.pair_logits import EndToEnd
from toy_trainings import still_trainings, training
sent, finish, scored, score = [], GradientSums.finish, [], EndToEnd.score

def finish_and_count(sums):
    sent.append([len(sums._sent), len(sums._buckets)])
    finish(sums)

def score_and_count(scorer, pairs, *given):
    scored.append(len(pairs))
    return score(scorer, pairs, *given)

GradientSums.finish, EndToEnd.score, parallel._BUCKET = finish_and_count, score_and_count, 1000
place, values = Path(sys.argv[2]), {"sent": {}, "scored": {}}
with join_processes(torch.device("cpu")) as processes:
    for name, (train, config) in still_trainings(place).items():
        sent.clear(), scored.clear()
        train(config, folder / name)
        values["sent"][name], values["scored"][name] = list(sent), sum(scored)
    try:
        train_bi_encoder(training(place / "pairs", optimisation={"batch": 1}), folder / "small")
    except TelerankError as error:
        values["error"] = str(error)
    events, backward, reduce = [], torch.Tensor.backward, torch.distributed.all_reduce

    def marked(*given, **named):
        events.append("backward begins")
        backward(*given, **named)
        events.append("backward ends")

    def recorded(tensor, *given, **named):
        events.append("sum")
        return reduce(tensor, *given, **named)

    torch.Tensor.backward, torch.distributed.all_reduce = marked, recorded
    own = {"steps": 3, "accumulation": 2, "chunk": None}
    train_bi_encoder(training(place / "pairs", optimisation=own), folder / "recorded")
    write({**values, "events": events})
"""


@pytest.fixture(scope="session")
def shared(forks, toys, tmp_path_factory) -> Shared:
    """Every training in two processes; small buckets of gradients are summed while backward passes run."""
    folder = tmp_path_factory.mktemp("shared")
    return Shared(folder, forks.compute(SHARED, folder, toys))
