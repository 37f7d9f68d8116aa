"""What is typed most often costs little processor time: one query from cold, and the help."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.main import get_command

from telerank.cli.commands import SHORT_HELPS
from telerank.cli.main import app
from telerank.sparse.writer import build_index
from telerank.types import Doc

pytestmark = pytest.mark.process

resource = pytest.importorskip("resource")

IMPORTS = ["-c", "import numpy, pyarrow, typer, pydantic"]
HELP = ["-m", "telerank", "--help"]
MOST_OF_A_SEARCH, TRIES = 1.3, 30
LOADED = """
import sys
from telerank.cli.main import main
sys.argv = ["telerank", *sys.argv[1:]]
try:
    main()
finally:
    print(*{name.split(".")[0] for name in sys.modules}, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def search(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("cold") / "idx"
    build_index(
        (Doc(f"d{n}", f"aspirin and cancer, case {n % 7} of {n}") for n in range(500)),
        folder,
        analyzer="english",
        workers=1,
    )
    return ["search", str(folder), "--query", "does aspirin prevent cancer", "-k", "3"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> dict[str, str]:
    """Keeps the bytecode of modules, as installed packages have it."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(tmp_path_factory.mktemp("bytecode"))}


def test_one_query_and_the_help_cost_little_more_than_imports(search, environment):
    def measure(*command: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *command], env=environment, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    commands = (IMPORTS, ["-m", "telerank", *search], HELP)
    least = [float("inf")] * len(commands)
    for number in range(TRIES):
        seconds = [measure(*command) for command in commands]
        if number:  # the first writes bytecode
            least = [min(pair) for pair in zip(least, seconds, strict=True)]
        imports, one_query, help_ = least
        if number >= 5 and one_query <= MOST_OF_A_SEARCH * imports >= 2 * help_:
            break
    assert one_query <= MOST_OF_A_SEARCH * imports
    assert help_ <= MOST_OF_A_SEARCH / 2 * imports


@pytest.mark.parametrize("extra", [[], ["--explain"], ["--json"]])
def test_one_query_loads_nothing_heavy(search, extra):
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, *search, *extra], capture_output=True, text=True, check=True
    )
    heavy = {"numba", "llvmlite", "scipy", "torch", "matplotlib", "pandas", "rich", "pydantic"}
    assert not heavy & set(ran.stderr.split())
    assert ran.stdout.count("aspirin and cancer") == 3


def test_the_answer_from_cold_is_the_answer_that_compiled_code_gives(search):
    ran = [
        subprocess.run(
            [sys.executable, "-c", before + LOADED, *search, "--json"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for before in ("", "import numba")
    ]
    assert ran[0] == ran[1]


def test_the_short_help_of_each_command_is_the_first_line_of_its_help():
    commands = get_command(app).commands
    firsts = {name: " ".join(command.help.split("\n\n")[0].split()) for name, command in commands.items()}
    assert firsts == SHORT_HELPS


@pytest.mark.parametrize("number", ["0", "three", "1.5", "-1", "²"])
def test_what_is_no_number_in_range_is_refused(search, number):
    ran = subprocess.run(
        [sys.executable, "-m", "telerank", *search[:-1], number], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert "Invalid value for '--keep'" in ran.stderr


def test_a_word_that_is_no_command_is_refused_with_the_nearest():
    ran = subprocess.run(
        [sys.executable, "-m", "telerank", "seach"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert "Did you mean 'search'?" in ran.stderr
