"""Several processes score dev and test and store features: the values of one, a share of the work each."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
if not torch.distributed.is_available():
    pytest.skip("this torch trains in one process alone", allow_module_level=True)

from shared_cases import compute_all, shared_place  # noqa: E402

from small_ranking import small_ranking  # noqa: E402
from telerank.training.parallel import ALONE, share_by_length  # noqa: E402

pytestmark = pytest.mark.process

SHARED = """
from telerank.training.parallel import join_processes
from shared_cases import compute_all
with join_processes(torch.device("cpu")) as processes:
    values = compute_all(folder / "place", folder / "two", processes)
    write(values)
"""


@pytest.fixture(scope="module")
def computed(forks, tmp_path_factory):
    """The values of one process, and of each of two; the folder of both."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "place").mkdir()
    shared_place(folder / "place")
    alone = compute_all(folder / "place", folder / "one", ALONE)
    return json.loads(json.dumps(alone)), forks.compute(SHARED, folder), folder


@pytest.mark.parametrize("name", ["bi-encoder", "monobert", "frozen", "segments", "reader"])
def test_two_processes_have_the_dev_values_of_one_and_half_of_its_work(computed, name):
    alone, two, _ = computed
    for value in {"dev", "dev_loss", "threshold"} & alone[name].keys():
        expected = alone[name][value]
        for own in two:
            assert own[name][value] == (expected if expected is None else pytest.approx(expected, rel=1e-6))
    assert alone[name]["dev"] > 0
    counts = [own[name]["count"] for own in two]
    assert sum(counts) <= alone[name]["count"]
    assert min(counts) > 0.4 * alone[name]["count"]


@pytest.mark.parametrize("name", ["monobert", "frozen"])
def test_two_processes_rank_the_test_as_one(computed, name):
    alone, (two, _), folder = computed
    run, shared = alone[name]["run"], two[name]["run"]
    assert list(shared) == list(run)
    for qid, scores in run.items():
        assert list(shared[qid]) == list(scores)
        assert shared[qid] == pytest.approx(scores, abs=1e-6)
    one, other = ((folder / which / name / "test.json").read_text() for which in ("one", "two"))
    assert one == other


def test_two_processes_store_the_features_that_one_stores(computed):
    """In equal files, of which each writes about as many; both have them in the end."""
    alone, two, folder = computed
    for name in ("store", "frozen/features"):
        one, other = (files(folder / which / name) for which in ("one", "two"))
        assert len(one) > 2
        assert one == other
    assert [own["store"]["written"] for own in two] == [100, 0]
    assert [own["store"]["rows"] for own in two] == [100, 100]
    assert [own["frozen"]["rows"] for own in two] == [alone["frozen"]["rows"]] * 2
    counts = [own["store"]["count"] for own in two]
    assert sum(counts) == alone["store"]["count"] == 100
    assert min(counts) > 40


def files(folder):
    """The bytes of each file, by its path."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


FAULTS = """
from telerank.training.parallel import join_processes
from shared_cases import PAIRS, TableEncoder, FeatureStore
from filelock import FileLock
from telerank.errors import CollectionError, ModelError, TelerankError

def say(do):
    try:
        said.append(do())
    except Exception as error:
        said.append(f"{type(error).__name__}: {error}")

said = []
with join_processes(torch.device("cpu")) as processes:
    rank = processes.rank

    def double(items):
        return [2 * item for item in items]

    def refuse(items):
        if rank == 1:
            raise ModelError(f"no {items[0]}")
        return items

    def break_down(items):
        return [item // (1 - rank) for item in items]

    def read():
        yield from range(3)
        raise CollectionError("no item 3")

    say(lambda: list(processes.share_out(double, range(7) if rank == 0 else "nothing", 2)))
    say(lambda: list(processes.share_out(refuse, range(7), 2)))
    say(lambda: list(processes.share_out(break_down, range(7), 2)))
    say(lambda: list(processes.share_out(double, read(), 1)))
    say(lambda: processes.alone(lambda: ["first"], []))
    store = FeatureStore(folder / "store", "0" * 64, 8)
    def fill(scale):
        return store.fill(PAIRS, TableEncoder(scale=scale), shard=16, processes=processes)
    store.folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(store.folder / "lock")
    processes.first(lambda: lock.acquire() and None)
    say(lambda: fill(1))
    processes.first(lambda: lock.release())
    say(lambda: fill(1 if rank == 0 else float("nan")))
    say(lambda: (fill(1), len(store)))
    write(said)
"""


def test_the_error_of_one_process_ends_what_all_compute(forks, tmp_path):
    """And what is computed afterwards is right again: no process waits for another, or is ahead of it."""
    first, second = forks.compute(FAULTS, tmp_path)
    assert first[0] == [[0, 2, 4, 6], [8, 10, 12]]
    assert second[0] == [[], []]
    assert first[1] == second[1] == "ModelError: no 1"
    ended = "ProcessError: process 2 of 2 has ended: its message says why"
    assert (first[2], second[2][:17]) == (ended, "ZeroDivisionError")
    assert first[3] == second[3] == "CollectionError: no item 3"
    assert (first[4], second[4]) == (["first"], [])
    assert first[5] == second[5]
    assert first[5].startswith("IndexLocked: ")
    assert first[6] == second[6]
    assert first[6].startswith("ModelError: the encoder's outputs for the query 'query 0' are not finite")
    assert (first[7], second[7]) == ([100, 100], [0, 100])


MEMORY = """
from small_ranking import dev_lists, ranking_training
from telerank.errors import TelerankError
from telerank.training.reranker.pair_logits import EndToEnd
from telerank.training.reranker.train import train_reranker

def run_out(*_):
    raise torch.OutOfMemoryError("CUDA out of memory.")

place = folder / "place"
config = ranking_training(place, model={"kind": "monobert"}, test=dev_lists(place), optimisation={"steps": 3})
rank = int(os.environ["RANK"])
if rank == 1:
    EndToEnd.score = run_out
try:
    train_reranker(config, folder / "out")
except TelerankError as error:
    write(str(error))
"""


def test_a_process_that_lacks_memory_for_the_test_ends_the_others(forks, tmp_path):
    (tmp_path / "place").mkdir()
    small_ranking(tmp_path / "place")
    first, second = forks.compute(MEMORY, tmp_path)
    assert first == "process 2 of 2 has ended: its message says why"
    assert second.startswith("out of memory: set optimisation.tokens to less than")


def test_a_process_alone_computes_all_at_once_and_in_order():
    given = []

    def double(items):
        given.append(list(items))
        return [2 * item for item in items]

    assert share_by_length(ALONE, double, [3, 1, 2], lambda item: item) == [6, 2, 4]
    assert given == [[3, 1, 2]]
    assert list(ALONE.share_out(double, iter(range(5)), 2)) == [[0, 2], [4, 6], [8]]
