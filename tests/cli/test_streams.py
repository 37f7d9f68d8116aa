"""Standard input or output that is closed, full or broken: one line, and the exit status 2."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

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
    "search idx --queries -",
    "evaluate set -",
    "evaluate - a.run",
    "fuse a.run -",
)
SOME = ("search idx set", "data ls", "evaluate set a.run", "analyze-text words")
FORKING = """
import json, os, sys
import ir_measures, pyarrow, pytrec_eval, rich.table
import telerank.cli.data, telerank.cli.experiment, telerank.cli.runs.evaluate, telerank.cli.runs.fuse
import telerank.experiments.schema, telerank.verbs.evaluate, telerank.verbs.fuse, telerank.verbs.search
from telerank.cli.main import main

def close(number, name):  # as a shell does, and then Python
    os.close(number)
    setattr(sys, name, None)
    setattr(sys, f"__{name}__", None)

def break_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    os.dup2(writing, 1)

CHANGES = {
    "closed output": lambda: close(1, "stdout"),
    "closed input": lambda: close(0, "stdin"),
    "full device": lambda: os.dup2(os.open("/dev/full", os.O_WRONLY), 1),
    "broken pipe": break_pipe,
}
for change, command in json.loads(sys.argv[1]):
    if not (child := os.fork()):
        CHANGES[change]()
        sys.argv = ["telerank", *command.split()]
        main()
        sys.exit()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(f"end {status}", file=sys.stderr, flush=True)
"""
"""Runs commands whose standard streams were changed, each in a process that is forked."""


@pytest.fixture(autouse=True)
def folder(small_set, monkeypatch):
    monkeypatch.chdir(small_set)


def shell(command: str) -> subprocess.CompletedProcess:
    program = f"{shlex.quote(sys.executable)} -m telerank"
    line = command.replace("telerank", program, 1)
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)


def test_closed_full_and_broken_streams_are_named():
    cases = [("closed output", command, "standard output: Bad file descriptor") for command in WRITING]
    cases += [("closed input", command, "standard input: Bad file descriptor") for command in READING]
    cases += [("broken pipe", command, "standard output: Broken pipe") for command in SOME]
    if Path("/dev/full").exists():
        cases += [("full device", command, "standard output: No space left on device") for command in SOME]
    process = [sys.executable, "-c", FORKING, json.dumps([case[:2] for case in cases])]
    ran = subprocess.run(process, capture_output=True, text=True, check=True)
    assert ran.stdout == ""
    ends = re.findall(r"(.*?)^end (\d+)$\n", ran.stderr, flags=re.DOTALL | re.MULTILINE)
    for (change, command, message), (said, status) in zip(cases, ends, strict=True):
        assert (status, said.splitlines()[-1:]) == ("2", [f"telerank: {message}"]), (change, command)
        assert "Traceback" not in said
        assert change in ("closed output", "closed input") or said.count("\n") == 1


def test_output_that_a_shell_closed_is_named():
    result = shell("telerank fuse a.run b.run >&-")
    assert result.returncode == 2
    assert result.stderr == "telerank: standard output: Bad file descriptor\n"


def test_a_closed_stream_that_is_not_used_is_no_error():
    result = shell("telerank fuse a.run b.run -o fused.run >&- <&-")
    assert (result.returncode, Path("fused.run").stat().st_size > 0) == (0, True)


@pytest.mark.parametrize(
    ("run", "redirection", "status"),
    [("b.run", "2>&-", 0), ("nowhere.run", "2>&-", 2), ("nowhere.run", "2>/dev/full", 2)],
)
def test_errors_that_cannot_be_written_change_no_status(run, redirection, status):
    assert shell(f"telerank fuse a.run {run} {redirection}").returncode == status
