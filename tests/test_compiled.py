"""What numba compiles works where machine code cannot be kept."""

from __future__ import annotations

from pathlib import Path

from numba.core.caching import CacheImpl

import telerank
from telerank.compiled import compiled

SOURCE = Path(telerank.__file__).parent


def twice(number):
    return 2 * number


def test_a_function_is_compiled_where_no_folder_can_be_written_to(monkeypatch):
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    assert compiled(twice)(4) == 8


def test_nothing_is_compiled_any_other_way():
    direct = [path.name for path in SOURCE.rglob("*.py") if "njit" in path.read_text(encoding="utf-8")]
    assert direct == ["compiled.py"]
