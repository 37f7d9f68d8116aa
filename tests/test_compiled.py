"""What is compiled is compiled in one way, and numba is loaded when it is worth it."""

from __future__ import annotations

import subprocess
import sys

from source_files import source_files


def test_nothing_is_compiled_any_other_way():
    assert [file.name for file in source_files() if "njit" in file.text] == ["compiled.py"]


COLD = """
import sys
from telerank.compiled import ColdStart, compiled

@compiled
def same(number):
    return number

@compiled
def twice(number):
    return same(number) + same(number)

cold = ColdStart(10)
assert cold.covers(4) and cold.covers(6) and not cold.covers(1) and not cold.covers(0)
assert "numba" not in sys.modules
assert twice(4) == 8
assert "numba" in sys.modules and not ColdStart().covers(1)
assert not isinstance(same, compiled)
"""


def test_numba_is_loaded_when_the_first_compiled_function_is_called():
    """Functions of a program on the command line have no folder that machine code could be kept in."""
    subprocess.run([sys.executable, "-c", COLD], check=True)
