"""``telerank search INDEX`` in a terminal: queries are typed; hits fit into it."""

from __future__ import annotations

import os
import pty
import select
import sys
import time

import pytest

import telerank as tr
from commands import ok, refusal
from telerank.cli.search import _completing

LONG = "a/folder/" + "of_many_words/" * 8 + "the_regulations_of_the_canteen_2024.pdf#12"


@pytest.fixture
def index(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tr.index({"a": "black bear attacks", "b": "a bear"}, "idx", analyzer="english", progress=False)


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_a_hit_has_six_lines_of_the_terminal_and_its_whole_name(tmp_path, monkeypatch, columns):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(columns))
    texts = {LONG: "bear " * 200, "short": "bears and " * 100}
    for name, docs in (("long", texts), ("short", {"a1": texts[LONG], "a2": texts["short"]})):
        tr.index(docs, name, analyzer="english", progress=False)
        said = ok(f"search {name} -q bear").stdout.splitlines()[2:]
        first = said.index(next(line for line in said if line.startswith("2 ")))
        for hit in (said[:first], said[first:]):
            assert sum(-(-len(line) // columns) for line in hit) <= 6
            assert len(hit) > 1
        whole = [line for line in said if LONG in line]
        assert bool(whole) == (name == "long")


def test_queries_that_are_typed_one_after_another_are_a_conversation(capsys):
    shown = []
    show = _completing(shown.append)
    for line in ("Où est Paris ?", "Et sa population ?", "= Et sa population ?"):
        show(line)
    assert shown == ["Où est Paris ?", "Paris : sa population ?", "Et sa population ?"]
    assert "topic: from 'Où est Paris ?'; = before a query takes it as typed" in capsys.readouterr().err


def test_without_a_terminal_a_query_has_to_be_given(index):
    assert refusal("search idx") == "telerank: search: give one of a COLLECTION, --query, --queries or --like"


@pytest.mark.process
def test_queries_are_typed_until_exit_and_the_last_ones_are_there_again(index, tmp_path):
    process, terminal = pty.fork()
    if not process:
        os.environ |= {"XDG_CACHE_HOME": str(tmp_path), "COLUMNS": "80", "TERM": "xterm"}
        os.execv(sys.executable, [sys.executable, "-m", "telerank", "search", "idx", "-k", "1"])

    unread = ""

    def read_until(expected: str) -> str:
        nonlocal unread
        end = time.monotonic() + 60
        while expected not in unread and time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                unread += os.read(terminal, 4096).decode(errors="replace")
        said, found, unread = unread.partition(expected)
        assert found
        return said

    def type_line(text: bytes) -> None:
        os.write(terminal, text)

    read_until("idx> ")
    type_line(b"black bear\n")
    read_until("black bear attacks")
    read_until("idx> ")
    type_line(b"half a line\x03")  # Ctrl-C
    type_line(b"\n")  # an interrupt just before Python waits for a key is seen at the next one
    type_line(b"\x1b[A\n")  # the line before
    read_until("black bear attacks")
    type_line(b"and attacks?\n")
    read_until("appended: from 'black bear'")
    read_until("black bear attacks")
    type_line(b"=and attacks?\n")  # as typed
    assert "appended" not in read_until("black bear attacks")
    type_line(b"exit\n")
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert (tmp_path / "telerank" / "queries").read_text().splitlines()[0] == "black bear"
