"""Freed memory goes back to the system."""

from __future__ import annotations

import platform
import random
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from telerank.models.memory import FreeMemory  # noqa: E402

STATUS = Path("/proc/self/status")


def held():
    """MiB of memory that this process has written to."""
    return int(STATUS.read_text().split("RssAnon:")[1].split()[0]) / 1024


@pytest.mark.skipif(
    not STATUS.exists() or platform.libc_ver()[0] != "glibc",
    reason="this system does not say what a process holds, or gives memory back by itself",
)
def test_pieces_between_tensors_that_are_kept_go_back_every_few_seconds():
    """Of tensors of ever other sizes; small ones stay between them."""
    draw, kept, now = random.Random(0), [], [0.0]
    free = FreeMemory(5, clock=lambda: now[0])
    now[0] = 5.0
    free.give_back()  # what earlier tests left
    for early, late in (((6.0, 9.9), 10.0), ((11.0, 14.9), 15.0), ((), 30.0)):
        before = held()
        for _ in range(8):
            large = [torch.ones(draw.randrange(1 << 16, 1 << 18)) for _ in range(100)]
            kept += [torch.ones(256) for _ in large]
            del large
        for now[0] in early:
            assert not free.give_back()
        assert held() - before > 30
        now[0] = late
        assert free.give_back()
        assert held() - before < 10
