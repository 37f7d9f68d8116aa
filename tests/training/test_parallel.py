"""Two processes train what one would have trained."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
if not torch.distributed.is_available():
    pytest.skip("this torch trains in one process alone", allow_module_level=True)

import yaml  # noqa: E402
from small_training import hard_run, losses, small_place, training  # noqa: E402

from telerank.models.encoders.folders import load_bi_encoder  # noqa: E402
from telerank.training.bi_encoder.train import train_bi_encoder  # noqa: E402
from telerank.training.parallel import Processes, join_processes  # noqa: E402
from telerank.training.settings import write_settings  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

WORKER = """
import os, signal, sys
from pathlib import Path
from telerank.errors import TelerankError
from telerank.training.bi_encoder.train import train_bi_encoder
from telerank.training.bi_encoder.config import BiEncoderTraining
from telerank.training.settings import read_settings
kill_at = int(sys.argv[2])
def report(record):
    if record.step == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
for path in sorted(Path(sys.argv[1]).glob("*.yaml")):
    try:
        train_bi_encoder(read_settings(path, BiEncoderTraining), path.with_suffix(""), resume=True, report=report)
    except TelerankError as error:
        with path.with_suffix(".errors").open("a") as file:
            file.write(f"{error}\\n")
"""


def torchrun(*words, processes=2, cwd=None):
    asked = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(processes),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*asked, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=cwd,
        timeout=540,
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return small_place(tmp_path_factory.mktemp("place"))


def weights(output):
    model, _ = load_bi_encoder(output / "model")
    return dict(model.named_parameters())


def worker(folder, configs, *, kill_at=-1):
    for name, config in configs.items():
        write_settings(config, folder / f"{name}.yaml")
    (folder / "worker.py").write_text(WORKER)
    return torchrun(folder / "worker.py", folder, kill_at)


def test_two_processes_reach_the_losses_and_the_weights_of_one(place, tmp_path):
    """In-batch and own negatives, cached gradients, five queries that do not halve, an objective with weights.

    ``eps`` keeps Adam from enlarging gradients that are nothing but rounding, as those of the keys' biases.
    """
    hard = {"negatives": {"run": str(hard_run(tmp_path / "hard.run")), "depth": 5}}
    still, eps = {"dropout": 0.0}, {"eps": 1e-4}
    dev = {"split": "dev", "every": 3, "measure": "RR"}
    cases = {
        "margin": training(place, model=still, data=hard, optimisation={"batch": 10, **eps}, dev=dev),
        "softmax": training(
            place,
            model={**still, "towers": "two"},
            loss={"objective": "softmax"},
            optimisation={"chunk": None, **eps},
        ),
        "classification": training(
            place, model=still, data=hard, loss={"objective": "classification"}, optimisation=eps
        ),
        "too-small": training(place, optimisation={"batch": 1}),
    }
    (tmp_path / "two").mkdir()
    ran = worker(tmp_path / "two", cases)
    assert ran.returncode == 0, ran.stderr
    errors = (tmp_path / "two" / "too-small.errors").read_text().splitlines()
    assert errors == ["batch: 1 pairs for 2 processes: each needs at least one"] * 2
    for name in ("margin", "softmax", "classification"):
        train_bi_encoder(cases[name], tmp_path / name)
        assert losses(tmp_path / "two" / name) == pytest.approx(losses(tmp_path / name), rel=1e-5, abs=1e-6)
        one, two = weights(tmp_path / name), weights(tmp_path / "two" / name)
        for which, weight in one.items():
            torch.testing.assert_close(two[which], weight, rtol=1e-5, atol=1e-5, msg=f"{name} {which}")


@pytest.mark.process
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 here")
def test_two_processes_that_were_killed_go_on_to_the_same_losses(place, tmp_path):
    """With dropout, whose random numbers each process has of its own."""
    wanted = training(place)
    for name, kill_at in (("killed", 7), ("whole", -1)):
        (tmp_path / name).mkdir()
        ran = worker(tmp_path / name, {"out": wanted}, kill_at=kill_at)
        assert (ran.returncode == 0) is (name == "whole"), ran.stderr
    assert max(losses(tmp_path / "killed" / "out")) == 7
    ran = worker(tmp_path / "killed", {"out": wanted})
    assert ran.returncode == 0, ran.stderr
    assert losses(tmp_path / "killed" / "out") == losses(tmp_path / "whole" / "out")
    assert len(losses(tmp_path / "whole" / "out")) == 8
    one, other = weights(tmp_path / "whole" / "out"), weights(tmp_path / "killed" / "out")
    assert all(torch.equal(one[name], other[name]) for name in one)
    with pytest.raises(Exception, match="began with 2 processes, not 1: resume with as many"):
        train_bi_encoder(wanted, tmp_path / "whole" / "out", resume=True)


def test_torchrun_starts_the_command(place, tmp_path):
    config = training(place, optimisation={"steps": 3}).model_dump(mode="json")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    words = ("-m", "telerank", "train", "bi-encoder", "config.yaml", "--output", "trained")
    ran = torchrun(*words, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("trained trained/model") == 1
    assert (tmp_path / "trained" / "model" / "config.json").exists()
    assert list(losses(tmp_path / "trained")) == [1, 2, 3]


def test_one_process_is_a_group_of_itself():
    with join_processes(torch.device("cpu")) as processes:
        assert processes == Processes(0, 1)
    assert processes.leads
    assert list(processes.share(3)) == [0, 1, 2]
    assert processes.first(lambda: 5) == 5
    assert processes.gather_values("a") == ["a"]
    vectors = torch.ones(2, 3, requires_grad=True)
    assert processes.gather(vectors, 2) is vectors


def test_shares_are_everything_once():
    shares = [list(Processes(rank, 3).share(8)) for rank in range(3)]
    assert shares == [[0, 3, 6], [1, 4, 7], [2, 5]]
