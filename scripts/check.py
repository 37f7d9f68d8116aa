"""Check changed files in under a minute: lint, types, and the fast tests that import them.

::

    python scripts/check.py [FILE ...]     (default: the files that differ from the last commit)

The tests of a file of the source are those of its package's folder and all others that import it.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE, TESTS = ROOT / "src", ROOT / "tests"
BIN = Path(sys.executable).parent


def main(names: list[str]) -> int:
    files = [Path(name).resolve() for name in names] or changed_files()
    if absent := [name for name, file in zip(names, files, strict=False) if not file.exists()]:
        raise SystemExit(f"no such file: {', '.join(absent)}")
    python = [str(file) for file in files if file.suffix == ".py" and file.is_file()]
    commands = (
        [[BIN / "ruff", "check", *python], [BIN / "ruff", "format", "--check", *python]] if python else []
    )
    if any(SOURCE in file.parents for file in files):
        commands.append([BIN / "mypy"])
    tests = sorted({str(test.relative_to(ROOT)) for file in files for test in tests_of(file)})
    if tests:
        fast = re.search(r"^FAST *= *(.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert fast is not None
        commands.append([BIN / "pytest", "-q", "-n", "2", "-m", fast[1].strip('"'), *tests])
    for command in commands:
        print(
            "$", *(os.path.relpath(part) if isinstance(part, Path) else part for part in command), flush=True
        )
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
        if status not in {0, 5}:  # 5: pytest has deselected all tests
            return status
    return 0


def changed_files() -> list[Path]:
    command = ["git", "status", "--porcelain", "--untracked-files=all", "--no-renames"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [ROOT / line[3:] for line in lines]


def tests_of(file: Path) -> set[Path]:
    if TESTS in file.parents and file.name.startswith("test_"):
        return {file}
    if file.suffix == ".md":
        return {TESTS / "test_docs.py"}
    if file.suffix != ".py":
        return set()
    if SOURCE in file.parents:
        module = ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        folder = TESTS.joinpath(*file.relative_to(SOURCE).parts[1:2])
        mirrored = set(folder.rglob("test_*.py")) if folder.is_dir() else set()
    else:
        module, mirrored = file.stem, set()
    return mirrored | {test for test in TESTS.rglob("test_*.py") if module in imported(test)}


@cache
def imported(file: Path) -> frozenset[str]:
    """The modules that a test imports, by itself and by the helpers of the tests that it imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    helpers = {path for name in names for path in helper_files().get(name, ())}
    return frozenset(names.union(*(imported(helper) for helper in helpers)))


@cache
def helper_files() -> dict[str, list[Path]]:
    files: dict[str, list[Path]] = {}
    for path in TESTS.rglob("*.py"):
        if not path.name.startswith("test_"):
            files.setdefault(path.stem, []).append(path)
    return files


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
