"""Standard input or output that is closed, full or broken: one line, and the exit status 2."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from commands import ok
from small_set import write_small_set

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.name != "posix", reason="shells close files elsewhere in other ways"),
]

WRITING = (
    "--help",
    "--version",
    "search idx set",
    "search idx -q w1",
    "search idx -q w1 --explain --json",
    "evaluate set a.run",
    "compare set a.run b.run",
    "fuse a.run b.run",
    "tune-fusion set a.run b.run --folds 2 --json",
    "data show set",
    "data ls",
    "data stats set --json",
    "analyze-text words",
    "pipeline ls idx",
    "index info idx",
    "experiment ls",
)
READING = (
    "index - new --format jsonl",
    "search idx -q -",
    "search idx --topics -",
    "evaluate set -",
    "evaluate - a.run",
    "fuse a.run -",
)
FORKING = """
import os, sys
import ir_measures, pyarrow, pytrec_eval, rich.table, statsmodels.stats.multitest
import telerank.cli.data, telerank.cli.experiment, telerank.cli.runs.evaluate, telerank.cli.runs.fuse
import telerank.experiments.schema, telerank.verbs.evaluate, telerank.verbs.fuse, telerank.verbs.search
from telerank.cli.main import main
for command in sys.argv[1:]:
    if not (child := os.fork()):
        sys.argv = ["telerank", *command.split()]
        main()
        sys.exit()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(f"end {status}", file=sys.stderr, flush=True)
"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("folder")
    write_small_set(folder)
    ok("index", folder / "set", folder / "idx")
    ok("pipeline save", folder / "idx", "best", "bm25")
    return folder


@pytest.fixture(autouse=True)
def folder(prepared, monkeypatch):
    monkeypatch.chdir(prepared)


def shell(words: list[str], redirection: str) -> subprocess.CompletedProcess:
    command = f"{shlex.join([sys.executable, *words])} {redirection}"
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)


def fork(commands: tuple[str, ...], redirection: str) -> list[tuple[str, int, list[str]]]:
    """Each command, with its exit status and the lines of its standard error; one process, which forks them."""
    *parts, last = shell(["-c", FORKING, *commands], redirection).stderr.split("end ")
    said = [parts[0], *(part.partition("\n")[2] for part in parts[1:])]
    statuses = [int(part.partition("\n")[0]) for part in (*parts[1:], last)]
    return [*zip(commands, statuses, map(str.splitlines, said), strict=True)]


def test_closed_output_is_named():
    for command, status, lines in fork(WRITING, ">&-"):
        assert (status, lines[-1:]) == (2, ["telerank: standard output: Bad file descriptor"]), command
        assert not any("Traceback" in line for line in lines)


@pytest.mark.parametrize(
    ("redirection", "message"),
    [
        ("| true", "Broken pipe"),
        pytest.param(
            "> /dev/full",
            "No space left on device",
            marks=pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here"),
        ),
    ],
)
def test_a_broken_pipe_or_a_full_device_is_named(redirection, message):
    commands = ("search idx set", "data ls", "evaluate set a.run", "analyze-text words")
    for command, status, lines in fork(commands, redirection):
        assert (status, lines) == (2, [f"telerank: standard output: {message}"]), command


def test_closed_input_is_named():
    for command, status, lines in fork(READING, "<&-"):
        assert (status, lines[-1:]) == (2, ["telerank: standard input: Bad file descriptor"]), command
        assert not any("Traceback" in line for line in lines)


def test_a_closed_stream_that_is_not_used_is_no_error():
    result = shell(["-m", "telerank", "fuse", "a.run", "b.run", "-o", "fused.run"], ">&- <&-")
    assert (result.returncode, Path("fused.run").stat().st_size > 0) == (0, True)


@pytest.mark.parametrize(
    ("run", "redirection", "status"),
    [("b.run", "2>&-", 0), ("nowhere.run", "2>&-", 2), ("nowhere.run", "2>/dev/full", 2)],
)
def test_errors_that_cannot_be_written_change_no_status(run, redirection, status):
    assert shell(["-m", "telerank", "fuse", "a.run", run], redirection).returncode == status
