"""Standard input or output that is closed, full or broken: one line, and the exit status 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from small_set import write_small_set

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.name != "posix", reason="shells close files elsewhere in other ways"),
]

WRITING = {
    "help": "--help",
    "version": "--version",
    "search": "search idx set",
    "answer": "search idx -q w1",
    "explain": "search idx -q w1 --explain --json",
    "evaluate": "evaluate set a.run",
    "compare": "compare set a.run b.run",
    "fuse": "fuse a.run b.run",
    "tune-fusion": "tune-fusion set a.run b.run --folds 2 --json",
    "combine": "combine set a.run b.run",
    "depth": "depth set a.run --reranker b.run --depths 1,2",
    "consistency": "consistency a.run b.run --depths 1,2",
    "data show": "data show set",
    "data ls": "data ls",
    "data stats": "data stats set --json",
    "analyze-text": "analyze-text words",
    "pipeline": "pipeline ls idx",
    "index": "index info idx",
    "experiment": "experiment ls",
    "tune": "tune idx set --model bm25 --folds 2",
}
READING = {
    "index": "index - new --format jsonl",
    "answers": "search idx -q -",
    "topics": "search idx --topics -",
    "evaluate": "evaluate set -",
    "qrels": "evaluate - a.run",
    "fuse": "fuse a.run -",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("folder")
    write_small_set(folder)
    (folder / "pipelines").mkdir()
    assert shell("index set idx", "", folder).returncode == 0
    assert shell("pipeline save idx best bm25", "", folder).returncode == 0
    return folder


def shell(words: str, redirection: str, folder: Path) -> subprocess.CompletedProcess:
    quoted = " ".join(f"'{word}'" for word in words.split())
    command = f"'{sys.executable}' -m telerank {quoted} {redirection}"
    return subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", WRITING.values(), ids=WRITING)
def test_closed_output_is_named(words, folder):
    result = shell(words, ">&-", folder)
    assert (result.returncode, result.stderr.splitlines()[-1:]) == (
        2,
        ["telerank: standard output: Bad file descriptor"],
    )
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("words", ["search idx set", "data ls", "evaluate set a.run"])
def test_a_broken_pipe_is_named(words, folder):
    result = shell(words, "| true; exit ${PIPESTATUS[0]}", folder)
    assert (result.returncode, result.stderr) == (2, "telerank: standard output: Broken pipe\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
@pytest.mark.parametrize("words", ["search idx set", "data ls", "analyze-text words"])
def test_a_full_device_is_named(words, folder):
    result = shell(words, "> /dev/full", folder)
    assert (result.returncode, result.stderr) == (2, "telerank: standard output: No space left on device\n")


@pytest.mark.parametrize("words", READING.values(), ids=READING)
def test_closed_input_is_named(words, folder):
    result = shell(words, "<&-", folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1] == "telerank: standard input: Bad file descriptor"
    assert "Traceback" not in result.stderr


def test_a_closed_stream_that_is_not_used_is_no_error(folder):
    result = shell("fuse a.run b.run -o fused.run", ">&- <&-", folder)
    assert (result.returncode, (folder / "fused.run").stat().st_size > 0) == (0, True)


def test_errors_that_cannot_be_written_change_no_status(folder):
    assert shell("fuse a.run b.run", "2>&-", folder).returncode == 0
    assert shell("fuse a.run nowhere.run", "2>&-", folder).returncode == 2
    assert shell("fuse a.run nowhere.run", "2>/dev/full", folder).returncode == 2
