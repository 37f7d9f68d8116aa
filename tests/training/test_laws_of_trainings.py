"""What every training obeys: killed, it goes on to the same losses; several processes train what one trains."""

from __future__ import annotations

import json
import signal

import pytest
import torch
from small_training import dev_losses, losses
from toy_trainings import (
    counting_scored,
    features_of,
    losses_of,
    noisy_trainings,
    records_of,
    scores_of,
    selections_of,
    still_trainings,
    weights_of,
)

from telerank.errors import ModelError

KILLED = """
import os, signal, sys
from pathlib import Path
from toy_trainings import noisy_trainings
toys, name, output, kill_at, *resume = sys.argv[1:]
seen = []

def report(record):
    seen.append(record.step)
    if len(seen) == int(kill_at):
        os.kill(os.getpid(), signal.SIGKILL)

train, config = noisy_trainings(Path(toys))[name]
train(config, Path(output), resume=bool(resume), report=report)
"""
WEIGHTS = ("deepct", "unicoil", "deepimpact")
KILLS = {
    **{name: (name, 7) for name in ("run", "ids", "texts", "splade", "splade of two", "late")},
    **{name: (name, 7) for name in ("monobert", "frozen", "reader", "mlm", "expander", *WEIGHTS[::2])},
    "frozen on triples": ("frozen on triples", 6),
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
    assert len(losses_of(output)) >= 7
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
    *("margin", "cached", "towers", "cached towers", "classification", "splade", "late"),
    *("parts", "recomputed", "one group", "stored", "best", "reader", "mlm", "expander"),
    *WEIGHTS,
)
SCORING = {"parts", "one group", "best", "reader", "mlm", "expander"}
"""Those that score dev, test or segments, of which each process scores about half."""


@pytest.mark.process
@pytest.mark.parametrize("name", NAMES)
def test_two_processes_train_what_one_trains(shared, toys, tmp_path, name):
    """With queries that do not halve, own negatives, cached gradients, batches in parts, and stored features."""
    train, config = still_trainings(toys)[name]
    with counting_scored() as scored:
        train(config, tmp_path / "one")
    one, two = tmp_path / "one", shared.folder / name
    assert losses_of(two) == pytest.approx(losses_of(one), rel=1e-4, abs=1e-6)
    assert records_of(two) == records_of(one)
    assert scores_of(two) == pytest.approx(scores_of(one), abs=1e-5)
    assert features_of(two) == features_of(one)
    weights, others = weights_of(two), weights_of(one)
    assert weights.keys() == others.keys()
    assert weights
    for which, weight in weights.items():
        torch.testing.assert_close(weight, others[which], rtol=1e-4, atol=1e-5, msg=f"{name} {which}")
    counts = [report["scored"][name] for report in shared.reports]
    assert sum(counts) <= sum(scored)
    if name in SCORING:
        assert min(counts) >= 0.4 * sum(scored)


@pytest.mark.process
def test_toy_trainings_of_several_processes_have_all_that_is_shared(shared, toys):
    assert tuple(still_trainings(toys)) == NAMES
    assert {name for name in NAMES if shared.reports[1]["scored"][name]} == {
        *SCORING,
        "stored",
        "margin",
        "splade",
        *WEIGHTS[1:],
    }
    assert {name for name in NAMES if features_of(shared.folder / name)} == {"stored"}
    assert {name for name in NAMES if scores_of(shared.folder / name)} == {"parts", "stored", "reader"}
    results = json.loads((shared.folder / "best" / "iterations.json").read_text())["iterations"]
    assert [result["iteration"] for result in results] == [1, 2]


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_summed_while_the_last_backward_pass_of_an_update_runs(shared, name):
    """Not before it; but a process without a pair, which has no such pass, sums after the others' began."""
    for rank, report in enumerate(shared.reports):
        updates = [update.split() for update in report["events"][name].split("update")[1:-1]]
        assert len(updates) >= 3
        early, late = [], []
        for events in updates:
            passes = " ".join(events).split("begin")
            within = [each.split("end")[0].count("sum") for each in passes[1:]]
            assert sum(within[:-1]) == 0
            early.append(sum(within))
            late.append(events.count("sum") - early[-1])
        if (name, rank) == ("one group", 1):
            assert max(early) == 0
            assert min(late) >= 3
        else:
            assert any(sums >= 3 and not rest for sums, rest in zip(early, late, strict=True))


def test_a_batch_has_a_pair_for_each_process(shared):
    said = "batch: 1 pairs for 2 processes: each needs at least one"
    assert [report["error"] for report in shared.reports] == [said] * 2
