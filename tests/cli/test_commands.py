"""A command parses, calls a verb and prints; what is typed most often loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

import telerank
from commands import typed
from source_files import source_files
from telerank.cli.commands import SHORT_HELPS
from telerank.cli.main import app
from telerank.sparse.writer import build_index
from telerank.types import Doc

MOST_VERBS = 15


def test_there_are_few_verbs():
    names = [file.name.split("/") for file in source_files() if file.name.startswith("verbs/")]
    assert len([name for name in names if len(name) == 2 and name[1] != "__init__.py"]) <= MOST_VERBS


def test_the_verbs_of_the_package_are_exported():
    """Commands that are no verbs of the package look into things, or work on the files of runs."""
    others = {"pipeline", "data", "inspect", "analyze-text", "demo"}
    runs = {"fuse", "evaluate", "compare", "tune-fusion", "depth", "consistency", "combine"}
    assert set(SHORT_HELPS) - others - runs <= set(telerank.__all__)


def test_the_short_help_of_each_command_is_the_first_line_of_its_help():
    commands = {name: app.get_command(click.Context(app), name) for name in SHORT_HELPS}
    firsts = {name: " ".join(command.help.split("\n\n")[0].split()) for name, command in commands.items()}
    assert firsts == SHORT_HELPS


LONG = "a" * 100_000


@pytest.mark.parametrize(
    "command",
    [
        LONG,
        f"evaluate {LONG} a.run",
        f"evaluate qrels a.run --{LONG}",
        f"evaluate qrels a.run -m '{LONG} AP'",
        f"evaluate qrels a.run -l {LONG}",
        f"fuse qrels -o {LONG}",
        f"experiment {LONG}",
        f"data {LONG}",
    ],
    ids=lambda command: command[:40],
)
def test_an_error_repeats_few_characters_of_what_was_given(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("qrels").write_text(f"1 0 {LONG} x\n")
    Path("a.run").write_text(f"1 Q0 a 1 {LONG} a\n")
    printed = typed(command)
    assert printed.status == 2
    assert 0 < len(printed.stderr) < 2500


COMMAND = """
import sys
from telerank.cli.main import main
try:
    main()
finally:
    print(*{name.split(".")[0] for name in sys.modules}, file=sys.stderr)
"""
HEAVY = {"numba", "llvmlite", "scipy", "torch", "matplotlib", "pandas", "rich", "pydantic"}
HEAVY_OF_MEASURES = {"ir_measures", "pytrec_eval", "scipy", "matplotlib", "numba", "pyarrow"}


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
    ("words", "heavy"),
    [(["--help"], HEAVY), (["evaluate", "--help"], HEAVY_OF_MEASURES)],
    ids=["all commands", "evaluate"],
)
def test_a_help_loads_nothing_heavy(words, heavy):
    assert not heavy & run(*words)[1]


@pytest.mark.parametrize("number", ["0", "three", "1.5", "-1", "²"])
def test_what_is_no_number_in_range_is_refused(search, number):
    printed = typed("", *search[:-1], number)
    assert printed.status == 2
    assert "Invalid value for '-k' / '--keep'" in printed.stderr


def test_a_word_that_is_no_command_is_refused_with_the_nearest():
    printed = typed("seach")
    assert printed.status == 2
    assert "did you mean 'search'?" in printed.stderr
