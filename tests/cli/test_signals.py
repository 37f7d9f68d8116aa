"""A command that is told to stop: its exit status, what it says, what it leaves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from itertools import count

import psutil
import pytest

pytestmark = pytest.mark.process

PATIENCE = 60
BUILD = """
import signal, sys
from telerank.cli.main import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background programs are born deaf to it
sys.argv = ["telerank", "index", "-", "idx", "--workers", "2"]
main()
"""
EARLY = """
import sys
from telerank.cli import main

def app(**settings):
    raise KeyboardInterrupt

main.app.main = app
main.main()
"""


@pytest.fixture
def building(tmp_path):
    """A ``telerank index`` that waits for more documents, and its two processes, at work."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    parent = subprocess.Popen([sys.executable, "-c", BUILD], cwd=tmp_path, **pipes)
    numbers = count()
    while len(list(tmp_path.glob("idx/segments/*/runs/*.run"))) < 3:
        doc = {"docno": f"d{next(numbers)}", "text": "some words " * 100_000}
        parent.stdin.write(json.dumps(doc).encode() + b"\n")
    yield parent, psutil.Process(parent.pid).children()
    parent.kill()
    parent.communicate()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_build_that_is_stopped_clears_away_what_it_began(building, tmp_path, number, status):
    parent, children = building
    assert len(children) == 2
    parent.send_signal(number)
    out, err = parent.communicate(timeout=PATIENCE)
    note = b"interrupted: nothing was changed in idx: the same command begins anew" * (status == 130)
    assert (parent.returncode, out.strip(), err.strip()) == (status, b"", note)
    assert not psutil.wait_procs(children, timeout=PATIENCE)[1]
    assert list((tmp_path / "idx/segments").iterdir()) == []


def test_processes_whose_parent_is_killed_say_nothing(building):
    parent, children = building
    parent.kill()
    out, err = parent.communicate(timeout=PATIENCE)
    assert (out, err) == (b"", b"")
    assert not psutil.wait_procs(children, timeout=PATIENCE)[1]


def test_ctrl_c_before_a_command_has_begun_shows_no_traceback():
    ran = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, b"", b"")
