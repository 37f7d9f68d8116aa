"""What numba compiles works where machine code cannot be kept."""

from __future__ import annotations

import subprocess
import sys

from numba.core.caching import CacheImpl

from source_files import source_files
from telerank.compiled import ColdStart, compiled


def twice(number):
    return 2 * number


def test_a_function_is_compiled_where_no_folder_can_be_written_to(monkeypatch):
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    assert compiled(twice)(4) == 8


def test_nothing_is_compiled_any_other_way():
    assert [file.name for file in source_files() if "njit" in file.text] == ["compiled.py"]


COLD = """
import sys
from telerank.compiled import ColdStart, compiled
from telerank.sparse import kernel
from telerank.corpus.docnos import gather
cold = ColdStart(10)
assert cold.covers(4) and cold.covers(6) and not cold.covers(1) and not cold.covers(0)
assert "numba" not in sys.modules and isinstance(gather, compiled)
assert kernel._least_sum(2**25) == 2**25 - 3
assert "numba" in sys.modules and not ColdStart().covers(1)
assert not [name for name, value in vars(kernel).items() if isinstance(value, compiled)]
"""


def test_numba_is_loaded_when_the_first_compiled_function_is_called():
    subprocess.run([sys.executable, "-c", COLD], check=True)


def test_few_elements_do_not_load_numba_again():
    assert not ColdStart().covers(1)  # it is loaded here
