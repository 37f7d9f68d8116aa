"""Imports go one way; heavy things are loaded where they are used."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import telerank

SOURCE = Path(telerank.__file__).parent

_LOW = {
    "types",
    "errors",
    "records",
    "expressions",
    "npy",
    "compiled",
    "batches",
    "drafts",
    "stored",
    "versions",
    "yaml_files",
    "model_names",
}
ALLOWED = {
    "types": set(),
    "errors": set(),
    "batches": set(),
    "drafts": set(),
    "stored": {"types", "errors", "drafts"},
    "records": {"errors"},
    "yaml_files": {"errors"},
    "compiled": set(),
    "npy": {"errors"},
    "versions": set(),
    "expressions": {"errors"},
    "stage": {"types", "expressions"},
    "testing": {"types", "stage"},
    "trec": {"types", "errors", "drafts"},
    "text": {"errors"},
    "show": {"errors", "types", "drafts"},
    "evaluation": {"types", "errors", "stage", "show"},
    "corpus": {*_LOW, "trec", "text", "stage", "show"},
    "model_names": set(),
    "models": {"errors", "npy", "records", "stored", "drafts", "model_names", "compiled"},
    "dense": {*_LOW, "stage", "corpus", "models"},
    "sparse": {*_LOW, "stage", "text", "corpus"},
    "retrieval": {*_LOW, "stage", "text", "show", "corpus", "dense", "sparse"},
    "segments": {*_LOW, "stage", "text", "show", "corpus", "models", "fusion", "reranking"},
    "answers": {*_LOW, "stage", "trec", "show", "models", "evaluation", "reranking"},
    "pipelines": {
        *(
            *_LOW,
            "stage",
            "trec",
            "sparse",
            "dense",
            "retrieval",
            "fusion",
            "reranking",
            "segments",
            "answers",
        ),
    },
    "fusion": {"types", "errors", "expressions", "stage", "show", "evaluation"},
    "reranking": {*_LOW, "stage", "text", "trec", "models", "evaluation"},
    "training": {
        *_LOW,
        "answers",
        "stage",
        "text",
        "trec",
        "show",
        "corpus",
        "evaluation",
        "dense",
        "models",
        "reranking",
        "segments",
    },
    "inspect": {*_LOW, "text", "trec", "show", "evaluation", "corpus", "models", "reranking", "training"},
    "experiments": {
        *(*_LOW, "stage", "text", "trec", "show", "evaluation", "corpus", "models", "dense", "sparse"),
        *("retrieval", "fusion", "reranking", "segments", "answers", "pipelines", "training", "inspect"),
    },
    "service": {
        *(*_LOW, "stage", "text", "trec", "show", "evaluation", "corpus", "models", "dense", "sparse"),
        *("retrieval", "fusion", "reranking", "segments", "answers", "pipelines"),
    },
    "verbs": {
        *(*_LOW, "stage", "text", "trec", "show", "evaluation", "corpus", "models", "dense", "sparse"),
        *("retrieval", "fusion", "reranking", "segments", "answers", "pipelines", "training", "inspect"),
        "experiments",
    },
}
"""What a part may import; ``verbs`` may import all of these, ``cli`` everything; nothing imports it."""
ALLOWED["verbs"] = {*ALLOWED}

_MAP = Path(__file__).parent.parent / "ARCHITECTURE.md"

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
    assert not loaded & {
        "torch",
        "numba",
        "scipy",
        "matplotlib",
        "pyarrow",
        "ir_measures",
        "pandas",
        "numpy",
        "rich",
        "pydantic",
        "fastapi",
        "uvicorn",
        "prometheus_client",
    }


def test_the_table_in_architecture_says_what_a_part_may_import():
    names = {"low": _LOW, "nothing": set(), "all above but testing": ALLOWED["experiments"]}
    names["all above"] = ALLOWED["verbs"] - {"verbs"}
    table = dict.fromkeys(ALLOWED, None)
    for line in _MAP.read_text(encoding="utf-8").split("```")[1].strip().splitlines():
        parts, imports = re.split(r"  +", line)
        words = [imports] if imports in names else imports.split(", ")
        table |= dict.fromkeys(parts.split(", "), set().union(*(names.get(word, {word}) for word in words)))
    assert {part: table[part] for part in ALLOWED} == {**ALLOWED, "verbs": ALLOWED["verbs"] - {"verbs"}}


def test_nothing_is_called_utils():
    assert not [path for path in FILES if "util" in path.stem]
