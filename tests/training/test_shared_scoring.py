"""What several processes score and store together if one of them fails."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from small_models import small_tokenizer
from small_stored import TableEncoder, stored_pairs
from telerank.models.encoders.bi_encoder import Side, SideTokenizer
from telerank.training.encoders.dev import encode_side
from telerank.training.encoders.encoder import EncoderSide
from telerank.training.features.store import FeatureStore
from telerank.training.parallel import ALONE, share_by_length
from telerank.training.task import TrainingDevice

pytestmark = pytest.mark.process

FAULTS = """
from telerank.training.features.store import FeatureStore
from telerank.training.parallel import join_processes
from test_shared_scoring import encode_numbers
from filelock import FileLock
from small_stored import TableEncoder, stored_pairs
from telerank.errors import CollectionError, ModelError

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
        pairs, encoder = stored_pairs(100 if rank == 0 else 0), TableEncoder(scale=scale)
        return store.fill(pairs, encoder, shard=16, batch_tokens=300, processes=processes), encoder.encoded, len(store)
    store.folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(store.folder / "lock")
    processes.first(lambda: lock.acquire() and None)
    say(lambda: fill(1))
    processes.first(lambda: lock.release())
    say(lambda: fill(1 if rank == 0 else float("nan")))
    say(lambda: fill(1))
    counts = []
    say(lambda: encode_numbers(counts, processes).tolist())
    write([*said, counts])
"""


def encode_numbers(counts, processes=ALONE):
    """The sums of the tokens of texts that are more than a batch, and how many texts each batch had here."""

    def encode(batch):
        counts.append(len(batch["input_ids"]))
        return batch["input_ids"].sum(1, keepdim=True)

    texts = [f"d{n % 40} " * (n % 29) for n in range(1500)]
    side = EncoderSide.of(SideTokenizer(small_tokenizer("bert"), Side(max_length=30)), encode)
    return encode_side(side, texts, TrainingDevice(torch.device("cpu"), nullcontext, processes))


def test_two_processes_encode_the_vectors_of_one(failing):
    _, first, second = failing
    counts = []
    assert first[8] == encode_numbers(counts).tolist()
    assert len(counts) == len(first[9]) + len(second[9])
    assert sorted(counts) == sorted(first[9] + second[9])
    assert len(second[9]) >= len(counts) // 2 > 1
    ids = small_tokenizer("bert").convert_tokens_to_ids
    assert first[8][41] == [ids("[CLS]") + 12 * ids("d1") + ids("[SEP]")]


@pytest.fixture(scope="module")
def failing(forks, tmp_path_factory):
    folder = tmp_path_factory.mktemp("failing")
    return folder, *forks.compute(FAULTS, folder)


def test_the_error_of_one_process_ends_what_all_compute(failing):
    """And what is computed afterwards is right again: no process waits for another, or is ahead of it."""
    folder, first, second = failing
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
    (written, encoded, rows), (others_written, others_encoded, others_rows) = first[7], second[7]
    assert (written, others_written, rows, others_rows) == (100, 0, 100, 100)
    assert encoded + others_encoded == 100
    assert min(encoded, others_encoded) > 40
    alone, encoder = FeatureStore(folder / "alone", "0" * 64, 8), TableEncoder()
    alone.fill(stored_pairs(100), encoder, shard=16, batch_tokens=300)
    files = [
        {file.name: file.read_bytes() for file in (folder / name).rglob("*.*")} for name in ("store", "alone")
    ]
    assert files[0] == files[1]


MEMORY = """
from small_ranking import dev_lists, ranking_training
from telerank.errors import TelerankError
from telerank.training.reranker.scoring import EndToEnd
from telerank.training.reranker.train import train_reranker

def run_out(*_):
    raise torch.OutOfMemoryError("CUDA out of memory.")

lists = Path(sys.argv[2])
config = ranking_training(lists, model={"kind": "monobert"}, test=dev_lists(lists), optimisation={"steps": 3})
rank = int(os.environ["RANK"])
if rank == 1:
    EndToEnd.score = run_out
try:
    train_reranker(config, folder / "out")
except TelerankError as error:
    write(str(error))
"""


def test_a_process_that_lacks_memory_for_the_test_ends_the_others(forks, ranking_set, tmp_path):
    first, second = forks.compute(MEMORY, tmp_path, ranking_set)
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
