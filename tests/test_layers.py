"""Imports go one way, as the table in ARCHITECTURE.md says; heavy things are loaded where they are used."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from source_files import check_offences, imported_parts, source_files

MAP = Path(__file__).parent.parent / "ARCHITECTURE.md"
LOW = set(re.findall(r"`(\w+)`", MAP.read_text(encoding="utf-8").split("*low* are")[1].split("\n\n")[0]))
HEAVY = {
    *("torch", "numba", "scipy", "matplotlib", "pyarrow", "ir_measures", "pandas", "numpy", "rich"),
    *("pydantic", "fastapi", "uvicorn", "prometheus_client"),
}


@cache
def table() -> dict[str, set[str]]:
    """What each part may import; a part stands below all that it imports."""
    allowed: dict[str, set[str]] = {}
    for line in MAP.read_text(encoding="utf-8").split("```")[1].strip().splitlines():
        parts, imports = re.split(r"  +", line)
        words = imports.partition(";")[0].split(", ")
        every = {"all above": {*allowed}, "all above but testing": {*allowed} - {"testing"}}
        names = {"low": LOW, "nothing": set(), **every}
        allowed |= dict.fromkeys(parts.split(", "), set().union(*(names.get(word, {word}) for word in words)))
    return allowed


def test_a_part_imports_only_what_the_table_names():
    offences = []
    for file in source_files():
        part = file.name.split("/")[0].removesuffix(".py")
        if part in ("cli", "__init__", "__main__"):
            continue
        if part not in table():
            offences.append(f"{file.name}: {part} is not in the table")
            continue
        for node in file.nodes:
            wrong = imported_parts(node) - table()[part] - {part}
            offences += [f"{file.at(node.lineno)}: {part} imports {other}" for other in sorted(wrong)]
    check_offences(offences, "a part imports only what its row in ARCHITECTURE.md names")


def test_the_table_goes_one_way():
    rows = list(table())
    upwards = [
        f"{part} names {other}, which is not above it"
        for number, part in enumerate(rows)
        for other in sorted(table()[part] - {*rows[:number]})
    ]
    check_offences(upwards, "a row names rows above it")
    assert rows[-1] == "cli"


@pytest.mark.parametrize("command", [["-c", "import telerank"], ["-m", "telerank", "--help"]])
def test_what_starts_often_loads_nothing_heavy(command):
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", *command], capture_output=True, text=True, check=True
    )
    loaded = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in ran.stderr.splitlines() if "|" in line}
    assert not loaded & HEAVY


def test_nothing_is_called_utils():
    check_offences([file.name for file in source_files() if "util" in file.name.split("/")[-1]], "not utils")
