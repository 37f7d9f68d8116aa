"""A command that is told to stop: its exit status, what it says, what it leaves."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import psutil
import pytest

pytestmark = pytest.mark.process

PATIENCE = 60
ENDLESS = """
import itertools, signal, sys
from telerank.cli.main import main
from telerank.corpus.readers import jsonl
from telerank.types import Doc

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background programs are born deaf to it
jsonl.read_docs = lambda *_: (Doc(f"d{n}", "some words " * 100_000) for n in itertools.count())
sys.argv = ["telerank", "index", "docs.jsonl", "idx", "--workers", "2"]
main()
"""
EARLY = """
import sys
from telerank.cli import main

def app():
    raise KeyboardInterrupt

main.app = app
main.main()
"""


@pytest.fixture
def building(tmp_path):
    """An endless ``telerank index`` and its two processes, at work."""
    (tmp_path / "docs.jsonl").write_text('{"docno": "d", "text": "t"}\n')
    command = [sys.executable, "-c", ENDLESS]
    parent = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until = time.monotonic() + PATIENCE
    while len(list(tmp_path.glob("idx/segments/*/runs/*.run"))) < 3 and time.monotonic() < until:
        time.sleep(0.05)
    yield parent, psutil.Process(parent.pid).children()
    parent.kill()
    parent.communicate()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_build_that_is_stopped_clears_away_what_it_began(building, tmp_path, number, status):
    parent, children = building
    assert len(children) == 2
    parent.send_signal(number)
    out, err = parent.communicate(timeout=PATIENCE)
    assert (parent.returncode, out.strip(), err.strip()) == (status, b"", b"")
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
