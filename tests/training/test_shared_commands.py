"""The commands ``encode`` and ``rerank`` in two processes, as ``torchrun`` starts them: one output, one line."""

from __future__ import annotations

import json

import filelock
import pytest

from small_models import small_encoder
from small_rerankers import small_reranker
from telerank.models.rerankers.reranker import save_reranker
from telerank.trec import read_run

pytestmark = pytest.mark.process

WORKER = """
import os, sys
import torch
from telerank.cli.main import main
from telerank.dense.encoder import TorchEncoder
from telerank.errors import CollectionError, ModelError
from telerank.models.encoders.bi_encoder import BiEncoder
from telerank.reranking import scorer
from telerank.training import reranking_shares
reranking_shares._ROUND = 2
rank, fault = int(os.environ.get("RANK", 0)), sys.argv[1]

def fail(error):
    def failing(*given, **named):
        raise error
    return failing

def with_room(compute, size, most):
    def computing(*given):
        if size(*given) > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return compute(*given)
    return computing

def room_for(most):
    real = scorer.compute
    scorer.compute = lambda *given: with_room(real(*given), lambda batch: batch.input_ids.numel(), most)
    encode = BiEncoder.encode_documents
    BiEncoder.encode_documents = with_room(encode, lambda _, batch: batch["input_ids"].numel(), most)

if rank == 1 or fault.startswith("all "):
    exec(fault.removeprefix("all "))
sys.argv[:2] = ["telerank"]
main()
"""
DOCS = {f"d{n}": f"q{n} d{n} d{n % 4} " + f"x{n % 3} " * (n % 7) for n in range(23)}
QUERIES = {f"q{n}": f"q{n} d{n}" for n in range(9)}
ENCODE = ("encode", "set", "{out}/v", "--model", "encoder", "--shard-size", "4")
RERANK = ("rerank", "first.run", "--model", "mono", "-c", "set", "--split", "test", "-o", "{out}/out.run")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder of a set, a run and models."""
    place = tmp_path_factory.mktemp("place")
    save_reranker(small_reranker(place), place / "mono")
    small_encoder(place / "encoder")
    (place / "set" / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", DOCS), ("queries", QUERIES)):
        lines = [json.dumps({"_id": key, "title": "", "text": text}) for key, text in texts.items()]
        (place / "set" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    qrels = [f"q{n}\td{n}\t1\n" for n in range(9)]
    (place / "set" / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(qrels))
    run = [f"q{n} Q0 d{(n + i) % 23} {i} {9 - i} t\n" for n in range(9) for i in range(1, 2 + n % 4)]
    (place / "first.run").write_text("".join(run))
    return place


@pytest.fixture(scope="module")
def start(place, forks):
    """Runs a command with a folder for its output; the ``fault`` happens in the second process.

    In ``one`` is the output of one process.
    """

    def run(out, words, fault="pass", *, processes=2):
        (place / out).mkdir(exist_ok=True)
        given = (word.format(out=out) for word in words)
        return forks.run(WORKER, fault, *given, processes=processes, cwd=place)

    for words in (ENCODE, RERANK):
        (ended,) = run("one", words, processes=1)
        assert ended.status == 0, ended.errors
    return run


def files(folder):
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def last_lines(ended):
    """The line of each process that has ended with status 2; it has said no other one."""
    for status, output, said in ended:
        assert (status, output) == (2, ""), said
        assert "Traceback" not in said
    lines = [[line for line in said.splitlines() if line.startswith("telerank: ")] for _, _, said in ended]
    assert [len(own) for own in lines] == [1, 1], ended
    return [own[0].removeprefix("telerank: ") for own in lines]


def test_two_processes_encode_the_files_of_one(place, start):
    first, second = start("two", ENCODE)
    assert (first.status, second.status) == (0, 0), (first.errors, second.errors)
    assert files(place / "two" / "v") == files(place / "one" / "v")
    assert first.errors.count("encoded 23 documents") == 1
    assert second[1:] == ("", "")
    first, second = start("two", ENCODE)  # they are there
    assert (first.status, second.status) == (0, 0), (first.errors, second.errors)
    assert "23 documents of set are in two/v already" in first.errors


def test_two_processes_write_the_run_of_one(place, start):
    first, second = start("two", RERANK)
    assert (first.status, second.status) == (0, 0), (first.errors, second.errors)
    assert second[1:] == ("", "")
    one, two = (list(read_run(place / out / "out.run")) for out in ("one", "two"))
    assert [(ranking.query.qid, ranking.docnos) for ranking in two] == [
        (ranking.query.qid, ranking.docnos) for ranking in one
    ]
    for ranking, other in zip(two, one, strict=True):
        assert ranking.scores == pytest.approx(other.scores, abs=1e-5)
    records = [json.loads((place / out / "out.run.json").read_text()) for out in ("one", "two")]
    assert [record.pop("seconds") > 0 for record in records] == [True, True]
    assert records[0] == records[1]


def test_what_the_smallest_memory_holds_is_said_once(place, start):
    """That of the second process, which says nothing."""
    for words, out in ((ENCODE, "small"), (RERANK, "small")):
        first, second = start(out, words, "room_for(30)")
        assert (first.status, second.status) == (0, 0), (first.errors, second.errors)
        assert first.errors.count("out of memory: batches of ") == 1
        assert second[1:] == ("", "")
    assert list(read_run(place / "small" / "out.run"))


def test_one_process_says_once_what_its_memory_holds(place, start):
    for words in (ENCODE, RERANK):
        ((status, _, said),) = start("alone", words, "all room_for(30)", processes=1)
        assert status == 0, said
        assert said.count("out of memory: batches of ") == 1


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (ENCODE, "TorchEncoder.encode_tokens = fail(ModelError('this one failed'))"),
        (ENCODE, "TorchEncoder.tokenize = fail(ModelError('this one failed'))"),
        (ENCODE, "TorchEncoder.batch_tokens = property(fail(ModelError('this one failed')))"),
        (RERANK, "scorer.compute = fail(ModelError('this one failed'))"),
        (RERANK, "scorer.tokenize_for = fail(CollectionError('this one failed'))"),
    ],
)
def test_the_error_of_one_process_is_the_line_of_both(place, start, words, fault):
    assert last_lines(start("failed", words, fault)) == ["this one failed"] * 2
    assert not (place / "failed" / "v").exists()
    assert not (place / "failed" / "out.run").exists()


def test_a_folder_that_another_program_writes_to_ends_both_with_one_line(place, start):
    """Only the first process looks at it."""
    (place / "locked").mkdir()
    with filelock.FileLock(place / "locked" / "v.writing.lock"):
        first, second = last_lines(start("locked", ENCODE))
    assert first == second
    assert first.endswith("v: another process encodes into it")


@pytest.mark.parametrize("words", [ENCODE, RERANK])
def test_a_process_that_breaks_down_ends_the_other_with_one_line(start, words):
    fault = "TorchEncoder.encode_tokens = scorer.compute = fail(ZeroDivisionError('no'))"
    first, second = start("broken", words, fault)
    assert first.status == 2
    assert first.errors.splitlines()[-1] == "telerank: process 2 of 2 has ended: its message says why"
    assert second.status == 1
    assert "ZeroDivisionError: no" in second.errors


@pytest.mark.parametrize("words", [ENCODE, RERANK])
def test_a_process_that_is_killed_ends_the_other_with_one_line(start, words):
    fault = "TorchEncoder.encode_tokens = scorer.compute = lambda *_: os._exit(9)"
    first, second = start("killed", words, fault)
    assert (first.status, second.status) == (2, 9), first.errors
    assert "Traceback" not in first.errors
    assert first.errors.splitlines()[-1] == "telerank: another process has ended: its message says why"


def test_two_processes_of_which_one_was_killed_go_on_to_the_files_of_one(place, start):
    """After the last shard that was written."""
    fault = """
encode, calls = TorchEncoder.encode_tokens, []
TorchEncoder.encode_tokens = lambda *given: calls.append(1) or (os._exit(9) if calls[1:] else encode(*given))
"""
    assert [ended.status for ended in start("resumed", ENCODE, fault)] == [2, 9]
    assert len(list((place / "resumed" / "v.writing").glob("codes.*"))) == 2
    first, second = start("resumed", ENCODE)
    assert (first.status, second.status) == (0, 0), (first.errors, second.errors)
    assert files(place / "resumed" / "v") == files(place / "one" / "v")


def test_an_output_that_cannot_be_written_ends_both_with_one_line(place, start):
    words = (*RERANK[:-1], "first.run/out.run")
    first, second = last_lines(start("unwritten", words))
    assert "first.run" in first
    assert second == "another process has ended: its message says why"
