"""What every training obeys: killed, it goes on to the same losses; several processes train what one trains."""

from __future__ import annotations

import json
import signal

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_training import dev_losses, losses  # noqa: E402
from toy_trainings import (  # noqa: E402
    losses_of,
    noisy_trainings,
    records_of,
    selections_of,
    still_trainings,
    weights_of,
)

from telerank.errors import ModelError  # noqa: E402

KILLED = """
import os, signal, sys
from pathlib import Path
from toy_trainings import noisy_trainings
place, name, output, kill_at, *resume = sys.argv[1:]
seen = []

def report(record):
    seen.append(record.step)
    if len(seen) == int(kill_at):
        os.kill(os.getpid(), signal.SIGKILL)

train, config = noisy_trainings(Path(place))[name]
train(config, Path(output), resume=bool(resume), report=report)
"""
KILLS = {
    **{name: (name, 7) for name in ("run", "ids", "texts", "monobert", "frozen", "reader")},
    **{name: (name, 4) for name in ("monobert by dev loss", "frozen by dev loss")},
    "first iteration of best": ("best", 3),  # with two models
    "second iteration of best": ("best", 7),
}


@pytest.fixture(scope="module")
def whole(toys, tmp_path_factory):
    """Gives the folder of a training that was not interrupted."""
    folder, trainings = tmp_path_factory.mktemp("whole"), noisy_trainings(toys)

    def train(name):
        if not (folder / name).exists():
            start, config = trainings[name]
            start(config, folder / name)
        return folder / name

    return train


@pytest.mark.parametrize("kill", KILLS)
def test_a_killed_training_goes_on_to_the_same_losses_and_weights(forks, toys, whole, tmp_path, kill):
    name, kill_at = KILLS[kill]
    output = tmp_path / "killed"
    (ended,) = forks.run(KILLED, toys, name, output, kill_at)
    assert ended.status == -signal.SIGKILL, ended.errors
    train, config = noisy_trainings(toys)[name]
    with pytest.raises(ModelError, match="resume"):
        train(config, output)
    train(config, output, resume=True)
    check_same(output, whole(name))
    assert not list(output.glob("iterations/*/checkpoints"))  # nothing of them is resumed


@pytest.mark.parametrize("name", ["monobert by dev loss", "frozen by dev loss"])
def test_a_training_stops_by_its_dev_loss_and_draws_it(whole, name):
    output = whole(name)
    values = dev_losses(output)
    assert max(values) < 40
    assert min(values, key=lambda step: values[step]) == max(values) - 4
    assert not losses(output, "dev")
    assert (output / "losses.svg").exists()


def check_same(output, expected):
    assert losses_of(output) == losses_of(expected)
    assert len(losses_of(output)) >= 8
    assert records_of(output) == records_of(expected)
    assert selections_of(output) == selections_of(expected)
    weights, others = weights_of(output), weights_of(expected)
    assert weights.keys() == others.keys()
    assert weights
    assert all(torch.equal(weight, others[name]) for name, weight in weights.items())


@pytest.mark.process
def test_two_processes_that_were_killed_go_on_to_the_same_losses(forks, toys, tmp_path):
    """Each has random numbers of its own, for dropout."""
    killed = forks.run(KILLED, toys, "run", tmp_path / "killed", 7, processes=2)
    assert killed[0].status == -signal.SIGKILL, killed[0].errors
    for output, words in (("killed", ["resume"]), ("whole", [])):
        ended = forks.run(KILLED, toys, "run", tmp_path / output, -1, *words, processes=2)
        assert [own.status for own in ended] == [0, 0], ended[0].errors
    check_same(tmp_path / "killed", tmp_path / "whole")
    train, config = noisy_trainings(toys)["run"]
    with pytest.raises(ModelError, match="began with 2 processes, not 1: resume with as many"):
        train(config, tmp_path / "whole", resume=True)


NAMES = (
    *("margin", "cached", "towers", "cached towers", "classification"),
    *("parts", "recomputed", "one group", "stored", "best", "reader"),
)


@pytest.mark.process
@pytest.mark.parametrize("name", NAMES)
def test_two_processes_train_what_one_trains(shared, toys, tmp_path, name):
    """With queries that do not halve, own negatives, cached gradients, batches in parts, and stored features."""
    train, config = still_trainings(toys)[name]
    train(config, tmp_path / "one")
    two = shared.folder / name
    assert losses_of(two) == pytest.approx(losses_of(tmp_path / "one"), rel=1e-4, abs=1e-6)
    assert records_of(two) == records_of(tmp_path / "one")
    weights, others = weights_of(two), weights_of(tmp_path / "one")
    assert weights.keys() == others.keys()
    assert weights
    for which, weight in weights.items():
        torch.testing.assert_close(weight, others[which], rtol=1e-4, atol=1e-5, msg=f"{name} {which}")


def test_two_processes_share_what_is_scored_to_select(shared, toys):
    assert tuple(still_trainings(toys)) == NAMES
    scored = [report["scored"]["best"] for report in shared.reports]
    assert min(scored) > 0.4 * sum(scored)
    results = json.loads((shared.folder / "best" / "iterations.json").read_text())["iterations"]
    assert [result["iteration"] for result in results] == [1, 2]


def test_a_batch_has_a_pair_for_each_process(shared):
    said = "batch: 1 pairs for 2 processes: each needs at least one"
    assert [report["error"] for report in shared.reports] == [said] * 2
