"""A command parses, calls a verb and prints: what the command line can do, Python can do."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import telerank
from telerank.cli.commands import SHORT_HELPS
from telerank.cli.main import main

PACKAGE = Path(telerank.__file__).parent
COMMANDS = sorted((PACKAGE / "cli").rglob("*.py"))
ALLOWED = {"cli", "verbs", "errors", "types", "show"}
MOST_VERBS = 15


def imported_parts(tree: ast.Module) -> set[str]:
    """The parts of telerank that a module imports, other than for types alone."""
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    parts = set()
    for node in ast.walk(tree):
        names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if id(node) not in for_types:
            parts |= {name.split(".")[1] for name in names if name.startswith("telerank.")}
    return parts


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: str(path.relative_to(PACKAGE / "cli")))
def test_a_command_calls_verbs_alone(path):
    assert imported_parts(ast.parse(path.read_text(encoding="utf-8"))) <= ALLOWED


def test_there_are_few_verbs():
    files = [path for path in (PACKAGE / "verbs").glob("*.py") if path.stem != "__init__"]
    assert len(files) <= MOST_VERBS


def test_the_verbs_of_the_package_are_exported():
    """Commands that are no verbs of the package look into things, or work on the files of runs."""
    others = {"pipeline", "data", "inspect", "analyze-text", "demo"}
    runs = {"fuse", "evaluate", "compare", "tune-fusion", "depth", "consistency", "combine"}
    assert set(SHORT_HELPS) - others - runs <= set(telerank.__all__)


LONG = "a" * 100_000


@pytest.mark.parametrize(
    "arguments",
    [
        [LONG],
        ["evaluate", LONG, "a.run"],
        ["evaluate", "qrels", "a.run", f"--{LONG}"],
        ["evaluate", "qrels", "a.run", "-m", f"{LONG} AP"],
        ["evaluate", "qrels", "a.run", "-l", LONG],
        ["fuse", "qrels", "-o", LONG],
        ["experiment", LONG],
        ["data", LONG],
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_an_error_repeats_few_characters_of_what_was_given(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("qrels").write_text(f"1 0 {LONG} x\n")
    Path("a.run").write_text(f"1 Q0 a 1 {LONG} a\n")
    monkeypatch.setattr(sys, "argv", ["telerank", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert 0 < len(capsys.readouterr().err) < 2500
