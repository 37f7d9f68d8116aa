"""Imports go one way; heavy things are loaded where they are used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import telerank

SOURCE = Path(telerank.__file__).parent

ALLOWED = {
    "types": set(),
    "errors": set(),
    "batches": set(),
    "yaml_files": {"errors"},
    "compiled": set(),
    "npy": set(),
    "stage": {"types"},
    "testing": {"types", "stage"},
    "trec": {"types", "errors"},
    "text": {"errors"},
    "evaluate": {"types", "errors"},
    "corpus": {"types", "errors", "compiled", "npy", "trec", "text", "stage"},
    "sparse": {"types", "errors", "compiled", "npy", "stage", "text", "corpus", "dense"},
    "dense": {"types", "errors", "batches", "compiled", "npy", "stage", "corpus", "models"},
    "fuse": {"types", "errors", "stage", "evaluate"},
    "inspect": {"types", "errors", "batches", "text", "evaluate", "corpus", "models", "rerank", "train"},
    "models": {"errors", "npy"},
    "rerank": {"types", "errors", "batches", "stage", "text", "models"},
    "train": {
        *(
            "types",
            "errors",
            "batches",
            "npy",
            "yaml_files",
            "stage",
            "text",
            "trec",
            "corpus",
            "evaluate",
            "dense",
        ),
        *("models", "rerank"),
    },
    "recipes": {
        *("types", "errors", "yaml_files", "stage", "text", "trec", "corpus", "sparse", "dense", "models"),
        *("fuse", "evaluate", "inspect", "train", "rerank"),
    },
}
"""What a part may import; ``cli`` may import everything, and nothing imports it."""

FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_part_imports_only_what_stands_before_it(path):
    part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if part in ("cli", "__init__", "__main__"):
        return
    wrong = imported_parts(path) - ALLOWED[part] - {part}
    assert not wrong, f"{path.name} imports {', '.join(sorted(wrong))}"


def imported_parts(path: Path) -> set[str]:
    parts = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        parts |= {name.split(".")[1] for name in names if name.startswith("telerank.")}
    return parts


@pytest.mark.parametrize("command", [["-c", "import telerank"], ["-m", "telerank", "--help"]])
def test_what_starts_often_loads_nothing_heavy(command):
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", *command], capture_output=True, text=True, check=True
    )
    loaded = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in ran.stderr.splitlines() if "|" in line}
    assert not loaded & {"torch", "numba", "scipy", "matplotlib", "pyarrow", "ir_measures", "pandas"}


def test_nothing_is_called_utils():
    assert not [path for path in FILES if "util" in path.stem]
