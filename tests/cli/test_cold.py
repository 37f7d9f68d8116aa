"""What is typed most often loads nothing heavy: one query, and the helps."""

from __future__ import annotations

import subprocess
import sys

import pytest

from commands import typed
from telerank.sparse.writer import build_index
from telerank.types import Doc

COMMAND = """
import sys
from telerank.cli.main import main
try:
    main()
finally:
    print(*{name.split(".")[0] for name in sys.modules}, file=sys.stderr)
"""
HEAVY = {"numba", "llvmlite", "scipy", "torch", "matplotlib", "pandas", "rich", "pydantic"}
HEAVY_OF_MEASURES = {"ir_measures", "pytrec_eval", "scipy", "statsmodels", "matplotlib", "numba", "pyarrow"}


def run(*words: str, before: str = "") -> tuple[str, set[str]]:
    """What a command prints in a process of its own, and the packages that it has loaded at its end."""
    process = [sys.executable, "-c", before + COMMAND, *words]
    ran = subprocess.run(process, capture_output=True, text=True, check=True)
    return ran.stdout, set(ran.stderr.split())


@pytest.fixture(scope="module")
def search(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("cold") / "idx"
    docs = (Doc(f"d{n}", f"aspirin and cancer, case {n % 7} of {n}") for n in range(500))
    build_index(docs, folder, analyzer="english", workers=1)
    return ["search", str(folder), "--query", "does aspirin prevent cancer", "-k", "3"]


@pytest.mark.process
def test_one_query_loads_nothing_heavy_and_compiled_code_gives_the_same_answer(search):
    for extra in ([], ["--explain"], ["--json"]):
        printed, loaded = run(*search, *extra)
        assert not HEAVY & loaded
        assert printed.count("aspirin and cancer") == 3
    assert run(*search, "--json", before="import numba")[0] == printed


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "heavy"), [(["--help"], HEAVY), (["evaluate", "--help"], HEAVY_OF_MEASURES)], ids=str
)
def test_a_help_loads_nothing_heavy(words, heavy):
    assert not heavy & run(*words)[1]


@pytest.mark.parametrize("number", ["0", "three", "1.5", "-1", "²"])
def test_what_is_no_number_in_range_is_refused(search, number):
    printed = typed("", *search[:-1], number)
    assert printed.status == 2
    assert "Invalid value for '--keep'" in printed.stderr


def test_a_word_that_is_no_command_is_refused_with_the_nearest():
    printed = typed("seach")
    assert printed.status == 2
    assert "Did you mean 'search'?" in printed.stderr
