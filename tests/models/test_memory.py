"""Freed memory goes back to the system."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from telerank.models.memory import FreeMemory  # noqa: E402

STATUS = Path("/proc/self/status")


def held():
    """MiB of memory that this process has written to."""
    return int(STATUS.read_text().split("RssAnon:")[1].split()[0]) / 1024


@pytest.mark.skipif(not STATUS.exists(), reason="this system does not say what a process holds")
def test_pieces_between_tensors_that_are_kept_go_back():
    """Of tensors of ever other sizes; small ones stay between them."""
    free = FreeMemory(seconds=0)
    if not free.give_back() and free._trim is None:
        pytest.skip("another C library")
    draw, kept, before = random.Random(0), [], held()
    for _ in range(8):
        large = [torch.ones(draw.randrange(1 << 16, 1 << 18)) for _ in range(100)]
        kept += [torch.ones(256) for _ in large]
        del large
    grown = held() - before
    assert free.give_back()
    assert grown > 30
    assert held() - before < 10


def test_memory_is_given_back_every_few_seconds(monkeypatch):
    now, asked = [0.0], []
    monkeypatch.setattr("telerank.models.memory.monotonic", lambda: now[0])
    free = FreeMemory(seconds=5)
    free._trim = lambda keep: asked.append((now[0], keep)) or 1
    for now[0] in (1.0, 4.9, 5.0, 6.0, 9.9, 10.0, 30.0):
        assert free.give_back() == (now[0] in (5.0, 10.0, 30.0))
    assert asked == [(5.0, 0), (10.0, 0), (30.0, 0)]
    free._trim = None
    now[0] = 100.0
    assert not free.give_back()
