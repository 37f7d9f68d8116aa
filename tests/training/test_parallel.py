"""Processes that train together: how they start, and what each of them has."""

from __future__ import annotations

import pytest
import torch
import yaml
from small_training import losses

from telerank.training.parallel import Processes, join_processes

pytestmark = pytest.mark.process

TORCHRUN = """
import sys
from torch.distributed.run import main
main(sys.argv[1:])
"""


def test_torchrun_starts_the_command(paired, forks, tmp_path):
    config = paired(optimisation={"steps": 3}).model_dump(mode="json")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    words = ["-m", "telerank", "train", "bi-encoder", "config.yaml", "--output", "trained"]
    (ended,) = forks.run(TORCHRUN, "--standalone", "--nproc-per-node", 2, *words, cwd=tmp_path)
    assert ended.status == 0, ended.errors
    assert ended.errors.count("trained trained/model") == 1
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
