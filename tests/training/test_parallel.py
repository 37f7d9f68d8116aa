"""Processes that train together: how they start, and what each of them has."""

from __future__ import annotations

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
if not torch.distributed.is_available():
    pytest.skip("this torch trains in one process alone", allow_module_level=True)

import yaml  # noqa: E402
from small_training import losses, small_place, training  # noqa: E402

from telerank.training.parallel import Processes, join_processes  # noqa: E402

pytestmark = pytest.mark.process


def test_torchrun_starts_the_command(tmp_path):
    config = training(small_place(tmp_path), optimisation={"steps": 3}).model_dump(mode="json")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = ["-m", "telerank", "train", "bi-encoder", "config.yaml", "--output", "trained"]
    ran = subprocess.run(
        [*launch, *words], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=540
    )
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
