"""The commands ``encode`` and ``rerank`` in two processes, as ``torchrun`` starts them: one output, one line."""

from __future__ import annotations

import json

import filelock
import pytest

from small_models import small_encoder
from small_rerankers import small_reranker
from small_set import write_beir
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
def data(tmp_path_factory):
    """A folder of a set, a run and models."""
    data = tmp_path_factory.mktemp("data")
    save_reranker(small_reranker(data), data / "mono")
    small_encoder(data / "encoder")
    docs = ({"_id": docno, "title": "", "text": text} for docno, text in DOCS.items())
    write_beir(data / "set", docs, QUERIES, {"test": [(f"q{n}", f"d{n}", 1) for n in range(9)]})
    run = [f"q{n} Q0 d{(n + i) % 23} {i} {9 - i} t\n" for n in range(9) for i in range(1, 2 + n % 4)]
    (data / "first.run").write_text("".join(run))
    return data


@pytest.fixture(scope="module")
def start(data, forks):
    """Runs a command with a folder for its output; the ``fault`` happens in the second process.

    In ``one`` is the output of one process.
    """

    def run(out, words, fault="pass", *, processes=2):
        (data / out).mkdir(exist_ok=True)
        given = (word.format(out=out) for word in words)
        return forks.run(WORKER, fault, *given, processes=processes, cwd=data)

    for words in (ENCODE, RERANK):
        (ended,) = run("one", words, processes=1)
        assert ended.status == 0, ended.errors
    return run


def files(folder):
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_two_processes_encode_the_files_of_one(data, start):
    first, second = start("two", ENCODE)
    assert (first.status, second.status) == (0, 0), (first.errors, second.errors)
    assert files(data / "two" / "v") == files(data / "one" / "v")
    assert first.errors.count("encoded 23 documents") == 1
    assert second[1:] == ("", "")
    first, second = start("two", ENCODE)  # they are there
    assert (first.status, second.status) == (0, 0), (first.errors, second.errors)
    assert "23 documents of set are in two/v already" in first.errors


def test_two_processes_write_the_run_of_one(data, start):
    first, second = start("two", RERANK)
    assert (first.status, second.status) == (0, 0), (first.errors, second.errors)
    assert second[1:] == ("", "")
    one, two = (list(read_run(data / out / "out.run")) for out in ("one", "two"))
    assert [(ranking.query.qid, ranking.docnos) for ranking in two] == [
        (ranking.query.qid, ranking.docnos) for ranking in one
    ]
    for ranking, other in zip(two, one, strict=True):
        assert ranking.scores == pytest.approx(other.scores, abs=1e-5)
    records = [json.loads((data / out / "out.run.json").read_text()) for out in ("one", "two")]
    assert [record.pop("seconds") > 0 for record in records] == [True, True]
    assert records[0] == records[1]


def test_what_the_smallest_memory_holds_is_said_once(data, start):
    """That of the second process, which says nothing; and that of one process."""
    for words in (ENCODE, RERANK):
        first, second = start("small", words, "room_for(30)")
        assert (first.status, second.status) == (0, 0), (first.errors, second.errors)
        assert first.errors.count("out of memory: batches of ") == 1
        assert second[1:] == ("", "")
        ((status, _, said),) = start("alone", words, "all room_for(30)", processes=1)
        assert status == 0, said
        assert said.count("out of memory: batches of ") == 1
    assert list(read_run(data / "small" / "out.run"))


def fails(name):
    return f"{name} = fail(ModelError('this one failed'))"


SAME = [(2, "telerank: this one failed")] * 2
BREAKS = "TorchEncoder.encode_tokens = scorer.compute = fail(ZeroDivisionError('no'))"
BROKEN = [(2, "telerank: process 2 of 2 has ended: its message says why"), (1, "ZeroDivisionError: no")]
KILLS = "TorchEncoder.encode_tokens = scorer.compute = lambda *_: os._exit(9)"
KILLED = [(2, "telerank: another process has ended: its message says why"), (9, "")]
FAULTS = [
    (ENCODE, fails("TorchEncoder.encode_tokens"), SAME),
    (ENCODE, fails("TorchEncoder.tokenize"), SAME),
    (ENCODE, "TorchEncoder.batch_tokens = property(fail(ModelError('this one failed')))", SAME),
    (RERANK, fails("scorer.compute"), SAME),
    (RERANK, "scorer.tokenize_for = fail(CollectionError('this one failed'))", SAME),
    *((words, BREAKS, BROKEN) for words in (ENCODE, RERANK)),
    *((words, KILLS, KILLED) for words in (ENCODE, RERANK)),
    ((*RERANK[:-1], "first.run/out.run"), "pass", [(2, "first.run"), KILLED[0]]),
]


@pytest.mark.parametrize(("words", "fault", "expected"), FAULTS)
def test_a_process_that_fails_ends_the_other_with_one_line(data, start, words, fault, expected):
    """The error of a command is the line of both; of another error, or a kill, the first one says so."""
    ended = start("failed", words, fault)
    for (status, output, said), (expected_status, line) in zip(ended, expected, strict=True):
        assert (status, output) == (expected_status, ""), said
        assert line in (said.splitlines() or [""])[-1]
        if status == 2:
            assert "Traceback" not in said
            assert said.count("telerank: ") == 1
    assert not (data / "failed" / "v").exists()
    assert not (data / "failed" / "out.run").exists()


def test_a_folder_that_another_program_writes_to_ends_both_with_one_line(data, start):
    """Only the first process looks at it."""
    (data / "locked").mkdir()
    with filelock.FileLock(data / "locked" / "v.writing.lock"):
        first, second = start("locked", ENCODE)
    assert (first.status, second.status) == (2, 2)
    assert first.errors.splitlines()[-1] == second.errors.splitlines()[-1]
    assert first.errors.endswith("v: another process encodes into it\n")


def test_two_processes_of_which_one_was_killed_go_on_to_the_files_of_one(data, start):
    """After the last shard that was written."""
    fault = """
encode, calls = TorchEncoder.encode_tokens, []
TorchEncoder.encode_tokens = lambda *given: calls.append(1) or (os._exit(9) if calls[1:] else encode(*given))
"""
    assert [ended.status for ended in start("resumed", ENCODE, fault)] == [2, 9]
    assert len(list((data / "resumed" / "v.writing").glob("codes.*"))) == 2
    first, second = start("resumed", ENCODE)
    assert (first.status, second.status) == (0, 0), (first.errors, second.errors)
    assert files(data / "resumed" / "v") == files(data / "one" / "v")
