"""What trainings learn from, and trainings that several tests look at."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

if find_spec("torch") is None or find_spec("transformers") is None:
    collect_ignore_glob = ["*"]


def pytest_runtest_setup(item: pytest.Item) -> None:
    from torch import distributed

    if item.get_closest_marker("process") and not distributed.is_available():
        pytest.skip("this torch computes in one process alone")


@pytest.fixture(scope="session")
def toys(tmp_path_factory) -> Path:
    """The folder of what toy trainings read; nothing in it may be changed."""
    from toy_trainings import toy_folder

    return toy_folder(tmp_path_factory.mktemp("toys") / "data")


@pytest.fixture(scope="session")
def pair_set(toys) -> Path:
    """See ``small_training.small_place``."""
    return toys / "pairs"


@pytest.fixture(scope="session")
def ranking_set(toys) -> Path:
    """See ``small_ranking.small_ranking``."""
    return toys / "lists"


@pytest.fixture(scope="session")
def segment_set(toys) -> Path:
    """See ``small_segments.small_segments``."""
    return toys / "segments"


@pytest.fixture(scope="session")
def question_set(toys) -> Path:
    """See ``reader_place.reader_place``."""
    return toys / "questions"


@pytest.fixture(scope="session")
def paired(pair_set):
    """Makes a training of a bi-encoder, with changes."""
    return partial(import_module("small_training").training, pair_set)


@pytest.fixture(scope="session")
def ranked(ranking_set):
    """Makes a training of a re-ranker, with changes."""
    return partial(import_module("small_ranking").ranking_training, ranking_set)


@pytest.fixture(scope="session")
def on_dev(ranking_set):
    """The lists of dev, with changes."""
    return partial(import_module("small_ranking").dev_lists, ranking_set)


@pytest.fixture(scope="session")
def segmented(segment_set):
    """Makes a training on segments, with changes."""
    return partial(import_module("small_segments").segment_training, segment_set)


@pytest.fixture(scope="session")
def asking(question_set):
    """Makes a training of a reader, with changes."""
    return partial(import_module("reader_place").reader_training, question_set)


class Shared(NamedTuple):
    """What two processes trained, and what each of them says of it."""

    folder: Path
    reports: list[dict]


SHARED = """
from telerank.errors import TelerankError
from telerank.training.bi_encoder.train import train_bi_encoder
from telerank.training.parallel import GradientSums, join_processes
from toy_trainings import counting_scored, still_trainings, training
events, backward, reduce = [], torch.Tensor.backward, torch.distributed.all_reduce

def marked(*given, **named):
    events.append("begin")
    backward(*given, **named)
    events.append("end")

def recorded(tensor, op=torch.distributed.ReduceOp.SUM, **named):
    events.append("sum" if op == torch.distributed.ReduceOp.SUM else "update")
    return reduce(tensor, op, **named)

torch.Tensor.backward, torch.distributed.all_reduce, GradientSums.bucket = marked, recorded, 1000
toys, values = Path(sys.argv[2]), {"events": {}, "scored": {}}
with join_processes(torch.device("cpu")) as processes, counting_scored() as scored:
    for name, (train, config) in still_trainings(toys).items():
        events.clear(), scored.clear()
        train(config, folder / name)
        values["events"][name], values["scored"][name] = " ".join(events), sum(scored)
    try:
        train_bi_encoder(training(toys / "pairs", optimisation={"batch": 1}), folder / "small")
    except TelerankError as error:
        values["error"] = str(error)
    write(values)
"""


@pytest.fixture(scope="session")
def shared(forks, toys, tmp_path_factory) -> Shared:
    """Every training in two processes; small buckets of gradients are summed while backward passes run.

    Of each training there is what was done in its updates, and how many texts or pairs were scored.
    """
    folder = tmp_path_factory.mktemp("shared")
    return Shared(folder, forks.compute(SHARED, folder, toys))
